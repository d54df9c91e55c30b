"""Describe the experiment to which the running stage belongs: name, commit, parameters, edited code and datasets."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import read_json, sha256
from bukva.core.messages import shorten
from bukva.core.params import flatten
from bukva.core.schema import Params
from bukva.project import baseline as saved
from bukva.project.baseline import edited_files, undo_command
from bukva.project.lock import digest, parse_yaml, read_lock
from bukva.project.revisions import UNDO_PREFIX, file_at, head, head_or_empty
from bukva.project.stages import paths, stages

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
# splits that a stage reads, by kind of stage
READ_BY: dict[str, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}
MAX_NAMED = 3  # maximum number of changes in a label


@dataclass(frozen=True)
class Experiment:
    """One run of the pipeline, by `dvc exp run` or by a plain `dvc repro`.

    name: name of the DVC experiment; for `dvc repro`, it is made from the commit.
    commit: commit from which the experiment started, or "" before the first commit of the project.
    params: all parameters, by dotted key such as `model.n_head`.
    changed: parameters that differ from `commit`, each as text such as `model.n_head=8`.
    edited: digest of each file of code or text that stages read and that differs from `commit`, by path.
    """

    name: str
    commit: str
    params: dict[str, Any]
    changed: tuple[str, ...] = ()
    edited: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Unique identifier of the experiment.

        After `dvc exp remove`, or with `dvc exp run -f`, DVC can give the same name to another experiment. That
        experiment needs a new MLflow run, because the parameters of a run cannot change.
        """
        return digest([self.name, self.commit, self.params, *([self.edited] if self.edited else [])])

    @property
    def shown(self) -> str:
        """Name of the experiment for users. A `dvc repro` of a commit without changes is the baseline."""
        return saved.NAME if self.commit and self.name == name_of_repro(self.commit) else self.name

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of the edited files, such as src/bukva/models."""
        return tuple(dict.fromkeys(_folder(path) for path in self.edited))

    @property
    def label(self) -> str:
        """Name of the experiment's run in MLflow, such as `bumpy-vara: n_head=8`. It is short, as MLflow cuts names."""
        changes = [*map(self._brief, self.changed), *(f"edited {Path(folder).name}" for folder in self.folders)]
        more = len(changes) - MAX_NAMED
        parts = [*changes[:MAX_NAMED], *([f"{more} more"] if more > 0 else [])]
        return f"{self.shown}: {', '.join(parts)}" if parts else self.shown

    def _brief(self, changed: str) -> str:
        brief = changed.partition(".")[2]
        keys = [key.partition(".")[2] for key in self.params]
        return brief if keys.count(brief.partition("=")[0]) == 1 else changed.removeprefix("train_")


def this_experiment(params: Params) -> Experiment:
    """Return the experiment to which the running stage belongs."""
    commit, flat = baseline(), flatten(params.model_dump())
    committed = flatten(parse_yaml(file_at(commit, "params.yaml").decode(errors="replace")))
    name = name_of_repro(commit)
    edited = _edited(params) if commit else {}
    if commit and (flat != committed or edited):
        name = f"{name}-{digest([flat, edited] if edited else flat)[:8]}"
    changed = [key for key, value in flat.items() if key in committed and committed[key] != value]
    flat["download.url"] = redact_url(params.download.url)  # the URL may contain a token, and many people read MLflow
    texts = tuple(f"{key}={shorten(flat[key])}" for key in changed)
    return Experiment(os.environ.get(NAME) or name, commit, flat, texts, edited)


def _edited(params: Params) -> dict[str, str]:
    texts = {"${download.path}": params.download.path, "${clean.file}": params.clean.file}
    deps = {str(texts.get(dep, dep)) for stage in stages().values() for dep in stage.deps}
    with contextlib.suppress(BukvaError):  # the stage does not run in a git repository
        files = edited_files(deps - set(paths().values()), Path.cwd())
        return {path: sha256(Path(path)) if Path(path).is_file() else "" for path in files}
    return {}


def _folder(path: str) -> str:
    """Return src/bukva/models for src/bukva/models/ngrams/trie.py, and stages/sample.py for itself."""
    parts = Path(path).parts
    return "/".join(parts[: 3 if parts[0] == "src" else 2])


def name_of_repro(commit: str) -> str:
    """Return the experiment name for a plain `dvc repro`, such as `repro-1a2b3c4`. `commit` may be ""."""
    return f"repro-{commit[:7] or 'uncommitted'}"


def baseline() -> str:
    """Return the commit from which the running experiment started, or "" before the first commit of the project."""
    return os.environ.get(BASELINE) or head_or_empty()


def print_uncommitted(params: Params) -> None:
    """Print the uncommitted changes of params.yaml, and the command that restores the file.

    Print nothing in a queued experiment, because no other experiment starts from its copy of the project.

    Raises:
        RefusedError: git refuses to read the project, because another user owns the folder.
    """
    head()
    experiment = this_experiment(params)
    if experiment.changed and (command := undo_command()):
        print(
            f"params.yaml differs from commit {experiment.commit[:7]}: {', '.join(experiment.changed)}. The next "
            f"experiment will start from these values. {UNDO_PREFIX}{command}"
        )


def datasets(kind: str, params: Params) -> list[dict[str, Any]]:
    """Describe the splits that a stage of this kind reads, one dict for each. `digest` and `text` are digests of DVC.

    The list is empty if stage split has not run yet.
    """
    try:
        record = read_lock()["split"]
        md5, text = record.outs[paths()["split"]], record.deps.get(paths()["clean"], "")
        report = read_json(Path(paths()["split_report"]))
    except (OSError, ValueError, KeyError):  # the files do not exist yet, or DVC is writing them
        return []
    corpus = params.download.corpus
    return [
        {
            "name": f"{corpus}/{split}",
            "digest": md5,
            "text": text,
            "source": {"corpus": corpus, "path": paths()["split"]},
            "split": split,
            "profile": {"characters": report[split]["chars"]},
        }
        for split in READ_BY.get(kind, ())
        if split in report
    ]
