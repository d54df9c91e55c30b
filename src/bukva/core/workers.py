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
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from bukva.core.errors import BukvaError, sentence_for

IN_FLIGHT = 16  # items that are computed or wait for their turn; more processes would have nothing to do
CONTEXT = multiprocessing.get_context("spawn")  # a fork copies the locks that threads hold, and never frees them
OURS = signal.SIGINT, signal.SIGTERM  # Ctrl-C reaches all processes of a terminal; this one ends the workers

Apply = Callable[[Iterable[Any]], Iterator[Any]]


@contextlib.contextmanager
def applied(function: Callable[[Any], Any], processes: int) -> Iterator[Apply]:
    """Yield what applies the function to items, one after the other; for one process, in this one.

    Args:
        function: is pickled, and so are its items and results.
        processes: IN_FLIGHT at most are started, before the first item.

    Raises:
        BukvaError: a worker was ended from outside.
    """
    if processes < 2:
        yield lambda items: map(function, items)
        return
    workers = _start(function, min(processes, IN_FLIGHT))
    threads = ThreadPoolExecutor(len(workers))  # a thread waits for each worker, so that none waits for this one
    try:
        yield lambda items: _in_order(threads, workers, items)
    finally:
        for worker in workers:
            worker.process.kill()  # it may be in an expression that never ends
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()


class _Worker:
    """A process that applies the function, as this process sees it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._connection, there = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(there,), daemon=True)
        self.process.start()
        there.close()  # so that the end of either process ends the connection
        self._first = [function]  # sent later: a large one would wait here until the process has started

    def __call__(self, item: Any) -> Any:
        try:
            while self._first:
                self._connection.send(self._first.pop())
            self._connection.send(item)
            error, result = self._connection.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            raise BukvaError(_ended(self.process.exitcode)) from None
        if error:
            raise error
        return result

    def close(self) -> None:
        """Forget a process that has ended."""
        self.process.join()
        self.process.close()
        self._connection.close()


def _start(function: Callable[[Any], Any], processes: int) -> list[_Worker]:
    """Start workers that block the signals that end this process, which ends them."""
    resource_tracker.ensure_running()  # which unblocks them, and would do it at the start of the first worker
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OURS)  # inherited
    try:
        return [_Worker(function) for _ in range(processes)]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_order(threads: ThreadPoolExecutor, workers: list[_Worker], items: Iterable[Any]) -> Iterator[Any]:
    idle: SimpleQueue[_Worker] = SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def compute(item: Any) -> Any:
        worker = idle.get()
        try:
            return worker(item)
        finally:
            idle.put(worker)

    items, pending = iter(items), deque[Future[Any]]()
    while True:
        pending.extend(threads.submit(compute, item) for item in itertools.islice(items, IN_FLIGHT - len(pending)))
        if not pending:
            return
        yield pending.popleft().result()


def _serve(connection: Connection) -> None:
    """What a worker does until it is ended."""
    _end_with_parent()
    with contextlib.suppress(EOFError, ConnectionError):  # the parent has ended just now
        function = connection.recv()
        while True:
            connection.send(_result(function, connection.recv()))


def _result(function: Callable[[Any], Any], item: Any) -> tuple[Exception | None, Any]:
    try:
        return None, function(item)
    except Exception as error:
        if not sentence_for(error):  # a bug; otherwise people read the sentence only
            error.add_note(traceback.format_exc())
        return error, None


def _end_with_parent() -> None:
    """Let the system end this process when its parent is gone.

    The parent holds a pipe open; when it ends, in whatever way, the system sends SIGIO. A thread that waited for this
    would not run while a regular expression is matched, and some never end.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
    flags = fcntl.fcntl(parent.sentinel, fcntl.F_GETFL)
    fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)


def _ended(status: int | None) -> str:
    how = f"by {signal.Signals(-status).name}" if status is not None and status < 0 else f"with status {status}"
    advice = "free some memory, or use -S compute.threads=1, and give the same command again"
    return f"a process that works on a piece of the text was ended {how}; {advice}."
