"""The result of a revision: parameters, dvc.lock, metrics, the scores of every character, and its outputs as files.

Everything comes from git's objects and DVC's cache, and nothing changes the checkout.
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
from bukva.project.commands import rerun
from bukva.project.lock import LOCK, PARAMS, StageRecords, all_sources, changes, outputs, parse_lock, parse_yaml
from bukva.project.revisions import WORKSPACE, Revision, experiments, fetch, git, resolve, show
from bukva.project.stages import paths, recorded_stages, trained_models
from bukva.text.scores import CharScores

STAGE = "evaluate"  # makes the scores


Curve = list[tuple[int, int, float]]  # step, characters seen, nats per character of every scoring of val


@dataclass(frozen=True)
class Result:
    """What is known of one revision.

    params: sections of params.yaml.
    lock: the stages of dvc.lock.
    metrics: the content of metrics.json.
    curves: by the name of the model; the last scoring is at the end of the training.
    scores: the files of data/scores by their names in it, "gpt/val.npy" and so on; empty if DVC's cache lacks some.
    problem: why this is no result that can be compared, as the rest of a sentence; "" if it is one.
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
        """Whether it can be compared at once."""
        return bool(self.scores) and not self.problem

    @property
    def author_word(self) -> str:
        """What its corpus calls the level above a work."""
        return author_word(self.params["download"]["corpus"])

    @functools.cached_property
    def flat_params(self) -> Mapping[str, Any]:
        """Values by section.key."""
        return flatten(self.params)

    @functools.cached_property
    def about(self) -> Mapping[str, Any]:
        """about.json of the scores: window rule, alphabet, digests of the text, models."""
        return dict(json.loads(self.scores["about.json"].read_bytes()))

    @functools.cached_property
    def characters(self) -> CharScores:
        """The scores of every character."""
        return CharScores.read(self.scores)


def results_of(names: Sequence[str]) -> list[Result]:
    """The results of these names, all complete; files that the cache lacks are fetched from DVC's remote.

    Raises:
        BukvaError: a name is unknown, or has no result; the sentence has the command that makes one.
    """
    results = read_results(map(_with_results, names))
    if missing := [result.revision for result in results if not result.problem and not result.scores]:
        with contextlib.suppress(BukvaError):  # there is no remote, or it lacks them, too
            fetch(missing, paths()["scores"])
        results = read_results([result.revision for result in results])
    for result in results:
        if not result.is_complete:
            problem = result.problem or f"{paths()['scores']} is neither in DVC's cache nor on a remote"
            again = "dvc repro" if result.revision.is_workspace else rerun(result.revision.name, result.params)
            raise BukvaError(f"{result.revision.name}: {problem}; run `{again}`.")
    return results


def default_baseline() -> str:
    """Return the name that experiments are compared with: HEAD if its results are here, else the experiment `baseline`.

    The checkout itself serves before anything is saved, unless it has an experiment.

    Raises:
        BukvaError: it has one; says how to make a baseline.
    """
    for name in ("HEAD", baseline.NAME):
        with contextlib.suppress(BukvaError):  # there is none of this name
            if read_results([resolve(name)])[0].is_complete:
                return name
    if experiments() and git("diff", "--name-only", "HEAD", "--", PARAMS):
        raise BukvaError(
            "There is no baseline: the results of the last commit are not saved, and the checkout has those of an "
            f"experiment; run `git checkout HEAD {PARAMS} && make repro`."
        )
    return WORKSPACE


def read_results(revisions: Iterable[Revision]) -> list[Result]:
    """The results of revisions, as far as they go: some may have a problem, or lack the files of their scores."""
    return [_read(revision) for revision in revisions]


def _with_results(name: str) -> Revision:
    """Resolve a name; HEAD without results stands for the experiment `baseline`."""
    revision = resolve(name)
    if name == "HEAD" and read_results([revision])[0].problem:
        saved = [one for one in experiments() if (one.name, one.baseline) == (baseline.NAME, revision.commit)]
        if saved:
            print(f"HEAD has no results of its own; experiment {baseline.NAME} stands for it.", file=sys.stderr)
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
        metrics=json.loads(files[paths()["metrics"]] or b"{}"),  # a commit may have had them elsewhere
        curves={name: _curve(files[path].decode()) for name, path in curves.items() if files[path]},
        scores=cached_files(lock[STAGE].outs[paths()["scores"]]),
        problem="",
    )


