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
    """Sizes and options of a model.

    Each kind of model defines a subclass, a frozen dataclass whose fields have JSON values.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # the model's name in the registry

    vocab_size: int  # number of ids, V
    block_size: int  # maximum context length, in ids

    @property
    def counts(self) -> bool:
        """Whether the model uses n-gram counts of the training split."""
        return False

    @property
    def n_before(self) -> int:
        """Number of ids before a window that n-gram counts use as context. It is 0 for a model without n-grams."""
        return 0


class HiddenLayers(NamedTuple):
    """The linear layers with the same name in all blocks, for example all layers `mlp.fc`.

    Their input and their output are hidden states. So embeddings and output layers are not hidden layers.

    layers: the layer of each block.
    n_stacked: number of matrices that are stacked in the rows of each weight, for example 3 in `qkv`, for queries, keys
        and values. Muon updates each matrix separately.
    """

    layers: Sequence[nn.Linear]
    n_stacked: int = 1


class Losses(NamedTuple):
    """Mean losses of a batch, as scalar tensors.

    nats: cross-entropy of the model, in nats per id.
    minimized: the loss that training minimizes. It is `nats`, and some models add further terms.
    """

    nats: Tensor
    minimized: Tensor


class Examples(NamedTuple):
    """Windows for one forward and backward pass.

    ids: (B, T), B windows of T ids.
    targets: (B, T), the next id after each of `ids`.
    ngrams: n-gram predictions for the first windows, or for all windows. Windows without them are predicted by the
        network alone. None if no window has n-gram predictions.
    ngram_weight: factor for the mean loss of the windows that have n-gram predictions. It is the fraction of these
        windows in `ids`, divided by their fraction in the whole batch. The losses of equally large parts of a batch
        then average to the loss of the whole batch.
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
        """Return a list of all tensors: `ids`, `targets`, and the tensors of `ngrams` unless it is None."""
        return [self.ids, self.targets, *(self.ngrams.tensors() if self.ngrams else ())]


class LanguageModel(nn.Module):
    """Base class of models that predict the next id.

    `forward` takes (B, T) ids, B windows of T ids. It returns (B, T, V) logits for a vocabulary of V ids. All other
    arguments are optional:

    cache: KV cache with the positions before `ids`.
    before: (B, M), the M ids before each window. NO_ID marks positions before the start of the text. Only n-gram counts
        use these ids, at most the last `config.n_before`. By default, the text begins with the window.
    following: (B,), the id after each window. Pass it only for windows of the training split, because the n-gram counts
        of a model already contain the ids that it predicts there. The model then predicts each id as if this occurrence
        had not been counted (leave-one-out).
    wanted: (B, T), True at the n positions to predict from. `forward` then returns (n, V) logits for these positions
        only, because computing all logits takes much time and memory if the vocabulary is large.
    """

    config: Config

    @property
    def block_size(self) -> int:
        """Maximum context length, in ids."""
        return self.config.block_size

    def hidden_layers(self) -> list[HiddenLayers]:
        """Return the linear layers that Muon updates. Generation may run them in bf16. By default, there are none."""
        return []

    @property
    def counts(self) -> bool:
        """Whether the model uses n-gram counts of the training split."""
        return self.config.counts

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of the training split. A model without n-grams does nothing.

        Args:
            train: (N,), the ids of the training split.
            stored: folder of saved counts. If they are the counts of `train`, they are memory-mapped instead of counted
                again.
        """

    def without_ngrams(self) -> Self:
        """Return a model that has the same weights but predicts without n-grams. By default, return this model."""
        return self

    def examples(
        self,
        ids: Tensor,
        targets: Tensor,
        before: Tensor | None = None,  # noqa: ARG002 (used by models with n-grams)
        numbers: Tensor | None = None,  # noqa: ARG002
        batch_size: int = 0,  # noqa: ARG002
    ) -> Examples:
        """Prepare windows of the training split for `losses`. The windows and the result are on the CPU.

        Args:
            ids: (B, T), B windows of T ids. They are a whole batch or a part of it.
            targets: (B, T), the next id after each of `ids`.
            before: (B, M), the M ids before each window; None if the text begins with the window.
            numbers: (B,), index of each window in the whole batch; None if `ids` is the whole batch.
            batch_size: number of windows in the whole batch; 0 if `ids` is the whole batch.
        """
        return Examples(ids, targets)

    def losses(self, examples: Examples) -> Losses:
        """Return the mean losses of a batch. The tensors of `examples` must be on the model's device."""
        nats = F.cross_entropy(self(examples.ids).flatten(0, 1).float(), examples.targets.flatten())
        return Losses(nats, nats)

    def new_cache(self) -> "KVCache | None":
        """Return an empty KV cache for generating one text, or None if the model does not use a cache."""
        return None


def select_wanted(values: Tensor, wanted: Tensor | None) -> Tensor:
    """Return the entries of `values` at the positions where `wanted` is True. If `wanted` is None, return `values`.

    `values` is (B, T, ...) and `wanted` is (B, T), with batch and positions. If `wanted` is True at n positions, the
    result is (n, ...).
    """
    return values if wanted is None else values[wanted]


@dataclass(frozen=True)
class ModelKind:
    """The classes of one kind of model, as listed in bukva.models.registry.

    config: class of the model's config.
    build: class of the model. `build(config)` returns a new model.
    sees_one_id: whether predictions depend only on the previous id, as in a bigram.
    """

    config: Callable[..., Config]
    build: Callable[..., LanguageModel]
    sees_one_id: bool = False
