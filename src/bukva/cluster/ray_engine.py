"""Workers on the machines of a Ray cluster.

Ray finds a machine with free cores, or a free GPU, and starts an actor there, which starts a worker as this machine
would (processes.py). Ray is told not to restart anything: the driver repeats what is lost.

A call to an actor may never return: its machine may be cut off. So a call is started, and its answer is taken when it
has come.
"""

import logging
import os
import socket
import time
from importlib.util import find_spec
from typing import Any

from bukva.base.errors import BukvaError
from bukva.cluster.job import Job
from bukva.cluster.processes import END_SECONDS, Process

LOST = -1
CONNECT_SECONDS = 5.0
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # always: without it everybody who reaches a port can run programs
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Actor:
    """Runs one worker, on the machine where Ray has put it."""

    def __init__(self, job: str) -> None:
        self._process = Process(Job.from_json(job), None)  # Ray has set CUDA_VISIBLE_DEVICES

    def node(self) -> str:
        """The name of the machine."""
        return socket.gethostname()

    def look(self) -> tuple[list[str], int | None]:
        """The lines since the last call, and the exit status."""
        status = self._process.status()  # before the lines: behind its end there are none
        return self._process.news(), status

    def stop(self) -> None:
        """Ask the worker to save and end."""
        self._process.stop()


class RemoteWorker:
    """A worker on another machine."""

    def __init__(self, actor: Any) -> None:
        self.node = ""
        self._actor = actor
        self._lines: list[str] = []
        self._status: int | None = None
        self._named, self._looked = actor.node.remote(), actor.look.remote()

    @property
    def is_placed(self) -> bool:
        """Whether Ray has found a machine for it."""
        self._poll()
        return bool(self.node) or self._status is not None

    def news(self) -> list[str]:
        """The lines that it printed since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def status(self) -> int | None:
        """Its exit status, LOST without its machine; None while it runs, or while some of its lines are unread."""
        self._poll()
        return None if self._lines else self._status

    def stop(self) -> None:
        """Send SIGTERM."""
        self._actor.stop.remote()

    def release(self) -> None:
        """End the actor, and with it what is left of its worker."""
        import ray

        ray.kill(self._actor)

    def _poll(self) -> None:
        import ray
        from ray.exceptions import RayError

        if self._status is not None:
            return
        try:
            if not self.node and ray.wait([self._named], timeout=0)[0]:
                self.node = ray.get(self._named)
            if ray.wait([self._looked], timeout=0)[0]:
                lines, self._status = ray.get(self._looked)
                self._lines += lines
                self._looked = self._actor.look.remote()
        except RayError:
            self._status = LOST
        if self._status is not None:
            self.release()


class RayEngine:
    """Runs as many workers as the cluster has cores for, or GPUs.

    Args:
        address: of the head, HOST:PORT.
        cores: of each trial.
        gpus: of each trial.

    Raises:
        BukvaError: Ray is not installed, refuses the token, or does not answer.
    """

    def __init__(self, address: str, cores: int = 1, gpus: float = 0) -> None:
        self.cores, self._gpus = cores, gpus
        os.environ.update(ENVIRONMENT)  # Ray reads it when it is imported
        check_installed()
        check_reachable(address)
        import ray

        try:
            ray.init(address=address, namespace="bukva", log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            said = str(error).strip().partition("\n")[0].rstrip(".")
            raise BukvaError(
                f"--address {address}: Ray does not answer ({said}); is your token that of its head?"
            ) from None
        self._actor = ray.remote(Actor).options(num_cpus=cores, num_gpus=gpus, max_restarts=0, max_task_retries=0)
        self._workers: list[RemoteWorker] = []

    @property
    def slots(self) -> int:
        """How many trials the machines that are there now can run at the same time."""
        import ray

        return int(ray.cluster_resources().get("CPU", 0) // self.cores)  # type: ignore[no-untyped-call]

    def has_place(self) -> bool:
        """Whether a machine has free cores, or a free GPU, that no worker waits for.

        Raises:
            BukvaError: the head is gone.
        """
        import ray
        from ray.exceptions import RayError

        self._workers = [worker for worker in self._workers if worker.status() is None]
        if not all(worker.is_placed for worker in self._workers):
            return False
        try:
            free = ray.available_resources()  # type: ignore[no-untyped-call]
        except (RayError, ConnectionError) as error:
            raise BukvaError(
                f"The head of the cluster is gone ({error}); start it, and give the command again."
            ) from None
        return free.get("CPU", 0) >= self.cores and free.get("GPU", 0) >= self._gpus

    def start(self, job: Job) -> RemoteWorker | None:
        """Start a worker; None while all places are taken."""
        if not self.has_place():
            return None
        worker = RemoteWorker(self._actor.remote(job.to_json()))
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        """End all workers, after their trainings have saved."""
        import ray

        for worker in self._workers:
            worker.stop()
        until = time.monotonic() + END_SECONDS
        while time.monotonic() < until and any(worker.status() is None for worker in self._workers):
            time.sleep(0.2)
        for worker in self._workers:
            worker.release()
        ray.shutdown()


def check_installed() -> None:
    """Check that Ray is installed.

    Raises:
        BukvaError: it is not.
    """
    if find_spec("ray") is None:
        raise BukvaError("Ray is not installed; run: make cluster.")


def check_reachable(address: str) -> None:
    """Check that something answers there; Ray itself would wait for more than a minute.

    Raises:
        BukvaError: nothing does.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except ValueError:
        raise BukvaError(f"--address: {address!r} is not HOST:PORT.") from None
    except OSError as error:
        raise BukvaError(f"--address {address}: nothing answers there ({error}); start the head first.") from None
