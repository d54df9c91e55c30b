"""Count the characters that each cleaning rule removes, and collect examples of the removed text."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

COUNTS = ("chars", "lines", "places")
CONTEXT_CHARS = 30  # maximum number of characters that an example shows on each side of the removed text
LONGEST = 60  # maximum number of characters of removed text that an example shows
EXAMPLES = 5  # maximum number of examples of one rule
ALL_EXAMPLES = 60  # maximum number of examples of all rules together, so that the report stays below 50 kB


class Record:
    """What each of some rules removed, with a few examples.

    counts: what a rule removed, by (name of the rule, one of COUNTS). The characters include line ends, and are
        negative if the rule added more than it removed. The places are the changes that the rule made: a replaced
        match is one change, and a removed line is one change.
    """

    def __init__(self, rules: Sequence[str]) -> None:
        self._rules = rules
        self.counts: Counter[tuple[str, str]] = Counter()
        self._limit = max(1, min(EXAMPLES, ALL_EXAMPLES // max(1, len(rules))))
        # Each example follows the name of its rule and its number among the examples of this rule in its work.
        self._examples: list[tuple[str, int, dict[str, Any]]] = []
        self._n_shown: Counter[tuple[str, int]] = Counter()
        self.begin("")

    def begin(self, work: str) -> None:
        """Start the next work. The examples from this work will show the name `work`."""
        self._work, self._n_of_work = work, Counter[str]()

    def add(self, rule: str, *, chars: int, lines: int, places: int) -> None:
        """Count what a rule removed."""
        for key, n in zip(COUNTS, (chars, lines, places), strict=True):
            self.counts[rule, key] += n

    def show(self, rule: str, line: int, text: str, start: int, stop: int, replacement: str = "") -> None:
        """Take the replacement of text[start:stop] as an example, unless there are enough.

        The first example from one work is preferred to the second example from another work. `line` is the number of
        the line `text` in the work, counted from 0.
        """
        number = self._n_of_work[rule]
        self._n_of_work[rule] += 1
        if self._n_shown[rule, number] >= self._limit:
            return
        self._n_shown[rule, number] += 1
        removed = text[start:stop]
        shown = {
            "before": text[max(0, start - CONTEXT_CHARS) : start],
            "removed": removed if len(removed) <= LONGEST else f"{removed[: LONGEST - 1]}…",
            "after": text[stop : stop + CONTEXT_CHARS],
            **({"replacement": replacement[:LONGEST]} if replacement else {}),
        }
        visibly = {key: visible(part) for key, part in shown.items()}
        self._examples.append((rule, number, {"work": self._work, "line": line + 1, **visibly}))

    def removed(self) -> list[dict[str, Any]]:
        """Return a dict for each rule: its name (`rule`) and what it removed (COUNTS)."""
        return [{"rule": rule, **{key: self.counts[rule, key] for key in COUNTS}} for rule in self._rules]

    def examples(self) -> dict[str, list[dict[str, Any]]]:
        """Return examples of the changes by each rule, by name of the rule. Rules that changed nothing are absent.

        The keys of an example are `work`, `line` (counted from 1), `before`, `removed`, `after`, and `replacement` if
        the replacement is not empty.
        """
        by_number = sorted(self._examples, key=lambda item: item[1])
        by_rule = {rule: [one for name, _, one in by_number if name == rule] for rule in self._rules}
        return {rule: examples[: self._limit] for rule, examples in by_rule.items() if examples}


def visible(text: str) -> str:
    """Replace each invisible character of a text with its code point in angle brackets, such as <U+00AD>."""
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text)
