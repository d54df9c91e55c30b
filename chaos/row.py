"""A row of the table of faults that `make chaos` injects."""

from collections.abc import Callable
from dataclasses import dataclass

from chaos.setup import Setup


@dataclass(frozen=True)
class Row:
    """A fault, its description, and the function that injects it.

    name: name on the command line.
    fault: description of the fault.
    method: how the fault is injected, and what is checked.
    inject: function that injects the fault in the given number of tries. It returns for each try what was lost, or "".
    tries: number of tries.
    is_possible: function that returns whether the fault can be injected on this machine.
    """

    name: str
    fault: str
    method: str
    inject: Callable[[Setup, int], list[str]]
    tries: int
    is_possible: Callable[[], bool] = lambda: True

    def verdicts(self, setup: Setup) -> list[str]:
        """Return what each try lost, or "". A try in which the fault did not happen counts as lost."""
        verdicts = self.inject(setup, self.tries)
        return verdicts + ["the fault did not happen"] * (self.tries - len(verdicts))
