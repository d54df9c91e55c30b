"""Which experiment a stage belongs to: its name, the commit it started from, and all parameters."""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from typing import Any

from bukva.base.files import project_root
from bukva.base.redact import redact_url
from bukva.config.schema import Params


@dataclass(frozen=True)
class Experiment:
    """A name, a commit ("" before the first one) and all of params.yaml with dotted keys."""

    name: str
    commit: str
    params: dict[str, Any]

    @property
    def key(self) -> str:
        """Tells experiments apart.

        The name alone does not: DVC gives one away again after `dvc exp remove` or with `-f`, and MLflow lets
        nobody change a parameter of a run.
        """
        return _digest([self.name, self.commit, self.params])


def this_experiment(params: Params) -> Experiment:
    """The experiment of the stage that runs now: DVC's name for it, else one made from the commit."""
    commit = baseline()
    name = os.environ.get("DVC_EXP_NAME") or _repro_name(commit, params)
    told = flatten(params.model_dump())
    told["download.url"] = redact_url(params.download.url)  # a query may hold a token, and many read what MLflow shows
    return Experiment(name, commit or "", told)


def baseline() -> str | None:
    """The commit that the experiment started from, or None where nothing is committed."""
    if commit := os.environ.get("DVC_EXP_BASELINE_REV"):
        return commit
    head = git("rev-parse", "--verify", "--quiet", "HEAD")
    return head.strip() if head else None


def git(*arguments: str) -> str | None:
    """What git prints in the original repository; None without git, repository or the object asked for.

    The original and not the snapshot of a queued experiment: it has every commit that the snapshot has.
    """
    command = ["git", "-C", str(project_root()), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts to one with dotted keys, as DVC shows them: {"model": {"n_head": 4}} to model.n_head."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


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
