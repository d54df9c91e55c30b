"""The body of both training stages: read the splits, train, write the model; resume what was interrupted."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.cli.progress import ProgressLine, Samples
from bukva.config.schema import Params, Training
from bukva.core.errors import BukvaError
from bukva.durability.checkpoints import Checkpoints
from bukva.durability.training import Durability, StopSignal, restore
from bukva.models.device import prepare
from bukva.models.folder import save_model
from bukva.models.registry import count_parameters, kind_of
from bukva.planning.memory import check_memory
from bukva.project.fingerprints import fingerprint
from bukva.project.stages import paths, trained_models
from bukva.text.splits import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.tracking.journal import journal
from bukva.training.callback import Callback, CurveFile
from bukva.training.parallel import Group, is_launched, join, launch
from bukva.training.run import Task, run_training, start
from bukva.training.state import DivergedError


@dataclass(frozen=True)
class TrainingStage:
    """What tells one training stage from the other.

    model: its name in the registry of models.
    recipe: the section of params.yaml with its numbers.
    shape: the fields of the model's config, without the vocabulary's size.
    block_size_key: the parameter that a split may be too short for.
    """

    model: str
    recipe: Training
    shape: Mapping[str, Any]
    block_size_key: str

    @property
    def name(self) -> str:
        """Of the stage."""
        return f"train-{self.model}"

    @property
    def processes(self) -> int:
        """How many processes share each batch."""
        return int(getattr(self.recipe, "processes", 1))


def train(stage: TrainingStage, params: Params) -> None:
    """Train a model and write it, with its curve; in several processes if the recipe says so.

    Raises:
        BukvaError: the splits are too short, the memory is too small, or the training diverged.
        SystemExit: 130 or 143, when SIGINT or SIGTERM asked to stop; the training is saved.
    """
    if stage.processes > 1 and not is_launched():
        launch(stage.processes)  # each of them runs this stage again, and rank 0 writes
        return
    with join(stage.processes) as group:
        _train(stage, params, group)


def _train(stage: TrainingStage, params: Params, group: Group) -> None:
    trained, at = trained_models()[stage.model], paths()
    checkpoints = Checkpoints(stage.name, fingerprint(stage.name, params))
    if group.leads:
        checkpoints.clear_finished()
    stop = StopSignal()
    with (
        journal(
            stage.name,
            params,
            silent=not group.leads,
            training_id=checkpoints.training_id,
            resumes=bool(checkpoints),
        ) as log,
        stop.caught() if group.is_beside_leader else contextlib.nullcontext(),  # rank 0 saves; elsewhere nothing can
    ):
        splits, tokenizer = load_splits(Path(at["split"])), load_tokenizer(Path(at["tokens"]))
        config = kind_of(stage.model).config(vocab_size=len(tokenizer), **stage.shape)
        check_lengths({name: len(ids) for name, ids in splits.items()}, config.block_size, stage.block_size_key)
        machine = prepare(params.compute, group.local_rank, group.local_size)
        check_memory(config, stage.recipe, machine, group.local_size)
        log.metrics({"n_parameters": count_parameters(config)})
        task = Task.of(config, splits, tokenizer, stage.recipe, machine, group)
        state = start(task)
        initial = state.weights()
        restore(state, checkpoints, group.rank, group.broadcast)
        durability = Durability(checkpoints, stop)
        shown = [Samples(task, tokenizer, log.text), ProgressLine(stage.name, stage.recipe.n_steps, log.metrics)]
        callbacks: list[Callback] = [*shown, CurveFile(trained.curve), durability]
        try:
            run_training(task, state, callbacks if group.leads else [])
        except DivergedError as error:
            left = f"{durability.last_good(state.best_step)}; " if group.leads else ""
            raise BukvaError(f"{error}; {left}use a smaller learning_rate or more warmup_steps.") from None
        if state.stop_requested:
            stop.exit_if_requested()
        if group.leads:
            weights = {"best": state.best_weights, "initial": initial}
            counted = splits["train"] if state.model.counts else None
            save_model(trained.folder, config, tokenizer, weights, machine.numerics(), counted)
            log.artifact(trained.curve)
            log.model(stage.model, trained.folder)
            checkpoints.finish(trained.curve)
        stop.exit_if_requested()