def _problem(revision: Revision, params: Mapping[str, Any], lock: StageRecords, files: Mapping[str, bytes]) -> str:
    """Why the files of a revision are not the result of one run; "" if they are."""
    if not params:
        return f"has no valid {PARAMS}"
    if STAGE not in lock or not {paths()["scores"], paths()["score_table"]} <= lock[STAGE].outs.keys():
        return f"stage {STAGE} has not run"
    now = digests(all_sources(STAGE, lock)) if revision.is_workspace else {}
    if changed := next(changes(STAGE, lock, flatten(params), now), ""):
        return changed
    for path, md5 in outputs(lock).items():  # a failed experiment has the scores of the commit that it started from
        if path in files and hashlib.md5(files[path]).hexdigest() != md5:
            return f"{path} is not the file that {LOCK} recorded"
    return ""


def _content(revision: Revision, path: str) -> bytes:
    """A file of a revision; empty if there is none."""
    if not revision.is_workspace:
        return show(revision.commit, path)
    file = project_root() / path
    return file.read_bytes() if file.is_file() else b""


def _curve(text: str) -> Curve:
    rows = [row for row in csv.DictReader(text.splitlines()) if row.get("val_nats_per_char")]
    return [(int(row["step"]), int(row["chars_seen"]), float(row["val_nats_per_char"])) for row in rows]


# ---- can it be made again?


def verify(name: str, numerics: Mapping[str, str]) -> tuple[list[str], str]:
    """Compare what made a result with the checkout, and with the numerics of this machine (backends/device.py).

    The parameters are those of the result: whoever makes it again gives them to DVC.

    Returns:
        What keeps the checkout from making it again, in a phrase each; and the command that makes it again.

    Raises:
        BukvaError: the name is unknown, or has no result.
    """
    [result] = read_results([resolve(name)])
    stages = [stage for stage in recorded_stages() if stage in result.lock]
    if not stages:
        raise BukvaError(f"{name}: has no result: it has no dvc.lock.")
    now = digests({path for stage in stages for path in all_sources(stage, result.lock)})
    found = [change for stage in stages for change in changes(stage, result.lock, result.flat_params, now)]
    if result.scores:
        there = result.about["models"]["gpt"]["numerics"]
        other = [key for key in dict.fromkeys([*there, *numerics]) if there.get(key) != numerics.get(key)]
        found += [f"trained with {key} {there.get(key)}, and here it is {numerics.get(key)}" for key in other]
    else:
        found.append("the arithmetic of its training is unknown, because its scores are not in DVC's cache")
    return list(dict.fromkeys(found)), rerun(name, result.params)


# ---- outputs as files


@contextlib.contextmanager
def as_checkout(result: Result, needed: set[str]) -> Iterator[Path]:
    """A folder with these outputs of a revision: the project, or a temporary one with links into DVC's cache.

    needed: paths of dvc.yaml; those that the revision does not have are absent.

    Raises:
        BukvaError: the revision has one whose files are neither in git nor in DVC's cache.
    """
    if result.revision.is_workspace:
        yield project_root()
        return
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        for path, digest in outputs(result.lock).items():
            if path not in needed:
                continue
            if kept := show(result.revision.commit, path):
                write_text(Path(folder, path), kept.decode())
            elif files := cached_files(digest):
                _link(Path(folder, path), files)
            else:
                raise BukvaError(
                    f"{result.revision.name}: {path} is not in DVC's cache; fetch it with `dvc pull --all-commits` "
                    f"or run `{rerun(result.revision.name, result.params)}`."
                )
        yield Path(folder)


@contextlib.contextmanager
def as_folder(files: Mapping[str, Path]) -> Iterator[Path]:
    """A folder with links to these files, which the cache keeps under other names; it is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        _link(Path(folder), files)
        yield Path(folder)


def _link(output: Path, files: Mapping[str, Path]) -> None:
    for name, file in files.items():
        place = output / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(file)
