"""Small projects in which DVC really runs: copies of this repository with a corpus of 10 kB."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from ruamel.yaml import YAML

from tests.support.running import Running, select, send, wait_until, wait_until_empty

ROOT = Path(__file__).parents[2]
NOT_COPIED = "data/", "reports/", "tests/", "chaos/", "docs/", "bench/"
SMALL: dict[str, dict[str, object]] = {
    "model": {"n_layer": 1, "n_head": 1, "n_embd": 8, "block_size": 16},
    "compute": {"precision": "fp32", "threads": 1},
    "train_bigram": {"n_steps": 20, "eval_every": 10, "batch_size": 32},
    "train_gpt": {"n_steps": 20, "eval_every": 10, "batch_size": 8, "warmup_steps": 2},
    "sample": {"prompts": ["\n"], "n_chars": 20},
}
SAVE_OFTEN = {"BUKVA_CHECKPOINT_SECONDS": "0.2"}  # environment
NOT_INHERITED = "DVC_", "MLFLOW_", "BUKVA_", "NUMBA_", "GIT_"  # prefixes of environment variables
WORK = "data/sample/prose/skazki/sem_par_laptey.txt"  # work from which the corpus is cut
N_WORKS, WORK_CHARS = 3, 4000
QUEUE_SECONDS = 60  # a worker of DVC's queue ends 10 seconds after its last experiment
TIMEOUT_SECONDS = 900  # long enough for a machine that is busy with other things
MLFLOW_SECONDS = 60  # limit for MLflow to receive the results of a stage

# one row for each run, oldest first; the steps are those at which val was scored
RUNS = """
select run, name, status, artifact_uri,
    (select json_group_object(key, value) from tags where run_uuid = run),
    (select json_group_object(key, value) from params where run_uuid = run),
    (select json_group_object(key, value) from latest_metrics where run_uuid = run),
    (select json_group_array(step) from
        (select step from metrics where run_uuid = run and key = 'val_nats_per_char' order by step)),
    (select json_group_array(destination_id) from inputs where source_id = run and destination_type = 'MODEL_OUTPUT')
