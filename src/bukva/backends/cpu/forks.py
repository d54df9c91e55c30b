"""Train one model on all cores of a CPU with one forked process for each core. The processes share memory.

Threads would wait for each other after each operation, hundreds of times in an update, which takes longer than the
computations of a small model. Here each process computes a part of the batch, and processes wait for each other only
three times in an update: before the gradients are summed, before the loss and the gradient norm are summed, and after
the weights are updated. Each process updates a part of the weights (Rajbhandari et al. 2020, "ZeRO").

Workers are forked when training starts, so they can read the text and its n-gram counts without copying them. If one
process dies, the others exit at the next barrier.
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

MIN_IDS_PER_WORKER = 256  # a process that computes fewer ids of a batch costs more time than it saves


@dataclass(frozen=True)
class Forks(Group):
    """A group of forked processes. Rank 0 is the process that forked the others.

    owners: for each parameter, the rank of the process that updates it.
    gradients: (n, N) in shared memory, the gradients of n processes for N weights.
    numbers: alternates between two buffers in shared memory, (n, 2) each, to sum numbers over all processes.
    sockets: in rank 0, the sockets to all other processes. In another process, the socket to rank 0.
    """

    owners: Sequence[int] = ()
    gradients: Tensor = field(default_factory=lambda: torch.empty(0))
    numbers: Iterator[Tensor] = field(default_factory=lambda: iter(()))
    sockets: Sequence[socket.socket] = ()

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        buffers = self.gradients.split([parameter.numel() for parameter in parameters], dim=1)  # (n, numel) each
        with_gradient = [
            each for each in zip(parameters, buffers, self.owners, strict=True) if each[0].grad is not None
        ]
        for parameter, buffer, owner in with_gradient:
            if owner != self.rank:
                buffer[self.rank].copy_(parameter.grad.view(-1))
                parameter.grad = None
        self.barrier()
        for parameter, buffer, owner in with_gradient:
            if owner == self.rank:
                for rank in range(self.size):
                    if rank != self.rank:
                        parameter.grad += buffer[rank].view_as(parameter)
        norm = norm_of(parameters)  # only the parameters of this process have a gradient now
        totals = torch.stack([nats, norm.square()]).double()
        self._sum(totals)  # all processes get the same bits
        return totals[0].float(), totals[1].sqrt().float()

    def barrier(self) -> None:
        try:
            if not self.is_leader:
                self.sockets[0].sendall(b".")
            all_alive = all(other.recv(1) for other in self.sockets)
            if self.is_leader and all_alive:
                for other in self.sockets:
                    other.sendall(b".")
        except OSError:
            all_alive = False
        if not all_alive:
            raise BukvaError(f"One of the {self.size} training processes has died. Run the same command to resume.")

    def sum(self, value: float) -> float:
        total = torch.tensor(value, dtype=torch.float64)
        self._sum(total)
        return float(total)

    def _sum(self, values: Tensor) -> None:
        # the buffers alternate: a slow process may still read one buffer while a fast one writes the next sum
        rows = next(self.numbers)[:, : values.numel()]
        rows[self.rank] = values
        self.barrier()
        values.copy_(rows.sum(dim=0).view_as(values))


def n_forks(batch_size: int, block_size: int) -> int:
    """Return the number of processes that should train on this machine, by which `batch_size` is divisible."""
    # CUDA does not survive a fork, and outside Linux, some system libraries do not survive it
    if sys.platform != "linux" or torch.cuda.is_initialized():
        return 1
    n_max = min(torch.get_num_threads(), batch_size * block_size // MIN_IDS_PER_WORKER)
    return next((n for n in range(n_max, 1, -1) if batch_size % n == 0), 1)


@contextlib.contextmanager
def forked(
    n: int, work: Callable[[Group], None], parameters: Sequence[Tensor], states: Sequence[Tensor]
) -> Iterator[Group]:
    """Fork n - 1 worker processes, and yield the process group. The workers are killed when the with block ends.

    Each worker calls `work` with its own `Group` object. Every process uses one thread. The weights to train and the
    tensors of the optimizer, `parameters` and `states`, are moved to shared memory.
    """
    for tensor in [*parameters, *states]:
        tensor.data = _shared_memory(tensor.nbytes).view(tensor.dtype).view_as(tensor).copy_(tensor.data)
    sizes = [parameter.numel() for parameter in parameters]
    gradients = _shared_memory(4 * n * sum(sizes)).view(torch.float32).view(n, -1)
    numbers = [_shared_memory(8 * n * 2).view(torch.float64).view(n, 2) for _ in range(2)]

    def group(rank: int, sockets: Sequence[socket.socket]) -> Forks:
        return Forks(rank, n, rank, n, _owners(sizes, n), gradients, itertools.cycle(numbers), sockets)

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
            os.kill(child, signal.SIGKILL)  # safe, because a worker only changes shared memory
            os.waitpid(child, 0)
        for other in sockets:
            other.close()
        torch.set_num_threads(n_threads)


def _shared_memory(n_bytes: int) -> Tensor:
    """Return an (n_bytes,) tensor of uint8 in memory that processes share which are forked later."""
    return torch.frombuffer(mmap.mmap(-1, n_bytes), dtype=torch.uint8)


def _owners(sizes: Sequence[int], n: int) -> list[int]:
    """Assign each parameter to one of `n` processes."""
    owners, sums = [0] * len(sizes), [0] * n
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[i] = sums.index(min(sums))
        sums[owners[i]] += sizes[i]
    return owners


def _run_and_exit(work: Callable[[Group], None], group: Group) -> NoReturn:
    """Call `work` with `group`, then end this process, even if `work` raises an exception."""
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
