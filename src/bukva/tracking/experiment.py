"""Describe the experiment to which the running stage belongs: name, commit, parameters, edited code and datasets."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError, redact_params
from bukva.core.files import dvc_variable, read_json, sha256
from bukva.core.messages import shorten
from bukva.core.params import PARAMS, flatten
from bukva.core.schema import Params
from bukva.core.words import few
from bukva.project import baseline
from bukva.project.baseline import edited_files, hidden_texts, lock_at, undo_command
from bukva.project.cache import digests
from bukva.project.lock import dependencies, digest, parse_yaml, read_lock
from bukva.project.revisions import UNDO_PREFIX, file_at, head, head_or_empty
from bukva.project.stages import paths, stages

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
STAGE = "DVC_STAGE"  # DVC sets it for every stage
READERS = "download", "clean"  # stages that read the user's files
# splits that a stage reads, by kind of stage
READ_BY: dict[str, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}


@dataclass(frozen=True)
class Experiment:
    """The experiment to which a stage belongs.

    experiment: name of the DVC experiment; for a `dvc repro`, a name made from the commit.
    commit: commit from which the experiment started, or "" before the first commit of the project.
    params: all parameters, by dotted key such as `model.n_head`, without secrets in URLs.
    changed: parameters that differ from `commit`, such as `model.n_head=8`.
    edited: folders of code, and texts, that differ from `commit`.
    key: identifier. The name is not enough, because DVC can give it to a later experiment.
    """

    experiment: str
    commit: str
    params: dict[str, Any]
    changed: list[str]
    edited: list[str]
    key: str

    @property
    def shown(self) -> str:
        """Name of the experiment for users."""
        is_baseline = self.commit and self.experiment == name_of_repro(self.commit)
        return baseline.NAME if is_baseline else self.experiment

    @property
    def label(self) -> str:
        """Name of its run in MLflow unless another run has it, such as `bumpy-vara: n_head=8`."""
        n_sections = Counter(key.partition(".")[2] for key in self.params)  # in which a key occurs
        changes = []
        for change in self.changed:
            brief = change.partition(".")[2]
            is_clear = n_sections[brief.partition("=")[0]] == 1
            changes.append(brief if is_clear else change.removeprefix("train_"))
        changes += [f"edited {Path(folder).name}" for folder in self.edited]
        return f"{self.shown}: {', '.join(few(changes))}" if changes else self.shown

    @property
    def edits(self) -> str:
        """Short list of what was edited, because databases refuse long tags."""
        return ", ".join(few(self.edited))


def this_experiment(params: Params) -> Experiment:
    """Describe the experiment to which the running stage belongs."""
    commit, flat = dvc_variable(BASELINE) or head_or_empty(), flatten(redact_params(params.model_dump()))
    committed = flatten(parse_yaml(file_at(commit, PARAMS).decode(errors="replace")))
    texts = [flat[key] for key in baseline.TEXTS]
    edited = _edited(texts, commit) if commit else {}
    name = name_of_repro(commit)
    if commit and (flat != committed or edited):
        name += f"-{digest([flat, edited])[:8]}"
    name = dvc_variable(NAME) or name
    return Experiment(
        experiment=name,
        commit=commit,
        params=flat,
        changed=[f"{key}={shorten(flat[key])}" for key in flat if committed.get(key, flat[key]) != flat[key]],
        edited=list(dict.fromkeys(_folder(path, texts) for path in edited)),
        key=digest([name, commit, flat, edited]),
    )


def name_of_repro(commit: str) -> str:
    """Return the experiment name for a plain `dvc repro`, such as `repro-1a2b3c4`. `commit` may be ""."""
    return f"repro-{commit[:7] or 'uncommitted'}"


def _edited(texts: Sequence[str], commit: str) -> dict[str, str]:
    """Return a digest of each file of code or text that differs from `commit`, and of each text that git cannot see."""
    code = {dep for stage in stages().values() for dep in stage.deps if not dep.startswith("${")} - {*paths().values()}
    with contextlib.suppress(BukvaError):  # the stage does not run in a git repository
        hidden = hidden_texts(texts)
        files = map(Path, edited_files(code.union(texts).difference(hidden)))
        edited = {str(file): sha256(file) if file.is_file() else "" for file in files}
        is_recorded = not hidden or dvc_variable(STAGE) not in READERS  # DVC records a stage when it has ended
        now, committed = dependencies(read_lock()) if is_recorded else digests(hidden), dependencies(lock_at(commit))
        return edited | {text: now.get(text, "") for text in hidden if now.get(text) != committed.get(text)}
    return {}


def _folder(path: str, texts: Sequence[str]) -> str:
    """Return the text that contains an edited file, or the folder of code."""
    n_parts = 3 if path.startswith("src/") else 2
    return next((text for text in texts if Path(path).is_relative_to(text)), "/".join(Path(path).parts[:n_parts]))


def print_uncommitted(params: Params) -> None:
    """Print the uncommitted changes of params.yaml, and the command that restores the file.

    A queued experiment prints nothing, because no other experiment starts from its copy of the project.
    """
    head()  # raises RefusedError if another user owns the folder
    experiment = this_experiment(params)
    if experiment.changed and (command := undo_command()):
        print(
            f"params.yaml differs from commit {experiment.commit[:7]}: {', '.join(experiment.changed)}. The next "
            f"experiment will start from these values. {UNDO_PREFIX}{command}"
        )


def datasets(kind: str, params: Params) -> list[dict[str, Any]]:
    """Describe the splits that a stage of this kind reads, with DVC's digests; [] before stage split has run."""
    try:
        record = read_lock()["split"]
        md5, text = record.outs[paths()["split"]], record.deps.get(paths()["clean"], "")
        report = read_json(Path(paths()["split_report"]))
    except (OSError, ValueError, KeyError):  # the files do not exist yet, or DVC is writing them
        return []
    corpus = params.download.corpus
    shared = {"digest": md5, "text": text, "source": {"corpus": corpus, "path": paths()["split"]}}
    return [
        {"name": f"{corpus}/{split}", "split": split, "profile": {"characters": report[split]["chars"]}, **shared}
        for split in READ_BY.get(kind, ())
        if split in report
    ]
