"""Experiments without a result: queued, running, interrupted, failed.

DVC keeps those that wait and those that failed as stashes of git (refs/exps/celery/stash and failed, by their reflogs),
and what it knows of each execution in .dvc/tmp/exps: `dvc queue status` and `dvc exp show` read the same, in seconds.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bukva.core.files import project_root
from bukva.project.git import git
from bukva.project.recorded import LOCK
from bukva.project.revisions import WORKSPACE, experiments

ENTRY = re.compile(
    r"([0-9a-f]{40}) refs/exps/celery/(stash|failed)@.* dvc-exp:[0-9a-f]+:([0-9a-f]{40}):([^:]*)(?::.*)?"
)
FOLDER = Path(".dvc/tmp/exps")
RUNS = "run", "standalone/run"  # of the queue; of dvc exp run --temp
EARLY = "before its first stage"
SUCCESS = 3  # the highest status of DVC before it has collected the result
FRESH_SECONDS = 10

Kind = Literal["queued", "running", "interrupted", "failed"]


@dataclass(frozen=True)
class State:
    """An experiment that has no result.

    commit: of git's stash, with the files that DVC runs or would run.
    baseline: the commit that it started from.
    reason: what its log says of a failure; "" for all others.
    """

    name: str
    kind: Kind
    commit: str
    baseline: str
    reason: str = ""


def states() -> list[State]:
    """All of them, by name.

    A failed experiment that was run again and finished is not among them.

    Raises:
        BukvaError: the project is no repository of git.
    """
    finished = {(experiment.name, experiment.baseline) for experiment in experiments()}
    found = [*_executions(), *_stashed()]
    left = [state for state in found if state.kind != "failed" or (state.name, state.baseline) not in finished]
    return sorted(left, key=lambda state: (state.name, state.kind, state.commit))


def _stashed() -> Iterator[State]:
    reflogs = git("log", "-g", "--glob=refs/exps/celery", "--format=%H %gD %gs").decode(errors="replace")
    for match in filter(None, map(ENTRY.fullmatch, reflogs.splitlines())):
        commit, stash, baseline, name = match.groups()
        if stash == "failed":
            yield State(name or commit[:7], "failed", commit, baseline, _reason(commit))
        else:
            yield State(name or commit[:7], "queued", commit, baseline)


def _executions() -> Iterator[State]:
    """What runs, or was running when its process ended: DVC calls both running."""
    latest: dict[Path, tuple[int, Path, str, str]] = {}
    for file in (file for folder in RUNS for file in (project_root() / FOLDER / folder).glob("*/*.run")):
        with contextlib.suppress(OSError, ValueError):  # it is being written
            info = json.loads(file.read_bytes())
            folder = Path(info["root_dir"])
            if info["location"] == WORKSPACE and file.stem != WORKSPACE:
                continue  # DVC leaves it behind, whatever became of an experiment that ran in the checkout
            if info["status"] <= SUCCESS and folder.is_dir():
                known = (int(info["status"]), file, info["name"] or file.stem[:7], str(info["baseline_rev"]))
                latest[folder] = max(known, latest.get(folder, known))
    used = _folders_of_processes() if latest else set()
    for folder, (_, file, name, baseline) in latest.items():
        in_it = any(Path(current).is_relative_to(folder) for current in used)
        lives = _has_process(file) if file.stem == WORKSPACE else in_it or _is_fresh(file, folder)
        yield State(name, "running" if lives else "interrupted", file.stem, baseline)


def _has_process(file: Path) -> bool:
    """Whether the process of an experiment in the checkout lives; a user's shell is in its folder, too."""
    import psutil

    with contextlib.suppress(OSError, ValueError, KeyError):
        return bool(psutil.pid_exists(json.loads(file.with_suffix(".json").read_bytes())["pid"]))
    return False


def _is_fresh(file: Path, folder: Path) -> bool:
    """Whether DVC wrote something a moment ago: before and after the stages, its process is in another folder."""
    written = [path.stat().st_mtime for path in (file, folder, folder / ".git", folder / LOCK) if path.exists()]
    return time.time() - max(written, default=0) < FRESH_SECONDS


def _folders_of_processes() -> set[str]:
    """The current folders of all processes that this user may ask about."""
    import psutil

    return {str(process.info["cwd"]) for process in psutil.process_iter(["cwd"]) if process.info["cwd"]}


def _reason(commit: str) -> str:
    """The stage that failed and the last line that it printed."""
    log = project_root() / FOLDER / RUNS[0] / commit / f"{commit}.out"
    with contextlib.suppress(OSError):
        text = log.read_text(encoding="utf-8", errors="replace")
        said, found, error = text.partition("ERROR: failed to reproduce '")
        if found:
            stage, exit_status = error.partition("'")[0], error.partition("\n")[0].rpartition(", ")[2]
            last = said.rstrip().rpartition("\n")[2]
            return f"stage {stage}: {exit_status if last.startswith('> ') else last.rstrip('.')}"
        return text.rstrip().rpartition("\n")[2] or EARLY
    return EARLY
