"""The result of a revision: parameters, dvc.lock, metrics, the scores of every character, and its outputs as files.

Everything comes from git's objects and DVC's cache, and nothing changes the checkout.
"""

import contextlib
import csv
import functools
import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.schema import author_word
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import cached_files, digests
from bukva.project.commands import rerun
from bukva.project.lock import LOCK, PARAMS, StageRecords, all_sources, changes, parse_lock, parse_yaml
from bukva.project.revisions import WORKSPACE, Revision, fetch, resolve, show
from bukva.project.stages import paths, trained_models
from bukva.text.scores import CharScores, files_of

STAGE = "evaluate"  # makes the scores


@dataclass(frozen=True)
class Training:
    """How long a model was trained, and how that went.

    val: step, characters seen and nats per character of every scoring of val.
    """

    steps: int
    chars_seen: int
    val: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True)
class Result:
    """What is known of one revision.

    params: sections of params.yaml.
    lock: the stages of dvc.lock.
    metrics: the content of metrics.json.
    trainings: by the name of the model.
    scores: the files of data/scores by their names in it, "gpt/val.npy" and so on; empty if DVC's cache lacks some.
    problem: why this is no result that can be compared, as the rest of a sentence; "" if it is one.
    """

    revision: Revision
    params: Mapping[str, Any]
    lock: StageRecords
    metrics: Mapping[str, Any]
    trainings: Mapping[str, Training]
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
    results = read_results(resolve(names))
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


def read_results(revisions: Iterable[Revision]) -> list[Result]:
    """The results of revisions, as far as they go: some may have a problem, or lack the files of their scores."""
    return [_read(revision) for revision in revisions]


def read_here() -> Result:
    """The result in the current folder, which may be a snapshot of DVC's queue; DVC has just made it."""
    return _result(Revision(WORKSPACE, ""), _files(Path()), files_of(Path(paths()["scores"])))


def _read(revision: Revision) -> Result:
    files = _files(project_root()) if revision.is_workspace else {path: show(revision.commit, path) for path in _kept()}
    params, lock = _sections(files), parse_lock(files[LOCK].decode(errors="replace"))
    if problem := _problem(revision, params, lock, files):
        return Result(revision, params, lock, {}, {}, {}, problem)
    return _result(revision, files, cached_files(lock[STAGE].outs[paths()["scores"]]))


def _result(revision: Revision, files: Mapping[str, bytes], scores: Mapping[str, Path]) -> Result:
    return Result(
        revision=revision,
        params=_sections(files),
        lock=parse_lock(files[LOCK].decode()),
        metrics=json.loads(files[paths()["metrics"]] or b"{}"),  # a commit may have had them elsewhere
        trainings={
            name: _training(files[model.curve.as_posix()])
            for name, model in trained_models().items()
            if files[model.curve.as_posix()]
        },
        scores=scores,
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
    recorded = {path: md5 for entry in lock.values() for path, md5 in entry.outs.items() if path in files}
    for path, md5 in recorded.items():  # a failed experiment has the scores of the commit that it started from
        if hashlib.md5(files[path]).hexdigest() != md5:
            return f"{path} is not the file that {LOCK} recorded"
    return ""


def _kept() -> list[str]:
    """The files of a result that git keeps."""
    curves = (model.curve.as_posix() for model in trained_models().values())
    return [PARAMS, LOCK, paths()["metrics"], *curves]


def _files(folder: Path) -> dict[str, bytes]:
    """The same of a folder; empty where there is none."""
    return {path: (folder / path).read_bytes() if (folder / path).is_file() else b"" for path in _kept()}


def _sections(files: Mapping[str, bytes]) -> dict[str, Any]:
    return parse_yaml(files[PARAMS].decode(errors="replace"))


def _training(curve: bytes) -> Training:
    rows = list(csv.DictReader(curve.decode().splitlines()))
    scored = [row for row in rows if row.get("val_nats_per_char")]
    val = tuple((int(row["step"]), int(row["chars_seen"]), float(row["val_nats_per_char"])) for row in scored)
    return Training(int(rows[-1]["step"]), int(rows[-1]["chars_seen"]), val)


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
        for entry in result.lock.values():
            for path in needed & entry.outs.keys():
                place = Path(folder, path)
                if kept := show(result.revision.commit, path):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(kept)
                elif files := cached_files(entry.outs[path]):
                    _link(place, files)
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


def digest_of(result: Result, model: str) -> str:
    """DVC's digest of the folder of a model; "" if the revision has none."""
    trained = trained_models()[model]
    entry = result.lock.get(trained.stage)
    return entry.outs.get(trained.folder.as_posix(), "") if entry else ""
