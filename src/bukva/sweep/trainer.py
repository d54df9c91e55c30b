"""Train seeds for `bukva judge` and `bukva seeds`. Each training starts from a commit, so the checkout may differ."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bukva.compare.seeds import Trials
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.machine import n_cores
from bukva.core.words import count
from bukva.project.revisions import head, valid_name
from bukva.sweep import engine
from bukva.sweep.trial import Sweep, log_of, run_in_slot


class SeedTrainer(contextlib.ExitStack):
    """Train seeds one after another or, with `parallel` or `address`, as the trials of a sweep called `name`.

    The sweep replaces the last sweep of this name. Ray starts with the first sweep, and ends with the with block.
    """

    def __init__(self, name: str, parallel: int, address: str) -> None:
        super().__init__()
        self._name, self._parallel, self._address = valid_name(name), parallel, address
        self._runs_sweeps = parallel > 1 or bool(address)
        self._n_gpus: float | None = None  # for each training; None until Ray has started

    def cores(self, params: Mapping[str, Any]) -> int:
        """Return the cores for each training: one for each of its threads, or an equal share of this machine."""
        threads, available = int(params["compute.threads"]) * int(params["train_gpt.processes"]), n_cores()
        if not self._runs_sweeps:
            return available
        if self._address:
            if not threads:
                raise BukvaError(
                    "`--address` needs the number of threads of each training, because machines may have different "
                    "numbers of cores. Set `compute.threads`, for example to 1."
                )
            return threads
        cores = threads or max(1, available // self._parallel)
        if cores * self._parallel > available:
            each = f"each training needs {cores} (compute.threads) and " if threads else ""
            raise BukvaError(
                f"`--parallel` is {self._parallel}, but {each}this machine has {count(available, 'core')}. Use "
                f"{max(1, available // cores)} or less."
            )
        return cores

    def train(self, trials: Trials, params: Mapping[str, Any], commit: str) -> Iterator[Sequence[int]]:
        """Train seeds with the files of `commit`, and yield those trained since the last yield.

        BukvaError: a training failed.
        """
        sweep = Sweep(self._name, head(), project_root(), self._address, commit)
        if not self._runs_sweeps:
            for seed, (name, assignments) in trials.items():
                print(f"  training seed {seed} as {name} (output: {os.path.relpath(log_of(name))})", flush=True)
                run_in_slot(sweep, name, assignments)
                yield [seed]
            return
        cores = self.cores(params)
        if self._n_gpus is None:
            self._n_gpus = self.enter_context(engine.ray_for(self._address, cores, None))["gpu"]
        resources = {"cpu": cores, "gpu": 0 if params["compute.device"] == "cpu" else self._n_gpus}
        tried = [{"name": name, "assignments": list(assignments)} for name, assignments in trials.values()]
        engine.run_all(sweep, resources, tried, anew=True, max_concurrent_trials=self._parallel)
        yield list(trials)
