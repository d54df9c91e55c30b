"""The result of a revision: its parameters, what dvc.lock recorded, scores, and the scores of every character.

Everything comes from git's objects and DVC's cache, as both keep it on disk, and nothing changes the checkout.
"""

import csv
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.schema import author_word
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import cached_files, has_remote
from bukva.project.commands import rerun
from bukva.project.lock import (
    LOCK,
    PARAMS,
    PIPELINE,
    StageRecords,
    declared,
    differences,
    parse_lock,
    parse_yaml,
    present,
)
from bukva.project.revisions import WORKSPACE, Blob, Revision, fetch, read_blobs, resolve
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
    missing = [result.revision for result in results if not result.problem and not result.scores]
    failed = ""
    if missing and has_remote():
        try:
            fetch(missing, paths()["scores"])
        except BukvaError as error:
            failed = str(error)
        results = read_results([result.revision for result in results])
    for result in results:
        if not result.is_complete:
            raise BukvaError(_refusal(result, failed))
    return results


def read_results(revisions: Iterable[Revision]) -> list[Result]:
    """The results of revisions, as far as they go: some may have a problem, or lack the files of their scores."""
    revisions = list(revisions)
    blobs = read_blobs((one.commit, path) for one in revisions if not one.is_workspace for path in _tracked())
    return [_read(one, _workspace() if one.is_workspace else _of_commit(one.commit, blobs)) for one in revisions]


def read_here() -> Result:
    """The result in the current folder, which may be a snapshot of DVC's queue, while its last stage runs.

    Nothing is checked: DVC has just made its files.
    """
    files = {path: Path(path).read_bytes() for path in _tracked() if Path(path).is_file()}
    return Result(
        revision=Revision(WORKSPACE, ""),
        params=sections_of(files[PARAMS].decode()),
        lock=_lock(files.get(LOCK, b"")),
        metrics=json.loads(files[paths()["metrics"]]),
        trainings=_trainings(files),
        scores=files_of(Path(paths()["scores"])),
        problem="",
    )


def sections_of(text: str) -> Mapping[str, Any]:
    """The sections of a params.yaml; none if it is not YAML."""
    try:
        sections = parse_yaml(text)
    except ValueError:
        return {}
    return sections if isinstance(sections, dict) else {}


def _read(revision: Revision, files: Mapping[str, bytes]) -> Result:
    params, lock = sections_of(files.get(PARAMS, b"").decode(errors="replace")), _lock(files.get(LOCK, b""))
    if problem := next(_problems(revision, params, lock, files), ""):
        return Result(revision, params, lock, {}, {}, {}, problem)
    metrics = json.loads(files.get(paths()["metrics"], b"{}"))  # a commit may have had them elsewhere
    return Result(
        revision, params, lock, metrics, _trainings(files), cached_files(lock[STAGE].outs[paths()["scores"]]), ""
    )


def _trainings(files: Mapping[str, bytes]) -> dict[str, Training]:
    curves = {name: model.curve.as_posix() for name, model in trained_models().items()}
    return {name: _training(files[curve]) for name, curve in curves.items() if curve in files}


def _problems(
    revision: Revision, params: Mapping[str, Any], lock: StageRecords, files: Mapping[str, bytes]
) -> Iterator[str]:
    """Why the files of a revision are not the result of one run, the most telling reason first."""
    if not params:
        yield f"has no valid {PARAMS}"
    if STAGE in lock and paths()["score_table"] not in lock[STAGE].outs:
        yield f"stage {STAGE} ran before it wrote {paths()['score_table']}"
    try:
        expected = present() if revision.is_workspace else declared(files.get(PIPELINE, b"").decode(), params)
        yield from differences(STAGE, lock, expected)
    except (ValueError, KeyError):
        yield f"has no valid {PIPELINE}"
    recorded = {path: md5 for entry in lock.values() for path, md5 in entry.outs.items() if path in _tracked()}
    for path, md5 in recorded.items():  # a failed experiment has the scores of the commit that it started from
        if hashlib.md5(files.get(path, b"")).hexdigest() != md5:
            yield f"{path} is not the file that {LOCK} recorded"


def _refusal(result: Result, failed: str) -> str:
    """The sentence for a result that cannot be compared; `failed` is why DVC could not fetch its files."""
    name = result.revision.name
    problem = (
        result.problem
        or failed.rstrip(".")
        or f"files of {paths()['scores']} are missing in DVC's cache, and no remote is set"
    )
    command = "dvc repro" if result.revision.is_workspace else rerun(name, result.params)
    return f"{name}: {problem}; run `{command}`."


def _tracked() -> list[str]:
    """The files of a result that are small enough for git."""
    return [
        PARAMS,
        PIPELINE,
        LOCK,
        paths()["metrics"],
        *(model.curve.as_posix() for model in trained_models().values()),
    ]


def _of_commit(commit: str, blobs: Mapping[Blob, bytes]) -> dict[str, bytes]:
    return {path: blobs[commit, path] for path in _tracked() if (commit, path) in blobs}


def _workspace() -> dict[str, bytes]:
    return {path: file.read_bytes() for path in _tracked() if (file := project_root() / path).is_file()}


def _lock(content: bytes) -> StageRecords:
    try:
        return parse_lock(content.decode())
    except ValueError:
        return {}


def _training(curve: bytes) -> Training:
    rows = list(csv.DictReader(curve.decode().splitlines()))
    scored = [row for row in rows if row.get("val_nats_per_char")]
    val = tuple((int(row["step"]), int(row["chars_seen"]), float(row["val_nats_per_char"])) for row in scored)
    return Training(int(rows[-1]["step"]), int(rows[-1]["chars_seen"]), val)
