"""Sweeps and their trials, and the run of one trial: DVC in a clone of the project.

In a sweep, a process of Ray (an actor) runs the trial, and reports the scores to Ray Tune. It ends when Tune stops the
trial, or when the driver (the process that runs the sweep) or the machine ends. DVC ends with the actor, and the
running stage then saves its state and ends (core/processes.py). A stopped trial leaves no result: if its training ended
normally after fewer updates, DVC's run cache would keep the shorter training as the result of the trial's settings.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text
from bukva.project.baseline import SPLIT
from bukva.project.cache import dvc_repo
from bukva.project.commands import overrides, params_with, run_experiment, values_of
from bukva.project.curves import read_curve
from bukva.project.lock import digest
from bukva.project.revisions import commit_of, experiment_ref, file_at, git
from bukva.project.stages import paths, trained_models

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}")
DIGITS = 6  # length of the digests in the names of sweeps and trials
MODEL = "gpt"
SAVE_SECONDS = 60.0  # how long a stage of an earlier attempt may save its state

Trial = dict[str, Any]  # `name` of the experiment, and `assignments`: values of option -S, such as `model.n_head=8`


# ---- names and settings


@dataclass(frozen=True)
class Sweep:
    """Trials that run in parallel: those of `bukva sweep`, or the missing seeds of an experiment."""

    name: str  # depends on the commit and the settings, so the same command continues the same sweep
    commit: str  # from which all trials start
    project: Path  # folder that gets the results, at the same path on all machines
    address: str = ""  # HOST:PORT of a Ray cluster, or "" for this machine
    edited: str = ""  # commit whose files trials have, as uncommitted edits; by default those of `commit`

    def ref(self, trial: str) -> str:
        """Return the git reference of a trial's result. The trial is finished if the project has this reference."""
        return experiment_ref(self.commit, trial)


def sweeps_root() -> Path:
    """Return the folder with logs, tables and Tune's state of all sweeps of this project."""
    return project_root() / ".bukva" / "sweeps"


def log_of(trial: str) -> Path:
    """Return the file with the output of DVC and the stages of a trial."""
    return sweeps_root() / "logs" / f"{trial}.log"


def checked_name(name: str, *parts: str) -> str:
    """Return the name of a sweep: `name`, which must be valid in git, and a digest of `parts`."""
    if not NAME.fullmatch(name):
        raise BukvaError(
            f"`--name` is {name!r}, which cannot be part of a git reference. Use up to 31 letters, digits, hyphens and "
            "underscores, and begin with a letter or digit."
        )
    return f"{name}-{digest(parts)[:DIGITS]}"


def grid(sweep: str, assignments: Sequence[str]) -> list[Trial]:
    """Return one trial for each combination of valid settings, in the order of `dvc exp run --queue`."""
    combinations = [list(each) for each in itertools.product(*map(values_of, overrides(assignments)))]
    for each in combinations:
        params_with(each)  # raises the error that a stage would raise
    width = len(str(len(combinations)))
    return [trial_of(sweep, f"{n:0{width}d}", each) for n, each in enumerate(combinations, start=1)]


def trial_of(sweep: str, label: str, assignments: list[str]) -> Trial:
    """Return a trial whose name ends in a digest of its assignments."""
    return {"name": f"{sweep}-{label}-{digest(assignments)[:DIGITS]}", "assignments": assignments}


# ---- one trial


def run_trial(sweep: Sweep, name: str, assignments: Sequence[str]) -> None:
    """Run a trial, and save its result as an experiment of the project. A trial with a result only reports its score.

    Tune gets the step and the best score on val so far, in bits per character. BukvaError: a stage, git or DVC failed.
    """
    from ray import tune

    os.chdir(sweep.project)
    last = {} if commit_of(sweep.ref(name)) else run_in_slot(sweep, name, assignments, tune.report)
    scores = json.loads(file_at(commit_of(sweep.ref(name)), paths()["metrics"]))
    tune.report(last | {"val": scores[MODEL][SPLIT], "finished": True})


