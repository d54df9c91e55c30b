"""The experiment that a stage belongs to: its name, the commit that it started from, and all parameters."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bukva.config.load import flatten
from bukva.config.messages import RETURN, shorten
from bukva.config.schema import Params
from bukva.core.files import project_root
from bukva.core.redact import redact_url

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`
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
    head = git("rev-parse", "--verify", "--quiet", "HEAD")
    return head.strip() if head else None


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


def git(*arguments: str) -> str | None:
    """What git prints in the original repository; None without git, without a repository, or after an error.

    Not in the snapshot of a queued experiment: the original has every commit that a snapshot has.
    """
    command = ["git", "-C", str(project_root()), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _repro_name(commit: str | None, values: object, *, is_committed: bool) -> str:
    if commit is None:
        return "repro-uncommitted"
    name = f"repro-{commit[:7]}"
    return name if is_committed else f"{name}-{_digest(values)[:8]}"


def _committed_params(commit: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = git("show", f"{commit}:./params.yaml")
    try:
        return YAML(typ="safe").load(text or "")
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
