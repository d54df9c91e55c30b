"""Train seeds in parallel, as the trials of a sweep: option `--parallel` of `bukva judge` and `bukva seeds`."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bukva.compare.seeds import Trainer, Trials
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.machine import n_cores
from bukva.core.words import count
from bukva.project.revisions import git, head
from bukva.sweep import engine
from bukva.sweep.trial import Sweep


class ParallelTrainer(Trainer):
    """Train `parallel` seeds at a time, each in a clone with the tracked files of a commit or of the checkout.

    The seeds are trials of a sweep called `name`, which replaces the last sweep of this name. Ray starts with the first
    training, and ends with `stack`.
    """

    def __init__(self, name: str, parallel: int, address: str, stack: contextlib.ExitStack) -> None:
        self._name, self._parallel, self._address, self._stack = name, parallel, address, stack
        self._resources: dict[str, float] = {}

    def cores(self, params: Mapping[str, Any]) -> int:
        """Return the cores for each training: one for each of its threads, or an equal share of this machine."""
        threads, available = int(params["compute.threads"]) * int(params["train_gpt.processes"]), n_cores()
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

    def train(self, trials: Trials, params: Mapping[str, Any], commit: str = "") -> Iterator[Sequence[int]]:
        """Yield all seeds when all have been trained. BukvaError: one of them has no result."""
        cores, gpus = self.cores(params), 0 if params["compute.device"] == "cpu" else None
        if not self._resources:
            self._resources = self._stack.enter_context(engine.ray_for(self._address, cores, gpus))
        if not commit:
            git("update-index", "-q", "--refresh")  # otherwise `git stash create` fails if only times differ
        # `git stash create` changes neither the files nor the list of stashes
        edited = commit or git("stash", "create").decode().strip()
        sweep = Sweep(self._name, head(), project_root(), self._address, edited)
        tried = [{"name": name, "assignments": list(assignments)} for name, assignments in trials.values()]
        resources = self._resources | {"cpu": cores}
        engine.run_all(sweep, resources, tried, anew=True, max_concurrent_trials=self._parallel)
        yield list(trials)
