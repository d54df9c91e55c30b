"""Stage train-bigram: train the bigram of the lecture notes, and save the weights that have the best score on val."""

from bukva.core.params import read_params
from bukva.core.schema import TrainGPT, off_values
from stages import stage
from stages.training import train

# hyperparameters that params.yaml sets for the GPT only, and that cannot be off; all others are off
FIXED = {"optimizer": "adamw", "micro_batches": 1, "processes": 1, "decay_to": 0.0, "beta2": 0.999}


def main() -> None:
    params = read_params()
    chosen = params.train_bigram.model_dump()
    shape = {"block_size": chosen.pop("block_size")}
    recipe = TrainGPT.model_validate(off_values("train_gpt") | FIXED | chosen)
    train("bigram", params, recipe, shape, "train_bigram.block_size")


if __name__ == "__main__":
    stage.run(main)
