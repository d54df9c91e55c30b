"""What a search may choose from: a YAML file.

model.n_layer: [1, 2, 4]                                            # one of these
model.n_embd: {low: 32, high: 128, step: 32}                        # whole numbers, because both ends are
train_gpt.learning_rate: {low: 0.0003, high: 0.01, log: true}       # equally often in each power of ten
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from bukva.config.load import read_yaml
from bukva.core.errors import BukvaError
from bukva.project.commands import literal

if TYPE_CHECKING:
    from optuna import Trial

FIXED = "train_gpt.n_steps"
HELP = "write a list of values, or {low: 1, high: 8}, with step or log: true if you like"


class Range(BaseModel):
    """All numbers between two, both included: whole ones if both are."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    low: int | float
    high: int | float
    step: Annotated[int | float, Field(gt=0)] | None = None
    log: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not less than high {self.high}")
        if self.log and (self.step or self.low <= 0):
            raise ValueError("log needs a low above 0, and no step")
        return self

    def choose(self, trial: "Trial", key: str) -> int | float:
        """Let Optuna choose a value."""
        if isinstance(self.low, int) and isinstance(self.high, int) and isinstance(self.step, int | None):
            return trial.suggest_int(key, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(key, self.low, self.high, step=self.step, log=self.log)


Values = Annotated[list[bool | int | float | str], Field(min_length=1)]
Space = dict[str, Values | Range]  # by the dotted name of a parameter
SPACE: TypeAdapter[Space] = TypeAdapter(Annotated[Space, Field(min_length=1)], config=ConfigDict(strict=True))


def read_space(path: Path) -> Space:
    """Read and validate such a file.

    Raises:
        BukvaError: it is missing, or a part of it makes no sense.
    """
    raw = read_yaml(path)
    try:
        space = SPACE.validate_python(raw)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0]) if raw else ""
        given = raw.get(key, raw)
        of_range = (
            each["msg"] for each in error.errors() if isinstance(given, dict) and Range.__name__ in str(each["loc"])
        )
        why = next((f" ({said.removeprefix('Value error, ')})" for said in of_range), "")
        raise BukvaError(f"{path}: {f'{key}: ' if key else ''}{given!r} is invalid{why}; {HELP}.") from None
    if FIXED in space:
        raise BukvaError(f"{path}: {FIXED} must stay the same in a search, because the learning rate decays over it.")
    return space


def settings_of(space: Space, trial: "Trial") -> tuple[str, ...]:
    """Let Optuna choose a value for each parameter; returns options -S of `dvc exp run`."""
    chosen: dict[str, Any] = {
        key: values.choose(trial, key) if isinstance(values, Range) else trial.suggest_categorical(key, values)
        for key, values in space.items()
    }
    return tuple(f"{key}={literal(value)}" for key, value in chosen.items())


def extremes(space: Space) -> Iterator[list[str]]:
    """Settings with each value of a list and both ends of a range, one at a time: invalid ones must show at once."""
    for key, values in space.items():
        for value in [values.low, values.high] if isinstance(values, Range) else values:
            yield [f"{key}={literal(value)}"]
