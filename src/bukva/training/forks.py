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
from torch import Tensor

from bukva.core.errors import BukvaError
from bukva.training.parallel import Group

SHARE_IDS = 256  # the least share of a batch that is worth a process
SHARE_WINDOWS = 4  # shares are multiples of it, so that they choose windows to learn without n-grams as a batch does


@dataclass(frozen=True)
class Forks(Group):
    """One of the processes; rank 0 is the one that was there before.

    owners: the rank that updates each parameter.
    slots: for one sum and for the next, a row of bytes in common for each process.
    sockets: to rank 0, or of rank 0 to each of the others.
    """

    owners: Sequence[int] = ()
    slots: Iterator[Tensor] = field(default_factory=lambda: iter(()))
    sockets: Sequence[socket.socket] = ()

    def keep_own(self, parameters: list[Tensor]) -> None:
        """Drop the gradients of what another process updates."""
        for parameter, owner in zip(parameters, self.owners, strict=True):
            if owner != self.rank:
                parameter.grad = None

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
        rows = [row[: values.nbytes].view(values.dtype).view(values.shape) for row in next(self.slots)]
        rows[self.rank].copy_(values)
        self.meet()
        torch.add(rows[0], rows[1], out=values)  # in one order, so that all have the same bits
        for row in rows[2:]:
            values.add_(row)


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
    size = sum(parameter.nbytes for parameter in parameters) // 8 * 8 + 16  # the gradients and one number more
    slots = [_in_common(n * size).view(n, size) for _ in range(2)]
    owners = _divided([parameter.numel() for parameter in parameters], n)
    n_threads, children = torch.get_num_threads(), []
    sockets: list[socket.socket] = []
    torch.set_num_threads(1)
    for rank in range(1, n):
        here, there = socket.socketpair()
        child = os.fork()
        if child == 0:
            for other in [*sockets, here]:
                other.close()
            with _ending_with_the_first():
                yield Forks(rank, n, rank, n, owners, itertools.cycle(slots), [there])
        there.close()
        children.append(child)
        sockets.append(here)
    try:
        yield Forks(0, n, 0, n, owners, itertools.cycle(slots), sockets)
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
