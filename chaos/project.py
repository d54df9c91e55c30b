"""A small project of its own, in which DVC runs for real: a copy of this one with a corpus of 10 kB."""

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
COPIED_NOT = "data/", "reports/", "tests/", "chaos/", "docs/"
SMALL: dict[str, dict[str, object]] = {
    "model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 16},
    "compute": {"precision": "fp32", "threads": 1},
    "train_bigram": {"n_steps": 20, "eval_every": 10, "batch_size": 32},
    "train_gpt": {"n_steps": 20, "eval_every": 10, "batch_size": 8, "warmup_steps": 2},
    "evaluate": {"context_chars": 200, "attention_windows": 4, "leak_steps": 10},
    "sample": {"prompts": ["\n"], "n_chars": 20},
}
PATIENCE_SECONDS = 120.0  # with anything that is waited for, on a busy machine


class Project:
    """A copy of the tracked files with a corpus of 10 kB and parameters of a few seconds."""

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
        """Copy the files, and commit them."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if not name.startswith(COPIED_NOT) and (ROOT / name).exists():
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
        """Change params.yaml."""
        yaml, file = YAML(), self.folder / "params.yaml"
        raw = yaml.load(file)
        for section, values in changes.items():
            raw[section].update(values)
        yaml.dump(raw, file)

    def run(self, *command: str, ok: bool = True, **env: Any) -> str:
        """Run a command; returns what it printed."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env | env, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        assert (done.returncode == 0) == ok, f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def start(self, *command: str, **env: str) -> "Running":
        """Start a command, and go on."""
        return Running(self, command, self.env | env)

    def repro(self, *arguments: str, **env: Any) -> list[str]:
        """dvc repro; returns the stages that ran."""
        return self.ran(self.run("dvc", "repro", *arguments, **env))

    def ran(self, printed: str) -> list[str]:
        """The stages that ran."""
        return re.findall(r"Running stage '([\w-]+)'", printed)

    def commit(self, message: str) -> None:
        """Commit all that is there."""
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "--allow-empty", "-m", message)

    def clean(self) -> None:
        """Back to the last commit."""
        self.run("git", "checkout", "-q", ".")
        self.run("dvc", "checkout", "-q")

    def read(self, name: str) -> str:
        """A file's text."""
        return (self.folder / name).read_text(encoding="utf-8")

    def of_experiment(self, experiment: str, name: str) -> str:
        """A tracked file as an experiment left it."""
        refs = self.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
        (ref,) = (ref for ref in refs if ref.endswith(f"/{experiment}"))
        return self.run("git", "show", f"{ref}:{name}")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text in a file."""
        text = self.read(name)
        assert old in text
        (self.folder / name).write_text(text.replace(old, new), encoding="utf-8")

    # ---- what is there

    def outputs(self) -> dict[str, str]:
        """The digest of every file that DVC makes, and of dvc.lock, by path."""
        places = [self.folder / "dvc.lock", self.folder / "data", self.folder / "reports"]
        files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
        return {
            path: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
            if file.is_file() and not (path := file.relative_to(self.folder).as_posix()).startswith("data/sample")
        }

    def leftovers(self) -> list[str]:
        """What a process has left under a temporary name, and checkpoints."""
        found = [*self.folder.rglob(".*.part"), *self.folder.rglob(".*.old"), *self.checkpoints()]
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def checkpoints(self, stage: str = "train-*") -> list[Path]:
        """Those of trainings that have not ended."""
        return sorted(self.folder.glob(f".bukva/checkpoints/{stage}-*/*.safetensors"))

    def training_runs(self) -> list[dict[str, Any]]:
        """The trainings in MLflow: stage, status, and the steps of the points of val, read without mlflow."""
        with closing(self._database()) as database:
            runs = database.execute(
                "select runs.run_uuid, name, status from runs join tags on runs.run_uuid = tags.run_uuid "
                "where key = 'bukva.kind' and value = 'training' order by start_time"
            ).fetchall()
            points = database.execute(
                "select run_uuid, step from metrics where key = 'val_nats_per_char' order by step"
            )
            steps = points.fetchall()
        return [
            {"stage": name, "status": status, "steps": [step for of, step in steps if of == uuid]}
            for uuid, name, status in runs
        ]

    def statuses(self) -> list[str]:
        """Those of all runs in MLflow."""
        with closing(self._database()) as database:
            return [status for (status,) in database.execute("select distinct status from runs order by status")]

    def _database(self) -> sqlite3.Connection:
        # read-only it could not take back what a writer that was killed has half done, and would not open
        return sqlite3.connect(f"file:{self.folder / 'mlflow.db'}?mode=rw", uri=True, timeout=30)

    def processes(self, word: str) -> list[psutil.Process]:
        """Those in this project whose command line has this word, parents before their children."""
        return sorted((process for process in self._all() if word in _words(process)), key=lambda process: process.pid)

    def everything(self) -> list[psutil.Process]:
        """All processes in this project, DVC among them."""
        return list(self._all())

    def _all(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                inside = Path(process.cwd()).is_relative_to(self.folder)
            except (psutil.Error, OSError):
                continue
            if inside and process.pid != os.getpid():
                yield process

    def mlflow(self) -> list[dict[str, Any]]:
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
        found: list[dict[str, Any]] = json.loads(printed.split("RUNS", 1)[1])
        return found


class Running:
    """A command that was started in a project, in a process group of its own."""

    def __init__(self, project: Project, command: tuple[str, ...], env: dict[str, str]) -> None:
        self._log = project.folder.parent / f"running-{time.monotonic_ns()}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=project.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def until(self, true: Callable[[], object]) -> bool:
        """Wait until something is so; False if the command ended before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            if self.process.poll() is not None:
                return bool(true())
            assert time.monotonic() < deadline, self.printed
            time.sleep(0.02)
        return True

    def status(self) -> int:
        """Wait for its end; the exit status."""
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.printed}") from None


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
