"""What every language model has in common."""

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
    """The shape of a model. A subclass is a frozen dataclass whose fields are JSON values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # of the model, in the registry

    vocab_size: int  # number of ids, V
    block_size: int  # greatest number of ids of context

    @property
    def counts(self) -> bool:
        """Whether the model counts train."""
        return False

    @property
    def n_before(self) -> int:
        """How many ids before a window the model sees, at most: its counts do, and nothing else."""
        return 0

    @property
    def activations_per_char(self) -> int:
        """The least count of numbers kept of each id for the backward pass, beside the logits."""
        return 0


class HiddenLayers(NamedTuple):
    """Linear layers of one shape between hidden channels, one of each block.

    n_stacked: how many matrices are stacked in the rows of each weight (three in `qkv`); Muon updates each separately.
    """

    layers: Sequence[nn.Linear]
    n_stacked: int = 1


class Losses(NamedTuple):
    """Two means over a batch, scalars: the nats of an id under the model, and what training minimises."""

    nats: Tensor
    minimised: Tensor


class Examples(NamedTuple):
    """What a model learns from at once.

    ids: (B, T).
    targets: (B, T), the ids that follow each.
    ngrams: n-gram predictions for the first windows of the batch; None if no window has them.
    ngram_weight: share of the windows that have n-grams, relative to that share in the whole batch.
    """

    ids: Tensor
    targets: Tensor
    ngrams: "NgramFeatures | None" = None
    ngram_weight: float = 1.0

    def map(self, function: Callable[[Tensor], Tensor]) -> "Examples":
        """Apply a function to every tensor."""
        ngrams = None if self.ngrams is None else self.ngrams.map(function)
        return Examples(function(self.ids), function(self.targets), ngrams, self.ngram_weight)

    def tensors(self) -> list[Tensor]:
        """All tensors, in a fixed order."""
        return [self.ids, self.targets, *(self.ngrams.tensors() if self.ngrams else ())]


class LanguageModel(nn.Module):
    """Ids so far in, logits of the next id out: forward takes (B, T) ids, and a cache or None; returns (B, T, V).

    Scoring asks for the logits of some positions only: for those that are True in (B, T) `wanted`, forward returns
    (n, V). With a large vocabulary logits take most of the time and of the memory.

    What a model counts looks further back than its window: forward takes as `before`, (B, n), the ids before it, NO_ID
    where the text has not begun. Of them the last config.n_before count; without them the text begins with the window.

    A model that counts train knows the answers there. So forward takes, for windows of train, the (B,) ids after them
    as `following`, and then predicts each id of train as if that occurrence had not been counted.
    """

    config: Config

    @property
    def block_size(self) -> int:
        """Greatest number of ids of context."""
        return self.config.block_size

    def hidden_layers(self) -> list[HiddenLayers]:
        """The layers whose matrices Muon updates, and which may be kept in bf16 for generation; none by default."""
        return []

    @property
    def counts(self) -> bool:
        """Whether it counts train."""
        return self.config.counts

    def count(self, train: Ids, stored: Path | None = None) -> None:
        """Count the n-grams of (N,) ids of train, or map them from the folder `stored`; only models with n-grams do."""

    def without_ngrams(self) -> Self:
        """Return the network without its n-grams; the model itself if it has none."""
        return self

    def examples(
        self,
        ids: Tensor,
        targets: Tensor,
        before: Tensor | None = None,  # noqa: ARG002 (as forward)
        numbers: Tensor | None = None,  # noqa: ARG002
        batch_size: int = 0,  # noqa: ARG002
    ) -> Examples:
        """Prepare windows of train for `losses`, on the CPU.

        Args:
            ids: (B, T).
            targets: (B, T), the ids that follow each.
            before: (B, n), the ids before the windows.
            numbers: (B,), the index of each window in the whole batch, of which these windows may be a part.
            batch_size: number of windows of the whole batch; 0 if these windows are the whole.
        """
        return Examples(ids, targets)

    def losses(self, examples: Examples) -> Losses:
        """The losses of windows, on the device of the model."""
        nats = F.cross_entropy(self(examples.ids).flatten(0, 1).float(), examples.targets.flatten())
        return Losses(nats, nats)

    def new_cache(self) -> "KVCache | None":
        """Return an empty cache, to be passed along while one text grows; None for a model that caches nothing."""
        return None


def chosen(values: Tensor, wanted: Tensor | None) -> Tensor:
    """(B, T, ...) values, of the positions that are True in (B, T): (n, ...); all of them without `wanted`."""
    return values if wanted is None else values[wanted]


@dataclass(frozen=True)
class Kind:
    """How a model is configured and built, and whether its predictions depend on the last id alone."""

    config: Callable[..., Config]
    build: Callable[..., LanguageModel]
    sees_one_id: bool = False
