"""Stage train-bigram: train the bigram of the lecture notes."""

from bukva.cli import stage
from bukva.config.load import read_params
from stages.training import train


def main() -> None:
    """Train the bigram, and save the weights that have the best score on val."""
    params = read_params()
    recipe = params.train_bigram
    train("bigram", params, recipe, {"block_size": recipe.block_size}, "train_bigram.block_size")


if __name__ == "__main__":
    stage.run(main)
