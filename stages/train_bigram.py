"""Stage train-bigram: the notes' table, learned, beside the exact one, counted."""

from pathlib import Path
from typing import Annotated

import torch
from typer import Argument

from bukva import cli, progress
from bukva.compute import prepare, refuse_too_large
from bukva.evaluation.floors import count_pairs
from bukva.modelfolder import save_model
from bukva.models.bigram import BigramConfig
from bukva.params import read_params
from bukva.text.splitting import load_parts, refuse_short
from bukva.text.tokenizers import CharTokenizer
from bukva.tracking.journal import journal
from bukva.training.checkpoint import Checkpoints
from bukva.training.curve import record
from bukva.training.fit import fit, start
from bukva.training.interruption import Interruption
from bukva.training.leftovers import finish
from bukva.training.resuming import resume, saving


def main(
    vocab: Annotated[Path, Argument(help="vocab.json of stage tokenize.")],
    split: Annotated[Path, Argument(help="Folder of stage split.")],
    bigram: Annotated[Path, Argument(help="Folder to write: config, vocabulary, best, initial and exact tables.")],
    curve: Annotated[Path, Argument(help="CSV to write: the losses by step.")],
) -> None:
    """Train the bigram and keep the table with the best val score."""
    params = read_params()
    recipe = params.train_bigram
    checkpoints = Checkpoints.of("train-bigram", params)
    with (
        journal("train-bigram", params, of=checkpoints.name, resumes=bool(checkpoints)) as log,
        Interruption().heard() as asked,
    ):
        parts = load_parts(split)
        refuse_short({part: len(ids) for part, ids in parts.items()}, recipe.block_size, "train_bigram.block_size")
        machine = prepare(params.compute)
        tokenizer = CharTokenizer.load(vocab)
        config = BigramConfig(vocab_size=len(tokenizer), block_size=recipe.block_size)
        refuse_too_large(config, recipe, machine)
        state = start(config, recipe, machine)
        initial = state.weights()
        resume(state, checkpoints)
        updates = saving(fit(state, parts, recipe, machine), state, checkpoints, asked)
        record(curve, state, progress.watch("train-bigram", recipe.n_steps, updates, log.metrics, state.scored))
        exact = {"counts": torch.from_numpy(count_pairs(parts["train"], len(tokenizer)))}
        save_model(bigram, config, tokenizer, {"best": state.best_weights, "initial": initial, "exact": exact})
        log.artifact(curve)
        log.artifact(bigram, "model")
        finish("train-bigram", curve, checkpoints.folder)


if __name__ == "__main__":
    cli.run(main)
