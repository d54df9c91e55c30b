"""The bigram: the next character from the last one alone.

The lecture notes learn the logits of every pair by gradient descent. Counting the pairs (models/ngrams/counts.py) gives
the same table exactly, so the difference between the learned and the counted table checks the whole training code.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from bukva.models.base import Kind, LanguageModel, check_fields, chosen

if TYPE_CHECKING:
    from bukva.models.attention import Caches


@dataclass(frozen=True)
class BigramConfig:
    """The shape of a bigram.

    Raises:
        ValueError: no model has this shape; names the field.
    """

    name: ClassVar[str] = "bigram"

    vocab_size: int
    block_size: int

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def counts(self) -> bool:
        """Whether the model counts train; the exact bigram, which does, is a baseline."""
        return False

    @property
    def activations_per_char(self) -> int:
        """Numbers kept of each character for the backward pass, beside the logits."""
        return 0


class Bigram(LanguageModel):
    """The table of the lecture notes: row c holds the logits of what follows character c."""

    config: BigramConfig

    def __init__(self, config: BigramConfig) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)

    def forward(
        self,
        ids: Tensor,
        caches: "Caches | None" = None,  # noqa: ARG002 (nothing is cached)
        following: Tensor | None = None,  # noqa: ARG002 (nothing is counted)
        wanted: Tensor | None = None,
    ) -> Tensor:
        """(B, T) ids -> (B, T, V) logits; (n, V) of the n positions that are True in (B, T) `wanted`."""
        return self.table(chosen(ids, wanted))


KIND = Kind(BigramConfig, Bigram, sees_one_id=True)
