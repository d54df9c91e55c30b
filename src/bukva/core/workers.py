"""A function applied to a stream of items by several processes, the results in the order of the items.

So many items are in memory at most (IN_FLIGHT), whatever the number of processes is. No process outlives this one, not
even one that is killed while a worker computes; errors of the function are raised here, in the order of the items.
"""

import contextlib
import fcntl
import itertools
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from bukva.core.errors import BukvaError

IN_FLIGHT = 16  # items that are computed or wait for their turn; more processes would have nothing to do
CONTEXT = multiprocessing.get_context("spawn")  # a fork copies the locks that threads hold, and never frees them
ENDED = (
    "a process that works on a piece of the text was ended from outside; free some memory, or use "
    "-S compute.threads=1, and give the same command again."
)


@contextlib.contextmanager
def applied(function: Callable[[Any], Any], processes: int) -> Iterator[Callable[[Iterable[Any]], Iterator[Any]]]:
    """Yield what applies the function to items, one after the other; for one process, in this one.

    Args:
        function: is pickled, and so are its items and results.
        processes: IN_FLIGHT at most are started.

    Raises:
        BukvaError: a worker was ended from outside.
    """
    if processes < 2:
        yield lambda items: map(function, items)
        return
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(min(processes, IN_FLIGHT), CONTEXT, _begin)

    def in_order(items: Iterable[Any]) -> Iterator[Any]:
        items, pending = iter(items), deque[Future[Any]]()
        try:
            while True:
                free = IN_FLIGHT - len(pending)
                pending.extend(pool.submit(function, item) for item in itertools.islice(items, free))
                if not pending:
                    return
                yield pending.popleft().result()
        except BrokenProcessPool:
            raise BukvaError(ENDED) from None

    try:
        yield in_order
    finally:
        for process in multiprocessing.active_children():
            if process not in others:
                process.kill()  # it may be in an expression that never ends
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """What a worker does first. Ctrl-C reaches all processes of a terminal; the parent ends its workers.

    The parent holds a pipe open; when it ends, in whatever way, the system sends SIGIO, which ends the worker. A thread
    that waited for this would not run while a regular expression is matched, and some never end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, fcntl.fcntl(parent.sentinel, fcntl.F_GETFL) | os.O_ASYNC)
