"""What every language model has in common."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import torch.nn.functional as F
from torch import Tensor, nn

from bukva.text.ids import Ids

if TYPE_CHECKING:
    from bukva.models.attention import Caches

Tensors = dict[str, Tensor]
MAX_SIZE = 2**24  # a greater count is a mistake, and torch cannot multiply such matrices
MAX_LAYERS = 1000  # building more takes too long


class Config:
    """The shape of a model. A subclass is a frozen dataclass whose fields are JSON values.

    Every field is checked, because a file may be edited.

    Raises:
        ValueError: no model has this shape; names the field and the value.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # of the model, in the registry
    choices: ClassVar[Mapping[str, Collection[str]]] = {}  # the values of text fields

    vocab_size: int  # number of ids, V
    block_size: int  # greatest number of ids of context

    def __post_init__(self) -> None:
        for field in fields(self):
            value, valid = getattr(self, field.name), self.choices.get(field.name)
            fits = _fits(value, field.type) if valid is None else value in list(valid)  # value may not be hashable
            if not fits or (field.name == "n_layer" and value > MAX_LAYERS):
                raise ValueError(f"{field.name} cannot be {value!r}")

    @property
    def counts(self) -> bool:
        """Whether the model counts train."""
        return False

    @property
    def activations_per_char(self) -> int:
        """The least count of numbers kept of each id for the backward pass, beside the logits."""
        return 0


def _fits(value: Any, wanted: Any) -> bool:
    if wanted is int:
        return type(value) is int and 1 <= value <= MAX_SIZE
    if wanted is float:  # a probability of dropout
        return type(value) in (int, float) and 0 <= value < 1
    if wanted == tuple[int, ...]:
        return type(value) is tuple and all(_fits(item, int) for item in value)
    return type(value) is wanted


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


class LanguageModel(nn.Module):
    """Ids so far in, logits of the next id out: forward takes (B, T) ids, and caches or None; returns (B, T, V).

    Scoring asks for the logits of some positions only: for those that are True in (B, T) `wanted`, forward returns
    (n, V). With a large vocabulary logits take most of the time and of the memory.

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

    def count(self, train: Ids) -> None:
        """Take the counts of (N,) ids of train; nothing for a model that does not count."""

    def alone(self) -> Self:
        """What it has learned without what it counts; the model itself if it does not count."""
        return self

    def losses(self, ids: Tensor, targets: Tensor) -> Losses:
        """The losses of (B, T) ids with (B, T) targets."""
        nats = F.cross_entropy(self(ids).flatten(0, 1).float(), targets.flatten())
        return Losses(nats, nats)

    def new_caches(self) -> "Caches | None":
        """Empty caches, to be passed along while one text grows; None where nothing is cached."""
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
