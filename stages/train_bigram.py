"""Stage train-bigram: the bigram of the lecture notes, learned."""

from bukva.cli import stage
from bukva.config.load import read_params
from stages.training import TrainingStage, train


def main() -> None:
    """Train the bigram and keep the table with the best val score."""
    params = read_params()
    shape = {"block_size": params.train_bigram.block_size}
    train(TrainingStage("bigram", params.train_bigram, shape, "train_bigram.block_size"), params)


if __name__ == "__main__":
    stage.run(main)
