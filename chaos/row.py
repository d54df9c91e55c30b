"""One fault of `make chaos`."""

from collections.abc import Callable
from dataclasses import dataclass

from chaos.setup import Setup


@dataclass(frozen=True)
class Row:
    """One fault.

    name: for the command line.
    fault: what happens.
    method: how it is injected, and what is checked.
    inject: injects it in so many tries; returns for each try what was lost, or an empty text.
    tries: how often.
    is_possible: whether this machine can do it.
    """

    name: str
    fault: str
    method: str
    inject: Callable[[Setup, int], list[str]]
    tries: int
    is_possible: Callable[[], bool] = lambda: True

    def verdicts(self, setup: Setup) -> list[str]:
        """What each try lost, or an empty text; a try in which the fault did not happen counts as lost."""
        found = self.inject(setup, self.tries)
        return found + ["the fault did not happen"] * (self.tries - len(found))
