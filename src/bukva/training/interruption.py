"""Being asked to end: by a signal, or by the end of the DVC that started this process."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

import psutil

LOOK_SECONDS = 1.0  # between looks for DVC


class Interruption:
    """Whether this process was asked to end: the signal, or 0. Asked twice, it ends at once."""

    def __init__(self) -> None:
        self._signal = 0
        self._family = _family()
        self._looked_at = 0.0

    @property
    def signal(self) -> int:
        """SIGINT or SIGTERM, or 0; SIGTERM too when DVC is gone, for nobody waits for the result any more."""
        if not self._signal and time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            if any(_parent_of(process) != parent for process, parent in self._family):
                self._signal = signal.SIGTERM
                print("DVC, which started this training, is gone", file=sys.stderr, flush=True)
        return self._signal

    @contextlib.contextmanager
    def heard(self) -> Iterator["Interruption"]:
        """Within this block SIGINT and SIGTERM are noted instead of raised.

        Raises:
            SystemExit: 130 or 143, at the end of a block that came to its end although it was asked to stop.
        """
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._signal:
            self.leave()

    def leave(self) -> None:
        """End the process as whoever asked for it expects.

        Raises:
            SystemExit: 130 or 143.
        """
        sys.exit(128 + self._signal)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self._signal:
            sys.exit(128 + number)
        self._signal = number


def dvc() -> psutil.Process | None:
    """The DVC that runs this process as a stage; a shell or torch's launcher may stand between the two."""
    if "DVC_STAGE" not in os.environ:
        return None
    with contextlib.suppress(psutil.Error):
        parents = psutil.Process().parents()
        return next(filter(_is_dvc, parents), parents[0])  # whoever calls DVC as a library is called otherwise
    return None


def _family() -> list[tuple[psutil.Process, int]]:
    """This process and those above it as far as DVC, each with its parent; who loses a parent gets another one."""
    top, process, found = dvc(), psutil.Process(), []
    while top and process and process != top:
        found.append((process, process.ppid()))
        process = process.parent()
    return found


def _parent_of(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.NoSuchProcess:
        return 0


def _is_dvc(process: psutil.Process) -> bool:
    return any(word.rpartition("/")[2].partition(".")[0] == "dvc" for word in process.cmdline())  # dvc, dvc.__main__
