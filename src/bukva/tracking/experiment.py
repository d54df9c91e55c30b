"""The experiment that a stage belongs to: its name, baseline commit, parameters and datasets."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.messages import shorten
from bukva.config.schema import Params
from bukva.core.errors import redact_url
from bukva.core.files import project_root, read_json
from bukva.project.baseline import UNDO_PREFIX, undo_command
from bukva.project.lock import digest, parse_yaml, read_lock
from bukva.project.revisions import file_at, head, head_or_empty
from bukva.project.stages import paths

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
READ_BY: dict[str, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}
MAX_NAMED = 3  # changed parameters that a label names


@dataclass(frozen=True)
class Experiment:
    """An experiment of DVC, or a plain `dvc repro`.

    name: name that DVC gave the experiment, or a name made from the commit.
    commit: commit that the experiment started from; "" before the first commit.
    params: all parameters of params.yaml, with dotted keys.
    changed: parameters that differ from the commit, each as `model.n_head=8`.
    """

    name: str
    commit: str
    params: dict[str, Any]
    changed: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Digest of name, commit and parameters that identifies the experiment.

        The name alone is ambiguous, because DVC reuses a name after `dvc exp remove` or with `-f`. A reused name needs
        a new run in MLflow, because the parameters of a run cannot change.
        """
        return digest([self.name, self.commit, self.params])

    @property
    def label(self) -> str:
        """Name of the experiment's run in MLflow, such as `bumpy-vara: n_head=8`.

        MLflow shows about 20 characters of a name, so the section of a parameter is left out if the rest is unique.
        """
        more = len(self.changed) - MAX_NAMED
        parts = [*map(self._brief, self.changed[:MAX_NAMED]), *([f"{more} more"] if more > 0 else [])]
        return f"{self.name}: {', '.join(parts)}" if parts else self.name

    def _brief(self, changed: str) -> str:
        """Return `n_head=8` for `model.n_head=8`, but `gpt.seed=1` for `train_gpt.seed=1`.

        Several sections have a `seed`, so `seed=1` would be ambiguous.
        """
        brief = changed.partition(".")[2]
        keys = [key.partition(".")[2] for key in self.params]
        return brief if keys.count(brief.partition("=")[0]) == 1 else changed.removeprefix("train_")


def this_experiment(params: Params) -> Experiment:
    """Return the experiment of the stage that is running."""
    commit, flat = baseline(), flatten(params.model_dump())
    committed = flatten(parse_yaml(file_at(commit, "params.yaml").decode(errors="replace")))
    name = name_of_repro(commit)
    if commit and flat != committed:
        name = f"{name}-{digest(flat)[:8]}"
    changed = [key for key, value in flat.items() if key in committed and committed[key] != value]
    flat["download.url"] = redact_url(params.download.url)  # a query may contain a token, and many people read MLflow
    texts = tuple(f"{key}={shorten(flat[key])}" for key in changed)
    return Experiment(os.environ.get(NAME) or name, commit, flat, texts)


def name_of_repro(commit: str) -> str:
    """Return the name of the experiment that `dvc repro` runs at a commit."""
    return f"repro-{commit[:7] or 'uncommitted'}"


def baseline() -> str:
    """Return the commit that the experiment started from, or "" before the first commit."""
    return os.environ.get(BASELINE) or head_or_empty()


def print_uncommitted(params: Params) -> None:
    """Print one line that names the uncommitted changes of params.yaml and the command that undoes them.

    Nothing is printed in the snapshot of a queued experiment, because no other experiment starts from a snapshot.

    Raises:
        RefusedError: git refuses to read the project, because another user owns it.
    """
    head()
    experiment = this_experiment(params)
    if experiment.changed and Path.cwd().resolve() == project_root():
        print(
            f"params.yaml differs from {experiment.commit[:7]}: {', '.join(experiment.changed)}. The next experiment "
            f"will start from these values. {UNDO_PREFIX}{undo_command()}"
        )


def datasets(kind: str, params: Params) -> list[dict[str, Any]]:
    """Return the splits that a stage of this kind reads, as datasets for MLflow.

    Each dataset has a name, a source, a split and a length. Its `digest` is DVC's digest of the folder of all splits,
    and `text` is DVC's digest of the cleaned text. The list is empty before stage split has run.
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
