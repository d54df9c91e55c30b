"""bukva seeds: queue experiments with the settings of params.yaml and further seeds, until there are enough."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from bukva.compare.groups import seed_name, seed_of
from bukva.compare.results import Result, read_results
from bukva.compare.statistics.settings import MIN_SEEDS
from bukva.config.load import flatten, parse_params, read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import digests
from bukva.project.commands import settings
from bukva.project.lock import LOCK, PARAMS, StageRecords, all_sources, changes, parse_yaml, read_lock, upstream
from bukva.project.revisions import WORKSPACE, Revision, experiments, git, head, show, unfinished, why_no_snapshots
from bukva.project.stages import trained_models

LEAST = 2  # seeds of a group
DECIDE_BEFORE = (
    "Decide now how many seeds there are to be: who adds them until there is a verdict gets two to three times as "
    "many false ones (docs/comparing.md)."
)


def queue_seeds(n: int, model: str) -> Iterator[str]:
    """Queue the seeds that are missing from n; yield the lines to print, each as soon as it is true.

    Seeds count up from that of params.yaml. The seeds of other models and of samples stay as they are, so that DVC
    restores what does not depend on this training.

    Raises:
        BukvaError: n is too small, params.yaml is not valid, the project is not ready for DVC's queue, or DVC refuses
            an experiment.
    """
    if n < LEAST:
        raise BukvaError(f"N={n}: one seed tells nothing about seeds; use {LEAST} or more.")
    if model not in trained_models():
        raise BukvaError(f"There is no model {model}; use {' or '.join(trained_models())}.")
    root = project_root()
    raw = read_yaml(root / PARAMS)
    parse_params(raw, PARAMS)  # or all seeds would fail
    lock, params = read_lock(root), flatten(raw)
    files = _files(model, lock)
    if why := why_no_snapshots():
        raise BukvaError(why)
    options = settings(parse_yaml(show(head(), PARAMS).decode()), raw)
    changed = " ".join(option for option in options if seed_name(model) not in option)
    yield f"Settings: those of the last commit{f' with {changed}' if changed else ''}"
    known = _finished(model, params) | _waiting(model, params, lock, files)
    for seed in sorted(known):
        yield f"seed {seed}: {known[seed]}"
    base = params[seed_name(model)]
    missing = [seed for seed in range(base, base + n + len(known)) if seed not in known][: max(0, n - len(known))]
    for seed in missing:
        yield f"seed {seed}: queued as {_queue(seed, model)}"
    if missing and len(known) >= MIN_SEEDS:
        yield DECIDE_BEFORE
    if missing or any(what.startswith("queued") for what in known.values()):
        yield "Start the queue: dvc queue start"
    else:
        yield f"There are {len(known)} seeds of these settings; nothing is missing."
    again = f"bukva seeds {n}{'' if model == 'gpt' else f' --model {model}'}"
    yield f"For the other side of a comparison: dvc exp apply {'baseline' if changed else 'EXPERIMENT'} && {again}"


def _files(model: str, lock: StageRecords) -> list[str]:
    """The sources of the training that lie in the project; all are in the snapshots of git that DVC's queue runs."""
    stage = trained_models()[model].stage
    if stage not in lock:
        raise BukvaError(f"{LOCK}: has no training, so the queue has no data: run `make repro`.")
    files = [path for path in all_sources(stage, lock) if not path.startswith(("/", ".."))]
    if untracked := git("ls-files", "--others", "--exclude-standard", "--", *files).decode().splitlines():
        raise BukvaError(f"{untracked[0]}: not tracked by git, so the queue does not have it: run `git add` on it.")
    return files


def _finished(model: str, params: Mapping[str, Any]) -> dict[int, str]:
    """Seed -> name, of results that the checkout would make again with their seeds."""
    stage = trained_models()[model].stage
    revisions = [Revision(WORKSPACE, ""), Revision("HEAD", head()), *reversed(experiments())]
    results = [result for result in read_results(revisions) if not result.problem and stage in result.lock]
    now = digests({path for result in results for path in all_sources(stage, result.lock)})
    found = {}
    for result in sorted(results, key=lambda result: -_differing(result, params)):  # the likest comes last, and stays
        seed, revision = seed_of(result.lock, model), result.revision
        if not any(changes(stage, result.lock, {**params, seed_name(model): seed}, now)):
            found[seed] = f"experiment {revision.name}" if revision.baseline else revision.name
    return found


def _differing(result: Result, params: Mapping[str, Any]) -> int:
    """Return how many parameters of a result are not those of the checkout: some have no part in the training."""
    return sum(result.flat_params.get(key) != value for key, value in params.items())


def _waiting(model: str, params: Mapping[str, Any], lock: StageRecords, files: list[str]) -> dict[int, str]:
    """Seed -> state and name, of queued and running experiments with these parameters and the code of the checkout."""
    needed = {key for name in upstream(trained_models()[model].stage, lock) for key in lock[name].params}
    found = {}
    for state in unfinished():
        theirs = flatten(parse_yaml(show(state.commit, PARAMS).decode()))
        is_same = all(theirs.get(key) == params.get(key) for key in needed - {seed_name(model)})
        is_waiting = is_same and state.kind in ("queued", "running")
        if is_waiting and not git("diff", "--name-only", state.commit, "--", *files):
            found[int(theirs[seed_name(model)])] = f"{state.kind} {state.name}"
    return found


def _queue(seed: int, model: str) -> str:
    """Queue one experiment; returns its name."""
    taken = {*(one.name for one in experiments()), *(state.name for state in unfinished())}
    plain = f"{model}-s{seed}"
    name = next(name for i in count(1) if (name := plain if i == 1 else f"{plain}-{i}") not in taken)
    command = ["exp", "run", "--queue", "--name", name, "-S", f"{seed_name(model)}={seed}"]
    done = subprocess.run([sys.executable, "-m", "dvc", *command], cwd=project_root(), capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2].removeprefix("ERROR: ")
        raise BukvaError(f"DVC does not queue seed {seed}: {said}")
    return name
