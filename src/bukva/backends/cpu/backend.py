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
from bukva.models.attention import LayerCache
from bukva.models.gpt import GPT, Block


class CPUBlock(Block):
    """A transformer block of a GPT. Compiled loops compute it in training, and plain torch in all other calls."""

    def forward(
        self,
        x: Tensor,
        cos_sin: Tensor | None = None,
        cache: LayerCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the result of `Block.forward`."""
        is_float = x.device.type == "cpu" and x.dtype == torch.float32
        if cache is None and torch.is_grad_enabled() and is_float and sublayers.serves(self):
            x = sublayers.add_mlp(self, sublayers.add_attention(self, x, cos_sin))
            return x if wanted is None else x[wanted]
        return super().forward(x, cos_sin, cache, wanted)


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

    block = CPUBlock

    @contextlib.contextmanager
    def workers(self, job: TrainingJob, work: Callable[[Group], None]) -> Iterator[Group]:
        """Fork worker processes if the batch is large enough (see `forks.n_forks`), and yield the process group.

        Each worker calls `work` with its own `Group` object. Only a GPT gets workers.
        """
        if isinstance(job.model, GPT) and not all(map(sublayers.serves, job.model.blocks)):
            _say_slow()
        # an update of a bigram is too cheap to split across processes
        n = forks.n_forks(*job.batch_shape) if isinstance(job.model, GPT) else 1
        if n == 1:
            yield ALONE
            return
        with forks.forked(n, work, list(job.model.parameters()), job.optimizer.tensors()) as group:
            yield group


BACKEND = CPU()
