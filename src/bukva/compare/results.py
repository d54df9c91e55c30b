"""Results of revisions: parameters, dvc.lock, metrics, scores of every character, and outputs as files.

Everything is read from git objects and DVC's cache. The checkout is never changed.
"""

import contextlib
import csv
import functools
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.schema import author_word
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text
from bukva.project import baseline
from bukva.project.cache import cached_files, digests
from bukva.project.commands import rerun_command
from bukva.project.lock import LOCK, PARAMS, StageRecords, all_sources, changes, outputs, parse_lock, parse_yaml
from bukva.project.revisions import WORKSPACE, Revision, experiments, fetch, file_at, git, resolve
from bukva.project.stages import paths, recorded_stages, trained_models
from bukva.text.scores import CharScores

STAGE = "evaluate"  # the stage that computes the scores


Curve = list[tuple[int, int, float]]  # (step, characters seen, nats per character on val) of each validation


@dataclass(frozen=True)
class Result:
    """Result of one revision.

    params: sections of params.yaml.
    lock: stages of dvc.lock.
    metrics: content of metrics.json.
    curves: model -> learning curve; its last point is at the end of the training.
    scores: name in data/scores, such as "gpt/val.npy" -> path in DVC's cache; empty if the cache is incomplete.
    problem: why the revision has no valid result, to follow "NAME: " in a message; "" if the result is valid.
    """

    revision: Revision
    params: Mapping[str, Any]
    lock: StageRecords
    metrics: Mapping[str, Any]
    curves: Mapping[str, Curve]
    scores: Mapping[str, Path]
    problem: str

    @property
    def is_complete(self) -> bool:
        """Whether the result is valid and its scores are in DVC's cache, so that it can be compared."""
        return bool(self.scores) and not self.problem

    @property
    def author_word(self) -> str:
        """Word for the level above a work in this corpus, such as "author" or "collection"."""
        return author_word(self.params["download"]["corpus"])

    @functools.cached_property
    def flat_params(self) -> Mapping[str, Any]:
        """Parameters by dotted name, section.key."""
        return flatten(self.params)

    @functools.cached_property
    def about(self) -> Mapping[str, Any]:
        """Content of about.json of the scores: windows, alphabet, digests of the texts, models."""
        return dict(json.loads(self.scores["about.json"].read_bytes()))

    @functools.cached_property
    def characters(self) -> CharScores:
        """Scores of every character."""
        return CharScores.read(self.scores)


def results_of(names: Sequence[str]) -> list[Result]:
    """Return the results with these names. All are complete: missing files are fetched from DVC's remote.

    Raises:
        BukvaError: a name is unknown or has no result. The message contains the command that produces it.
    """
    results = read_results(map(_with_results, names))
    if missing := [result.revision for result in results if not result.problem and not result.scores]:
        with contextlib.suppress(BukvaError):  # there is no remote, or the files are not there either
            fetch(missing, paths()["scores"])
        results = read_results([result.revision for result in results])
    for result in results:
        if not result.is_complete:
            problem = result.problem or f"{paths()['scores']} is neither in DVC's cache nor on a remote"
            again = "dvc repro" if result.revision.is_workspace else rerun_command(result.revision.name, result.params)
            raise BukvaError(f"{result.revision.name}: {problem}. Run `{again}`.")
    return results


def default_baseline() -> str:
    """Return the name of the default baseline.

    It is HEAD if its results are available, otherwise the experiment `baseline`, otherwise the workspace.

    Raises:
        BukvaError: only the workspace is left, and it contains the results of an experiment.
    """
    for name in ("HEAD", baseline.NAME):
        with contextlib.suppress(BukvaError):  # nothing has this name
            if read_results([resolve(name)])[0].is_complete:
                return name
    if experiments() and git("diff", "--name-only", "HEAD", "--", PARAMS):
        raise BukvaError(
            "There is no baseline: the results of the last commit are not saved, and the checkout contains the results "
            f"of an experiment. Run `git checkout HEAD {PARAMS} && make repro`."
        )
    return WORKSPACE


def read_results(revisions: Iterable[Revision]) -> list[Result]:
    """Read the results of revisions. A result may be incomplete: see Result.problem and Result.scores."""
    return [_read(revision) for revision in revisions]


def _with_results(name: str) -> Revision:
    """Resolve a name. If HEAD has no results, return the experiment `baseline` that started from it, if it exists."""
    revision = resolve(name)
    if name == "HEAD" and read_results([revision])[0].problem:
        saved = [each for each in experiments() if (each.name, each.baseline) == (baseline.NAME, revision.commit)]
        if saved:
            print(f"HEAD has no results. Using the experiment `{baseline.NAME}` instead.", file=sys.stderr)
        return saved[0] if saved else revision
    return revision


