"""The GPT: a decoder-only transformer over characters.

Sources: the lecture notes; Radford et al. 2018 and 2019; Press & Wolf 2017 (tied weights).
"""

from dataclasses import dataclass

from torch import Tensor, nn

from bukva.models.attention import LayerCache
from bukva.models.transformer import Transformer, TransformerConfig


@dataclass(frozen=True)
class GPTConfig(TransformerConfig):
    """The shape of a GPT; tie_weights has one matrix embed and predict."""

    tie_weights: bool = False

    @property
    def n_parameters(self) -> int:
        """Parameters by formula: embeddings, blocks (4 C^2 of attention, 8 C^2 of MLP, two norms), norm, head."""
        V, C = self.vocab_size, self.n_embd
        norm = 2 * C if self.norm == "layernorm" else C
        block = 12 * C**2 + 2 * norm + (9 * C if self.bias else 0)  # biases: 3 C + C of attention, 4 C + C of the MLP
        positions = self.block_size * C if self.positions == "learned" else 0
        head = 0 if self.tie_weights else V * C
        return V * C + positions + self.n_layer * block + norm + head


class GPT(Transformer):
    """Characters so far in, logits of the next character out.

    causal=False takes the mask away, which lets every position see its own answer: bukva.evaluation.attention shows why
    the mask is there.
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
