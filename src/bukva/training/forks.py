"""The processes in which a training uses the cores of a CPU: one each, made by fork, with memory in common.

Threads that share each operation wait for each other at its end, hundreds of times in an update, and a small model
waits longer than it computes. Processes that compute shares of a batch meet twice in an update: to sum the gradients,
and when each has updated its share of the weights, which are in common (a "zero redundancy optimizer": Rajbhandari et
al. 2020, "ZeRO"). They are made when the training starts, so they have the text and its counts without reading or
copying them, and they end with it: whoever meets a process that has ended, ends, too.
"""

import contextlib
import itertools
import mmap
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from bukva.core.errors import BukvaError
from bukva.training.parallel import Group

SHARE_IDS = 256  # the least share of a batch that is worth a process
SHARE_WINDOWS = 4  # shares are multiples of it, so that they choose windows to learn without n-grams as a batch does


@dataclass(frozen=True)
class Forks(Group):
    """One of the processes; rank 0 is the one that was there before.

    owners: the rank that updates each parameter.
    gradients: (n, N) in common, those of each process.
    numbers: for one sum and for the next, (n, 2) in common.
    sockets: to rank 0, or of rank 0 to each of the others.
    """

    owners: Sequence[int] = ()
    gradients: Tensor = field(default_factory=lambda: torch.empty(0))
    numbers: Iterator[Tensor] = field(default_factory=lambda: iter(()))
    sockets: Sequence[socket.socket] = ()

    def sum_gradients(self, parameters: list[Tensor], nats: Tensor) -> tuple[Tensor, Tensor]:
        """Each process sums, and keeps, the gradients of what it updates."""
        places = self.gradients.split([parameter.numel() for parameter in parameters], dim=1)  # (n, numel) each
        learned = [each for each in zip(parameters, places, self.owners, strict=True) if each[0].grad is not None]
        for parameter, place, owner in learned:
            if owner != self.rank:
                place[self.rank].copy_(parameter.grad.view(-1))
                parameter.grad = None
        self.meet()
        own = [(parameter.grad, place) for parameter, place, owner in learned if owner == self.rank]
        for gradient, place in own:
            for rank in range(self.size):
                if rank != self.rank:
                    gradient += place[rank].view_as(gradient)
        norm = nn.utils.get_total_norm([gradient for gradient, _ in own])
        both = torch.stack([nats, norm.square()]).double()
        self._sum(both)  # the same bits in all
        return both[0].float(), both[1].sqrt().float()

    def meet(self) -> None:
        """Wait until all processes are here."""
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

    def _sum(self, values: Tensor) -> None:
        # two in turn: between two writes into one, all have met after they read it
        rows = next(self.numbers)[:, : values.numel()]
        rows[self.rank] = values
        self.meet()
        values.copy_(rows.sum(dim=0).view_as(values))


def n_forks(batch_size: int, block_size: int, device: torch.device) -> int:
    """In how many processes batches of this size are learned on this machine."""
    if device.type != "cpu" or sys.platform != "linux":  # elsewhere libraries do not survive a fork
        return 1
    most = min(torch.get_num_threads(), batch_size * block_size // SHARE_IDS)
    return next((n for n in range(most, 1, -1) if batch_size % (n * SHARE_WINDOWS) == 0), 1)


@contextlib.contextmanager
def forked(n: int, parameters: Sequence[Tensor], states: Sequence[Tensor]) -> Iterator[Group]:
    """Run the block in n processes, with one thread each; what follows it, in the first one only.

    Args:
        n: their number, with this one.
        parameters: what is trained; it will be in common.
        states: what the optimizers keep of it; it will be in common, too.

    Raises:
        BukvaError: another process has ended.
    """
    for tensor in [*parameters, *states]:
        tensor.data = _in_common(tensor.nbytes).view(tensor.dtype).view_as(tensor).copy_(tensor.data)
    sizes = [parameter.numel() for parameter in parameters]
    owners, gradients = _divided(sizes, n), _in_common(4 * n * sum(sizes)).view(torch.float32).view(n, -1)
    numbers = [_in_common(8 * n * 2).view(torch.float64).view(n, 2) for _ in range(2)]
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
                with _ending_with_the_first():
                    yield Forks(rank, n, rank, n, owners, gradients, itertools.cycle(numbers), [there])
            there.close()
            children.append(child)
            sockets.append(here)
        yield Forks(0, n, 0, n, owners, gradients, itertools.cycle(numbers), sockets)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)  # it owns nothing
            os.waitpid(child, 0)
        for other in sockets:
            other.close()
        torch.set_num_threads(n_threads)


def _in_common(n_bytes: int) -> Tensor:
    """(n_bytes,) uint8 that processes forked from this one have in common with it."""
    return torch.frombuffer(mmap.mmap(-1, n_bytes), dtype=torch.uint8)


def _divided(sizes: Sequence[int], n: int) -> list[int]:
    """Who of n gets each thing of these sizes: the largest first, each to who has least."""
    owners, sums = [0] * len(sizes), [0] * n
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[i] = sums.index(min(sums))
        sums[owners[i]] += sizes[i]
    return owners


@contextlib.contextmanager
def _ending_with_the_first() -> Iterator[None]:
    """End this process after the block, whatever happens in it: the first one says what is wrong, and saves."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    except BukvaError:
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
