"""Save checkpoints during training, stop on signals, and resume from the latest checkpoint."""

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
    """Handler of SIGINT and SIGTERM. The first signal requests a stop. A second one ends the process immediately.

    signal: number of the first signal, or 0 if no signal was received.
    """

    def __init__(self) -> None:
        self.signal = 0

    @contextlib.contextmanager
    def caught(self, *, is_active: bool = True) -> Iterator["StopSignal"]:
        """Handle SIGINT and SIGTERM during the with block.

        The first signal is only stored. A second one raises SystemExit. With `is_active=False`, this method does not
        change how signals are handled.
        """
        if not is_active:
            yield self
            return
        before = {number: signal.signal(number, self._record) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def exit_if_requested(self) -> None:
        """If a signal was received, exit with the status that shells expect: 130 for SIGINT, 143 for SIGTERM."""
        if self.signal:
            sys.exit(128 + self.signal)

    def _record(self, number: int, _: FrameType | None) -> None:
        if self.signal:
            sys.exit(128 + number)
        self.signal = number


class Durability(Callback):
    """Callback that saves checkpoints, and stops training after a signal.

    Args:
        checkpoints: the checkpoints of this training run.
        stop: receives signals. After a signal, the current update is finished and saved, and then training stops.
    """

    def __init__(self, checkpoints: Checkpoints, stop: StopSignal) -> None:
        self.checkpoints, self.stop = checkpoints, stop
        # a new run is saved before its first update; a restored state is already on disk
        self._saved_at = -math.inf if checkpoints.step is None else time.monotonic()

    def describe_last_checkpoint(self, best_step: int) -> str:
        """Return a sentence for the error message of a diverged training. It says which checkpoint is left.

        `best_step` is the step with the best score on val.
        """
        if self.checkpoints.step is None:
            return "There is no checkpoint."
        return f"The last checkpoint, of step {self.checkpoints.step}, contains the best weights, of step {best_step}."

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Save a checkpoint if it is time for one, or if a signal was received. After a signal, also request a stop.

        Raises:
            DivergedError: the state contains NaN or infinity, so it must not replace a good checkpoint.
        """
        stopping = bool(self.stop.signal)
        if stopping or time.monotonic() - self._saved_at >= self.checkpoints.seconds:
            state.check_finite(progress.learning_rate)
            self.checkpoints.write(state.step, state.state_dict())
            self._saved_at = time.monotonic()
        if stopping:
            state.stop_requested = True
            saved = self.checkpoints.step == state.step
            what = "The checkpoint is saved. Run the same command to resume." if saved else "No checkpoint was saved."
            print(f"Interrupted after step {state.step}. {what}", file=sys.stderr, flush=True)

    def on_end(self, state: TrainState) -> None:
        """Save the final state.

        If DVC is killed before it records the outputs of the run, the next run uses this state to write them again.
        """
        if self.checkpoints.step != state.step:
            self.checkpoints.write(state.step, state.state_dict())


def restore(state: TrainState, checkpoints: Checkpoints, group: Group) -> None:
    """Load the latest checkpoint, if there is one, into `state`. Every process in the group must call this function.

    Rank 0 removes the checkpoints of finished runs, reads the latest checkpoint, and sends it to the other processes.
    It also prints at which step training starts.
    """
    if group.is_leader:
        checkpoints.clear_finished()
    content = group.broadcast(checkpoints.last() if group.is_leader else b"")
    if content:
        state.load_state_dict(unpack(content))
    message = f"Resumed at step {state.step}." if content else checkpoints.fresh_start_message()
    if message and group.is_leader:
        print(message, file=sys.stderr, flush=True)
