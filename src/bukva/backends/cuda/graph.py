"""Capture a whole update once as a CUDA graph, and replay the graph for every batch.

An update of a small GPT launches hundreds of kernels, and between two kernels the GPU waits for the CPU. On an H100, an
update of the default GPT took 20.4 ms without a graph and 1.4 ms as a graph (docs/scaling-method.md). A replay repeats
the same kernels on the same memory. So the graph reads everything that differs between updates from tensors on the
device:

    batch           fixed buffers; the next batch is copied to the device while the graph runs
    learning rate   a tensor that the optimizers share (Optimizers.make_capturable)
    dropout         the seed of torch's generator, which torch copies to the device before each replay

Sources: Gray 2019, "Getting started with CUDA graphs" (NVIDIA); "CUDA Graphs" in torch's notes on CUDA semantics.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from bukva.backends.base import Update
from bukva.models.base import Batch

WARM_UPS = 3  # updates before the capture, during which libraries choose algorithms and allocate workspaces
IN_FLIGHT = 2  # number of updates that the CPU may queue ahead of the GPU

Replay = Callable[[], Tensor]


class GraphedUpdate:
    """Update function that is captured once and then replayed for every batch.

    To capture the update, call `warm_up` and then `capture`. Both methods restore `changed`, all tensors that `update`
    changes, and the random generator of the device, which dropout uses. So every update of a run is a replay, and a
    resumed run gives the same bytes as an uninterrupted run.
    """

    def __init__(
        self, update: Update, changed: Sequence[Tensor], generator: torch.Generator, recorder: "CUDARecorder"
    ) -> None:
        self.update, self.changed, self.generator, self.recorder = update, changed, generator, recorder
        self.fixed: list[Batch] = []  # copies of the first batch's micro-batches; the captured update reads them
        self.inputs: list[Tensor] = []  # the tensors of `fixed`
        self.replay: Replay | None = None

    def warm_up(self, batch: Sequence[Batch]) -> Exception | None:
        """Run a few updates on a copy of `batch`, from which the captured update will read, then undo their changes.

        Return the error if an update failed, else None.
        """
        device = self.generator.device
        self.fixed = [tuple(tensor.to(device, copy=True) for tensor in part) for part in batch]
        self.inputs = [tensor for part in self.fixed for tensor in part]
        return self._try_and_undo(lambda: self.recorder.warm_up(lambda: self.update(self.fixed)))

    def capture(self) -> Exception | None:
        """Capture the update. Call `warm_up` first. Return the error if the capture failed, else None."""

        def record() -> None:
            self.replay = self.recorder.record(lambda: self.update(self.fixed))

        return self._try_and_undo(record)

    def __call__(self, batch: Iterable[Batch]) -> Tensor:
        """Make one update. Raise ValueError if no update was captured, or the captured batch had another shape."""
        tensors = [tensor for part in batch for tensor in part]
        if self.replay is None or [tensor.shape for tensor in tensors] != [fixed.shape for fixed in self.inputs]:
            raise ValueError("no update was captured for a batch of this shape")
        self.recorder.load(self.inputs, tensors)
        return self.replay().clone()  # the next replay overwrites the result

    def _try_and_undo(self, function: Callable[[], None]) -> Exception | None:
        """Call `function`, then restore the tensors in `changed` and the random generator."""
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
    """Captures and replays updates with torch.cuda.graph. Tests replace it by a recorder for the CPU."""

    def __init__(self, device: torch.device) -> None:
        self.copies = torch.cuda.Stream(device)  # copies batches to the device while a graph runs
        self.staged: list[Tensor] = []  # buffers on the device for the next batch
        self.taken = torch.cuda.Event()  # occurs when the staged batch has been copied to the inputs of the graph
        self.running: deque[torch.cuda.Event] = deque()  # each marks the end of a queued update
        self.graphs: list[torch.cuda.CUDAGraph] = []

    def warm_up(self, update: Replay) -> None:
        """Run `update` WARM_UPS times on a side stream, as torch's documentation requires before a capture."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    update()
        finally:
            torch.cuda.current_stream().wait_stream(stream)  # the caller undoes the changes on the current stream

    def record(self, update: Replay) -> Replay:
        """Capture `update` as a CUDA graph. Return a function that launches the graph and returns its result.

        Every launch writes the result to the same tensor.
        """
        stream, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        self.graphs.append(graph)  # keeps the graph alive: the allocator refers to it even after a failed capture
        try:
            # in the mode "global", the prefetching thread could not allocate pinned memory during the capture
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
        """Copy `batch` to the device while the previous update runs. Copy it to `inputs` after that update."""
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
        """Wait until at most IN_FLIGHT updates are queued, so that the progress bar shows the speed of the GPU."""
        event = torch.cuda.Event()
        event.record()
        self.running.append(event)
        if len(self.running) > IN_FLIGHT:
            self.running.popleft().synchronize()
