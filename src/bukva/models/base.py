"""The interface of all language models, and the types that they share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch.nn.functional as F
from torch import Tensor, nn

from bukva.text.ids import Ids

if TYPE_CHECKING:
    from bukva.models.attention import KVCache
    from bukva.models.ngram_memory import NgramFeatures

Tensors = dict[str, Tensor]


class Config:
    """The shape of a model: its sizes and options. A subclass is a frozen dataclass whose fields are JSON values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # the model's name in the registry

    vocab_size: int  # number of ids, V
    block_size: int  # maximum context length, in ids

    @property
    def counts(self) -> bool:
        """Whether the model counts the n-grams of the training split."""
        return False

    @property
    def n_before(self) -> int:
        """Maximum number of ids before a window that the model reads. Only n-gram counts read them."""
        return 0

    @property
    def activations_per_id(self) -> int:
        """Lower bound of the number of activations kept per id for the backward pass, without the logits."""
        return 0


class HiddenLayers(NamedTuple):
    """Linear layers of one shape between hidden channels, one from each block.

    n_stacked: number of matrices stacked in the rows of each weight (3 in `qkv`). Muon updates each matrix separately.
    """

    layers: Sequence[nn.Linear]
    n_stacked: int = 1


class Losses(NamedTuple):
    """Mean losses of a batch, scalars.

    nats: cross-entropy of the model, in nats per id.
    minimized: the loss that training minimizes. It may have more terms than the cross-entropy.
    """

    nats: Tensor
    minimized: Tensor


class Examples(NamedTuple):
    """Windows for one forward and backward pass.

    ids: (B, T).
    targets: (B, T), the next id after each of `ids`.
    ngrams: n-gram predictions for the first windows; None if no window has them.
    ngram_weight: fraction of these windows that have n-grams, divided by the same fraction of the whole batch.
    """

    ids: Tensor
    targets: Tensor
    ngrams: "NgramFeatures | None" = None
    ngram_weight: float = 1.0

    def map(self, function: Callable[[Tensor], Tensor]) -> "Examples":
        """Return a copy with a function applied to every tensor."""
        ngrams = None if self.ngrams is None else self.ngrams.map(function)
        return Examples(function(self.ids), function(self.targets), ngrams, self.ngram_weight)

    def tensors(self) -> list[Tensor]:
        """Return all tensors, in a fixed order."""
        return [self.ids, self.targets, *(self.ngrams.tensors() if self.ngrams else ())]


class LanguageModel(nn.Module):
    """Base class of models that predict the next id.

    `forward` takes (B, T) ids and an optional KV cache, and returns (B, T, V) logits. It has three more arguments.

    `wanted`, (B, T), selects positions: `forward` returns only the (n, V) logits of the positions that are True. With a
    large vocabulary, logits take most of the time and memory, and scoring needs only some of them.

    `before`, (B, n), holds the ids before each window, NO_ID where the text has not begun. Only n-gram counts read
    them, at most the last `config.n_before`. By default the text begins with the window.

    `following`, (B,), holds the id after each window, for windows of the training split. A model that has counted this
    split knows its answers. With `following` it predicts each id as if that occurrence had not been counted
    (leave-one-out).
    """

    config: Config

    @property
    def block_size(self) -> int:
        """Maximum context length, in ids."""
        return self.config.block_size

    def hidden_layers(self) -> list[HiddenLayers]:
        """Return the layers that Muon updates and that generation may keep in bf16; none by default."""
        return []

    @property
    def counts(self) -> bool:
        """Whether the model counts the n-grams of the training split."""
        return self.config.counts

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of the (N,) ids of the training split, or map the counts from the folder `stored`.

        A model without n-grams does nothing.
        """

    def without_ngrams(self) -> Self:
        """Return the network without its n-grams; the model itself if it has none."""
        return self

    def examples(
        self,
        ids: Tensor,
        targets: Tensor,
        before: Tensor | None = None,  # noqa: ARG002 (for models with n-grams)
        numbers: Tensor | None = None,  # noqa: ARG002
        batch_size: int = 0,  # noqa: ARG002
    ) -> Examples:
        """Prepare windows of the training split for `losses`, on the CPU.

        Args:
            ids: (B, T), the windows of a batch or of a part of a batch.
            targets: (B, T), the next id after each of `ids`.
            before: (B, n), the ids before each window.
            numbers: (B,), index of each window in the whole batch.
            batch_size: number of windows of the whole batch; 0 if `ids` is the whole batch.
        """
        return Examples(ids, targets)

    def losses(self, examples: Examples) -> Losses:
        """Return the losses of windows, which must be on the model's device."""
        nats = F.cross_entropy(self(examples.ids).flatten(0, 1).float(), examples.targets.flatten())
        return Losses(nats, nats)

    def new_cache(self) -> "KVCache | None":
        """Return an empty cache for generating one text; None for a model that caches nothing."""
        return None


def select_wanted(values: Tensor, wanted: Tensor | None) -> Tensor:
    """Return the (n, ...) values of the positions that are True in (B, T) `wanted`; all (B, T, ...) values for None."""
    return values if wanted is None else values[wanted]


@dataclass(frozen=True)
class ModelKind:
    """The classes of a model and of its config.

    sees_one_id: whether predictions depend on the last id alone.
    """

    config: Callable[..., Config]
    build: Callable[..., LanguageModel]
    sees_one_id: bool = False