from (select *, run_uuid as run from runs) order by start_time
"""


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
        text, corpus = (ROOT / WORK).read_text(encoding="utf-8"), (self.folder / WORK).parent
        corpus.mkdir(parents=True)
        for index in range(N_WORKS):
            work = text[index * WORK_CHARS : (index + 1) * WORK_CHARS]
            (corpus / f"{index}.txt").write_text(work, encoding="utf-8")
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
        return Running(command, self.folder, self.env | env)

    def start_training(self, *command: str) -> Running:
        """Start a command that trains the GPT, and wait for a checkpoint from which the training can resume."""
        wait_until(lambda: not self.leftovers())  # checkpoints of an earlier training are removed soon after its end
        running = self.start(*command)
        assert running.reaches(self.has_checkpoint), running.printed
        return running

    def repro(self, *arguments: str, **env: Any) -> list[str]:
        return self.stages_run(self.run("dvc", "repro", *arguments, **env))

    def bukva(self, *arguments: str, ok: bool = True) -> str:
        """Run a command of bukva with the code of the project, and return its output."""
        return self.run("python", "-m", "bukva", *arguments, ok=ok, PYTHONPATH="src")

    @contextlib.contextmanager
    def playing(self) -> Iterator[str]:
        """Run `bukva play`, and yield the address of its server."""
        running, pattern = (
            self.start("python", "-m", "bukva", "play", PYTHONPATH="src"),
            r"(http://127\.0\.0\.1:\d+)/play\n",
        )
        assert running.reaches(lambda: re.search(pattern, running.printed)), running.printed
        yield re.findall(pattern, running.printed)[0]
        running.process.send_signal(signal.SIGINT)
        assert running.wait() in (0, 130)
        assert "Traceback" not in running.printed

    def sync(self) -> None:
        """Send all runs to MLflow, as `bukva sync` does."""
        self.run("python", "-m", "bukva.tracking.sync", PYTHONPATH="src")

    @staticmethod
    def stages_run(printed: str) -> list[str]:
        return re.findall(r"Running stage '([\w-]+)'", printed)

    def commit(self, message: str) -> None:
        self.run("git", "add", "-A")
        self.run("git", "commit", "-q", "--allow-empty", "-m", message)

    def reset(self) -> None:
        """Go back to the last commit, outputs included, and without checkpoints that an earlier fault has left."""
        shutil.rmtree(self.folder / ".bukva" / "checkpoints", ignore_errors=True)
        self.run("git", "checkout", "-q", ".")
        # -f, because outputs of a stage that ran without DVC are not in the cache
        self.run("dvc", "checkout", "-q", "-f")

    # ---- files

    def set(self, changes: dict[str, dict[str, object]]) -> None:
        yaml, file = YAML(), self.folder / "params.yaml"
        raw = yaml.load(file)
        for section, values in changes.items():
            raw[section].update(values)
        yaml.dump(raw, file)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def read_from_experiment(self, experiment: str, name: str) -> str:
        """Return the text of a tracked file in the commit of an experiment."""
        refs = self.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
        (ref,) = (ref for ref in refs if ref.endswith(f"/{experiment}"))
        return self.run("git", "show", f"{ref}:{name}")

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text, f"{name} does not contain {old!r}"
        (self.folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    def outputs(self) -> dict[str, str]:
        """Return the digest of every output file by path, and a digest of dvc.lock that ignores the order of stages."""
        digests = {}
        for file in (file for name in ("data", "reports") for file in (self.folder / name).rglob("*")):
            path = file.relative_to(self.folder).as_posix()
            if file.is_file() and not path.startswith("data/sample"):
                digests[path] = hashlib.sha256(file.read_bytes()).hexdigest()
        lock = self.folder / "dvc.lock"
        if lock.exists():  # a kill can change the order of its stages
            content = json.dumps(YAML(typ="safe").load(lock)["stages"], sort_keys=True)
            digests["dvc.lock"] = hashlib.sha256(content.encode()).hexdigest()
        return digests

    def leftovers(self) -> list[str]:
        """Return files and folders with a temporary name, and checkpoints of unfinished trainings."""
        paths = [*self.folder.rglob(".*.part"), *self.folder.rglob(".*.old"), *self.checkpoints()]
        return sorted(path.relative_to(self.folder).as_posix() for path in paths)

    def checkpoints(self, stage: str = "train-*") -> list[Path]:
        """Return the checkpoints of trainings that have not ended, sorted by path."""
        files = self.folder.glob(f".bukva/checkpoints/{stage}-*/*.pt")
        return sorted(file for file in files if not file.with_name("done.json").exists())

    def has_checkpoint(self) -> bool:
        """Return whether the training of the GPT has a checkpoint of a step after 0."""
        return any(int(file.name.partition("-")[0]) for file in self.checkpoints("train-gpt"))

    # ---- processes

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Return the project's processes, parents before their children; with `word`, those whose arguments have it."""

        def is_wanted(process: psutil.Process) -> bool:
            inside = process.pid != os.getpid() and Path(process.cwd()).is_relative_to(self.folder)
            return inside and (not word or word in process.cmdline())

        return select(psutil.process_iter(), is_wanted)  # in the order of their numbers

    def stage_processes(self, stage: str = "train-gpt") -> list[psutil.Process]:
        return self.processes(f"stages.{stage.replace('-', '_')}")

    def kill(self, stage: str = "train-gpt", number: signal.Signals = signal.SIGKILL) -> bool:
        """Send a signal to the first process of a stage; return whether the stage had a process."""
        processes = self.stage_processes(stage)
        send(processes[:1], number)
        return bool(processes)

    def training_ends(self) -> bool:
        """Return whether the training ends by itself within 20 seconds."""
        return not wait_until_empty(self.stage_processes, 20)

    def wait_for_background(self) -> None:
        """Wait for the background processes that send results to MLflow and remove checkpoints after a command."""
        left = wait_until_empty(self.processes, TIMEOUT_SECONDS)
        assert not left, f"still running: {left}"

    def wait_for_queue(self) -> None:
        """Wait until DVC's queue is empty and its workers have ended.

        A thread that reads a message before it is complete ends, so a worker may never end (dvc#10428). `dvc queue
        status` writes messages, so it does not run while an experiment runs.
        """
        wait_until(
            lambda: (
                not self.processes("exec-run") and not re.search(r"Running|Queued", self.run("dvc", "queue", "status"))
            )
        )
        send(wait_until_empty(lambda: self.processes("queue-worker"), QUEUE_SECONDS), signal.SIGKILL)

    # ---- MLflow

    def wait_for_mlflow(self) -> None:
        wait_until_empty(lambda: self.processes("bukva.tracking.sync"), MLFLOW_SECONDS)

    def mlflow(self) -> list[dict[str, Any]]:
        """Wait until everything is sent, and return all runs."""
        self.wait_for_mlflow()
        return self.all_runs()

    def all_runs(self) -> list[dict[str, Any]]:
        """Return all runs, oldest first, with the folder of their artifacts.

        `experiment`, `kind` and `stage` are the tags `bukva.experiment` and so on. This does not import mlflow.
        """
        runs = []
        for run, name, status, uri, *columns in self._query(RUNS):
            tags, params, metrics, steps, models = map(json.loads, columns)
            runs.append({
                **{key.removeprefix("bukva."): value for key, value in tags.items()},
                "id": run, "name": name, "status": status, "parent": tags.get("mlflow.parentRunId"), "tags": tags,
                "artifacts": Path(uri.removeprefix("file://")), "params": params, "metrics": metrics, "steps": steps,
                "models": models,
            })  # fmt: skip
        return runs

    def training_runs(self) -> list[dict[str, Any]]:
        return [run for run in self.all_runs() if run.get("kind") == "training"]

    def gpt_runs(self, status: str) -> list[dict[str, Any]]:
        """Return the runs of the GPT's trainings that have a status, oldest first."""
        return [run for run in self.training_runs() if run["stage"] == "train-gpt" and run["status"] == status]

    def versions(self) -> list[tuple[str, int]]:
        """Return the registered model versions as pairs of name and number."""
        return self._query("select name, version from model_versions order by name, version")

    def has_running_run(self) -> bool:
        return any(run["status"] == "RUNNING" for run in self.all_runs())

    def mlflow_fault(self, steps: list[int]) -> str:
        """Describe which points of the GPT's last training MLflow lacks or has twice, when everything is sent."""

        def fault() -> str:
            finished = self.gpt_runs("FINISHED")  # a killed run may follow the last of them
            if not finished:
                return f"MLflow has {self.training_runs()}"
            if finished[-1]["steps"] != steps:
                return f"MLflow has the steps {finished[-1]['steps']}, not {steps}"
            return "a run is still RUNNING" if self.has_running_run() else ""

        return wait_until_empty(fault, MLFLOW_SECONDS)

    def _query(self, sql: str) -> list[Any]:
        # SQLite rolls back the unfinished writes of a killed process only if the database is opened for writing
        uri = f"file:{self.folder / 'mlflow.db'}?mode=rw"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=30)) as database:
            return database.execute(sql).fetchall()
