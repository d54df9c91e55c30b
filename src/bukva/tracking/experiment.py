"""The experiment that a stage belongs to: its name, the commit that it started from, and all parameters."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.base.dotted import flatten
from bukva.base.files import project_root
from bukva.base.redact import redact_url
from bukva.config.messages import RETURN, shorten
from bukva.config.schema import Params

NAME, BASELINE = "DVC_EXP_NAME", "DVC_EXP_BASELINE_REV"  # DVC sets both for `dvc exp run`, and neither for `dvc repro`


@dataclass(frozen=True)
class Experiment:
    """A name, a commit ("" before the first one) and all of params.yaml with dotted keys."""

    name: str
    commit: str
    params: dict[str, Any]

    @property
    def key(self) -> str:
        """Distinguishes experiments.

        The name does not: DVC uses one again after `dvc exp remove` or with `-f`, and in MLflow the parameters of a
        run cannot change.
        """
        return _digest([self.name, self.commit, self.params])


def this_experiment(params: Params) -> Experiment:
    """The experiment of the stage that runs now, with DVC's name for it, else one made from the commit."""
    commit = baseline()
    name = os.environ.get(NAME) or _repro_name(commit, params)
    flat = flatten(params.model_dump())
    flat["download.url"] = redact_url(params.download.url)  # a query may contain a token, and many people read MLflow
    return Experiment(name, commit or "", flat)


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
    commit = baseline()
    committed = _committed_params(commit) if commit and Path.cwd().resolve() == project_root() else None
    if not isinstance(committed, dict):
        return
    before, now = flatten(committed), flatten(params.model_dump())
    changed = [f"{key}={shorten(value)}" for key, value in now.items() if key not in before or before[key] != value]
    if commit and changed:
        what = f"params.yaml differs from {commit[:7]}: {', '.join(changed)}"
        print(f"{what}; the next experiment starts from here. Return: {RETURN}")


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


def _repro_name(commit: str | None, params: Params) -> str:
    if commit is None:
        return "repro-uncommitted"
    name = f"repro-{commit[:7]}"
    values = params.model_dump()
    return name if values == _committed_params(commit) else f"{name}-{_digest(values)[:8]}"


def _committed_params(commit: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    text = git("show", f"{commit}:./params.yaml")
    try:
        return YAML(typ="safe").load(text or "")
    except YAMLError:
        return None


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
