"""The engine where a Ray cluster is named.

Ray finds a machine with free cores, or a free GPU, for each worker (ray_worker.py), and for a training on several
machines that many at once. It is told not to restart anything: the driver repeats what is lost.
"""

import logging
import os
import time
from typing import Any

from bukva.cluster.group import Group
from bukva.cluster.job import Job
from bukva.cluster.processes import END_SECONDS
from bukva.cluster.ray_access import ENVIRONMENT, check_head
from bukva.cluster.ray_worker import Actor, RemoteWorker
from bukva.core.errors import BukvaError

MANY = 1 << 30


class RayEngine:
    """Runs as many workers as the cluster has cores for, or GPUs.

    Args:
        address: of the head, HOST:PORT.
        cores: of each trial, on each of its machines.
        gpus: the same.
        nodes: machines of each trial.

    Raises:
        BukvaError: Ray is not installed, refuses the token, or does not answer; or there are fewer machines.
    """

    def __init__(self, address: str, cores: int = 1, gpus: float = 0, nodes: int = 1) -> None:
        self.cores, self._gpus, self._nodes = cores, gpus, nodes
        os.environ.update(ENVIRONMENT)  # Ray reads it when it is imported
        check_head(address)
        import ray

        try:
            ray.init(address=address, namespace="bukva", log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            said = str(error).strip().partition("\n")[0].rstrip(".")
            raise BukvaError(f"--address {address}: Ray does not let this machine in ({said}).") from None
        self._workers: list[RemoteWorker | Group] = []
        if nodes > 1 and not self.slots:
            raise BukvaError(
                f"--nodes {nodes}: fewer machines of the cluster have --cores {cores} --gpus {gpus:g}; let others join."
            )

    @property
    def slots(self) -> int:
        """How many trials the machines that are there now can run at the same time."""
        import ray

        nodes = ray.nodes()
        machines = [node["Resources"] for node in nodes if node["Alive"]]
        return n_groups([self._places(machine) for machine in machines], self._nodes)

    def has_place(self) -> bool:
        """Whether machines have free cores, or free GPUs, that no worker waits for.

        Raises:
            BukvaError: the head is gone.
        """
        import ray
        from ray.exceptions import RayError

        self._workers = [worker for worker in self._workers if worker.status() is None]
        if not all(worker.is_placed for worker in self._workers):
            return False
        try:
            return self._places(ray.available_resources()) >= self._nodes
        except (RayError, ConnectionError) as error:
            raise BukvaError(
                f"The head of the cluster is gone ({error}); start it, and give the command again."
            ) from None

    def start(self, job: Job) -> RemoteWorker | Group | None:
        """Start a worker; None while all places are taken."""
        if not self.has_place():
            return None
        if self._nodes > 1:
            self._workers.append(self._group(job))
        else:
            worker = self._worker()
            worker.begin(job)
            self._workers.append(worker)
        return self._workers[-1]

    def _group(self, job: Job) -> Group:
        """Workers on as many machines; Ray keeps places for all, or for none."""
        from ray.util import placement_group, remove_placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        places = placement_group([{"CPU": self.cores, "GPU": self._gpus}] * self._nodes, strategy="STRICT_SPREAD")
        members = [self._worker(PlacementGroupSchedulingStrategy(places, index)) for index in range(self._nodes)]
        return Group(job, members, lambda: remove_placement_group(places))

    def _worker(self, where: Any = None) -> RemoteWorker:
        """A worker for which Ray looks for a machine."""
        import ray

        actor = ray.remote(Actor).options(
            num_cpus=self.cores, num_gpus=self._gpus, max_restarts=0, max_task_retries=0, scheduling_strategy=where
        )
        return RemoteWorker(actor.remote())

    def _places(self, resources: dict[str, float]) -> int:
        """How many workers fit."""
        by_gpus = resources.get("GPU", 0) // self._gpus if self._gpus else MANY
        return int(min(resources.get("CPU", 0) // self.cores, by_gpus))

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


def n_groups(places: list[int], size: int) -> int:
    """How many groups fit at the same time, each on so many different machines.

    Args:
        places: how many workers each machine has room for.
        size: machines of a group.
    """
    groups = sum(places) // size
    while sum(min(each, groups) for each in places) < size * groups:
        groups -= 1
    return groups
