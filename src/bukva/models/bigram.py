"""The bigram: the next character from the last one alone.

The notes learn the logits of every pair by gradient descent. Counting the pairs (bukva.evaluation.floors) gives the
same table exactly, so that how close the learned one comes is a check of the whole training machinery.
"""

from dataclasses import dataclass

from torch import Tensor, nn

from bukva.models.shape import refuse_other


@dataclass(frozen=True)
class BigramConfig:
    """The shape of a bigram."""

    vocab_size: int
    block_size: int

    def __post_init__(self) -> None:
        refuse_other(self)

    @property
    def n_parameters(self) -> int:
        """One logit for every pair."""
        return self.vocab_size**2


class Bigram(nn.Module):
    """The notes' table: row c holds the logits of what follows character c."""

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)

    @property
    def block_size(self) -> int:
        """Characters of one window; the prediction uses the last one only."""
        return self.config.block_size

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) ids -> (B, T, V) logits."""
        return self.table(ids)
