"""Small projects in which DVC really runs: copies of this repository with a corpus of 10 kB."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from ruamel.yaml import YAML

from chaos import store
from chaos.running import Running, wait_until_empty

ROOT = Path(__file__).parent.parent
NOT_COPIED = "data/", "reports/", "tests/", "chaos/", "docs/", "bench/"
SMALL: dict[str, dict[str, object]] = {
    "model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 16},
    "compute": {"precision": "fp32", "threads": 1},
    "train_bigram": {"n_steps": 20, "eval_every": 10, "batch_size": 32},
    "train_gpt": {"n_steps": 20, "eval_every": 10, "batch_size": 8, "warmup_steps": 2},
    "sample": {"prompts": ["\n"], "n_chars": 20},
}
NOT_INHERITED = "DVC_", "MLFLOW_", "BUKVA_", "NUMBA_"  # prefixes of environment variables
WORK = "data/sample/prose/skazki/sem_par_laptey.txt"  # work from which the corpus is cut
N_WORKS, WORK_CHARS = 3, 4000
TIMEOUT_SECONDS = 900  # long enough for a machine that is busy with other things
MLFLOW_SECONDS = 60  # limit for MLflow to receive the results of a stage


class Project:
    """A copy of the repository's files with a small corpus, and parameters with which every stage takes seconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
        self.env = inherited | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DVC_SITE_CACHE_DIR": str(folder.parent / "site-cache"),
            "NUMBA_CACHE_DIR": str(ROOT / ".bukva" / "numba"),  # shared, so that numba compiles once for all projects
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)  # it would hide effects of byte code on DVC's digests

    def create(self) -> None:
        """Copy the files of the repository, cut the corpus, set small parameters, and commit everything."""
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if not name.startswith(NOT_COPIED) and (ROOT / name).is_file():  # .venv may be a link to a folder
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, self.folder / name)
        (self.folder / "dvc.lock").unlink(missing_ok=True)
        text = (ROOT / WORK).read_text(encoding="utf-8")
        for index in range(N_WORKS):
            work = (self.folder / WORK).with_name(f"{index}.txt")
            work.parent.mkdir(parents=True, exist_ok=True)
            work.write_text(text[index * WORK_CHARS : (index + 1) * WORK_CHARS], encoding="utf-8")
        self.set(SMALL)
        self.run("git", "init", "-q", "-b", "main")
        self.commit("start")

    def copy_to(self, folder: Path) -> "Project":
        """Copy the project with DVC's cache, but without MLflow's store, which contains the path of the original."""
        self.wait_for_background()
        ignore = shutil.ignore_patterns("mlflow.db*", "mlruns")
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True, ignore=ignore)
        return Project(folder)

    # ---- commands

    def run(self, *command: str, ok: bool = True, **env: Any) -> str:
        """Run a command, which must succeed or, if `ok` is false, fail; return its output."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env | env, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
        assert (done.returncode == 0) == ok, f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def start(self, *command: str, **env: str) -> Running:
        """Start a command without waiting for it to end."""
        return Running(self, command, self.env | env)

    def repro(self, *arguments: str, **env: Any) -> list[str]:
        """Run `dvc repro` and return the stages that ran."""
        return self.stages_run(self.run("dvc", "repro", *arguments, **env))

    def bukva(self, *arguments: str, ok: bool = True) -> str:
        """Run a command of bukva with the code of the project, and return its output."""
        return self.run("python", "-m", "bukva", *arguments, ok=ok, PYTHONPATH="src")

    def sync(self) -> None:
        """Send the journals to MLflow, as `bukva sync` does."""
        self.run("python", "-m", "bukva.tracking.sync", PYTHONPATH="src")

    @staticmethod
    def stages_run(printed: str) -> list[str]:
        """Return the names of the stages that ran, from the output of DVC."""
        return re.findall(r"Running stage '([\w-]+)'", printed)

    def commit(self, message: str) -> None:
        """Commit all files."""
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "--allow-empty", "-m", message)

    def reset(self) -> None:
        """Go back to the last commit, outputs included."""
        self.run("git", "checkout", "-q", ".")
        self.run("dvc", "checkout", "-q")

    # ---- files

    def set(self, changes: dict[str, dict[str, object]]) -> None:
        """Change params.yaml."""
        yaml, file = YAML(), self.folder / "params.yaml"
        raw = yaml.load(file)
        for section, values in changes.items():
            raw[section].update(values)
        yaml.dump(raw, file)

    def read(self, name: str) -> str:
        """Return the text of a file."""
        return (self.folder / name).read_text(encoding="utf-8")

    def read_from_experiment(self, experiment: str, name: str) -> str:
        """Return the text of a tracked file in the commit of an experiment."""
        refs = self.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
        (ref,) = (ref for ref in refs if ref.endswith(f"/{experiment}"))
        return self.run("git", "show", f"{ref}:{name}")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace the first occurrence of a text in a file."""
        text = self.read(name)
        assert old in text, f"{name} does not contain {old!r}"
        (self.folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    def outputs(self) -> dict[str, str]:
        """Return the digest of every output file by path, and a digest of dvc.lock that ignores the order of stages."""
        files = [file for name in ("data", "reports") for file in (self.folder / name).rglob("*")]
        digests = {
            path: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
            if file.is_file() and not (path := file.relative_to(self.folder).as_posix()).startswith("data/sample")
        }
        lock = self.folder / "dvc.lock"
        return digests | ({"dvc.lock": _digest_of_lock(lock)} if lock.exists() else {})

    def leftovers(self) -> list[str]:
        """Return files and folders with a temporary name, and checkpoints of unfinished trainings."""
        paths = [*self.folder.rglob(".*.part"), *self.folder.rglob(".*.old"), *self.checkpoints()]
        return sorted(path.relative_to(self.folder).as_posix() for path in paths)

    def remove_checkpoints(self) -> None:
        """Remove all checkpoints, so that the next training starts from the beginning."""
        shutil.rmtree(self.folder / ".bukva" / "checkpoints", ignore_errors=True)

    def checkpoints(self, stage: str = "train-*") -> list[Path]:
        """Return the checkpoints of trainings that have not ended, sorted by path."""
        files = self.folder.glob(f".bukva/checkpoints/{stage}-*/*.pt")
        return sorted(file for file in files if not file.with_name("done.json").exists())

    # ---- processes and MLflow

    def processes(self, word: str) -> list[psutil.Process]:
        """Return the project's processes whose command line contains a word, parents before their children."""
        matching = (process for process in self._each_process() if word in _words(process))
        return sorted(matching, key=lambda process: process.pid)

    def all_processes(self) -> list[psutil.Process]:
        """Return all processes of this project, including processes of DVC and MLflow."""
        return list(self._each_process())

    def wait_for_background(self) -> None:
        """Wait for the background processes that send journals to MLflow and remove checkpoints after a command."""
        left = wait_until_empty(self.all_processes, TIMEOUT_SECONDS)
        assert not left, f"still running: {left}"

    def wait_for_mlflow(self) -> None:
        """Wait for the processes that send journals to MLflow, which can outlive their stage by some seconds."""
        wait_until_empty(lambda: self.processes("bukva.tracking.sync"), MLFLOW_SECONDS)

    def mlflow(self) -> list[dict[str, Any]]:
        """Wait until all journals are sent, and return all runs in MLflow (see `chaos.store.all_runs`)."""
        self.wait_for_mlflow()
        return store.all_runs(self)

    def training_runs(self) -> list[dict[str, Any]]:
        """Return the runs of trainings in MLflow (see `chaos.store`)."""
        return store.training_runs(self.folder)

    def versions(self) -> list[tuple[str, int]]:
        """Return the registered model versions as pairs of name and number."""
        return store.versions(self.folder)

    def statuses(self) -> list[str]:
        """Return the statuses that occur among the runs in MLflow."""
        return store.statuses(self.folder)

    def _each_process(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                inside = Path(process.cwd()).is_relative_to(self.folder)
            except (psutil.Error, OSError):
                continue
            if inside and process.pid != os.getpid():
                yield process


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _digest_of_lock(file: Path) -> str:
    """Return a digest of dvc.lock that does not depend on the order of stages, which a kill can change."""
    stages = YAML(typ="safe").load(file)["stages"]
    return hashlib.sha256(json.dumps(stages, sort_keys=True).encode()).hexdigest()
