"""Scores that adapt: the nats of a model that learns from the text while it is scored (bukva.models.ngrams.adaptive).

Each character is scored before anything is learned from it, in one pass, and of val and test neither sees the other.
Two rows. *Within each work* begins each work with what train taught, so that works stay independent, and intervals and
verdicts hold. *One stream* keeps what all works before have taught, as a compressor does; it has no interval. Both see
the text of the work before its first scored character, as all models do, here up to OWN_IDS.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bukva.core.progress import counting
from bukva.evaluation.rows import LEARNING_ON
from bukva.models.gpt import GPT
from bukva.models.ngrams.adaptive import Reader
from bukva.models.ngrams.stored import counts_of
from bukva.models.window_rule import Batch, batches, computed, context_of, ids_per_batch, pieces, stride_of
from bukva.text.held_out import HeldOut, Passage
from bukva.text.ids import Ids, Nats

OWN_IDS = 8192  # of a work before its first scored id, of which its own n-grams are counted
MOST_LOGITS = 2**23  # of the network, in memory at the same time
Floats = npt.NDArray[np.float32]


def readers_of(model: GPT, train: Ids, *n_ids: int, stored: Path | None = None) -> list[Reader]:
    """Return readers with the counts of (N,) ids of train and the orders of the model, each with room for n_ids ids."""
    orders = sorted(model.config.ngram_orders)
    counts = counts_of(train, model.config.vocab_size, orders[-1], stored)
    return [Reader(counts, orders, n) for n in n_ids]


def read(model: GPT, text: HeldOut, split: str) -> dict[str, Nats]:
    """Row -> (n,) nats of the scored ids of a split."""
    T, stride = model.block_size, stride_of(model.block_size)
    found: dict[str, list[Nats]] = {row: [] for row in LEARNING_ON}
    context = context_of(model, T, stride)
    passages = text.passages(split, max(OWN_IDS, context))
    lengths = [len(passage.scored) for passage in passages]
    n_ids = sum(lengths)
    within, stream = readers_of(model, text.splits["train"], max(lengths), n_ids, stored=text.ngrams)
    with (
        counting(f"evaluate: gpt, {split}, learning on", n_ids, text.tokenizer.unit) as tell,
        ThreadPoolExecutor(2) as threads,
    ):
        for passage in passages:
            within.forget()
            for reader in (within, stream):
                reader.start(passage.ids[: passage.n_context])
            # the network sees what the window rule gives it; only counts see the ids before
            n_more = max(0, passage.n_context - context)
            seen = Passage(passage.work, passage.ids[n_more:], passage.n_context - n_more)
            for piece in pieces(seen, T, stride, model.config.n_before, MOST_LOGITS // model.config.vocab_size):
                parts = parts_of(model, piece)
                read_on = [threads.submit(reader.read, piece.scored, *parts) for reader in (within, stream)]
                for nats, scored in zip(found.values(), read_on, strict=True):
                    nats.append(scored.result())
                tell(len(piece.scored))
    return {row: np.concatenate(nats) for row, nats in found.items()}


def parts_of(model: GPT, passage: Passage) -> tuple[Floats, Floats]:
    """(n, V) log-probabilities of the network before the scored ids of a passage, and (n, R + 1) powers."""
    T = model.block_size

    def compute(batch: Batch) -> tuple[Floats, Floats]:
        network, powers = model.expert_outputs(batch.ids[:, :-1], before=batch.before, wanted=batch.wanted)
        return network.cpu().numpy(), powers.cpu().numpy()

    work = batches([passage], T, stride_of(T), ids_per_batch(model), model.config.n_before)
    parts = [found for _, found in computed(model, work, compute)]  # in the order of the text: of one passage
    network, powers = map(np.concatenate, zip(*parts, strict=True))
    return network, powers
