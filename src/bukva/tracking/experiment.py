"""The experiment that a stage belongs to: its name, the commit that it started from, all parameters, and its text."""

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.messages import RETURN, shorten
from bukva.config.schema import Params
from bukva.core.errors import BukvaError, redact_url
from bukva.core.files import project_root, read_json
from bukva.project.lock import LOCK, recorded
from bukva.project.revisions import git
from bukva.project.stages import Kind, paths

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
READ_BY: dict[Kind, tuple[str, ...]] = {"training": ("train", "val"), "report": ("train", "val", "test")}
MOST_CHANGED = 3  # parameters that a label names
VALUE_CHARS = 20  # of each of them


@dataclass(frozen=True)
class Experiment:
    """A name, a commit ("" before the first one) and all of params.yaml with dotted keys.

    changed: the parameters that differ from those of the commit, with dotted keys.
    """

    name: str
    commit: str
    params: dict[str, Any]
    changed: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Distinguishes experiments.

        The name does not: DVC uses one again after `dvc exp remove` or with `-f`, and in MLflow the parameters of a
        run cannot change.
        """
        return _digest([self.name, self.commit, self.params])

    @property
    def label(self) -> str:
        """What MLflow calls it: first what differs from the commit, because DVC's names say nothing."""
        parts = [f"{_short(key, self.params)}={_shown(value)}" for key, value in self.changed.items()]
        if len(parts) > MOST_CHANGED:
            parts[MOST_CHANGED:] = [f"{len(parts) - MOST_CHANGED} more"]
        return f"{', '.join(parts)} ({self.name})" if parts else self.name

    def fields(self) -> dict[str, Any]:
        """What the start event of a journal contains about it."""
        names = "label", "key", "commit", "params"
        return {"experiment": self.name, **{name: getattr(self, name) for name in names}}


def this_experiment(params: Params) -> Experiment:
    """The experiment of the stage that runs now, with DVC's name for it, else one made from the commit."""
    commit = baseline()
    values = params.model_dump()
    committed = _committed_params(commit) if commit else None
    flat = flatten(values)
    before = flatten(committed) if isinstance(committed, dict) else {}
    changed = [key for key, value in flat.items() if key in before and before[key] != value]
    flat["download.url"] = redact_url(params.download.url)  # a query may contain a token, and many people read MLflow
    name = os.environ.get(NAME) or _repro_name(commit, values, is_committed=values == committed)
    return Experiment(name, commit or "", flat, {key: flat[key] for key in changed})


def baseline() -> str | None:
    """The commit that the experiment started from, or None without a commit."""
    if commit := os.environ.get(BASELINE):
        return commit
    try:
        return git("rev-parse", "--verify", "HEAD").decode().strip()
    except BukvaError:
        return None


def print_uncommitted(params: Params) -> None:
    """Print where params.yaml of the checkout differs from the commit, and how to return, in one line.

    Nothing where it does not differ, where no commit has it, and in a snapshot, from which no experiment starts.
    """
    experiment = this_experiment(params)
    if experiment.changed and Path.cwd().resolve() == project_root():
        changed = ", ".join(f"{key}={shorten(value)}" for key, value in experiment.changed.items())
        print(
            f"params.yaml differs from {experiment.commit[:7]}: {changed}; the next experiment starts from here. "
            f"Return: {RETURN}"
        )


def datasets(kind: Kind, params: Params) -> list[dict[str, Any]]:
    """The splits that a stage of this kind reads, as MLflow shows datasets; none before stage split has run.

    Each has its name, the digest that DVC gives the folder of all splits, where the text comes from, its split, and its
    number of characters.
    """
    try:
        outs = recorded(Path(LOCK).read_text(encoding="utf-8"))["split"]["outs"] if kind in READ_BY else []
        digests = [out["md5"] for out in outs if out["path"] == paths()["split"]]
        report = read_json(Path(paths()["split_report"])) if digests else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # there is none yet, or DVC is writing it
        return []
    corpus = params.download.corpus
    return [
        {
            "name": f"{corpus}/{split}",
            "digest": digests[0],
            "source": {"corpus": corpus, "path": paths()["split"]},
            "split": split,
            "profile": {"characters": report[split]["chars"]},
        }
        for split in READ_BY.get(kind, ())
        if split in report
    ]


def git_show(revision: str) -> str:
    """What git has at a revision of the original repository; "" if nothing, or without git.

    Not in the snapshot of a queued experiment: the original has every commit that a snapshot has.
    """
    try:
        return git("show", revision).decode(errors="replace")
    except BukvaError:
        return ""


def _repro_name(commit: str | None, values: object, *, is_committed: bool) -> str:
    if commit is None:
        return "repro-uncommitted"
    name = f"repro-{commit[:7]}"
    return name if is_committed else f"{name}-{_digest(values)[:8]}"


def _committed_params(commit: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = git_show(f"{commit}:./params.yaml")
    try:
        return YAML(typ="safe").load(text)
    except YAMLError:
        return None


def _short(key: str, keys: Iterable[str]) -> str:
    """A dotted key without its section, unless another key ends alike and the section is not that of the GPT."""
    section, _, last = key.rpartition(".")
    is_unique = sum(other.rpartition(".")[2] == last for other in keys) == 1
    return last if is_unique or section == "train_gpt" else key


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
