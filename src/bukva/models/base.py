"""The interface of all language models."""

from typing import TYPE_CHECKING, Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from bukva.models.attention import KVCache
    from bukva.models.ngram_memory import NgramMemory

Tensors = dict[str, Tensor]
# The arguments of `LanguageModel.loss`. The first dimension of every tensor is the number of windows.
Batch = tuple[Tensor, ...]


class Config:
    """Base class of configs: frozen dataclasses whose fields have JSON values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # key in bukva.models.registry.MODELS

    vocab_size: int  # number of ids, V
    block_size: int  # maximum context length, in ids


class LanguageModel(nn.Module):
    """Base class of models that predict the next id.

    `forward` takes (B, T) ids, B windows of T ids. It returns (B, T, V) logits for a vocabulary of V ids. Its other
    arguments are optional:

    cache: KV cache with the positions before `ids`.
    before: (B, M), the ids before each window, for n-gram counts. NO_ID marks positions before the start of the text.
    following: (B,), the id after each window of the training split, whose ids the n-gram counts already contain. The
        model then predicts each id as if this occurrence had not been counted (leave-one-out).
    wanted: (B, T), True at the n positions to predict from. `forward` then returns (n, V) logits for these positions
        only, because computing all logits takes much time and memory if the vocabulary is large.
    """

    config: Config
    ngrams: "NgramMemory | None" = None  # n-gram counts of the training split
    teacher: "NgramMemory | None" = None  # n-gram counts that only the training uses

    @property
    def block_size(self) -> int:
        """Maximum context length, in ids."""
        return self.config.block_size

    @property
    def ngrams_in_training(self) -> "NgramMemory | None":
        """N-gram counts whose predictions `loss` needs (see `NgramMemory.inputs`)."""
        return self.ngrams or self.teacher

    @property
    def n_before(self) -> int:
        """Number of ids before a window that the n-gram counts use as context; 0 without n-grams."""
        return self.ngrams.n_before if self.ngrams else 0

    def loss(self, ids: Tensor, targets: Tensor, *_: Tensor) -> Tensor:
        """Return the mean loss of a batch in nats per id. The (B, T) `targets` follow the (B, T) `ids`."""
        return F.cross_entropy(self(ids).flatten(0, 1).float(), targets.flatten())

    def hidden_matrices(self) -> dict[nn.Parameter, int]:
        """Return the matrices that Muon updates, and how many are stacked in the rows of each."""
        return {}

    def without_ngrams(self) -> "LanguageModel":
        """Return a model that has the same weights but predicts without n-grams."""
        return self

    def new_cache(self) -> "KVCache | None":
        """Return an empty KV cache for generating one text, or None if the model does not use a cache."""
        return None
