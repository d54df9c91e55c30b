"""The body of both training stages: read the splits, train, write the model; resume what was interrupted."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bukva.cli.progress import ProgressBar, Samples
from bukva.config.schema import Params, Training
from bukva.core.errors import BukvaError
from bukva.durability.checkpoints import Checkpoints
from bukva.durability.training import Durability, StopSignal, restore
from bukva.models.device import prepare
from bukva.models.folder import save_model
from bukva.models.registry import count_parameters, kind_of
from bukva.planning.memory import check_memory
from bukva.project.stages import fingerprint, paths, trained_models
from bukva.text.splits import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.tracking.journal import journal
from bukva.training.callback import Callback, CurveFile
from bukva.training.parallel import Group, is_launched, join, launch
from bukva.training.run import Task, run_training, start
from bukva.training.state import DivergedError


def train(model: str, params: Params, recipe: Training, shape: Mapping[str, Any], block_size_key: str) -> None:
    """Train a model and write it, with its curve; in several processes if the recipe says so.

    Args:
        model: its name in the registry of models.
        params: all of params.yaml.
        recipe: the section of it with the numbers of the training.
        shape: the fields of the model's config, without the vocabulary's size.
        block_size_key: the parameter that a split may be too short for.

    Raises:
        BukvaError: the splits are too short, the memory is too small, or the training diverged.
        SystemExit: 130 or 143, when SIGINT or SIGTERM asked to stop; the training is saved.
    """
    processes = int(getattr(recipe, "processes", 1))
    if processes > 1 and not is_launched():
        launch(processes)  # each of them runs this stage again, and rank 0 writes
        return
    with join(processes) as group:
        _train(model, params, recipe, shape, block_size_key, group)


def _train(
    model: str, params: Params, recipe: Training, shape: Mapping[str, Any], block_size_key: str, group: Group
) -> None:
    stage, trained, at = f"train-{model}", trained_models()[model], paths()
    checkpoints = Checkpoints(stage, fingerprint(stage, params))
    stop, is_lead = StopSignal(), group.leads
    if is_lead:
        checkpoints.clear_finished()
    with (
        journal(stage, params, silent=not is_lead) as log,
        stop.caught() if group.is_beside_leader else contextlib.nullcontext(),  # rank 0 saves; elsewhere nothing can
    ):
        splits, tokenizer = load_splits(Path(at["split"])), load_tokenizer(Path(at["tokens"]))
        config = kind_of(model).config(vocab_size=len(tokenizer), **shape)
        check_lengths({name: len(ids) for name, ids in splits.items()}, config.block_size, block_size_key)
        machine = prepare(params.compute, group.local_rank, group.local_size)
        check_memory(config, recipe, machine, group.local_size)
        log.metrics({"n_parameters": count_parameters(config)})
        task = Task.of(config, splits, tokenizer, recipe, machine, group)
        state = start(task)
        initial = state.weights()
        restore(state, checkpoints, group.rank, group.broadcast)
        durability = Durability(checkpoints, stop)
        shown = [Samples(task, tokenizer, log.text), ProgressBar(stage, recipe.n_steps, log.metrics)]
        callbacks: list[Callback] = [*shown, CurveFile(trained.curve), durability]
        try:
            run_training(task, state, callbacks if is_lead else [])
        except DivergedError as error:
            left = f"{durability.last_good(state.best_step)}; " if is_lead else ""
            raise BukvaError(f"{error}; {left}use a smaller learning_rate or more warmup_steps.") from None
        if state.stop_requested:
            stop.exit_if_requested()
        if is_lead:
            weights = {"best": state.best_weights, "initial": initial}
            counted = splits["train"] if state.model.counts else None
            save_model(trained.folder, config, tokenizer, weights, machine.numerics(), counted)
            log.artifact(trained.curve)
            log.model(model, trained.folder)
            checkpoints.finish(trained.curve)
        stop.exit_if_requested()
