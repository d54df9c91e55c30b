"""Data-parallel training of one model by several processes, on one machine or on many, with torch.distributed.

Each process holds the whole model, computes its share of every batch and of every scoring, and all-reduces the
gradients, so that all make the same update. The batches are those of a single process, and the loss follows the same
curve up to rounding. torch's own launcher starts the processes, and stops all when one fails.
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
from bukva.core.errors import BukvaError, LostError
from bukva.core.machine import n_cores

PATIENCE = timedelta(seconds=45)  # with a process that does not respond; the end of a process is noticed at once
PER_CORE = 4  # processes; more only wait for each other


@dataclass(frozen=True)
class Distributed(Group):
    """A process among those that torch.distributed connects."""

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the gradients of all parameters over all processes, in one message."""
        learned = [parameter for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([*(parameter.grad.flatten() for parameter in learned), nats.view(1)])
        self._all_reduce(flat)
        *sums, nats = flat.split([*(parameter.numel() for parameter in learned), 1])
        for parameter, total in zip(learned, sums, strict=True):
            parameter.grad = total.view_as(parameter)
        return nats.squeeze(), norm_of(parameters)

    def sum(self, value: float) -> float:
        """Return the sum of one number of each process."""
        total = torch.tensor(value, dtype=torch.float64, device=self._device)
        self._all_reduce(total)
        return float(total)

    def broadcast(self, content: bytes) -> bytes:
        """Return the bytes that rank 0 holds."""
        size = int(self.sum(len(content) if self.leads else 0))
        if not size:
            return b""
        whole = bytearray(content) if self.leads else bytearray(size)
        message = torch.frombuffer(whole, dtype=torch.uint8).to(self._device)
        dist.broadcast(message, src=0)
        return message.cpu().numpy().tobytes()

    @property
    def _device(self) -> str:
        return "cuda" if dist.get_backend() == "nccl" else "cpu"  # NCCL reaches the memory of GPUs only

    def _all_reduce(self, values: Tensor) -> None:
        try:
            dist.all_reduce(values)
        except RuntimeError:  # the connection was closed, or nothing came in time
            raise LostError(
                f"train-gpt: process {self.rank} of {self.size} lost the connection to the others."
            ) from None


def is_launched() -> bool:
    """Whether torch's launcher, ours or torchrun, started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def launch(processes: int) -> None:
    """Run this program, with its arguments, in several processes, and wait for all.

    On several machines, named by PET_NNODES and the other variables of torchrun, this one starts its share.

    Raises:
        BukvaError: the processes are too many or no equal shares, or one failed; the others are stopped then.
        LostError: another machine did not come, was lost, or a process of this one was killed, of several machines.
        SystemExit: a signal ended this process; the others are stopped.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    machines, most = int(os.environ.get("PET_NNODES", "1")), PER_CORE * n_cores()
    if processes % machines:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {processes} is not divisible by the {machines} machines of PET_NNODES; "
            f"use a multiple of {machines}."
        )
    if processes // machines > most:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {processes // machines} on this machine, where it may use {n_cores()} "
            f"cores; use {most} or fewer."
        )
    # the launcher prints in many lines what the message below says in one
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the launcher warns if unset; backends/device.py sets the threads
    module = sys.modules["__main__"].__spec__
    assert module is not None, "stages run as modules"
    arguments = [f"--nproc-per-node={processes // machines}", "-m", module.name, *sys.argv[1:]]
    try:
        run.run(run.parse_args(arguments))
    except ChildFailedError as error:
        # a process that a signal ended counts as the first, because others follow
        rank, failure = min(error.failures.items(), key=lambda item: (item[1].exitcode >= 0, item[1].timestamp))
        killed = failure.exitcode < 0
        how = f"was ended by {failure.signal_name()}" if killed else f"ended with status {failure.exitcode}"
        kind = LostError if machines > 1 and (killed or failure.exitcode == LostError.exit_status) else BukvaError
        raise kind(
            f"train-gpt: process {rank} of {processes} {how}, and the others were stopped; give the same command again."
        ) from None
    except dist.DistError as error:
        what = str(error).partition("\n")[0].rstrip(".")
        raise LostError(f"train-gpt: the other machines cannot be reached ({what}).") from None
    except SignalException as error:
        raise SystemExit(128 + error.sigval) from None


@contextlib.contextmanager
def join(processes: int, device: str = "auto") -> Iterator[Group]:
    """Connect with the other processes of a training, and yield the group; a group of one without a launcher.

    Args:
        processes: their number.
        device: compute.device of params.yaml, which decides between NCCL and gloo.

    Raises:
        BukvaError: their number is not train_gpt.processes.
        LostError: they cannot be reached.
    """
    if not is_launched():
        yield ALONE
        return
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    group = Distributed(*(int(os.environ[name]) for name in names))
    if group.size != processes:
        raise BukvaError(
            f"params.yaml, train_gpt.processes: {processes}, but the launcher started {group.size}; "
            f"use -S train_gpt.processes={group.size}, or start {processes}."
        )
    if group.size == 1:
        yield ALONE
        return
    try:
        is_cuda = device != "cpu" and torch.cuda.is_available()
        dist.init_process_group("nccl" if is_cuda else "gloo", timeout=PATIENCE)
    except RuntimeError as error:
        raise LostError(f"process {group.rank} of {group.size} cannot reach the others: {error}") from None
    try:
        yield group
    finally:
        dist.destroy_process_group()
