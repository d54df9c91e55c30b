"""bukva seeds: queue experiments with the configuration of params.yaml and further seeds, until there are enough."""

import subprocess
import sys
from collections.abc import Iterator
from itertools import count

from bukva.compare.groups import check_model, seed_name, seed_of, training_key
from bukva.compare.results import Result, read_results, sections_of
from bukva.config.load import flatten
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.lock import LOCK, PARAMS, StageRecords, present, sources, upstream
from bukva.project.revisions import WORKSPACE, Revision, experiments, git, head, read_blobs, unfinished
from bukva.project.stages import trained_models

LEAST = 2  # seeds of a group
HEAD = "HEAD"
KEY_DIGITS = 7  # of a group, in the name of an experiment


def queue_seeds(n: int, model: str) -> Iterator[str]:
    """Queue what is missing to n seeds; yields the lines to print, each as soon as it is true.

    Seeds count up from that of params.yaml. The seeds of other models and of samples stay as they are, so that DVC
    restores what does not depend on this training.

    Raises:
        BukvaError: n is too small, the project is not ready for DVC's queue, or DVC refuses an experiment.
    """
    if n < LEAST:
        raise BukvaError(f"N={n}: one seed tells nothing about seeds; use {LEAST} or more.")
    check_model(model)
    now = present()
    _check_ready(model, now)
    known = _finished(model, now) | _unfinished(model, now)
    for seed in sorted(known):
        yield f"seed {seed}: {known[seed]}"
    base = seed_of(now, model)
    missing = [seed for seed in range(base, base + n + len(known)) if seed not in known][: max(0, n - len(known))]
    for seed in missing:
        yield f"seed {seed}: queued as {_queue(seed, model, now)}"
    if missing or any(kind.startswith("queued") for kind in known.values()):
        yield "Start the queue: dvc queue start"
    else:
        yield f"There are {len(known)} seeds of this configuration; nothing is missing."


def _check_ready(model: str, now: StageRecords) -> None:
    """Whether DVC's queue, which runs snapshots of what git tracks, has all that the training needs."""
    if not head():
        raise BukvaError("The project has no commit, and DVC's queue starts from one: run `git add -A && git commit`.")
    if not git("ls-files", "--", LOCK):
        raise BukvaError(
            f"{LOCK}: not tracked by git, so the queue has no data: run `make repro`, then `git add {LOCK}`."
        )
    if untracked := git("ls-files", "--others", "--exclude-standard", "--", *_files(model, now)).decode().splitlines():
        raise BukvaError(f"{untracked[0]}: not tracked by git, so the queue does not have it: run `git add` on it.")


def _finished(model: str, now: StageRecords) -> dict[int, str]:
    """Seed -> name, of results of the present configuration."""
    key, stage = training_key(now, model), trained_models()[model].stage
    fitting = [
        result
        for result in read_results([*experiments(), Revision(HEAD, head()), Revision(WORKSPACE, "")])
        if not result.problem and stage in result.lock and training_key(result.lock, model) == key
    ]
    return {seed_of(result.lock, model): _title(result) for result in reversed(fitting)}


def _title(result: Result) -> str:
    name = result.revision.name
    return name if name in (HEAD, WORKSPACE) else f"experiment {name}"


def _unfinished(model: str, now: StageRecords) -> dict[int, str]:
    """Seed -> name, of queued and running experiments with the present configuration."""
    waiting = [state for state in unfinished() if state.kind in ("queued", "running")]
    blobs = read_blobs((state.commit, PARAMS) for state in waiting)
    found = {}
    for state in waiting:
        params = flatten(sections_of(blobs.get((state.commit, PARAMS), b"").decode()))
        if _is_same(params, model, now) and not git("diff", "--name-only", state.commit, "--", *_files(model, now)):
            found[int(params[seed_name(model)])] = f"{state.kind} {state.name}"
    return found


def _is_same(params: dict[str, object], model: str, now: StageRecords) -> bool:
    """Whether these parameters differ from the present ones in the seed only, as far as the training needs them."""
    needed = {key: value for name in _stages(model, now) for key, value in now[name].params.items()}
    return all(params.get(key) == value for key, value in needed.items() if key != seed_name(model))


def _stages(model: str, now: StageRecords) -> list[str]:
    return upstream(trained_models()[model].stage, now)


def _files(model: str, now: StageRecords) -> list[str]:
    """The sources of the training that lie in the project."""
    found = {path for name in _stages(model, now) for path in sources(name, now)}
    return sorted(path for path in found if not path.startswith(("/", "..")))


def _queue(seed: int, model: str, now: StageRecords) -> str:
    """Queue one experiment; returns its name."""
    taken = {experiment.name for experiment in experiments()} | {state.name for state in unfinished()}
    plain = f"{training_key(now, model)[:KEY_DIGITS]}-s{seed}"
    name = next(name for i in count(1) if (name := plain if i == 1 else f"{plain}-{i}") not in taken)
    command = ["exp", "run", "--queue", "--name", name, "-S", f"{seed_name(model)}={seed}"]
    done = subprocess.run([sys.executable, "-m", "dvc", *command], cwd=project_root(), capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2].removeprefix("ERROR: ")
        raise BukvaError(f"DVC does not queue seed {seed}: {said}")
    return name
