"""Shared code of both training stages: load the splits, train or resume, and save the model."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bukva.backends.device import prepare
from bukva.core.schema import Params, TrainGPT
from bukva.durability.progress import ProgressReport, Samples
from bukva.durability.training import trained
from bukva.models.folder import save_model
from bukva.models.registry import MODELS, count_parameters
from bukva.project.stages import fingerprint, paths, trained_models
from bukva.text.ids import check_lengths, load_splits
from bukva.text.prompts import check_prompts
from bukva.text.tokenizers import load_tokenizer
from bukva.tracking.record import recorded
from bukva.training.callback import CurveFile
from bukva.training.distributed import join, launch
from bukva.training.run import Task


def train(model: str, params: Params, recipe: TrainGPT, shape: Mapping[str, Any], block_size_key: str) -> None:
    """Train a model in `recipe.processes` processes, and write the model and its loss curve.

    `shape` has the configuration of the model without the vocabulary size, and `block_size_key` names the parameter in
    the error about a split that is too short. SystemExit: SIGINT or SIGTERM stopped the training, which can be resumed.
    """
    at, outputs = {name: Path(path) for name, path in paths().items()}, trained_models()[model]
    tokenizer = load_tokenizer(at["tokens"])
    check_prompts(tokenizer, params.sample)
    config = MODELS[model](vocab_size=len(tokenizer), **shape)
    if launch(recipe.processes):  # each process has run this stage, and the process with rank 0 has written the outputs
        return
    stage = f"train-{model}"
    with (
        join(recipe.processes, params.compute.device) as group,
        nullcontext(prepare(params.compute, group.local_rank, group.local_size)) as machine,
        recorded(
            stage,
            params,
            silent=not group.is_leader,
            numerics=machine.numerics(),
            n_parameters=count_parameters(config),
        ) as recorder,
    ):
        splits = load_splits(at["split"])
        check_lengths({name: len(ids) for name, ids in splits.items()}, config.block_size, block_size_key)
        task = Task.of(config, splits, tokenizer, recipe, machine, at["ngrams"], group)
        shown = [
            Samples(task, tokenizer, recorder.text),
            ProgressReport(stage, task, recorder),
            CurveFile(outputs.curve),
        ]
        with trained(task, stage, fingerprint(stage, params), shown, outputs.curve) as (state, initial):
            if group.is_leader:
                weights = {"best": state.best_weights, "initial": initial}
                counted = splits["train"] if state.model.ngrams else None
                save_model(outputs.folder, config, tokenizer, weights, machine.numerics() | state.numerics, counted)
