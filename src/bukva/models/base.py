"""What every language model has in common."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import torch.nn.functional as F
from torch import Tensor, nn

from bukva.text.ids import Ids

if TYPE_CHECKING:
    from bukva.models.attention import Caches

Tensors = dict[str, Tensor]
MAX_SIZE = 2**24  # a greater count is a mistake, and torch cannot multiply such matrices
MAX_LAYERS = 1000  # building more takes too long


class Config(Protocol):
    """The shape of a model: a frozen dataclass whose fields are JSON values.

    Raises:
        ValueError: when made with values that no model can have.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]  # of the model, in the registry

    @property
    def vocab_size(self) -> int:
        """Number of ids, V."""

    @property
    def block_size(self) -> int:
        """Greatest number of ids of context."""

    @property
    def counts(self) -> bool:
        """Whether the model counts train."""

    @property
    def activations_per_char(self) -> int:
        """The least count of numbers kept of each id for the backward pass, beside the logits."""


@dataclass(frozen=True)
class HiddenLayers:
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

    config: Any  # a Config

    @property
    def block_size(self) -> int:
        """Greatest number of ids of context."""
        return int(self.config.block_size)

    def hidden_layers(self) -> list[HiddenLayers]:
        """The layers whose matrices Muon updates, and which may be kept in bf16 for generation; none by default."""
        return []

    @property
    def counts(self) -> bool:
        """Whether it counts train."""
        return bool(self.config.counts)

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


# ---- what a file may hold


def check_fields(config: Any, choices: Mapping[str, Collection[str]] | None = None) -> None:
    """Check every field of a config against its type, and the named choices of its text fields: a file may be edited.

    Raises:
        ValueError: names the field and the value.
    """
    for field in fields(config):
        value, valid = getattr(config, field.name), (choices or {}).get(field.name)
        fits = _fits(value, field.type) if valid is None else value in list(valid)  # value may not be hashable
        if not fits or (field.name == "n_layer" and value > MAX_LAYERS):
            raise ValueError(f"{field.name} cannot be {value!r}")


def _fits(value: Any, wanted: Any) -> bool:
    if wanted is int:
        return type(value) is int and 1 <= value <= MAX_SIZE
    if wanted is float:  # a probability of dropout
        return type(value) in (int, float) and 0 <= value < 1
    if wanted == tuple[int, ...]:
        return type(value) is tuple and all(_fits(item, int) for item in value)
    return type(value) is wanted


def describe(value: Any) -> str:
    """Type and shape: float32 (87, 128); absent for None."""
    if value is None:
        return "absent"
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.")


def first_mismatch(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """The first name whose tensors differ in type or shape, as half a sentence; empty if all agree."""
    for name in sorted(wanted.keys() | found.keys()):
        if describe(found.get(name)) != describe(wanted.get(name)):
            return f"{name} is {describe(found.get(name))}, not {describe(wanted.get(name))}"
    return ""
