"""Stage train-gpt: the GPT, learned from the splits."""

from pathlib import Path

from bukva.cli import stage as cli
from bukva.config.load import read_params
from stages.training import Files, TrainingStage, train


def main(tokens: Path, split: Path, gpt: Path, gpt_curve: Path) -> None:
    """Train the GPT and keep the weights with the best val score."""
    params = read_params()
    stage = TrainingStage(
        "train-gpt",
        model="gpt",
        recipe=params.train_gpt,
        shape=params.model.model_dump(),
        block_size_key="model.block_size",
    )
    train(stage, params, Files(tokens, split, gpt, gpt_curve))


if __name__ == "__main__":
    cli.run(main)
