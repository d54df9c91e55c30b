"""The experiment that a stage belongs to: its name, the commit that it started from, all parameters, and its text."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.messages import shorten
from bukva.config.schema import Params
from bukva.core.errors import redact_url
from bukva.core.files import project_root, read_json
from bukva.project.baseline import WAY_BACK, way_back
from bukva.project.lock import digest, parse_yaml, read_lock
from bukva.project.revisions import head, show
from bukva.project.stages import paths

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
READ_BY: dict[str, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}
MOST_CHANGED = 3  # parameters that a label names


@dataclass(frozen=True)
class Experiment:
    """A name, a commit ("" before the first one) and all of params.yaml with dotted keys.

    changed: the parameters that differ from those of the commit, each as `model.n_head=8`.
    """

    name: str
    commit: str
    params: dict[str, Any]
    changed: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Distinguishes experiments.

        The name does not: DVC uses one again after `dvc exp remove` or with `-f`, and in MLflow the parameters of a
        run cannot change.
        """
        return digest([self.name, self.commit, self.params])

    @property
    def label(self) -> str:
        """The name of its run in MLflow: `bumpy-vara: n_head=8`.

        MLflow shows about 20 characters of a name, so a parameter is named without its section where that is unique.
        """
        more = len(self.changed) - MOST_CHANGED
        parts = [*map(self._brief, self.changed[:MOST_CHANGED]), *([f"{more} more"] if more > 0 else [])]
        return f"{self.name}: {', '.join(parts)}" if parts else self.name

    def _brief(self, changed: str) -> str:
        """`n_head=8` for model.n_head=8, but `gpt.seed=1` for train_gpt.seed=1, because other sections have a seed."""
        brief = changed.partition(".")[2]
        keys = [key.partition(".")[2] for key in self.params]
        return brief if keys.count(brief.partition("=")[0]) == 1 else changed.removeprefix("train_")


def this_experiment(params: Params) -> Experiment:
    """The experiment of the stage that runs now, with DVC's name for it, else one made from the commit."""
    commit, flat = baseline(), flatten(params.model_dump())
    committed = flatten(parse_yaml(show(commit, "params.yaml").decode(errors="replace")))
    name = name_of_repro(commit)
    if commit and flat != committed:
        name = f"{name}-{digest(flat)[:8]}"
    changed = [key for key, value in flat.items() if key in committed and committed[key] != value]
    flat["download.url"] = redact_url(params.download.url)  # a query may contain a token, and many people read MLflow
    texts = tuple(f"{key}={shorten(flat[key])}" for key in changed)
    return Experiment(os.environ.get(NAME) or name, commit, flat, texts)


def name_of_repro(commit: str) -> str:
    """Return the name of what `dvc repro` makes of a commit."""
    return f"repro-{commit[:7] or 'uncommitted'}"


def baseline() -> str:
    """The commit that the experiment started from; "" without one."""
    return os.environ.get(BASELINE) or head()


def print_uncommitted(params: Params) -> None:
    """Print where params.yaml of the checkout differs from the commit, and how to return, in one line.

    Nothing where it does not differ, where no commit has it, and in a snapshot, from which no experiment starts.
    """
    experiment = this_experiment(params)
    if experiment.changed and Path.cwd().resolve() == project_root():
        print(
            f"params.yaml differs from {experiment.commit[:7]}: {', '.join(experiment.changed)}; the next experiment "
            f"starts from here. {WAY_BACK}{way_back()}"
        )


def datasets(kind: str, params: Params) -> list[dict[str, Any]]:
    """The splits that a stage of this kind reads, as MLflow shows datasets; none before stage split has run.

    Each has its name, DVC's digests of the folder of all splits and of the cleaned text, its source, its split and its
    length.
    """
    try:
        record = read_lock()["split"]
        md5, text = record.outs[paths()["split"]], record.deps.get(paths()["clean"], "")
        report = read_json(Path(paths()["split_report"]))
    except (OSError, ValueError, KeyError):  # none yet, or DVC is writing it
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
