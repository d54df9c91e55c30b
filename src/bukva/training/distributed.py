"""Data-parallel training: several processes train one model with torch.distributed, on one or several machines.

Each process has a copy of the whole model, and computes its part of every batch and of every validation score. The
gradients are all-reduced, so all processes make the same update. Except for rounding, the loss curve does not depend on
the number of processes. The launcher of torch (the program behind `torchrun`) starts and stops the processes.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from bukva.backends.group import ALONE, Group, norm_of
from bukva.core.errors import BukvaError, PeerLostError
from bukva.core.machine import n_cores

TIMEOUT = timedelta(seconds=45)  # for a process that hangs; a process that exits is noticed immediately
MAX_PER_CORE = 4  # maximum number of processes per core; more processes would only wait for each other


@dataclass(frozen=True)
class Distributed(Group):
    """Group of processes that communicate through torch.distributed. Each of them updates all parameters."""

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        learned = [parameter for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([*(parameter.grad.flatten() for parameter in learned), nats.view(1)])
        self._all_reduce(flat)
        *sums, nats = flat.split([*(parameter.numel() for parameter in learned), 1])
        for parameter, total in zip(learned, sums, strict=True):
            parameter.grad = total.view_as(parameter)
        return nats.squeeze(), norm_of(parameters)

    def sum(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64, device=self._device)
        self._all_reduce(total)
        return float(total)

    def broadcast(self, content: bytes) -> bytes:
        size = int(self.sum(len(content) if self.is_leader else 0))
        if not size:
            return b""
        whole = bytearray(content) if self.is_leader else bytearray(size)
        message = torch.frombuffer(whole, dtype=torch.uint8).to(self._device)
        dist.broadcast(message, src=0)
        return message.cpu().numpy().tobytes()

    @property
    def _device(self) -> str:
        return "cuda" if dist.get_backend() == "nccl" else "cpu"  # NCCL only supports tensors on GPUs

    def _all_reduce(self, values: Tensor) -> None:
        try:
            dist.all_reduce(values)
        except RuntimeError:  # closed connection or timeout
            raise PeerLostError(
                f"train-gpt: process {self.rank} of {self.size} lost the connection to the other processes."
            ) from None


def is_launched() -> bool:
    """Return whether torch's launcher has started this process, through `launch` or the command `torchrun`."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(processes: int) -> bool:
    """Run this program with the same arguments in several processes, and wait until all of them have ended.

    Each machine starts an equal part of `processes`. The environment variables of torchrun describe the machines:
    PET_NNODES is their number. If one process fails, the others are stopped. Return False if there is nothing to
    launch, because `processes` is 1, or because this process was launched itself.

    Raises:
        BukvaError: `processes` is too large or not divisible by the number of machines, or a process failed.
        PeerLostError: another machine cannot be reached, or on several machines, a process lost the others.
    """
    if processes == 1 or is_launched():
        return False
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    machines, most = int(os.environ.get("PET_NNODES", "1")), MAX_PER_CORE * n_cores()
    if processes % machines:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {processes} processes cannot be divided equally among {machines} "
            f"machines (PET_NNODES). Use a multiple of {machines}."
        )
    if processes // machines > most:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: this machine would run {processes // machines} processes, which is too "
            f"many for its {n_cores()} usable cores. Use at most {most} processes per machine."
        )
    # the launcher would log an error in many lines; the messages below report it in one line
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # without it, the launcher warns; backends/device.py sets the threads
    module = sys.modules["__main__"].__spec__
    assert module is not None, "stages run as modules"
    arguments = [f"--nproc-per-node={processes // machines}", "-m", module.name, *sys.argv[1:]]
    try:
        run.run(run.parse_args(arguments))
        return True
    except ChildFailedError as error:
        # report a killed process first: the others fail because of it
        rank, failure = min(error.failures.items(), key=lambda item: (item[1].exitcode >= 0, item[1].timestamp))
        killed = failure.exitcode < 0
        how = f"was killed by {failure.signal_name()}" if killed else f"exited with status {failure.exitcode}"
        kind = (
            PeerLostError if machines > 1 and (killed or failure.exitcode == PeerLostError.exit_status) else BukvaError
        )
        raise kind(
            f"train-gpt: process {rank} of {processes} {how}. The other processes were stopped. Run the same command "
            "again."
        ) from None
    except dist.DistError as error:
        what = str(error).partition("\n")[0].rstrip(".")
        raise PeerLostError(f"train-gpt: cannot reach the other machines ({what}).") from None
    except SignalException as error:
        raise SystemExit(128 + error.sigval) from None


@contextlib.contextmanager
def join(processes: int, device: str = "auto") -> Iterator[Group]:
    """Connect this process to the other processes that torch's launcher has started, and yield the group of all.

    BukvaError: the launcher started another number of processes. PeerLostError: the others cannot be reached.
    """
    if not is_launched():
        yield ALONE
        return
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    group = Distributed(*(int(os.environ[name]) for name in names))
    if group.size != processes:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: the value is {processes}, but the launcher started {group.size} "
            f"processes. Start {processes} processes, or set the value with `-S train_gpt.processes={group.size}`."
        )
    if group.size == 1:
        yield ALONE
        return
    try:
        is_cuda = device != "cpu" and torch.cuda.is_available()
        dist.init_process_group("nccl" if is_cuda else "gloo", timeout=TIMEOUT)
    except RuntimeError as error:
        raise PeerLostError(
            f"train-gpt: process {group.rank} of {group.size} cannot reach the other processes ({error})."
        ) from None
    try:
        yield group
    finally:
        dist.destroy_process_group()
