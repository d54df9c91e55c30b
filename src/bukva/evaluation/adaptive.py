"""Compute adaptive scores: the model learns from the held-out text while this text is scored.

The model consists of a GPT and n-gram counts (see bukva.models.ngrams.adaptive). The text is read once, and each
character is scored before the model learns from it. What is learned on val is not used on test, and what is learned on
test is not used on val. There are two kinds of adaptive scores:

- *Within each work* (`adaptive`): at the start of each work, the model is reset to its trained state. So works remain
  independent, and intervals and verdicts are valid.
- *One stream* (`stream`): the model keeps what it has learned from all earlier works, as a compressor does. So works
  are not independent, and no interval can be computed.

A held-out text often begins in the middle of a work. For both kinds, the context of its first character is then the
preceding text of this work, up to OWN_IDS ids.
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

OWN_IDS = 8192  # before the first id of a work is scored, at most this many earlier ids of the work are counted
MOST_LOGITS = 2**23  # maximum number of logits of the GPT that are in memory at the same time
Floats = npt.NDArray[np.float32]


def readers_of(model: GPT, train: Ids, *n_ids: int, stored: Path | None = None) -> list[Reader]:
    """Return objects that score ids and learn from them: one `Reader` for each number in `n_ids`.

    The n-gram orders of a reader are those of `model`.

    Args:
        model: GPT, with or without n-grams.
        train: (N,) ids of the training split. Every reader starts with the n-gram counts of these ids.
        n_ids: for each reader, the number of ids for which memory is reserved. A reader can read more ids.
        stored: folder with the n-gram counts of the training split. If the folder does not contain the counts, they are
            computed.
    """
    orders = sorted(model.config.ngram_orders)
    counts = counts_of(train, model.config.vocab_size, orders[-1], stored)
    return [Reader(counts, orders, n) for n in n_ids]


def score_adaptively(model: GPT, text: HeldOut, split: str) -> dict[str, Nats]:
    """Score a split while the model learns from it. Return the (n,) nats of the scored ids for both kinds of learning.

    The key "adaptive" has the scores of a model that is reset at the start of each work, and "stream" those of a model
    that keeps what it has learned.
    """
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
            # the GPT itself has the same context as without adaptation; only the n-gram counts use earlier ids
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
    """Compute the GPT's predictions for the n scored ids of a passage, and its weights for combining them with n-grams.

    An adaptive prediction is a weighted product of experts. The experts are n-gram models and the network, that is, the
    GPT before its predictions are combined with n-grams.

    Returns:
        The (n, V) log-probabilities of the network over the V ids of the vocabulary, and the (n, R + 1) weights
        (exponents) that the GPT computes for the experts: first one for each of the R n-gram orders, then one for the
        network.
    """
    T = model.block_size

    def compute(batch: Batch) -> tuple[Floats, Floats]:
        network, exponents = model.expert_outputs(batch.ids[:, :-1], before=batch.before, wanted=batch.wanted)
        return network.cpu().numpy(), exponents.cpu().numpy()

    work = batches([passage], T, stride_of(T), ids_per_batch(model), model.config.n_before)
    # the batches of a single passage come from its start to its end
    parts = [outputs for _, outputs in run_batches(model, work, compute)]
    network, exponents = map(np.concatenate, zip(*parts, strict=True))
    return network, exponents
