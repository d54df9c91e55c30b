"""Being asked to end by a signal, which lets the update at hand be finished and saved."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType


class Interruption:
    """Whether this process was asked to end: the signal, or 0. Asked twice, it ends at once."""

    def __init__(self) -> None:
        self.signal = 0

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
        if self.signal:
            self.leave()

    def leave(self) -> None:
        """End the process as whoever asked for it expects.

        Raises:
            SystemExit: 130 or 143.
        """
        sys.exit(128 + self.signal)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal:
            sys.exit(128 + number)
        self.signal = number
