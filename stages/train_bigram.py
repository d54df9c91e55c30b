"""Stage train-bigram: the bigram of the lecture notes, learned, with the exact one, counted."""

from pathlib import Path

import torch

from bukva.baselines.counts import count_pairs
from bukva.cli import stage as cli
from bukva.config.load import read_params
from stages.training import Files, TrainingStage, train


def main(tokens: Path, split: Path, bigram: Path, bigram_curve: Path) -> None:
    """Train the bigram and keep the table with the best val score."""
    params = read_params()
    stage = TrainingStage(
        "train-bigram",
        model="bigram",
        recipe=params.train_bigram,
        shape={"block_size": params.train_bigram.block_size},
        block_size_key="train_bigram.block_size",
        extra=lambda ids, vocab_size: {"exact": {"counts": torch.from_numpy(count_pairs(ids, vocab_size))}},
    )
    train(stage, params, Files(tokens, split, bigram, bigram_curve))


if __name__ == "__main__":
    cli.run(main)
