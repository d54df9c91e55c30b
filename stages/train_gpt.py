"""Stage train-gpt: splits in, a GPT and its curve out."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from bukva import cli, progress
from bukva.compute import prepare, refuse_too_large
from bukva.modelfolder import save_model
from bukva.models.gpt import GPTConfig
from bukva.params import read_params
from bukva.text.splitting import load_parts, refuse_short
from bukva.text.tokenizers import CharTokenizer
from bukva.tracking.journal import journal
from bukva.training.checkpoint import Checkpoints
from bukva.training.curve import record
from bukva.training.fit import fit, start
from bukva.training.interruption import Interruption
from bukva.training.leftovers import finish
from bukva.training.processes import join
from bukva.training.resuming import resume, saving


def main(
    vocab: Annotated[Path, Argument(help="vocab.json of stage tokenize.")],
    split: Annotated[Path, Argument(help="Folder of stage split.")],
    gpt: Annotated[Path, Argument(help="Folder to write: config, vocabulary, best and initial weights.")],
    curve: Annotated[Path, Argument(help="CSV to write: the losses by step.")],
) -> None:
    """Train the GPT and keep the weights with the best val score."""
    params = read_params()
    recipe = params.train_gpt
    checkpoints = Checkpoints.of("train-gpt", params)
    with (
        join(recipe.processes) as group,
        journal("train-gpt", params, silent=not group.leads, of=checkpoints.name, resumes=bool(checkpoints)) as log,
        Interruption().heard() as asked,
    ):
        parts = load_parts(split)
        refuse_short({part: len(ids) for part, ids in parts.items()}, params.model.block_size, "model.block_size")
        machine = prepare(params.compute, group.local_rank, group.local_size)
        tokenizer = CharTokenizer.load(vocab)
        config = GPTConfig(vocab_size=len(tokenizer), **params.model.model_dump())
        log.metrics({"n_parameters": config.n_parameters})
        refuse_too_large(config, recipe, machine, group.local_size)
        state = start(config, recipe, machine)
        initial = state.weights()
        resume(state, checkpoints, group)
        updates = saving(group.lead(fit(state, parts, recipe, machine, group)), state, checkpoints, asked)
        record(curve, state, progress.watch("train-gpt", recipe.n_steps, updates, log.metrics, state.scored))
        save_model(gpt, config, tokenizer, {"best": state.best_weights, "initial": initial})
        log.artifact(curve)
        log.artifact(gpt, "model")
        finish("train-gpt", curve, checkpoints.folder)


if __name__ == "__main__":
    cli.run(main)
