"""The frame of a row of the table: a function that injects a fault several times."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chaos.setup import Setup

Inject = Callable[[Setup, int], Iterator[str]]  # yields for each try what was lost, or ""


@dataclass(frozen=True)
class Row:
    """A fault. The first paragraph of the function's docstring names the fault, the second how it is injected."""

    inject: Inject
    tries: int
    is_possible: Callable[[], bool] = lambda: True

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.inject.__name__.replace("_", "-")

    @property
    def paragraphs(self) -> list[str]:
        """The fault, and how it is injected and checked; each in one line."""
        paragraphs = (inspect.getdoc(self.inject) or "").split("\n\n")
        return [" ".join(paragraph.split()).removesuffix(".") for paragraph in paragraphs]

    def verdicts(self, setup: Setup) -> list[str]:
        """Return what each try lost, or "". A try in which the fault did not happen counts as lost."""
        verdicts = list(self.inject(setup, self.tries))
        return verdicts + ["the fault did not happen"] * (self.tries - len(verdicts))
