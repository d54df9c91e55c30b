"""Machines of a Ray cluster, on this one: each keeps its files in a folder of its own; all share origin and storage."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import psutil

from bukva.core.processes import free_port
from bukva.project.revisions import experiment_ref
from chaos import store
from chaos.network import Machine, network
from chaos.project import MLFLOW_SECONDS, ROOT, Project
from chaos.running import Running, wait_until, wait_until_empty

STEPS = list(range(0, 3001, 1000))  # at which a trial scores val
SETTINGS = "train_gpt.n_steps=3000", "train_gpt.eval_every=1000", "train_gpt.seed=3"
RAY = str(Path(sys.executable).with_name("ray"))
SECONDS = 400.0  # for a whole trial, a machine that does not answer included


class Node:
    """A machine of the cluster."""

    def __init__(self, ray: Running, folder: Path) -> None:
        self.ray, self.folder = ray, folder

    @property
    def has_trial(self) -> bool:
        """Whether a trial has begun here."""
        return any(self.folder.glob("*/slot-0"))

    @cached_property
    def processes(self) -> list[psutil.Process]:
        """All processes of the machine, those included that outlive their parents."""
        root = psutil.Process(self.ray.process.pid)
        own = [root, *root.children(recursive=True)]
        return own + [each for each in psutil.process_iter() if each not in own and self._is_here(each)]

    def _is_here(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return Path(process.cwd()).is_relative_to(self.folder)
        return False


class Team:
    """A project with an origin, a DVC remote and a storage, and a trial whose machines are disturbed.

    Args:
        template: a project in which the pipeline was run.
        folder: for all files.
    """

    def __init__(self, template: Project, folder: Path) -> None:
        self.folder, self.origin, self.remote, self.storage = folder, *map(folder.joinpath, ("o.git", "remote", "tune"))
        self.project = template.copy_to(folder / "driver" / "bukva")
        self.project.run("git", "init", "-q", "--bare", str(self.origin))
        self.project.run("git", "remote", "add", "origin", str(self.origin))
        self.project.run("dvc", "remote", "add", "-d", "team", str(self.remote))
        self.project.commit("remote")
        self.project.run("python", "-m", "bukva", "push", PYTHONPATH="src")
        self.commit = self.project.run("git", "rev-parse", "HEAD").strip()
        options = [word for setting in SETTINGS for word in ("-S", setting)]
        self.project.run("dvc", "exp", "run", "--temp", "-n", "alone", *options)
        self.reference = self.project.read_from_experiment("alone", "dvc.lock")
        self.options = *options, "--name", "try", "--storage", str(self.storage)
        self.env = {
            "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64, "PYTHONPATH": str(ROOT / "src"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db", "BUKVA_CHECKPOINT_SECONDS": "0.2",
        }  # fmt: skip

    def forget(self) -> None:
        """Remove the results of all trials, and all that machines have, so that the next one computes everything."""
        self.project.wait_for_background()
        origin = "git", f"--git-dir={self.origin}"
        for ref in self.project.run(*origin, "for-each-ref", "--format=%(refname)", "refs/exps").split():
            self.project.run(*origin, "update-ref", "-d", ref)
        for folder in (self.storage, self.folder / "nodes", self.project.folder / ".bukva" / "sweeps"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in self.folder.glob("mlflow.db*"):
            file.unlink()

    @contextlib.contextmanager
    def cluster(self) -> Iterator["Cluster"]:
        """A head without cores for trials, and two machines with one core each."""
        with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
            cluster = Cluster(self, Path(scratch), [])
            try:
                cluster.start()
                yield cluster
            finally:
                cluster.stop()

    @contextlib.contextmanager
    def networked(self) -> Iterator["Cluster"]:
        """The same, each machine with a network card of its own."""
        with network(size=3) as machines, tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as tmp:
            cluster = Cluster(self, Path(tmp), machines)
            try:
                cluster.start()
                yield cluster
            finally:
                cluster.stop()

    def has_checkpoint(self) -> bool:
        """Whether Tune knows a checkpoint of a step after the first: it has when the next one is in the storage."""
        files = self.storage.rglob("checkpoint_*/checkpoints/train-gpt-*/*.safetensors")
        return sum(int(file.name.partition("-")[0]) > 0 for file in files) > 1

    def lock(self) -> str:
        """dvc.lock of the result that the origin has; "" if it has none."""
        listed = self.project.run("git", "ls-remote", str(self.origin), f"{experiment_ref(self.commit, '')}*").split()
        return self.project.run("git", f"--git-dir={self.origin}", "show", f"{listed[0]}:dvc.lock") if listed else ""

    def difference(self) -> str:
        """How the result differs from that of a trial that nothing disturbs, and MLflow from what it should have."""
        if (found := self.lock()) != self.reference:
            return "its dvc.lock differs" if found else "the origin has no result"
        return wait_until_empty(self._mlflow_fault, MLFLOW_SECONDS)

    def _mlflow_fault(self) -> str:
        runs = [run for run in store.training_runs(self.folder) if run["stage"] == "train-gpt"]
        finished = [run["steps"] for run in runs if run["status"] == "FINISHED"]  # two, if the first machine came back
        is_whole = finished and all(steps == STEPS for steps in finished)
        return "" if is_whole and not any(run["status"] == "RUNNING" for run in runs) else f"MLflow has {runs}"


class Cluster:
    """Ray's processes."""

    def __init__(self, team: Team, scratch: Path, machines: list[Machine]) -> None:
        self._team, self._scratch, self.machines = team, scratch, machines
        self.head: Running
        self.nodes: list[Node] = []
        host = machines[0].address if machines else "127.0.0.1"
        self.address = f"{host}:{free_port(0)}"

    def start(self) -> None:
        """Start the head, then the others."""
        port = self.address.rpartition(":")[2]
        head = "--head", "--port", port, "--include-dashboard=false", "--num-cpus=0", f"--temp-dir={self._scratch}"
        self.head = self._ray(0, *head)
        self.nodes = []
        for number in (1, 2):
            folder = self._team.folder / "nodes" / str(number)
            ray = self._ray(number, "--address", self.address, "--num-cpus=1", BUKVA_NODE=str(folder))
            self.nodes.append(Node(ray, folder))

    def stop(self) -> None:
        """End all that is left."""
        for running in (*(node.ray for node in self.nodes), self.head):
            if running.process.poll() is None:
                running.process.terminate()
                running.wait()
        wait_until(lambda: not self._team.project.processes("stages.train_gpt"))

    def drive(self) -> Running:
        """Start the driver."""
        command = "python", "-m", "bukva", "sweep", "run", "--address", self.address, *self._team.options
        return self._team.project.start(*self._on(0, *command), **self._team.env)

    def driver_at_a_checkpoint(self) -> Running:
        """Start the driver, and wait until its trial has sent a checkpoint."""
        driver = self.drive()
        assert driver.reaches(self._team.has_checkpoint), driver.printed
        return driver

    def busy(self) -> Node:
        """The machine that has the trial."""
        return next(node for node in self.nodes if node.has_trial)

    def _ray(self, number: int, *options: str, **env: str) -> Running:
        host = ["--node-ip-address", self.machines[number].address] if self.machines else []
        command = self._on(number, RAY, "start", "--block", "--disable-usage-stats", *options, *host)
        ray = self._team.project.start(*command, **self._team.env | env)
        assert ray.reaches(lambda: "Ray runtime started" in ray.printed), ray.printed
        return ray

    def _on(self, number: int, *command: str) -> tuple[str, ...]:
        return self.machines[number].command(*command) if self.machines else command
