"""Choose the fastest implementation on a CPU for each call of a GPT's blocks, and start workers for training."""

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from bukva.backends.base import Backend, TrainingJob
from bukva.backends.cpu import decoder, forks, sublayers
from bukva.backends.group import ALONE, Group
from bukva.models.attention import KVCache, attend_fused
from bukva.models.base import select_wanted
from bukva.models.gpt import Stack


class CPUStack(Stack):
    """The blocks of a GPT, computed by fused sublayers in training and by the decoder in generation.

    All other calls run the plain blocks.
    """

    def forward(
        self,
        x: Tensor,
        *,
        cos_sin: Tensor | None = None,
        cache: KVCache | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        """Return the result of `Stack.forward` for these arguments, by the fastest code that supports them."""
        if cache is None and self._is_fused(x) and torch.is_grad_enabled():
            for block in self:
                x = sublayers.add_mlp(block, sublayers.add_attention(block, x, cos_sin))
            return select_wanted(x, wanted)
        if isinstance(cache, decoder.DecoderCache) and self._is_fused(x) and decoder.supports(self, x):
            return select_wanted(decoder.add_blocks(x, cos_sin, cache), wanted)
        return super().forward(x, cos_sin=cos_sin, cache=cache, wanted=wanted)

    def new_cache(self, size: int) -> KVCache:
        """Return an empty `DecoderCache` with room for `size` positions."""
        return decoder.DecoderCache(self, size)

    def _is_fused(self, x: Tensor) -> bool:
        """Return whether the compiled loops support these blocks and the input `x`, (B, T, C).

        They need float32 on a CPU, causal blocks, the attention kernel `attend_fused`, which a study may have replaced,
        and either LayerNorm in all blocks or RMSNorm in all blocks. Subclasses of these norms are not supported: they
        may compute something else.
        """
        layers = [block.attention for block in self]
        norms = {type(norm) for block in self for norm in (block.ln_1, block.ln_2)}
        is_float = x.device.type == "cpu" and x.dtype == torch.float32
        is_known = norms in ({nn.LayerNorm}, {nn.RMSNorm})
        return is_float and is_known and all(layer.causal and layer.attend is attend_fused for layer in layers)


class CPU(Backend):
    """Backend that trains on all cores, and computes blocks with compiled loops."""

    def stack(self, blocks: Stack) -> Stack:
        """Return `blocks` as a `CPUStack`."""
        return CPUStack(blocks)

    @contextlib.contextmanager
    def workers(self, job: TrainingJob, work: Callable[[Group], None]) -> Iterator[Group]:
        """Fork workers if the batch is large enough to divide (see `forks.n_forks`), and yield the group.

        Each worker calls `work` with its own view of the group. A model without hidden layers gets no workers.
        """
        n = (
            forks.n_forks(*job.batch_shape) if job.model.hidden_layers() else 1
        )  # updating a table is too cheap to split
        if n == 1:
            yield ALONE
            return
        with forks.forked(n, work, list(job.model.parameters()), job.optimizer.tensors()) as group:
            yield group


BACKEND = CPU()