def run_in_slot(
    sweep: Sweep, name: str, assignments: Sequence[str], report: Callable[[dict[str, Any]], None] = lambda _: None
) -> dict[str, Any]:
    """Run DVC in a slot, and save the result as an experiment of the project. BukvaError: a stage, git or DVC failed.

    `report` gets the step and the best score on val so far, in bits per character, after each scoring. Return the last
    ones.
    """
    reported: list[dict[str, Any]] = []
    with slot_for(sweep, name) as folder:
        curve = folder / trained_models()[MODEL].curve
        committed = _scorings(curve)

        def report_new() -> None:
            points = _scorings(curve)
            for point in points[len(reported) :] if points != committed else ():
                report(point)
                reported.append(point)

        run_experiment(name, assignments, log=log_of(name), folder=folder, while_running=report_new)
        _save(sweep, name, folder)
    return reported[-1] if reported else {}


@contextlib.contextmanager
def slot_for(sweep: Sweep, trial: str) -> Iterator[Path]:
    """Clone the project at the commit of the sweep into a free slot, and yield the project's folder in the clone.

    Slots are numbered, so that DVC and numba find what they know about a folder.
    """
    for number in itertools.count():
        clone = sweep.project / ".bukva" / "slots" / f"{socket.gethostname()}-{number}"
        lock = FileLock(f"{clone}.lock", blocking=False)
        with contextlib.suppress(Timeout):
            lock.acquire()
            break
    try:
        _wait_for_stages(trial, clone)
        shutil.rmtree(clone, ignore_errors=True)
        asked = "--show-toplevel", "--show-prefix", "--path-format=absolute", "--git-path", "objects"
        top, prefix, objects = git("rev-parse", *asked).decode().split("\n")[:3]
        git("clone", "--quiet", "--no-checkout", "--shared", "--template=", top, str(clone))  # without the user's hooks
        write_text(clone / ".git" / "objects" / "info" / "alternates", f"{objects}\n")  # also if top is a shallow clone
        git("-C", str(clone), "checkout", "--quiet", "--detach", sweep.commit)
        git("-C", str(clone), "read-tree", "-u", "--reset", sweep.edited or sweep.commit)
        _share_cache(sweep.project, clone / prefix)
        yield clone / prefix
    finally:
        lock.release()


def _wait_for_stages(trial: str, clone: Path) -> None:
    """Wait until the stages of an earlier attempt of the trial, and of the last trial in the clone, have ended."""

    def is_in_clone(process: psutil.Process) -> bool:
        return Path(process.cwd()).is_relative_to(clone)

    def is_awaited(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            variables = process.environ()
            return "DVC_STAGE" in variables and (variables.get("DVC_EXP_NAME") == trial or is_in_clone(process))
        return False

    _, left = psutil.wait_procs(list(filter(is_awaited, psutil.process_iter())), SAVE_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.Error):
            if is_in_clone(process):
                process.kill()


def _share_cache(project: Path, folder: Path) -> None:
    """Make DVC in `folder`, the project in a slot, use the project's settings and cache."""
    from dvc.config import Config

    with dvc_repo(project) as repo:
        cache = repo.cache.local_cache_dir
    with contextlib.suppress(FileNotFoundError):
        shutil.copyfile(project / ".dvc" / "config.local", folder / ".dvc" / "config.local")
    with Config(str(folder / ".dvc"), validate=False).edit("local") as settings:
        # a relative path, because DVC writes ASCII only and the absolute path may contain other characters
        settings.setdefault("cache", {})["dir"] = os.path.relpath(cache)


def _scorings(curve: Path) -> list[dict[str, Any]]:
    """Return step and best score so far for each scoring of val in a loss curve, which is replaced as a whole."""
    from bukva.text.ids import bits  # imports numpy, which the command line does not need

    try:
        points = read_curve(curve.read_text(encoding="utf-8"))
    except FileNotFoundError:  # DVC removes it before the training
        return []
    return [{"step": int(point["step"]), "val": bits(point["best_val_nats_per_char"])} for point in points]


def _save(sweep: Sweep, name: str, folder: Path) -> None:
    """Fetch the result from the clone into the project, unless another attempt has done it."""
    ref = sweep.ref(name)
    clone = git("-C", str(folder), "rev-parse", "--show-toplevel").decode().strip()
    try:
        git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", clone, f"{ref}:{ref}")
    except BukvaError:
        if not commit_of(ref):
            raise
