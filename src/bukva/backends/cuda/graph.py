"""Record a whole update once and launch it as one CUDA graph.

An update of a small GPT launches hundreds of kernels, and the GPU waits for the CPU between them. On an H100 an update
of the default GPT took 20.4 ms, and a replay of the recorded update takes 1.4 ms (docs/scaling-method.md). A replay
repeats the same kernels on the same memory. So everything that differs between updates is read from tensors on the
device:

    batch           fixed buffers; the next batch is copied to the device while the graph runs
    learning rate   a tensor that the optimizers share (Optimizers.make_capturable)
    dropout         the seed of torch's generator, which torch copies to the device before each replay

Sources: Gray 2019, "Getting started with CUDA graphs" (NVIDIA); "CUDA Graphs" in torch's notes on CUDA semantics.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from bukva.backends.base import Update
from bukva.models.base import Examples

WARM_UPS = 3  # updates before the recording; libraries choose algorithms and allocate workspaces in them
IN_FLIGHT = 2  # number of updates that the CPU may queue ahead of the GPU

Replay = Callable[[], Tensor]


class Recorder(Protocol):
    """Interface for recording and replaying an update. Tests implement it with a tracer on the CPU."""

    def warm_up(self, update: Replay) -> None:
        """Run the update a few times without recording it."""

    def record(self, update: Replay) -> Replay:
        """Record the update without running it. Return a function that replays the recording."""

    def load(self, inputs: Sequence[Tensor], batch: Sequence[Tensor]) -> None:
        """Copy the tensors of a batch into the fixed input buffers."""


class GraphedUpdate:
    """An update that is warmed up and captured once, and replayed for every batch.

    The first update is also a replay, and all changes of the warm-up are undone. So a resumed run ends in the same
    bytes as an uninterrupted run.

    Args:
        update: the plain update.
        changed: all tensors that an update changes: the weights and the optimizer's state.
        generator: the device's random number generator, from which dropout draws.
        recorder: implementation of recording and replaying.
    """

    def __init__(
        self, update: Update, changed: Sequence[Tensor], generator: torch.Generator, recorder: Recorder
    ) -> None:
        self.update, self.changed, self.generator, self.recorder = update, changed, generator, recorder
        self.fixed: list[Examples] = []  # the batch that the graph reads
        self.inputs: list[Tensor] = []  # the tensors of `fixed`
        self.replay: Replay | None = None

    def warm_up(self, batch: Sequence[Examples]) -> Exception | None:
        """Run updates on batches of this shape, and undo their changes. Return the error if an update fails."""
        self.fixed = [part.map(lambda tensor: tensor.to(self.generator.device, copy=True)) for part in batch]
        self.inputs = [tensor for part in self.fixed for tensor in part.tensors()]
        return self._try_and_undo(lambda: self.recorder.warm_up(lambda: self.update(self.fixed)))

    def capture(self) -> Exception | None:
        """Record the update. Return the error if recording fails."""

        def record() -> None:
            self.replay = self.recorder.record(lambda: self.update(self.fixed))

        return self._try_and_undo(record)

    def __call__(self, batch: Iterable[Examples]) -> Tensor:
        """Update the model from one batch. Return (2,): the loss and the norm of the gradient.

        Raises:
            ValueError: the batch and the recorded batch differ in shape.
        """
        tensors = [tensor for part in batch for tensor in part.tensors()]
        if self.replay is None or [tensor.shape for tensor in tensors] != [fixed.shape for fixed in self.inputs]:
            raise ValueError("no update was recorded for batches of this shape")
        self.recorder.load(self.inputs, tensors)
        return self.replay().clone()  # the next replay overwrites the result

    def _try_and_undo(self, function: Callable[[], None]) -> Exception | None:
        """Call `function`, then restore the changed tensors and the generator. Return the error if the call fails."""
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
    """Recorder that uses torch.cuda.graph."""

    def __init__(self, device: torch.device) -> None:
        self.copies = torch.cuda.Stream(device)  # copies batches to the device while a graph runs
        self.staged: list[Tensor] = []  # the next batch, on the device
        self.taken = torch.cuda.Event()  # recorded when the staged batch has been copied into the inputs
        self.running: deque[torch.cuda.Event] = deque()
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def warm_up(self, update: Replay) -> None:
        """Run the update on a side stream, as torch's documentation requires."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    update()
        finally:
            torch.cuda.current_stream().wait_stream(stream)  # the caller undoes the changes on the current stream

    def record(self, update: Replay) -> Replay:
        """Record the update as a graph."""
        stream, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        self.graphs.append(graph)  # after a failed capture, the allocator still refers to the graph
        try:
            # the global mode would forbid the prefetching thread to allocate pinned memory during the capture
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                result = update()
        finally:
            torch.cuda.set_stream(stream)  # torch.cuda.graph does not restore the stream if ending the capture fails

        def replay() -> Tensor:
            graph.replay()
            self._wait_if_far_ahead()
            return result

        return replay

    def load(self, inputs: Sequence[Tensor], batch: Sequence[Tensor]) -> None:
        """Copy a batch from pinned memory to the device while the graph runs, and into its inputs after the run."""
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
        """Wait until at most IN_FLIGHT updates are queued, so that the progress bar shows the GPU's speed."""
        event = torch.cuda.Event()
        event.record()
        self.running.append(event)
        if len(self.running) > IN_FLIGHT:
            self.running.popleft().synchronize()
