"""Shared code of both training stages: load the splits, train or resume, and save the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bukva.backends.device import prepare
from bukva.cli.progress import MetricsLog, ProgressBar, Samples, Speed
from bukva.config.schema import Params, TrainGPT
from bukva.core.errors import BukvaError
from bukva.durability.checkpoints import Checkpoints
from bukva.durability.training import Durability, StopSignal, restore
from bukva.models.folder import save_model
from bukva.models.registry import MODELS, count_parameters
from bukva.models.window_rule import MAX_SCORED_IDS
from bukva.project.stages import fingerprint, paths, trained_models
from bukva.text.prompts import check_prompts
from bukva.text.splits import check_lengths, load_splits
from bukva.text.tokenizers import load_tokenizer
from bukva.tracking.journal import journal
from bukva.training.callback import CurveFile
from bukva.training.distributed import is_launched, join, launch
from bukva.training.run import Task, run_training, start
from bukva.training.state import DivergedError


def train(model: str, params: Params, recipe: TrainGPT, shape: Mapping[str, Any], block_size_key: str) -> None:
    """Train a model, and write the model and its loss curve. Training uses `recipe.processes` processes.

    Args:
        model: name of the model in the registry of models.
        params: all parameters.
        recipe: section of the parameters with the hyperparameters of this training.
        shape: values for the configuration of the model, without the vocabulary size.
        block_size_key: parameter that the error message names if a split is too short.

    Raises:
        BukvaError: stage sample would reject a prompt, a split is too short, or the training diverged.
        SystemExit: the training was stopped by SIGINT (status 130) or SIGTERM (status 143). It can be resumed.
    """
    check_prompts(load_tokenizer(Path(paths()["tokens"])), params.sample)
    if recipe.processes > 1 and not is_launched():
        launch(recipe.processes)  # every process runs this stage again, and the process with rank 0 writes the outputs
        return
    stage, trained, at = f"train-{model}", trained_models()[model], {name: Path(path) for name, path in paths().items()}
    checkpoints, stop = Checkpoints(stage, fingerprint(stage, params)), StopSignal()
    with (
        join(recipe.processes, params.compute.device) as group,
        journal(stage, params, silent=not group.is_leader) as log,
        # only rank 0 saves checkpoints, so on other machines, a signal ends the process immediately
        stop.caught(is_active=group.is_on_leader_machine),
    ):
        splits, tokenizer = load_splits(at["split"]), load_tokenizer(at["tokens"])
        config = MODELS[model](vocab_size=len(tokenizer), **shape)
        check_lengths({name: len(ids) for name, ids in splits.items()}, config.block_size, block_size_key)
        machine = prepare(params.compute, group.local_rank, group.local_size)
        log.metrics({"n_parameters": count_parameters(config)})

        n_val = len(splits["val"])
        if n_val > MAX_SCORED_IDS and group.is_leader:
            print(
                f"{stage}: during training, {MAX_SCORED_IDS:,} of the {n_val:,} ids of val are scored. Stage evaluate "
                "scores all of them."
            )
        task = Task.of(config, splits, tokenizer, recipe, machine, at["ngrams"], group)
        state = start(task)
        initial = state.weights()
        restore(state, checkpoints, group)

        speed, durability = Speed(), Durability(checkpoints, stop)
        callbacks = [
            Samples(task, tokenizer, log.text),
            speed,
            MetricsLog(log, speed),
            ProgressBar(stage, recipe.n_steps, speed),
            CurveFile(trained.curve),
            durability,
        ]
        try:
            run_training(task, state, callbacks)
        except DivergedError as error:
            checkpoint = f"{durability.describe_last_checkpoint(state.best_step)} " if group.is_leader else ""
            raise BukvaError(f"{error}. {checkpoint}Use a smaller `learning_rate` or more `warmup_steps`.") from None
        stop.exit_if_requested()

        if group.is_leader:
            weights = {"best": state.best_weights, "initial": initial}
            counted = splits["train"] if state.model.ngrams else None
            save_model(trained.folder, config, tokenizer, weights, machine.numerics() | state.numerics, counted)
            log.artifact(trained.curve)
            log.model(model, trained.folder)
            checkpoints.finish(trained.curve)
        stop.exit_if_requested()
