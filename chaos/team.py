"""A simulated Ray cluster on this machine. Each node has a separate folder; all share origin, remote and storage."""

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

STEPS = list(range(0, 3001, 1000))  # steps at which a trial scores val
SETTINGS = "train_gpt.n_steps=3000", "train_gpt.eval_every=1000", "train_gpt.seed=3"
RAY = str(Path(sys.executable).with_name("ray"))
SECONDS = 400.0  # limit for a whole trial, including the time until Ray notices a dead machine


class Node:
    """A machine of the cluster.

    ray: the process `ray start` of the machine.
    folder: folder of all files of the machine.
    """

    def __init__(self, ray: Running, folder: Path) -> None:
        self.ray, self.folder = ray, folder

    @property
    def has_trial(self) -> bool:
        """Whether a trial has started on this machine."""
        return any(self.folder.glob("*/slot-0"))

    @cached_property
    def processes(self) -> list[psutil.Process]:
        """All processes of the machine, including processes that have outlived their parents."""
        root = psutil.Process(self.ray.process.pid)
        own = [root, *root.children(recursive=True)]
        return own + [each for each in psutil.process_iter() if each not in own and self._is_here(each)]

    def _is_here(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            return Path(process.cwd()).is_relative_to(self.folder)
        return False


class Team:
    """A project with origin, DVC remote and storage, and the result of an undisturbed trial as the reference.

    Args:
        template: project in which the pipeline was run.
        folder: folder for all files.
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
        """Remove all results of trials and all files of the machines, so that the next trial computes everything."""
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
        """Start a cluster: a head without cores for trials, and two machines with one core each."""
        with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
            cluster = Cluster(self, Path(scratch), [])
            try:
                cluster.start()
                yield cluster
            finally:
                cluster.stop()

    @contextlib.contextmanager
    def networked(self) -> Iterator["Cluster"]:
        """Start a cluster as `cluster` does, but with a separate network card for each machine."""
        with network(size=3) as machines, tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as tmp:
            cluster = Cluster(self, Path(tmp), machines)
            try:
                cluster.start()
                yield cluster
            finally:
                cluster.stop()

    def has_checkpoint(self) -> bool:
        """Return whether Tune has received a checkpoint of a step after 0.

        The storage must contain two of them, because Tune has certainly received a checkpoint when the next one is
        stored.
        """
        files = self.storage.rglob("checkpoint_*/checkpoints/train-gpt-*/*.safetensors")
        with contextlib.suppress(FileNotFoundError):  # Tune removes old checkpoints meanwhile
            return sum(int(file.name.partition("-")[0]) > 0 for file in files) > 1
        return False

    def lock(self) -> str:
        """Return dvc.lock of the result at the origin, or "" if the origin has no result."""
        listed = self.project.run("git", "ls-remote", str(self.origin), f"{experiment_ref(self.commit, '')}*").split()
        return self.project.run("git", f"--git-dir={self.origin}", "show", f"{listed[0]}:dvc.lock") if listed else ""

    def difference(self) -> str:
        """Describe how the result differs from the reference or what is wrong in MLflow; return "" if nothing is."""
        if (lock := self.lock()) != self.reference:
            return "its dvc.lock differs" if lock else "the origin has no result"
        return wait_until_empty(self._mlflow_fault, MLFLOW_SECONDS)

    def _mlflow_fault(self) -> str:
        runs = [run for run in store.training_runs(self.folder) if run["stage"] == "train-gpt"]
        finished = [run["steps"] for run in runs if run["status"] == "FINISHED"]  # two if the first machine came back
        is_whole = finished and all(steps == STEPS for steps in finished)
        return "" if is_whole and not any(run["status"] == "RUNNING" for run in runs) else f"MLflow has {runs}"


class Cluster:
    """The processes of a Ray cluster."""

    def __init__(self, team: Team, scratch: Path, machines: list[Machine]) -> None:
        self._team, self._scratch, self.machines = team, scratch, machines
        self.head: Running
        self.nodes: list[Node] = []
        host = machines[0].address if machines else "127.0.0.1"
        self.address = f"{host}:{free_port(0)}"

    def start(self) -> None:
        """Start the head, then the other machines."""
        port = self.address.rpartition(":")[2]
        head = "--head", "--port", port, "--include-dashboard=false", "--num-cpus=0", f"--temp-dir={self._scratch}"
        self.head = self._ray(0, *head)
        self.nodes = []
        for number in (1, 2):
            folder = self._team.folder / "nodes" / str(number)
            ray = self._ray(number, "--address", self.address, "--num-cpus=1", BUKVA_NODE=str(folder))
            self.nodes.append(Node(ray, folder))

    def stop(self) -> None:
        """End all processes that are still running."""
        for running in (*(node.ray for node in self.nodes), self.head):
            if running.process.poll() is None:
                running.process.terminate()
                running.wait()
        wait_until(lambda: not self._team.project.processes("stages.train_gpt"))

    def drive(self) -> Running:
        """Start the driver: `bukva sweep run` on the head."""
        command = "python", "-m", "bukva", "sweep", "run", "--address", self.address, *self._team.options
        return self._team.project.start(*self._on(0, *command), **self._team.env)

    def driver_at_a_checkpoint(self) -> Running:
        """Start the driver, and wait until its trial has sent a checkpoint."""
        driver = self.drive()
        assert driver.reaches(self._team.has_checkpoint), driver.printed
        return driver

    def busy(self) -> Node:
        """Return the first machine on which the trial has started."""
        return next(node for node in self.nodes if node.has_trial)

    def _ray(self, number: int, *options: str, **env: str) -> Running:
        host = ["--node-ip-address", self.machines[number].address] if self.machines else []
        command = self._on(number, RAY, "start", "--block", "--disable-usage-stats", *options, *host)
        ray = self._team.project.start(*command, **self._team.env | env)
        assert ray.reaches(lambda: "Ray runtime started" in ray.printed), ray.printed
        return ray

    def _on(self, number: int, *command: str) -> tuple[str, ...]:
        return self.machines[number].command(*command) if self.machines else command
