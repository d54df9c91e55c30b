"""Scores that are shown next to the bits per character. To add a score, add an entry to METRICS."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bukva.text.ids import CharNats, Lengths

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A score on a held-out split. One of `of_logits` and `of_losses` computes it."""

    label: str  # its name in tables and on cards
    unit: str  # "%" if the score is a fraction
    digits: int  # decimal places
    meaning: str  # continues a sentence that begins with the score of the GPT on val
    # (n, V) logits and the (n,) ids that followed -> (n,) numbers, whose mean is the score. Used only if ids are
    # characters, because scores of bytes or tokens cannot be compared with scores of characters.
    of_logits: "Callable[[Tensor, Tensor], Tensor] | None" = None
    # (N,) losses of characters in nats, and the (n_works,) numbers of characters of the works, in order -> the score
    of_losses: Callable[[CharNats, Lengths], float] | None = None

    def show(self, score: float | None) -> str:
        """Format a score with its unit. Return "" for None."""
        if score is None:
            return ""
        return f"{score * (100 if self.unit == '%' else 1):z.{self.digits}f} {self.unit}"


# The keys are those in scores.json (val and test), metrics.json and MLflow (val). docs/glossary.md explains each score.
METRICS = {
    "accuracy": Metric(
        label="accuracy",
        unit="%",
        digits=1,
        meaning="of the GPT's best guesses on val are right",
        of_logits=lambda logits, followed: logits.argmax(dim=-1) == followed,
    ),
}


def metrics_in(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of a model that METRICS defines."""
    return {name: scores[name] for name in METRICS if name in scores}
