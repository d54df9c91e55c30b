"""SIGINT and SIGTERM as requests to stop, which let a training finish its update and save."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType


class StopSignal:
    """The signal that requested a stop, or 0. A second one ends the process at once."""

    def __init__(self) -> None:
        self.signal = 0

    @contextlib.contextmanager
    def caught(self) -> Iterator["StopSignal"]:
        """Within this block SIGINT and SIGTERM are noted instead of raised."""
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def exit_if_requested(self) -> None:
        """End the process with the status that shells and DVC expect after a signal.

        Raises:
            SystemExit: 130 or 143, if a signal came.
        """
        if self.signal:
            sys.exit(128 + self.signal)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal:
            sys.exit(128 + number)
        self.signal = number
