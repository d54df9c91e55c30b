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
    tries: how often; 0 for a fault that tests inject, where each test is a try.
    tries_in_tests: how often in `make test`; 0 leaves it out.
    is_possible: whether this machine can do it.
    """

    name: str
    fault: str
    method: str
    inject: Callable[[Setup, int], list[str]]
    tries: int = 0
    tries_in_tests: int = 0
    is_possible: Callable[[], bool] = lambda: True

    def verdicts(self, setup: Setup, tries: int) -> list[str]:
        """What each try lost, or an empty text; a try in which the fault did not happen counts as lost."""
        found = self.inject(setup, tries)
        return found + ["the fault did not happen"] * (max(tries, 1) - len(found))
