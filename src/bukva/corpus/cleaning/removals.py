"""Count the text that each cleaning rule removes, and collect examples of it."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CONTEXT_CHARS = 30  # characters that an example shows on each side of the removed text
LONGEST = 60  # characters of removed text that an example shows
EXAMPLES = 5  # examples of one rule
ALL_EXAMPLES = 60  # examples of all rules together; keeps the report below 50 kB


@dataclass(frozen=True)
class Removed:
    """Amount of text that one rule removed.

    chars: removed characters, line ends included; negative if the rule added more than it removed.
    lines: removed lines.
    places: number of matches that the rule changed; for a rule that removes lines, number of lines.
    """

    chars: int = 0
    lines: int = 0
    places: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.chars + other.chars, self.lines + other.lines, self.places + other.places)


RemovedByRule = dict[str, Removed]
Example = dict[str, Any]  # line (counted from 0), before, removed, after, and replacement if there is one


def example(line: int, text: str, start: int, stop: int, replacement: str = "") -> Example:
    """Return an example of a rule that replaced text[start:stop]. Its context does not go beyond the line."""
    first = max(text.rfind("\n", 0, start) + 1, start - CONTEXT_CHARS)
    after, _, _ = text[stop : stop + CONTEXT_CHARS].partition("\n")
    whole = text[start:stop]
    shown = {
        "before": text[first:start],
        "removed": whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…",
        "after": "" if whole.endswith("\n") else after,
        **({"replacement": replacement[:LONGEST]} if replacement else {}),
    }
    return {"line": line, **{key: visible(part) for key, part in shown.items()}}


@dataclass(frozen=True)
class Cleaned:
    """A text after cleaning.

    lines: number of lines before cleaning.
    examples: the first examples of each rule.
    """

    text: str
    lines: int
    removed: RemovedByRule
    examples: dict[str, list[Example]] = field(default_factory=dict)

    @property
    def chars_before(self) -> int:
        """Number of characters before cleaning; every one is either kept or accounted for."""
        return len(self.text) + sum(removed.chars for removed in self.removed.values())


class Record:
    """Collect the counts and examples of a whole collection, work by work.

    Examples come from as many works as possible: the first example of any work is preferred to the second example of
    another work.
    """

    def __init__(self, rules: Sequence[str]) -> None:
        self.totals: RemovedByRule = dict.fromkeys(rules, Removed())
        self._limit = max(1, min(EXAMPLES, ALL_EXAMPLES // max(1, len(rules))))
        # each example with its number within its work
        self._examples: dict[str, list[tuple[int, Example]]] = {rule: [] for rule in rules}
        self.begin("")

    def begin(self, work: str) -> None:
        """Start the next work."""
        self._work, self._lines, self._seen = work, 0, Counter[str]()

    def add(self, piece: Cleaned) -> None:
        """Add the next piece of the current work."""
        for rule, removed in piece.removed.items():
            self.totals[rule] += removed
        for rule, examples in piece.examples.items():
            kept = self._examples[rule]
            for one in examples:
                if len(kept) >= self._limit and self._seen[rule] >= kept[-1][0]:
                    break
                numbered = {"work": self._work, **one, "line": one["line"] + self._lines + 1}
                kept.append((self._seen[rule], numbered))
                kept.sort(key=lambda item: item[0])
                del kept[self._limit :]
                self._seen[rule] += 1
        self._lines += piece.lines

    def removed(self) -> list[dict[str, Any]]:
        """Return the counts of each rule."""
        return [{"rule": rule, **dataclasses.asdict(counts)} for rule, counts in self.totals.items()]

    def examples(self) -> dict[str, list[Example]]:
        """Return the examples of the rules that changed something."""
        return {rule: [one for _, one in kept] for rule, kept in self._examples.items() if kept}


def visible(text: str) -> str:
    """Replace the invisible characters of a text by their code points, such as <U+00AD>."""
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text)
