"""Save checkpoints during training, stop on signals, and resume from the latest checkpoint."""

import contextlib
import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from bukva.backends.group import Group
from bukva.core.errors import BukvaError
from bukva.durability.checkpoints import Checkpoints, unpack
from bukva.models.base import Tensors
from bukva.project.stages import Fingerprint
from bukva.training.callback import Callback
from bukva.training.run import Task, run_training, start
from bukva.training.state import DivergedError, Progress, TrainState


@contextlib.contextmanager
def trained(
    task: Task, stage: str, fingerprint: Fingerprint, callbacks: Sequence[Callback], curve: Path
) -> Iterator[tuple[TrainState, Tensors]]:
    """Train a model, from its latest checkpoint if there is one. Yield the trained state and the initial weights.

    In the with block, the caller writes the outputs of the stage, among them the loss curve. The checkpoints of the
    training are removed after that.

    Raises:
        BukvaError: the training diverged.
        SystemExit: the training was stopped by SIGINT (status 130) or SIGTERM (status 143). It can be resumed.
    """
    checkpoints, stop = Checkpoints(stage, fingerprint), StopSignal()
    # only rank 0 saves checkpoints, so on other machines, a signal ends the process immediately
    with stop.caught(is_active=task.group.is_on_leader_machine):
        state = start(task)
        initial = state.weights()
        restore(state, checkpoints, task.group)
        durability = Durability(checkpoints, stop)
        try:
            run_training(task, state, [*callbacks, durability])
        except DivergedError as error:
            last = f"{durability.describe_last_checkpoint(state.best_step)} " if task.group.is_leader else ""
            raise BukvaError(f"{error}. {last}Use a smaller `learning_rate` or more `warmup_steps`.") from None
        stop.exit_if_requested()
        yield state, initial
        if task.group.is_leader:
            checkpoints.finish(curve)
        stop.exit_if_requested()


class StopSignal:
    """Handler of SIGINT and SIGTERM. The first signal requests a stop. A second one ends the process immediately."""

    def __init__(self) -> None:
        self.signal = 0  # number of the first signal, or 0 if no signal was received

    @contextlib.contextmanager
    def caught(self, *, is_active: bool = True) -> Iterator["StopSignal"]:
        """Handle SIGINT and SIGTERM during the with block, if `is_active`."""
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
    """Callback that saves checkpoints. After a signal, it saves the state after the current update and stops."""

    def __init__(self, checkpoints: Checkpoints, stop: StopSignal) -> None:
        self.checkpoints, self.stop = checkpoints, stop
        # a new run is saved before its first update; a restored state is already on disk
        self._saved_at = -math.inf if checkpoints.step is None else time.monotonic()

    def describe_last_checkpoint(self, best_step: int) -> str:
        """Return a sentence for the error of a diverged training. `best_step` has the best score on val."""
        if self.checkpoints.step is None:
            return "There is no checkpoint."
        return f"The last checkpoint, of step {self.checkpoints.step}, contains the best weights, of step {best_step}."

    def on_update(self, state: TrainState, progress: Progress) -> None:
        """Save a checkpoint if it is time for one, or if a signal was received.

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
        """Save the final state. The next run writes the outputs from it if DVC was killed before it recorded them."""
        if self.checkpoints.step != state.step:
            self.checkpoints.write(state.step, state.state_dict())


def restore(state: TrainState, checkpoints: Checkpoints, group: Group) -> None:
    """Load the latest checkpoint, if there is one, into `state`. Every process in the group must call this function.

    Rank 0 removes the checkpoints of finished runs, reads the latest checkpoint, sends it to the other processes, and
    prints at which step training starts.
    """
    if group.is_leader:
        checkpoints.clear_finished()
    content = group.broadcast(checkpoints.last() if group.is_leader else b"")
    if content:
        state.load_state_dict(unpack(content))
    message = f"Resumed at step {state.step}." if content else checkpoints.fresh_start_message()
    if message and group.is_leader:
        print(message, file=sys.stderr, flush=True)
