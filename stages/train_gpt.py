"""Stage train-gpt: train the GPT, and save the weights that have the best score on val."""

from bukva.core.params import read_params
from stages import stage
from stages.training import train


def main() -> None:
    params = read_params()
    train("gpt", params, params.train_gpt, params.model.model_dump(), "model.block_size")


if __name__ == "__main__":
    stage.run(main)
