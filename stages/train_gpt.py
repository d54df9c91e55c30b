"""Stage train-gpt: train the GPT."""

from bukva.cli import stage
from bukva.core.params import read_params
from stages.training import train


def main() -> None:
    """Train the GPT, and save the weights that have the best score on val."""
    params = read_params()
    train("gpt", params, params.train_gpt, params.model.model_dump(), "model.block_size")


if __name__ == "__main__":
    stage.run(main)
