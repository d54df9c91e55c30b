"""Choose the fastest CPU code for each call of a GPT's blocks, and start worker processes for training."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bukva.backends.base import Backend, TrainingJob
from bukva.backends.cpu import forks, sublayers
from bukva.backends.group import ALONE, Group
from bukva.models.attention import KVCache
from bukva.models.base import select_wanted
from bukva.models.gpt import GPT, Stack


class CPUStack(Stack):
    """The transformer blocks of a GPT. Compiled loops compute them in training; all other calls run in plain torch."""

    def forward(
        self,
        x: Tensor,
        *,
        cos_sin: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Compute the same result as `Stack.forward`, with the fastest code that supports these arguments."""
        is_float = x.device.type == "cpu" and x.dtype == torch.float32
        if cache is None and torch.is_grad_enabled() and is_float and all(map(sublayers.serves, self)):
            for block in self:
                x = sublayers.add_mlp(block, sublayers.add_attention(block, x, cos_sin))
            return select_wanted(x, wanted)
        return super().forward(x, cos_sin=cos_sin, cache=cache, wanted=wanted)


@functools.cache  # a plan trains several models
def _say_slow() -> None:
    print(
        "CPU: Updates take longer, because blocks with biases, RMSNorm or an odd number of channels in a head run in "
        "plain torch (model.bias, model.norm, model.n_embd / model.n_head).",
        file=sys.stderr,
        flush=True,
    )


class CPU(Backend):
    """Backend that trains with one process for each core, and computes transformer blocks with compiled loops."""

    def stack(self, blocks: Stack) -> Stack:
        """Return `blocks` as a `CPUStack`."""
        return CPUStack(blocks)

    @contextlib.contextmanager
    def workers(self, job: TrainingJob, work: Callable[[Group], None]) -> Iterator[Group]:
        """Fork worker processes if the batch is large enough (see `forks.n_forks`), and yield the process group.

        Each worker calls `work` with its own `Group` object. A model without hidden layers, such as the bigram, gets no
        workers.
        """
        if isinstance(job.model, GPT) and not all(map(sublayers.serves, job.model.blocks)):
            _say_slow()
        # without hidden layers, an update is too cheap to split across processes
        n = forks.n_forks(*job.batch_shape) if job.model.hidden_layers() else 1
        if n == 1:
            yield ALONE
            return
        with forks.forked(n, work, list(job.model.parameters()), job.optimizer.tensors()) as group:
            yield group


BACKEND = CPU()
