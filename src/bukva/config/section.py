"""What all sections of params.yaml share: how strict they are, and types with limits."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_STEPS = 10**8  # months of training for all but toys; a greater number is a mistake
Count = Annotated[int, Field(ge=1, le=10**12)]  # a greater number is a mistake, and products of it exceed 64 bits
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
CountOrNone = Annotated[int, Field(ge=0, le=10**12)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]
Unknown = Literal["error", "drop", "replace"]


class Section(BaseModel):
    """Strict (no text for numbers, no true for 1; an int is accepted as a float), closed and frozen."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
