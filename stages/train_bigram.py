"""Stage train-bigram: train the bigram of the lecture notes, and save the weights that have the best score on val."""

from bukva.core.params import read_params
from bukva.core.schema import TrainGPT
from stages import stage
from stages.training import train

# What params.yaml sets for the GPT only. A lookup table needs none of it.
FIXED = {"optimizer": "adamw", "micro_batches": 1, "processes": 1, "warmup_steps": 0, "decay_to": 0.0}
FIXED |= {"weight_decay": 0.0, "beta2": 0.999, "grad_clip": 0.0, "patience": 0}


def main() -> None:
    params = read_params()
    chosen, shape = params.train_bigram.model_dump(), {"block_size": params.train_bigram.block_size}
    del chosen["block_size"]
    train("bigram", params, TrainGPT.model_validate(chosen | FIXED), shape, "train_bigram.block_size")


if __name__ == "__main__":
    stage.run(main)
