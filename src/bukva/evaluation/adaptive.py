"""Adaptive scores: losses of a model that learns from the text while it is scored (bukva.models.ngrams.adaptive).

Each character is scored before the model learns from it, in a single pass. Nothing learned on val is used on test, or
the other way round. There are two rows of scores:

- *Within each work* (`adaptive`) resets the model to its trained state at the start of each work. Works remain
  independent, so intervals and verdicts are valid.
- *One stream* (`stream`) keeps what the model has learned from all earlier works, as a compressor does. Its works are
  not independent, so it has no interval.

In both rows, the first scored character of a work has the earlier text of the work as context, up to OWN_IDS ids.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bukva.core.progress import progress_bar
from bukva.evaluation.rows import ADAPTIVE_ROWS
from bukva.models.gpt import GPT
from bukva.models.ngrams.adaptive import Reader
from bukva.models.ngrams.stored import counts_of
from bukva.models.window_rule import Batch, batches, context_of, ids_per_batch, run_batches, split_passage, stride_of
from bukva.text.held_out import HeldOut, Passage
from bukva.text.ids import Ids, Nats

OWN_IDS = 8192  # the own n-grams of a work are counted on up to this many ids before its first scored id
MOST_LOGITS = 2**23  # maximum number of logits of the network in memory
Floats = npt.NDArray[np.float32]


def readers_of(model: GPT, train: Ids, *n_ids: int, stored: Path | None = None) -> list[Reader]:
    """Return one adaptive reader for each number in `n_ids`, with the n-gram orders of the model.

    Args:
        model: GPT whose n-gram orders are used.
        train: (N,) ids of the training split; every reader starts with their counts.
        n_ids: for each reader, the number of ids to reserve memory for.
        stored: folder that may hold the counts of the training split.
    """
    orders = sorted(model.config.ngram_orders)
    counts = counts_of(train, model.config.vocab_size, orders[-1], stored)
    return [Reader(counts, orders, n) for n in n_ids]


def score_adaptively(model: GPT, text: HeldOut, split: str) -> dict[str, Nats]:
    """Return row of ADAPTIVE_ROWS -> (n,) nats of the scored ids of a split."""
    T, stride = model.block_size, stride_of(model.block_size)
    nats_by_row: dict[str, list[Nats]] = {row: [] for row in ADAPTIVE_ROWS}
    context = context_of(model, T, stride)
    passages = text.passages(split, max(OWN_IDS, context))
    lengths = [len(passage.scored) for passage in passages]
    n_ids = sum(lengths)
    within, stream = readers_of(model, text.splits["train"], max(lengths), n_ids, stored=text.ngrams)
    with (
        progress_bar(f"evaluate: gpt, {split}, adaptive", n_ids, text.tokenizer.unit) as on_progress,
        ThreadPoolExecutor(2) as threads,
    ):
        for passage in passages:
            within.forget()
            for reader in (within, stream):
                reader.start(passage.ids[: passage.n_context])
            # the network gets the same context as in the scores without adaptation; only the counts see earlier ids
            n_more = max(0, passage.n_context - context)
            in_context = Passage(passage.work, passage.ids[n_more:], passage.n_context - n_more)
            for piece in split_passage(
                in_context, T, stride, model.config.n_before, MOST_LOGITS // model.config.vocab_size
            ):
                inputs = mixture_inputs(model, piece)
                futures = [threads.submit(reader.read, piece.scored, *inputs) for reader in (within, stream)]
                for nats, future in zip(nats_by_row.values(), futures, strict=True):
                    nats.append(future.result())
                on_progress(len(piece.scored))
    return {row: np.concatenate(nats) for row, nats in nats_by_row.items()}


def mixture_inputs(model: GPT, passage: Passage) -> tuple[Floats, Floats]:
    """Return the inputs of the adaptive mixture for the n scored ids of a passage.

    Returns:
        (n, V) log-probabilities of the network, and (n, R + 1) exponents of the orders and, last, of the network.
    """
    T = model.block_size

    def compute(batch: Batch) -> tuple[Floats, Floats]:
        network, exponents = model.expert_outputs(batch.ids[:, :-1], before=batch.before, wanted=batch.wanted)
        return network.cpu().numpy(), exponents.cpu().numpy()

    work = batches([passage], T, stride_of(T), ids_per_batch(model), model.config.n_before)
    parts = [outputs for _, outputs in run_batches(model, work, compute)]  # one passage, so in the order of the text
    network, exponents = map(np.concatenate, zip(*parts, strict=True))
    return network, exponents
