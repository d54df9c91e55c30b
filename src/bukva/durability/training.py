"""Restore and save: a training that may end at any moment resumes from its last checkpoint."""

import contextlib
import math
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

from bukva.backends.group import Group
from bukva.durability.checkpoints import Checkpoints
from bukva.durability.packing import unpack
from bukva.training.callback import Callback
from bukva.training.state import Progress, TrainState


class StopSignal:
    """The signal, SIGINT or SIGTERM, that requested a stop, or 0. A second one ends the process at once."""

    def __init__(self) -> None:
        self.signal = 0

    @contextlib.contextmanager
    def caught(self, *, is_active: bool = True) -> Iterator["StopSignal"]:
        """Note SIGINT and SIGTERM while the block runs, instead of raising them; do nothing unless is_active."""
        if not is_active:
            yield self
            return
        before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def exit_if_requested(self) -> None:
        """End the process, after a signal, with the status that shells and DVC expect: 130 or 143."""
        if self.signal:
            sys.exit(128 + self.signal)

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.signal:
            sys.exit(128 + number)
        self.signal = number


class Durability(Callback):
    """The callback that makes a training durable.

    Args:
        checkpoints: where states are saved.
        stop: whether a signal requested a stop; then the current update is finished and saved.
    """

    def __init__(self, checkpoints: Checkpoints, stop: StopSignal) -> None:
        self.checkpoints, self.stop = checkpoints, stop
        # a new training is saved at once; what was restored is on disk already
        self._saved_at = -math.inf if checkpoints.step is None else time.monotonic()

    def last_good(self, best_step: int) -> str:
        """What is left of a training that diverged, as a clause."""
        if self.checkpoints.step is None:
            return "there is no checkpoint"
        return f"the last good checkpoint, of step {self.checkpoints.step}, has the best weights, of step {best_step}"

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Save when it is time, or when a signal has requested a stop, which this passes on to the loop.

        Raises:
            DivergedError: the state holds NaN or infinity, which must not replace a good checkpoint.
        """
        stopping = bool(self.stop.signal)
        if stopping or time.monotonic() - self._saved_at >= self.checkpoints.seconds:
            state.check_finite(progress.learning_rate)
            self.checkpoints.write(state.step, state.state_dict())
            self._saved_at = time.monotonic()
        if stopping:
            state.stop_requested = True
            saved = self.checkpoints.step == state.step
            what = "the checkpoint is saved; give the same command to resume" if saved else "no checkpoint was saved"
            print(f"interrupted after step {state.step}: {what}", file=sys.stderr, flush=True)

    def on_end(self, state: TrainState) -> None:
        """Save the end, which is kept until DVC has the outputs."""
        if self.checkpoints.step != state.step:
            self.checkpoints.write(state.step, state.state_dict())


def restore(state: TrainState, checkpoints: Checkpoints, group: Group) -> None:
    """Load the latest checkpoint, if there is one, into a new state, in every process of the group."""
    if group.leads:
        checkpoints.clear_finished()
    content = group.broadcast(checkpoints.last() if group.leads else b"")
    if content:
        state.load_state_dict(unpack(content))
    what = f"resumed at step {state.step}" if content else checkpoints.why_none()
    if what and group.leads:
        print(what, file=sys.stderr, flush=True)
