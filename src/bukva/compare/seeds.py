"""Train experiments that differ only in the seed: for `bukva judge`, and until there are enough for `bukva seeds`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bukva.compare.groups import seed_name, seed_of
from bukva.compare.results import read_results
from bukva.compare.statistics.settings import MIN_SEEDS
from bukva.core.errors import BukvaError, redact_params
from bukva.core.files import project_root
from bukva.core.params import PARAMS, flatten, parse_params, read_yaml
from bukva.project.baseline import undo_command
from bukva.project.cache import digests
from bukva.project.commands import run_experiment, settings
from bukva.project.lock import LOCK, StageRecords, all_sources, changes, parse_yaml, read_lock, upstream
from bukva.project.revisions import (
    WORKSPACE,
    Revision,
    experiments,
    file_at,
    free_name,
    git,
    head,
    unfinished,
)
from bukva.project.stages import trained_models

LEAST = 2  # minimum number of seeds
LOG = Path(".bukva/seeds.log")
Trials = Mapping[int, tuple[str, Sequence[str]]]  # seed -> name of the experiment, values of its options -S
DECIDE_BEFORE = (
    "Decide now how many seeds you need. Adding seeds until there is a verdict makes false verdicts two to three times "
    "as frequent (docs/comparing.md)."
)


class Trainer(Protocol):
    """`bukva.sweep.trainer.SeedTrainer`. Parameters have dotted names."""

    def cores(self, params: Mapping[str, Any]) -> int: ...
    def train(self, trials: Trials, params: Mapping[str, Any], commit: str) -> Iterator[Sequence[int]]: ...


def more_seeds(n: int, model: str, trainer: Trainer | None = None) -> Iterator[str]:
    """Queue or train experiments that differ from the checkout only in the seed of `model`, until there are `n` seeds.

    Finished, running and queued seeds count, and new ones count up from the seed in params.yaml. Yield a line to print
    after each step. BukvaError: the settings cannot run, which is noticed before anything is queued, or DVC fails.
    """
    if n < LEAST:
        raise BukvaError(f"At least {LEAST} seeds are needed; got N={n}.")
    if model not in trained_models():
        raise BukvaError(f"There is no model {model}. Use {' or '.join(trained_models())}.")
    root, seed_key, stage = project_root(), seed_name(model), trained_models()[model].stage
    raw = read_yaml(root / PARAMS)
    parse_params(raw, PARAMS)  # so that an invalid parameter fails now, instead of in each experiment
    lock, params = read_lock(root), flatten(redact_params(raw))
    if stage not in lock:
        raise BukvaError(
            f"Stage {stage} has not run in this project ({LOCK} does not contain it), so the trainings would have no "
            "data. Run `make repro`."
        )
    files = _tracked(all_sources(stage, lock))
    options = settings(parse_yaml(file_at(head(), PARAMS).decode()), raw)
    changed = " ".join(option for option in options if seed_key not in option)
    yield f"Settings: as in the last commit{f', with {changed}' if changed else ''}"
    known = _finished(model, stage, params) | _waiting(seed_key, stage, params, lock, files)
    for seed in sorted(known):
        yield f"seed {seed}: {known[seed]}"
    base = params[seed_key]
    missing = [seed for seed in range(base, base + n + len(known)) if seed not in known][: max(0, n - len(known))]
    trials = {seed: (free_name(f"{model}-s{seed}"), [f"{seed_key}={seed}"]) for seed in missing}
    for seeds in trainer.train(trials, params, snapshot()) if trainer and missing else _queue(trials):
        for seed in seeds:
            yield f"seed {seed}: {'trained' if trainer else 'queued'} as {trials[seed][0]}"
    if missing and len(known) >= MIN_SEEDS:
        yield DECIDE_BEFORE
    if (missing and not trainer) or any(what.startswith("queued") for what in known.values()):
        yield "To start the queue: `dvc queue start`"
    elif not missing:
        yield f"These settings already have {len(known)} seeds, so no experiment was queued."
    again = f"bukva seeds {n}{'' if model == 'gpt' else f' --model {model}'}"
    other = undo_command() if changed else "dvc exp apply EXPERIMENT"
    yield f"To add seeds to the experiment that you compare with: `{other} && {again}`"


def _queue(trials: Trials) -> Iterator[Sequence[int]]:
    for seed, (name, assignments) in trials.items():
        run_experiment(name, assignments, log=project_root() / LOG)
        yield [seed]


def snapshot() -> str:
    """Return a commit with the files of the checkout that git tracks: HEAD, or a new one that no branch has."""
    git("update-index", "-q", "--refresh")  # otherwise `git stash create` fails if only times differ
    # changes neither the files nor the list of stashes
    return git("stash", "create").decode().strip() or head()


def _tracked(paths: Iterable[str]) -> list[str]:
    """Return the paths inside the project. BukvaError: git does not track a file there, so a copy would not have it."""
    inside = [path for path in paths if not path.startswith(("/", ".."))]
    if untracked := git("ls-files", "--others", "--exclude-standard", "--", *inside).decode().splitlines():
        raise BukvaError(
            f"{untracked[0]} is not tracked by git, so the trainings would not have it. Run `git add {untracked[0]}`."
        )
    return inside


def _finished(model: str, stage: str, params: Mapping[str, Any]) -> dict[int, str]:
    """Find finished results with the code of the checkout and the parameters `params`."""
    revisions = [Revision("HEAD", head()), *experiments(), Revision(WORKSPACE, "")]
    results = [result for result in read_results(revisions) if not result.problem and stage in result.lock]
    now = digests({path for result in results for path in all_sources(stage, result.lock)})
    names: dict[int, str] = {}
    for result in results:
        seed, revision = seed_of(result.lock, model), result.revision
        if not any(changes(stage, result.lock, {**params, seed_name(model): seed}, now)):
            names.setdefault(seed, f"experiment {revision.name}" if revision.baseline else revision.name)
    return names


def _waiting(
    seed_key: str, stage: str, params: Mapping[str, Any], lock: StageRecords, files: Sequence[str]
) -> dict[int, str]:
    """Find queued and running experiments with the parameters `params` and unchanged `files`."""
    needed = {key for name in upstream(stage, lock) for key in lock[name].params} - {seed_key}
    states = {}
    for state in unfinished():
        queued = flatten(parse_yaml(file_at(state.commit, PARAMS).decode()))
        is_same = all(queued.get(key) == params.get(key) for key in needed)
        is_waiting = is_same and state.kind in ("queued", "running")
        if is_waiting and not git("diff", "--name-only", state.commit, "--", *files):
            states[int(queued[seed_key])] = f"{state.kind} {state.name}"
    return states
