"""A whole update, recorded once and launched as one CUDA graph.

An update of a small GPT launches hundreds of kernels, and the GPU waits for the processor between them: an H100 trained
the default GPT at 20.4 ms an update, and replays the recorded update in 1.4 ms (docs/scaling.md). A replay repeats the
same kernels on the same memory, so everything that differs between updates is read from tensors on the device:

    the batch           in fixed buffers; the next batch is copied to the device while the graph runs
    the learning rate   in a tensor that the optimizers share (Optimizers.make_capturable)
    dropout             from the seed of torch's generator, which torch copies to the device before each replay

Sources: Gray 2019, "Getting started with CUDA graphs" (NVIDIA); "CUDA Graphs" in torch's notes on CUDA semantics.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from bukva.backends.base import Update
from bukva.models.base import Examples

WARM_UPS = 3  # updates before the recording, in which libraries choose algorithms and allocate workspaces
IN_FLIGHT = 2  # updates that the processor may be ahead of the GPU

Replay = Callable[[], Tensor]


class Recorder(Protocol):
    """Records an update and replays it: CUDA, or in tests a tracer on the CPU."""

    def warm_up(self, update: Replay) -> None:
        """Run the update a few times without recording it."""

    def record(self, update: Replay) -> Replay:
        """Record the update without running it. Return a function that runs what was recorded."""

    def load(self, inputs: Sequence[Tensor], batch: Sequence[Tensor]) -> None:
        """Copy the tensors of a batch into the fixed inputs."""


class GraphedUpdate:
    """An update that is warmed up and captured once, and replayed from then on.

    Every update of a training is a replay, the first one too, so that a resumed training makes the same bytes as an
    undisturbed one. What the warm-up changes is restored.

    Args:
        update: the plain update.
        changed: all tensors that an update changes: the weights and the states of the optimizer.
        generator: the device's generator, from which dropout draws.
        recorder: records and replays.
    """

    def __init__(
        self, update: Update, changed: Sequence[Tensor], generator: torch.Generator, recorder: Recorder
    ) -> None:
        self.update, self.changed, self.generator, self.recorder = update, changed, generator, recorder
        self.fixed: list[Examples] = []  # the batch that the graph reads
        self.inputs: list[Tensor] = []  # its tensors
        self.replay: Replay | None = None

    def warm_up(self, batch: Sequence[Examples]) -> Exception | None:
        """Run updates for batches of this shape, and restore what they change. Return the error if they fail."""
        self.fixed = [part.map(lambda tensor: tensor.to(self.generator.device, copy=True)) for part in batch]
        self.inputs = [tensor for part in self.fixed for tensor in part.tensors()]
        return self._tried(lambda: self.recorder.warm_up(lambda: self.update(self.fixed)))

    def capture(self) -> Exception | None:
        """Record the update. Return the error if that fails."""

        def record() -> None:
            self.replay = self.recorder.record(lambda: self.update(self.fixed))

        return self._tried(record)

    def __call__(self, batch: Iterable[Examples]) -> Tensor:
        """Make the update of a batch; return (2,), the loss and the norm of the gradient.

        Raises:
            ValueError: the batch has another shape than the recorded one.
        """
        tensors = [tensor for part in batch for tensor in part.tensors()]
        if self.replay is None or [tensor.shape for tensor in tensors] != [fixed.shape for fixed in self.inputs]:
            raise ValueError("no update was recorded for batches of this shape")
        self.recorder.load(self.inputs, tensors)
        return self.replay().clone()  # the next replay overwrites it

    def _tried(self, function: Callable[[], None]) -> Exception | None:
        """Call a function and restore weights, states and generator. Return its error, if it fails."""
        before = [tensor.detach().clone() for tensor in self.changed]
        random = self.generator.get_state()
        try:
            function()
        except Exception as error:
            return error
        finally:
            with torch.no_grad():
                for tensor, value in zip(self.changed, before, strict=True):
                    tensor.copy_(value)
            self.generator.set_state(random)
        return None


class CUDARecorder:
    """Records by torch.cuda.graph."""

    def __init__(self, device: torch.device) -> None:
        self.copies = torch.cuda.Stream(device)  # batches travel on it while a graph runs
        self.staged: list[Tensor] = []  # the next batch, on the device
        self.taken = torch.cuda.Event()  # the staged batch was copied into the inputs
        self.running: deque[torch.cuda.Event] = deque()
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def warm_up(self, update: Replay) -> None:
        """Run the update on a stream of its own, as torch's documentation asks for."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    update()
        finally:
            torch.cuda.current_stream().wait_stream(stream)  # on which the changes are restored

    def record(self, update: Replay) -> Replay:
        """Record the update as a graph."""
        stream, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        self.graphs.append(graph)  # an allocator refers to a graph whose capture has failed
        try:
            # meanwhile the thread that reads the next batch allocates pinned memory, which the global mode forbids
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                result = update()
        finally:
            torch.cuda.set_stream(stream)  # torch.cuda.graph does not go back if the capture cannot be ended

        def replay() -> Tensor:
            graph.replay()
            self._wait_if_far_ahead()
            return result

        return replay

    def load(self, inputs: Sequence[Tensor], batch: Sequence[Tensor]) -> None:
        """Copy a batch from pinned memory while the graph runs, and into its inputs when it has ended."""
        if not self.staged:
            self.staged = [torch.empty_like(tensor) for tensor in inputs]
            self.taken.record()
        self.copies.wait_event(self.taken)
        with torch.cuda.stream(self.copies):
            for staged, tensor in zip(self.staged, batch, strict=True):
                staged.copy_(tensor, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.copies)
        for fixed, staged in zip(inputs, self.staged, strict=True):
            fixed.copy_(staged)
        self.taken.record()

    def _wait_if_far_ahead(self) -> None:
        """Keep at most IN_FLIGHT updates queued, so that the progress bar shows the GPU's speed."""
        event = torch.cuda.Event()
        event.record()
        self.running.append(event)
        if len(self.running) > IN_FLIGHT:
            self.running.popleft().synchronize()