def _read(revision: Revision) -> Result:
    curves = {name: model.curve.as_posix() for name, model in trained_models().items()}
    files = {path: _content(revision, path) for path in (PARAMS, LOCK, paths()["metrics"], *curves.values())}
    params, lock = parse_yaml(files[PARAMS].decode(errors="replace")), parse_lock(files[LOCK].decode(errors="replace"))
    if problem := _problem(revision, params, lock, files):
        return Result(revision, params, lock, {}, {}, {}, problem)
    return Result(
        revision=revision,
        params=params,
        lock=lock,
        metrics=json.loads(files[paths()["metrics"]] or b"{}"),  # an old commit may have the metrics elsewhere
        curves={name: _curve(files[path].decode()) for name, path in curves.items() if files[path]},
        scores=cached_files(lock[STAGE].outs[paths()["scores"]]),
        problem="",
    )


def _problem(revision: Revision, params: Mapping[str, Any], lock: StageRecords, files: Mapping[str, bytes]) -> str:
    """Return why the files of a revision are not the result of a single run; "" if they are."""
    if not params:
        return f"{PARAMS} is missing or not valid"
    if STAGE not in lock or not {paths()["scores"], paths()["score_table"]} <= lock[STAGE].outs.keys():
        return f"stage {STAGE} has not run"
    now = digests(all_sources(STAGE, lock)) if revision.is_workspace else {}
    if changed := next(changes(STAGE, lock, flatten(params), now), ""):
        return changed
    for path, md5 in outputs(lock).items():  # a failed experiment still has the scores of the commit it started from
        if path in files and hashlib.md5(files[path]).hexdigest() != md5:
            return f"{path} differs from the file recorded in {LOCK}"
    return ""


def _content(revision: Revision, path: str) -> bytes:
    """Return the content of a file of a revision; empty if the file does not exist."""
    if not revision.is_workspace:
        return file_at(revision.commit, path)
    file = project_root() / path
    return file.read_bytes() if file.is_file() else b""


def _curve(text: str) -> Curve:
    rows = [row for row in csv.DictReader(text.splitlines()) if row.get("val_nats_per_char")]
    return [(int(row["step"]), int(row["chars_seen"]), float(row["val_nats_per_char"])) for row in rows]


# ---- reproducibility


def verify(name: str, numerics: Mapping[str, str]) -> tuple[list[str], str]:
    """Check whether this checkout and machine would reproduce a result exactly.

    The code and data that produced the result are compared with the checkout, and its numerics with those of this
    machine (backends/device.py). Parameters are not compared, because the command that reproduces the result sets them.

    Returns:
        The differences, one phrase each (empty if the result is reproducible), and the command that reproduces it.

    Raises:
        BukvaError: the name is unknown, or has no result.
    """
    [result] = read_results([resolve(name)])
    stages = [stage for stage in recorded_stages() if stage in result.lock]
    if not stages:
        raise BukvaError(f"{name} has no results ({LOCK} is missing or empty).")
    now = digests({path for stage in stages for path in all_sources(stage, result.lock)})
    differences = [change for stage in stages for change in changes(stage, result.lock, result.flat_params, now)]
    if result.scores:
        recorded = result.about["models"]["gpt"]["numerics"]
        keys = [key for key in dict.fromkeys([*recorded, *numerics]) if recorded.get(key) != numerics.get(key)]
        differences += [f"trained with {key} {recorded.get(key)}, this machine has {numerics.get(key)}" for key in keys]
    else:
        differences.append("the arithmetic of its training is unknown, because its scores are not in DVC's cache")
    return list(dict.fromkeys(differences)), rerun_command(name, result.params)


# ---- outputs as files


@contextlib.contextmanager
def as_checkout(result: Result, needed: set[str]) -> Iterator[Path]:
    """Provide a folder with outputs of a revision: the project, or a temporary folder with links into DVC's cache.

    needed: paths of outputs in dvc.yaml. Outputs that the revision does not have are absent from the folder.

    Raises:
        BukvaError: the files of an output are neither in git nor in DVC's cache.
    """
    if result.revision.is_workspace:
        yield project_root()
        return
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        for path, digest in outputs(result.lock).items():
            if path not in needed:
                continue
            if content := file_at(result.revision.commit, path):
                write_text(Path(folder, path), content.decode())
            elif files := cached_files(digest):
                _link(Path(folder, path), files)
            else:
                raise BukvaError(
                    f"{result.revision.name}: {path} is not in DVC's cache. Fetch it: `dvc pull --all-commits`, "
                    f"or compute it again: `{rerun_command(result.revision.name, result.params)}`."
                )
        yield Path(folder)


@contextlib.contextmanager
def as_folder(files: Mapping[str, Path]) -> Iterator[Path]:
    """Provide a temporary folder with links to files that DVC's cache stores under other names."""
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        _link(Path(folder), files)
        yield Path(folder)


def _link(output: Path, files: Mapping[str, Path]) -> None:
    for name, file in files.items():
        link = output / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
