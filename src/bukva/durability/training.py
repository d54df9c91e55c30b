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
from bukva.core.processes import signals_call
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

    In the with block, the caller writes the outputs of the stage, among them the loss curve. A training that a signal
    has stopped raises SystemExit, and a training that has diverged BukvaError.
    """
    checkpoints = Checkpoints(stage, fingerprint)
    durability = Durability(checkpoints)
    catching = signals_call(durability.request_stop, signal.SIGINT, signal.SIGTERM)
    # only rank 0 saves checkpoints, so on other machines, a signal ends the process immediately
    with catching if task.group.is_on_leader_machine else contextlib.nullcontext():
        state = start(task)
        initial = state.weights()
        restore(state, checkpoints, task.group)
        try:
            run_training(task, state, [*callbacks, durability])
        except DivergedError as error:
            last = f"{durability.describe_last_checkpoint(state.best_step)} " if task.group.is_leader else ""
            raise BukvaError(f"{error}. {last}Use a smaller `learning_rate` or more `warmup_steps`.") from None
        durability.exit_if_requested()
        yield state, initial
        if task.group.is_leader:
            checkpoints.finish(curve)
        durability.exit_if_requested()


class Durability(Callback):
    """Callback that saves checkpoints. After a signal, it saves the state after the current update and stops."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints
        self.signal = 0  # number of the first signal, or 0 if no signal was received
        self._saved_at = -math.inf

    def request_stop(self, number: int, _: FrameType | None) -> None:
        """Handle a signal. A second one ends the process immediately."""
        if self.signal:
            sys.exit(128 + number)
        self.signal = number

    def exit_if_requested(self) -> None:
        """If a signal was received, exit with the status that shells expect: 130 for SIGINT, 143 for SIGTERM."""
        if self.signal:
            sys.exit(128 + self.signal)

    def describe_last_checkpoint(self, best_step: int) -> str:
        """Return a sentence for the error of a diverged training. `best_step` has the best score on val."""
        if self.checkpoints.step is None:
            return "There is no checkpoint."
        return f"The last checkpoint, of step {self.checkpoints.step}, contains the best weights, of step {best_step}."

    def on_start(self, _: TrainState) -> None:
        """Start the clock. A new run is saved before its first update; a restored state is already on disk."""
        if self.checkpoints.step is not None:
            self._saved_at = time.monotonic()

    def on_update(self, state: TrainState, progress: Progress) -> None:
        stopping = bool(self.signal)
        if stopping or time.monotonic() - self._saved_at >= self.checkpoints.seconds:
            state.check_finite(progress.learning_rate)  # NaN and infinity must not replace a good checkpoint
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
    """Load the latest checkpoint, if there is one, into `state`. Rank 0 reads it for all processes in the group."""
    if group.is_leader:
        checkpoints.clear_finished()
    content = group.broadcast(checkpoints.last() if group.is_leader else b"")
    if content:
        state.load_state_dict(unpack(content))
    message = f"Resumed at step {state.step}." if content else checkpoints.fresh_start_message()
    if message and group.is_leader:
        print(message, file=sys.stderr, flush=True)
