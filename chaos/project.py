"""A small project of its own, in which DVC runs for real."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
SMALL = {
    "model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 16},
    "compute": {"precision": "fp32", "threads": 1},
    "train_bigram": {"n_steps": 20, "eval_every": 10, "batch_size": 32},
    "train_gpt": {"n_steps": 20, "eval_every": 10, "batch_size": 8, "warmup_steps": 2},
    "evaluate": {"context_chars": 200, "attention_windows": 4, "leak_steps": 10},
    "sample": {"prompts": ["\n"], "n_chars": 20},
}


class Project:
    """A copy of the tracked files with a corpus of 20 kB and parameters of a few seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("DVC_", "MLFLOW_", "BUKVA_"))},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DVC_SITE_CACHE_DIR": str(folder.parent / "site-cache"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)  # it would hide what byte code does to DVC's digests

    def make(self) -> None:
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if not name.startswith(("data/", "reports/", "tests/", "docs/")) and (ROOT / name).exists():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.folder / name)
        (self.folder / "dvc.lock").unlink(missing_ok=True)
        text = (ROOT / "data/sample/prose/skazki/sem_par_laptey.txt").read_text(encoding="utf-8")
        for index in range(3):
            book = self.folder / f"data/sample/prose/skazki/{index}.txt"
            book.parent.mkdir(parents=True, exist_ok=True)
            book.write_text(text[index * 4000 : (index + 1) * 4000], encoding="utf-8")
        self.set(SMALL)
        self.run("git", "init", "-q", "-b", "main")
        self.commit("start")

    def set(self, changes: dict[str, dict[str, object]]) -> None:
        yaml, file = YAML(), self.folder / "params.yaml"
        raw = yaml.load(file)
        for section, values in changes.items():
            raw[section].update(values)
        yaml.dump(raw, file)

    def run(self, *command: str, ok: bool = True, **env: str) -> str:
        """Run a command; returns what it printed."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env | env, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        assert (done.returncode == 0) == ok, f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def repro(self, *arguments: str, **more: object) -> list[str]:
        """dvc repro; returns the stages that ran."""
        return self.ran(self.run("dvc", "repro", *arguments, **more))

    def ran(self, printed: str) -> list[str]:
        return re.findall(r"Running stage '([\w-]+)'", printed)

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "--allow-empty", "-m", message)

    def clean(self) -> None:
        """Back to the last commit."""
        self.run("git", "checkout", "-q", ".")
        self.run("dvc", "checkout", "-q")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def of_experiment(self, experiment: str, name: str) -> str:
        """A tracked file as an experiment left it."""
        refs = self.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
        (ref,) = (ref for ref in refs if ref.endswith(f"/{experiment}"))
        return self.run("git", "show", f"{ref}:{name}")

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text
        (self.folder / name).write_text(text.replace(old, new), encoding="utf-8")

    def mlflow(self) -> list[dict[str, object]]:
        """All runs in the project's MLflow store: tags, params, last metrics, artifacts."""
        program = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from mlflow import MlflowClient
client = MlflowClient(tracking_uri=f"sqlite:///{os.getcwd()}/mlflow.db")
experiment = client.get_experiment_by_name("bukva")
def files(run, path=None):
    for item in client.list_artifacts(run, path):
        yield from files(run, item.path) if item.is_dir else [item.path]
found = [
    {"name": run.info.run_name, "status": run.info.status, "tags": dict(run.data.tags), "params": dict(run.data.params),
     "metrics": dict(run.data.metrics), "artifacts": sorted(files(run.info.run_id)), "id": run.info.run_id,
     "parent": run.data.tags.get("mlflow.parentRunId"), "where": experiment.artifact_location,
     "points": {key: len(client.get_metric_history(run.info.run_id, key)) for key in run.data.metrics}}
    for run in client.search_runs([experiment.experiment_id])
]
print("RUNS" + json.dumps(found))
"""
        printed = self.run(sys.executable, "-c", program, MLFLOW_DISABLE_TELEMETRY="true")
        return json.loads(printed.split("RUNS", 1)[1])


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """The project after one `dvc repro`, committed."""
    made = Project(tmp_path_factory.mktemp("project") / "bukva")
    made.folder.mkdir()
    made.make()
    made.first = made.run("dvc", "repro")
    made.commit("baseline")
    return made


@pytest.fixture
def fresh(project):
    """The same project, put back before and after a test."""
    project.clean()
    yield project
    project.clean()
