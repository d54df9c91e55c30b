"""Read the result of a commit, an experiment or the current checkout from git and DVC's cache."""

import contextlib
import functools
import hashlib
import json
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text
from bukva.core.params import PARAMS, flatten
from bukva.core.schema import author_word
from bukva.project import baseline
from bukva.project.baseline import SCORED
from bukva.project.cache import cached_files, digests, dvc_repo, fetch
from bukva.project.commands import rerun_command
from bukva.project.curves import Point, read_curve
from bukva.project.lock import LOCK, StageRecords, all_sources, changes, outputs, parse_lock, parse_yaml
from bukva.project.revisions import WORKSPACE, Revision, experiments, file_at, git, load_files, resolve
from bukva.project.stages import paths, recorded_stages, trained_models
from bukva.scoring.char_scores import CharScores


@dataclass(frozen=True)
class Result:
    """Result of one revision. If it is not valid, `metrics`, `curves` and `scores` are empty."""

    revision: Revision
    params: Mapping[str, Any]  # content of params.yaml
    lock: StageRecords
    problem: str = ""  # phrase that says why the revision has no valid result
    metrics: Mapping[str, Any] = field(default_factory=dict)  # content of metrics.json
    curves: Mapping[str, list[Point]] = field(default_factory=dict)  # by model
    # files in DVC's cache by name in data/scores, such as gpt/val.npy; empty if one lacks
    scores: Mapping[str, Path] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the result is valid, and its scores are in DVC's cache."""
        return bool(self.scores) and not self.problem

    @property
    def author_word(self) -> str:
        """Word for a group of works in this corpus, "author" or "collection"."""
        return author_word(self.params["download"]["corpus"])

    @functools.cached_property
    def flat_params(self) -> Mapping[str, Any]:
        return flatten(self.params)

    @functools.cached_property
    def about(self) -> Mapping[str, Any]:
        """Content of about.json: windows, alphabet, digests of the texts, and facts about the models."""
        return dict(json.loads(self.scores["about.json"].read_bytes()))

    @functools.cached_property
    def characters(self) -> CharScores:
        """Loss of each model and baseline on every held-out character, in nats."""
        return CharScores.read(self.scores)


def results_of(names: Sequence[str]) -> list[Result]:
    """Return the complete result of each name, with scores from DVC's cache or remote.

    A BukvaError contains the command that produces the result.
    """
    results = read_results(map(_with_results, names))
    scores, why = paths()["scores"], ""
    if missing := [result for result in results if not result.problem and not result.scores]:
        why = fetch(result.lock[SCORED].outs[scores] for result in missing)
        results = read_results([result.revision for result in results])
    for result in results:
        if not result.is_complete:
            problem = result.problem or f"{scores} is {not_cached()}, {why}"
            again = "dvc repro" if result.revision.is_workspace else rerun_command(result.revision.name, result.params)
            raise BukvaError(f"{result.revision.name}: {problem}. Run `{again}`.")
    return results


def default_baseline() -> str:
    """Return the first of HEAD, the experiment `baseline` and `workspace` that has a complete result.

    BukvaError: only the workspace is left, and it contains the results of another experiment.
    """
    for name in ("HEAD", baseline.NAME):
        with contextlib.suppress(BukvaError):  # the name is unknown
            if read_results([resolve(name)])[0].is_complete:
                return name
    if experiments() and git("diff", "--name-only", "HEAD", "--", PARAMS):
        raise BukvaError(
            "The results of the last commit are not saved, and the checkout contains the results of an experiment, so "
            f"there is no baseline. Run `git checkout HEAD {PARAMS} && make repro`."
        )
    return WORKSPACE


def read_results(revisions: Iterable[Revision]) -> list[Result]:
    """Read the result of each revision. Results may be invalid or incomplete (see `Result`)."""
    revisions = list(revisions)
    files = [PARAMS, LOCK, paths()["metrics"], *(model.curve.as_posix() for model in trained_models().values())]
    load_files([revision.commit for revision in revisions], files)
    return [_read(revision, {path: _content(revision, path) for path in files}) for revision in revisions]


def _with_results(name: str) -> Revision:
    revision = resolve(name)
    if name == "HEAD" and read_results([revision])[0].problem:
        for each in experiments():
            if (each.dvc_name, each.baseline) == (baseline.NAME, revision.commit):
                print(f"HEAD has no results. Using the experiment `{each.name}` instead.", file=sys.stderr)
                return each
    return revision


def _content(revision: Revision, path: str) -> bytes:
    if not revision.is_workspace:
        return file_at(revision.commit, path)
    file = project_root() / path
    return file.read_bytes() if file.is_file() else b""


