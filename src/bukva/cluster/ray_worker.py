"""A worker on a machine of a Ray cluster.

Ray puts an actor there, which starts the worker as this machine would (processes.py). A call to an actor may never
return: its machine may be cut off. So a call is started, and its answer is taken when it has come.
"""

import socket
from typing import Any

from bukva.cluster.job import Job
from bukva.cluster.processes import Process

LOST = -1


class Actor:
    """Runs one worker, on the machine where Ray has put it."""

    def __init__(self) -> None:
        self._process: Process | None = None

    def place(self) -> tuple[str, str]:
        """The name of the machine, and HOST:PORT where others can find it."""
        import ray

        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        address = ray.util.get_node_ip_address()
        return socket.gethostname(), f"{address}:{port}"

    def begin(self, job: str) -> None:
        """Start the worker."""
        self._process = Process(Job.from_json(job), None)  # Ray has set CUDA_VISIBLE_DEVICES

    def look(self) -> tuple[list[str], int | None]:
        """The lines since the last call, and the exit status."""
        if self._process is None:
            return [], None
        status = self._process.status()  # before the lines: behind its end there are none
        return self._process.news(), status

    def stop(self) -> None:
        """Ask the worker to save and end."""
        if self._process:
            self._process.stop()


class RemoteWorker:
    """A worker on another machine; begin starts it, as soon as it has one."""

    def __init__(self, actor: Any) -> None:
        self.node = self.meeting = ""
        self._actor = actor
        self._lines: list[str] = []
        self._status: int | None = None
        self._placed, self._looked = actor.place.remote(), actor.look.remote()
        self._begun: Any = None

    @property
    def is_placed(self) -> bool:
        """Whether Ray has found a machine for it."""
        self._poll()
        return bool(self.node) or self._status is not None

    def begin(self, job: Job) -> None:
        """Start the worker's program."""
        self._begun = self._actor.begin.remote(job.to_json())

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
            if not self.node and ray.wait([self._placed], timeout=0)[0]:
                self.node, self.meeting = ray.get(self._placed)
            if self._begun and ray.wait([self._begun], timeout=0)[0]:
                self._begun = ray.get(self._begun)  # raises what begin has raised
            if ray.wait([self._looked], timeout=0)[0]:
                lines, self._status = ray.get(self._looked)
                self._lines += lines
                self._looked = self._actor.look.remote()
        except RayError:
            self._status = LOST
        if self._status is not None:
            self.release()
