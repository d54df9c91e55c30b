"""Workers that train one model on the cores of a CPU: one forked process for each core, with shared memory.

Threads that share each operation wait for each other at its end, hundreds of times in an update, and a small model
waits longer than it computes. Workers that each compute a share of the batch wait twice in an update: to sum the
gradients, and after each has updated its share of the weights, which are in shared memory (a "zero redundancy
optimizer": Rajbhandari et al. 2020, "ZeRO"). They are forked when the training starts, so that they have the text and
its n-grams without copying them, and end with it. If one process dies, the others exit at the next barrier.
"""

import contextlib
import itertools
import mmap
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import torch
from torch import Tensor

from bukva.backends.group import Group, norm_of
from bukva.core.errors import BukvaError

SHARE_IDS = 256  # a smaller share of a batch is not worth a process


@dataclass(frozen=True)
class Forks(Group):
    """One of the workers; rank 0 is the process that forked the others.

    owners: the rank that updates each parameter.
    gradients: (n, N) in shared memory, the gradients of each worker.
    numbers: buffers for one sum and for the next, (n, 2) in shared memory.
    sockets: to rank 0; those of rank 0 to each of the others.
    """

    owners: Sequence[int] = ()
    gradients: Tensor = field(default_factory=lambda: torch.empty(0))
    numbers: Iterator[Tensor] = field(default_factory=lambda: iter(()))
    sockets: Sequence[socket.socket] = ()

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Sum the gradients of the parameters that this worker owns, and drop the others."""
        places = self.gradients.split([parameter.numel() for parameter in parameters], dim=1)  # (n, numel) each
        learned = [each for each in zip(parameters, places, self.owners, strict=True) if each[0].grad is not None]
        for parameter, place, owner in learned:
            if owner != self.rank:
                place[self.rank].copy_(parameter.grad.view(-1))
                parameter.grad = None
        self.barrier()
        for parameter, place, owner in learned:
            if owner == self.rank:
                for rank in range(self.size):
                    if rank != self.rank:
                        parameter.grad += place[rank].view_as(parameter)
        norm = norm_of(parameters)  # of what is left: the own ones
        both = torch.stack([nats, norm.square()]).double()
        self._sum(both)  # the same bits in all
        return both[0].float(), both[1].sqrt().float()

    def barrier(self) -> None:
        """Wait until all workers have called this.

        Raises:
            BukvaError: one of them has ended.
        """
        try:
            if not self.leads:
                self.sockets[0].sendall(b".")
            is_here = all(other.recv(1) for other in self.sockets)
            if self.leads and is_here:
                for other in self.sockets:
                    other.sendall(b".")
        except OSError:
            is_here = False
        if not is_here:
            raise BukvaError(f"one of the {self.size} processes of a training was ended; give the same command again.")

    def sum(self, value: float) -> float:
        """Return the sum of one number of each worker."""
        total = torch.tensor(value, dtype=torch.float64)
        self._sum(total)
        return float(total)

    def _sum(self, values: Tensor) -> None:
        # two buffers in turn: before one is written again, all workers have passed a barrier after reading it
        rows = next(self.numbers)[:, : values.numel()]
        rows[self.rank] = values
        self.barrier()
        values.copy_(rows.sum(dim=0).view_as(values))


def n_forks(batch_size: int, block_size: int) -> int:
    """Return the number of workers that learn batches of this shape on this machine; 1 for no fork."""
    if sys.platform != "linux" or torch.cuda.is_initialized():  # libraries, and CUDA, do not survive a fork
        return 1
    most = min(torch.get_num_threads(), batch_size * block_size // SHARE_IDS)
    return next((n for n in range(most, 1, -1) if batch_size % n == 0), 1)


@contextlib.contextmanager
def forked(
    n: int, work: Callable[[Group], None], parameters: Sequence[Tensor], states: Sequence[Tensor]
) -> Iterator[Group]:
    """Fork n - 1 workers that run `work`, and yield the group of this process. All use one thread while the block runs.

    Args:
        n: number of workers, this process included.
        work: called with its group in each forked process, which ends with it.
        parameters: the weights that are trained; they move to shared memory.
        states: the optimizer's tensors; they move to shared memory.

    Raises:
        BukvaError: another worker has ended.
    """
    for tensor in [*parameters, *states]:
        tensor.data = _shared_memory(tensor.nbytes).view(tensor.dtype).view_as(tensor).copy_(tensor.data)
    sizes = [parameter.numel() for parameter in parameters]
    gradients = _shared_memory(4 * n * sum(sizes)).view(torch.float32).view(n, -1)
    numbers = [_shared_memory(8 * n * 2).view(torch.float64).view(n, 2) for _ in range(2)]

    def group(rank: int, sockets: Sequence[socket.socket]) -> Forks:
        return Forks(rank, n, rank, n, _divided(sizes, n), gradients, itertools.cycle(numbers), sockets)

    n_threads, children = torch.get_num_threads(), []
    sockets: list[socket.socket] = []
    torch.set_num_threads(1)
    try:
        for rank in range(1, n):
            here, there = socket.socketpair()
            child = os.fork()
            if child == 0:
                for other in [*sockets, here]:
                    other.close()
                _run_and_exit(work, group(rank, [there]))
            there.close()
            children.append(child)
            sockets.append(here)
        yield group(0, sockets)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)  # it owns nothing
            os.waitpid(child, 0)
        for other in sockets:
            other.close()
        torch.set_num_threads(n_threads)


def _shared_memory(n_bytes: int) -> Tensor:
    """(n_bytes,) uint8 that this process shares with those that it forks."""
    return torch.frombuffer(mmap.mmap(-1, n_bytes), dtype=torch.uint8)


def _divided(sizes: Sequence[int], n: int) -> list[int]:
    """Return the owner, below n, of each thing of these sizes: the largest first, each to the one that has least."""
    owners, sums = [0] * len(sizes), [0] * n
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[i] = sums.index(min(sums))
        sums[owners[i]] += sizes[i]
    return owners


def _run_and_exit(work: Callable[[Group], None], group: Group) -> NoReturn:
    """Run `work` and end this process, whatever happens: rank 0 reports what is wrong, and saves."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        work(group)
    except BukvaError:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