def _read(revision: Revision, files: Mapping[str, bytes]) -> Result:
    params, lock = parse_yaml(files[PARAMS].decode(errors="replace")), parse_lock(files[LOCK].decode(errors="replace"))
    if problem := _problem(revision, params, lock, files):
        return Result(revision, params, lock, problem)
    curves = {name: files[model.curve.as_posix()] for name, model in trained_models().items()}
    return Result(
        revision=revision,
        params=params,
        lock=lock,
        metrics=json.loads(files[paths()["metrics"]]),
        curves={name: read_curve(content.decode()) for name, content in curves.items() if content},
        scores=cached_files(lock[SCORED].outs[paths()["scores"]]),
    )


def _problem(revision: Revision, params: Mapping[str, Any], lock: StageRecords, files: Mapping[str, bytes]) -> str:
    """Return a phrase that says why the files of a revision are not a valid result, or "" if they are valid."""
    if not params:
        return f"{PARAMS} is missing or not valid"
    if SCORED not in lock:
        return f"stage {SCORED} has not run"
    needed = [paths()[name] for name in ("scores", "score_table", "metrics")]
    needed += [model.curve.as_posix() for model in trained_models().values() if model.stage in lock]
    if missing := [path for path in needed if path not in outputs(lock)]:
        return f"{LOCK} has no record of {missing[0]}"
    now = digests(all_sources(SCORED, lock)) if revision.is_workspace else {}
    if changed := next(changes(SCORED, lock, flatten(params), now), ""):
        return changed
    for path, md5 in outputs(lock).items():  # a failed experiment still has the scores of the commit it started from
        if path in files and hashlib.md5(files[path]).hexdigest() != md5:
            return f"{path} {'differs from the file' if files[path] else 'is missing, but is'} recorded in {LOCK}"
    return ""


def not_cached(remedy: str = "") -> str:
    """Return "not in DVC's cache" and what to do: `remedy`, or in a git worktree to use the cache of the main one."""
    if cache := _main_cache(project_root()):
        remedy = f"to use the cache of the main git worktree: `dvc cache dir --local {shlex.quote(cache)}`"
    return f"not in DVC's cache ({remedy})" if remedy else "not in DVC's cache"


@functools.cache
def _main_cache(root: Path) -> str:
    """Return the cache folder of the main git worktree, or "" if the project is there or uses this cache."""
    with contextlib.suppress(BukvaError):
        common, prefix = git("rev-parse", "--git-common-dir", "--show-prefix").decode().split("\n")[:2]
        with dvc_repo((root / common).resolve().parent / prefix) as main, dvc_repo(root) as here:
            if main.cache.local_cache_dir != here.cache.local_cache_dir:
                return str(main.cache.local_cache_dir)
    return ""


# ---- reproducibility


def verify(name: str, numerics: Mapping[str, str]) -> tuple[list[str], str]:
    """Check whether a new run in this checkout, on this machine, would give exactly the same result.

    `numerics` are the versions, processor, precision and threads of this machine. Return a phrase for each difference
    in code, data or numerics, and the command that runs the experiment again with its parameters.
    """
    [result] = read_results([resolve(name)])
    stages = [stage for stage in recorded_stages() if stage in result.lock]
    if not stages:
        raise BukvaError(f"{name} has no results ({LOCK} is missing or empty).")
    now = digests({path for stage in stages for path in all_sources(stage, result.lock)})
    differences = [change for stage in stages for change in changes(stage, result.lock, result.flat_params, now)]
    if result.scores:
        recorded = result.about["models"]["gpt"]["numerics"]
        keys = [key for key in numerics if recorded.get(key) != numerics[key]]
        differences += [f"trained with {key} {recorded.get(key)}, but this machine has {numerics[key]}" for key in keys]
    else:
        differences.append(
            f"the versions and the processor of its training are unknown, because its scores are {not_cached()}"
        )
    return list(dict.fromkeys(differences)), rerun_command(name, result.params)


# ---- outputs as files


@contextlib.contextmanager
def as_checkout(result: Result, needed: set[str]) -> Iterator[Path]:
    """Yield a folder with the outputs `needed` of a revision, at the same paths as in the project.

    It is the project itself, or a temporary folder with links to DVC's cache and copies of the files that git tracks.
    Outputs that the revision does not have are left out. BukvaError: an output is not in git, DVC's cache or its
    remote.
    """
    if result.revision.is_workspace:
        yield project_root()
        return
    with as_folder({}) as folder:
        for path, digest in outputs(result.lock).items():
            if path not in needed:
                continue
            if content := file_at(result.revision.commit, path):
                write_text(folder / path, content.decode())
            elif why := fetch([digest]):
                again = rerun_command(result.revision.name, result.params)
                raise BukvaError(
                    f"{result.revision.name}: {path} is {not_cached()}, {why}. Compute it again: `{again}`."
                )
            else:
                _link(folder / path, cached_files(digest))
        yield folder


@contextlib.contextmanager
def as_folder(files: Mapping[str, Path]) -> Iterator[Path]:
    """Yield a temporary folder with links to `files`, by the name of the link."""
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        _link(Path(folder), files)
        yield Path(folder)


def _link(output: Path, files: Mapping[str, Path]) -> None:
    for name, file in files.items():
        link = output / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
