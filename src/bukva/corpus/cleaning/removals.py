"""Count the characters that each cleaning rule removes, and collect examples of the removed text."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

CONTEXT_CHARS = 30  # maximum number of characters that an example shows on each side of the removed text
LONGEST = 60  # maximum number of characters of removed text that an example shows
EXAMPLES = 5  # maximum number of examples of one rule
ALL_EXAMPLES = 60  # maximum number of examples of all rules together, so that the report stays below 50 kB


@dataclass(frozen=True)
class Removed:
    """Amount of text that one rule removed.

    chars: number of removed characters, including line ends. It is negative if the rule added more characters than it
        removed.
    lines: number of removed lines.
    places: number of changes that the rule made. A replaced match is one change, and a removed line is one change.
    """

    chars: int = 0
    lines: int = 0
    places: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.chars + other.chars, self.lines + other.lines, self.places + other.places)


RemovedByRule = dict[str, Removed]
# A change by a rule. The keys are `line` (counted from 0), `before`, `removed`, `after`, and `replacement` if the
# replacement is not empty.
Example = dict[str, Any]


def example(line: int, text: str, start: int, stop: int, replacement: str = "") -> Example:
    """Describe one change by a rule, which replaced text[start:stop] with `replacement`.

    The description also has a few characters of the same line before and after the change. `line` is the number of this
    line, counted from 0.
    """
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
    """A text after cleaning, and a record of what was removed.

    text: the text that is left.
    lines: number of lines before cleaning.
    removed: amount of text that each rule removed, by name of the rule.
    examples: the first changes by each rule, by name of the rule.
    """

    text: str
    lines: int
    removed: RemovedByRule
    examples: dict[str, list[Example]] = field(default_factory=dict)

    @property
    def chars_before(self) -> int:
        """Number of characters before cleaning: the characters that are left plus the removed characters."""
        return len(self.text) + sum(removed.chars for removed in self.removed.values())


class Record:
    """Sum of what each rule removed from a whole collection of works, with a few examples for each rule.

    Call `begin` at the start of each work, then `add` for each piece of the work. Examples come from as many works as
    possible: the first example from one work is preferred to the second example from another work.

    totals: amount of text that each rule has removed so far, by name of the rule.
    """

    def __init__(self, rules: Sequence[str]) -> None:
        self.totals: RemovedByRule = dict.fromkeys(rules, Removed())
        self._limit = max(1, min(EXAMPLES, ALL_EXAMPLES // max(1, len(rules))))
        # name of a rule -> its examples. The number before an example counts the rule's examples of one work, from 0.
        self._examples: dict[str, list[tuple[int, Example]]] = {rule: [] for rule in rules}
        self.begin("")

    def begin(self, work: str) -> None:
        """Start the next work. The examples from this work will show the name `work`."""
        self._work, self._lines, self._seen = work, 0, Counter[str]()

    def add(self, piece: Cleaned) -> None:
        """Add what the rules removed from the next piece of the current work."""
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
        """Return what each rule has removed, as one dict per rule.

        The key `rule` has the name of the rule. The other keys are the fields of `Removed`.
        """
        return [{"rule": rule, **dataclasses.asdict(counts)} for rule, counts in self.totals.items()]

    def examples(self) -> dict[str, list[Example]]:
        """Return examples of the changes by each rule, by name of the rule. Rules that changed nothing are absent.

        Each example also has the key `work`, the name of the work. Its `line` is the line number in the work, counted
        from 1.
        """
        return {rule: [one for _, one in kept] for rule, kept in self._examples.items() if kept}


def visible(text: str) -> str:
    """Replace each invisible character of a text with its code point in angle brackets, such as <U+00AD>."""
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text)
