"""The GPT: a decoder-only transformer over characters.

Sources: the lecture notes; Radford et al. 2018 and 2019; Press & Wolf 2017 (tied weights).
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from bukva.models.attention import LayerCache
from bukva.models.base import Kind
from bukva.models.transformer import Transformer, TransformerConfig


@dataclass(frozen=True)
class GPTConfig(TransformerConfig):
    """The shape of a GPT; tie_weights makes one matrix embed and predict."""

    name: ClassVar[str] = "gpt"

    tie_weights: bool = False


class GPT(Transformer):
    """Characters so far in, logits of the next character out.

    causal=False removes the mask, so that every position sees its own target: bukva.interpret.leak shows the effect.
    """

    config: GPTConfig

    def __init__(self, config: GPTConfig, *, causal: bool = True) -> None:
        super().__init__(config, causal=causal)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie_weights:
            self.lm_head.weight = self.wte.weight
        else:
            nn.init.normal_(self.lm_head.weight, std=0.02)

    def forward(self, ids: Tensor, caches: list[LayerCache] | None = None) -> Tensor:
        """(B, T) ids -> (B, T, V) logits; T, and what the caches hold before it, at most block_size."""
        return self.lm_head(self.encode(ids, caches=caches))


KIND = Kind(GPTConfig, GPT)
