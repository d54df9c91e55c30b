"""Workers on this machine, each a process: the engine where no cluster is named."""

import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Protocol

from bukva.cluster.job import Job
from bukva.core.errors import BukvaError
from bukva.core.machine import n_cores
from bukva.core.processes import python_path

END_SECONDS = 150.0  # a little more than a worker gives its training to save


class Worker(Protocol):
    """A worker that a driver looks at."""

    @property
    def node(self) -> str:
        """The name of its machine; "" while none is chosen."""
        ...

    def news(self) -> list[str]:
        """The lines that it printed since the last call."""
        ...

    def status(self) -> int | None:
        """Its exit status, negative after a signal or when its machine is lost; None while it runs."""
        ...

    def stop(self) -> None:
        """Ask it to save and end; returns at once."""
        ...


class Engine(Protocol):
    """A place for workers."""

    cores: int  # of each trial

    def has_place(self) -> bool:
        """Whether a worker could start now."""
        ...

    def start(self, job: Job) -> Worker | None:
        """Start a worker; None while all places are taken."""
        ...

    def close(self) -> None:
        """End all workers, after their trainings have saved."""
        ...


class Process:
    """A worker on this machine."""

    def __init__(self, job: Job, gpu: str | None) -> None:
        self.node, self.gpu = socket.gethostname(), gpu
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bukva.cluster.work"],
            env={**os.environ, "PYTHONPATH": python_path()} | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C reaches the driver only
        )
        assert self._process.stdin
        self._process.stdin.write(job.to_json() + "\n")
        self._process.stdin.close()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def news(self) -> list[str]:
        """The lines that it printed since the last call."""
        return [self._lines.get() for _ in range(self._lines.qsize())]

    def status(self) -> int | None:
        """Its exit status; None while it runs, or while some of its lines are unread."""
        if self._process.poll() is None or self._reader.is_alive() or not self._lines.empty():
            return None
        return self._process.returncode

    def stop(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def end(self) -> None:
        """Wait until it has saved, else kill it."""
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)


class Processes:
    """Runs as many workers as there are slots; each has a GPU of its own if the machine has any.

    Without GPUs all share the cores, as in DVC's queue: with fewer threads a training would make other weights.

    Args:
        slots: 0 for one on each GPU, or on each core.

    Raises:
        BukvaError: there are more slots than GPUs, or than cores.
    """

    def __init__(self, slots: int = 0) -> None:
        self._gpus: Sequence[str | None] = gpus()
        places = len(self._gpus) or n_cores()
        if not 0 <= slots <= places:
            what = "GPUs" if self._gpus else "cores"
            raise BukvaError(f"--slots: {slots} is not possible with {places} {what}; use 1 to {places}.")
        self.slots, self.has_gpus = slots or places, bool(self._gpus)
        self.cores = n_cores()
        self._running: list[Process] = []

    def has_place(self) -> bool:
        """Whether a slot is free."""
        self._running = [worker for worker in self._running if worker.status() is None]
        return len(self._running) < self.slots

    def start(self, job: Job) -> Process | None:
        """Start a worker; None while all slots are taken."""
        if not self.has_place():
            return None
        taken = {worker.gpu for worker in self._running}
        worker = Process(job, next((gpu for gpu in self._gpus if gpu not in taken), None))
        self._running.append(worker)
        return worker

    def close(self) -> None:
        """End all workers, after their trainings have saved."""
        for worker in self._running:
            worker.stop()
        for worker in self._running:
            worker.end()


def gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if (named := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [each for each in named.split(",") if each]
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [str(index) for index, _ in enumerate(listed.splitlines())]
