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
    """Sizes and options of a model. Each model has a subclass: a frozen dataclass whose fields are JSON values."""

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
        """How many ids before the start of a window affect predictions. It is 0 for a model without n-grams."""
        return 0

    @property
    def activations_per_id(self) -> int:
        """Lower bound of the number of activations that the backward pass needs per id. Logits are not included."""
        return 0


class HiddenLayers(NamedTuple):
    """The linear layers of one name, one from each block. Their inputs and outputs are hidden channels.

    n_stacked: number of matrices that are stacked in the rows of each weight, for example 3 for `qkv`. Muon updates
        each matrix separately.
    """

    layers: Sequence[nn.Linear]
    n_stacked: int = 1


class Losses(NamedTuple):
    """Mean losses of a batch, as scalar tensors.

    nats: cross-entropy of the model, in nats per id.
    minimized: the loss that training minimizes: `nats`, plus more terms for some models.
    """

    nats: Tensor
    minimized: Tensor


class Examples(NamedTuple):
    """Windows for one forward and backward pass.

    ids: (B, T), the windows.
    targets: (B, T), the next id after each of `ids`.
    ngrams: n-gram predictions for all windows, or only for the first windows. None if no window has n-grams.
    ngram_weight: fraction of the windows in `ids` that have n-grams, divided by the fraction of all windows of the
        batch that have n-grams.
    """

    ids: Tensor
    targets: Tensor
    ngrams: "NgramFeatures | None" = None
    ngram_weight: float = 1.0

    def map(self, function: Callable[[Tensor], Tensor]) -> "Examples":
        """Return a copy in which each tensor is replaced by the result of `function`."""
        ngrams = None if self.ngrams is None else self.ngrams.map(function)
        return Examples(function(self.ids), function(self.targets), ngrams, self.ngram_weight)

    def tensors(self) -> list[Tensor]:
        """Return `ids`, `targets` and the tensors of `ngrams`."""
        return [self.ids, self.targets, *(self.ngrams.tensors() if self.ngrams else ())]


class LanguageModel(nn.Module):
    """Base class of models that predict the next id.

    `forward` takes (B, T) ids and an optional KV cache, and returns (B, T, V) logits. It has three more arguments.

    `wanted`, (B, T), selects n positions: `forward` returns only the (n, V) logits at the positions where `wanted` is
    True. With a large vocabulary, logits take most of the time and memory, and scoring needs only some of them.

    `before`, (B, n), contains the ids before each window, or NO_ID at positions before the start of the text. Only
    n-gram counts use these ids, at most the last `config.n_before` of them. Without `before`, the text begins with the
    window.

    `following`, (B,), contains the id after each window. It is given only for windows of the training split. There, the
    n-gram counts of a model already contain the ids to predict. With `following`, the model predicts each id as if this
    occurrence had not been counted (leave-one-out).
    """

    config: Config

    @property
    def block_size(self) -> int:
        """Maximum context length, in ids."""
        return self.config.block_size

    def hidden_layers(self) -> list[HiddenLayers]:
        """Return the linear layers that Muon updates and generation may run in bf16. By default, there are none."""
        return []

    @property
    def counts(self) -> bool:
        """Whether the model counts the n-grams of the training split."""
        return self.config.counts

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of the (N,) ids `train`. If the folder `stored` has their counts, memory-map the counts.

        A model without n-grams does nothing.
        """

    def without_ngrams(self) -> Self:
        """Return a model with the same weights that predicts without n-grams. By default, return this model."""
        return self

    def examples(
        self,
        ids: Tensor,
        targets: Tensor,
        before: Tensor | None = None,  # noqa: ARG002 (for models with n-grams)
        numbers: Tensor | None = None,  # noqa: ARG002
        batch_size: int = 0,  # noqa: ARG002
    ) -> Examples:
        """Prepare windows of the training split as the argument of `losses`. This is done on the CPU.

        Args:
            ids: (B, T), the windows of a batch or of a part of a batch.
            targets: (B, T), the next id after each of `ids`.
            before: (B, n), the ids before each window; None if the text begins with the window.
            numbers: (B,), index of each window in the whole batch; None if `ids` is the whole batch.
            batch_size: number of windows in the whole batch; 0 if `ids` is the whole batch.
        """
        return Examples(ids, targets)

    def losses(self, examples: Examples) -> Losses:
        """Return the losses of a batch. The tensors of `examples` must be on the model's device."""
        nats = F.cross_entropy(self(examples.ids).flatten(0, 1).float(), examples.targets.flatten())
        return Losses(nats, nats)

    def new_cache(self) -> "KVCache | None":
        """Return an empty KV cache for generating one text, or None if the model does not use a cache."""
        return None


def select_wanted(values: Tensor, wanted: Tensor | None) -> Tensor:
    """Return the (n, ...) entries of (B, T, ...) `values` where (B, T) `wanted` is True. None selects all entries."""
    return values if wanted is None else values[wanted]


@dataclass(frozen=True)
class ModelKind:
    """A kind of model.

    config: class of the model's config.
    build: class of the model; `build(config)` returns a new model.
    sees_one_id: whether the predictions depend on the last id alone.
    """

    config: Callable[..., Config]
    build: Callable[..., LanguageModel]
    sees_one_id: bool = False
