"""Cleaning rules for single lines and for the text outside of a book, rule sets, and the record of what they remove."""

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from bukva.core.errors import ParamsError
from bukva.core.messages import shorten

COUNTS = ("chars", "lines", "places")
CONTEXT_CHARS = 30  # maximum number of characters that an example shows on each side of the removed text
LONGEST = 60  # maximum number of characters of removed text that an example shows
EXAMPLES = 5  # maximum number of examples of one rule
ALL_EXAMPLES = 60  # maximum number of examples of all rules together, so that the report stays below 50 kB
LINE_ENDS = "line_ends"  # name of the rule that converts line ends; every rule set has it
MAX_SAME_LENGTH = 10  # maximum number of passes that change a line without shortening it; an unlucky order needs some

Change = tuple[int, int, str]  # one change in a line: start and stop of the replaced text, and its replacement


class Record:
    """What each of some rules removed: `counts` by name of the rule and then by COUNTS, and a few examples.

    The characters include line ends, and are negative if the rule added more than it removed. The places are the
    changes that the rule made: a replaced match is one change, and a removed line is one change.
    """

    def __init__(self, rules: Sequence[str]) -> None:
        self.counts = {rule: Counter(dict.fromkeys(COUNTS, 0)) for rule in rules}
        self._limit = max(1, min(EXAMPLES, ALL_EXAMPLES // max(1, len(rules))))
        self._examples: list[tuple[str, int, dict[str, Any]]] = []  # rule, number of the example in its work, example
        self._n_shown: Counter[tuple[str, int]] = Counter()
        self.begin("")

    def begin(self, work: str) -> None:
        """Start the next work, whose name its examples will show."""
        self._work, self._n_of_work = work, Counter[str]()

    def add(self, rule: str, *, chars: int, lines: int, places: int) -> None:
        counts = self.counts[rule]  # added one by one, because Counter.update is slow
        counts["chars"] += chars
        counts["lines"] += lines
        counts["places"] += places

    def show(self, rule: str, line: int, text: str, start: int, stop: int, replacement: str = "") -> None:
        """Take the replacement of text[start:stop], in the line with this number from 0, as an example if needed."""
        # the first example from one work is preferred to the second example from another work
        number = self._n_of_work[rule]
        self._n_of_work[rule] += 1
        if number >= self._limit or self._n_shown[rule, number] >= self._limit:
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
        return [{"rule": rule, **counts} for rule, counts in self.counts.items()]

    def examples(self) -> dict[str, list[dict[str, Any]]]:
        """Return examples of the changes by each rule, by name of the rule. Rules that changed nothing are absent."""
        by_number = sorted(self._examples, key=lambda item: item[1])
        by_rule = {rule: [one for name, _, one in by_number if name == rule] for rule in self.counts}
        return {rule: examples[: self._limit] for rule, examples in by_rule.items() if examples}


def visible(text: str) -> str:
    """Replace each invisible character of a text with its code point in angle brackets, such as <U+00AD>."""
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text)


class LineRule(NamedTuple):
    """Rule for single lines, which have no line feed."""

    name: str
    act: Callable[[str], str | None]  # returns the changed line, or None if the rule removes the line
    changes: Callable[[str], Iterator[Change]]  # yields each change in a line that the rule changes


def substitution(name: str, pattern: re.Pattern[str], template: str) -> LineRule:
    """Replace each match of `pattern` with `template`, which may refer to groups of the match."""

    def changes(line: str) -> Iterator[Change]:
        for match in pattern.finditer(line):
            if (replacement := template and match.expand(template)) != match[0]:
                yield *match.span(), replacement

    return LineRule(name, functools.partial(pattern.sub, template), changes)


def removal(name: str, pattern: re.Pattern[str]) -> LineRule:
    """Remove each line in which `pattern` has a match."""
    return LineRule(name, lambda line: None if pattern.search(line) else line, lambda line: iter([(0, len(line), "")]))


def normalisation(name: str, form: Literal["NFC", "NFKC"]) -> LineRule:
    """Convert each line to a Unicode normalization form. This counts as one change."""
    act = functools.partial(unicodedata.normalize, form)

    def changes(line: str) -> Iterator[Change]:
        normal = act(line)
        differ = (at for at, (char, other) in enumerate(zip(line, normal, strict=False)) if char != other)
        at = next(differ, len(normal))
        yield at, at + 1, normal[at : at + 1]

    return LineRule(name, act, changes)


@dataclass(frozen=True)
class Cut:
    """Rule that removes the text that a publisher put before and after a work, such as a license.

    A mark is a match of one of the expressions `starts` or `ends` at the start of a line, after white space at most. If
    the first mark is a start mark, the rule removes all lines before it. The rule also removes all lines from an end
    mark to the next start mark or to the end of the file, and the lines of every mark. So in a file of several books,
    every book is kept.
    """

    name: str
    starts: tuple[re.Pattern[str], ...]
    ends: tuple[re.Pattern[str], ...]

    def outside(self, text: str) -> Iterator[range]:
        """Yield the ranges of the line numbers of a work that the rule removes, counted from 0."""
        marks = sorted(self._marks(text), key=lambda mark: mark[0].start)
        outside_from = 0 if marks and marks[0][1] else None
        for lines, is_start in marks:
            if is_start:
                yield range(lines.start if outside_from is None else outside_from, lines.stop)
                outside_from = None
            elif outside_from is None:
                outside_from = lines.start
        if outside_from is not None:
            yield range(outside_from, text.count("\n") + 1)

    def _marks(self, text: str) -> Iterator[tuple[range, bool]]:
        """Yield the line numbers of each mark, and whether it is a start mark."""
        for patterns in (self.starts, self.ends):
            for match in (match for pattern in patterns for match in pattern.finditer(text)):
                if not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip():
                    line = text.count("\n", 0, match.start())
                    yield range(line, line + match[0].count("\n") + 1), patterns is self.starts


@dataclass(frozen=True)
class RuleSet:
    """Named cleaning rules that are applied to a text: first `cuts`, and then `line_rules` to each line that is left.

    The line rules are applied to a line until it no longer changes, so cleaning a text a second time changes nothing.
    """

    name: str
    source: str  # the rule file, for error messages
    line_rules: tuple[LineRule, ...]
    cuts: tuple[Cut, ...] = ()
    once: bool = False  # whether each line rule is applied only once, as in the lecture notes

    @property
    def rule_names(self) -> tuple[str, ...]:
        return (LINE_ENDS, *(rule.name for rule in self.cuts), *(rule.name for rule in self.line_rules))

    def clean(self, text: str, record: Record) -> str:
        """Clean the text of a work, and record what the rules removed.

        Line ends become line feeds, and every rule set but `none` adds one to a work that does not end with it. Line
        rules that would never stop changing a line are a ParamsError.
        """
        unix = text.replace("\r\n", "\n").replace("\r", "\n")
        if unix and not unix.endswith("\n") and (self.cuts or self.line_rules):
            unix += "\n"
        record.add(LINE_ENDS, chars=len(text) - len(unix), lines=0, places=text.count("\r"))
        outside = {line: cut.name for cut in reversed(self.cuts) for lines in cut.outside(unix) for line in lines}
        if not outside and not self.line_rules:
            return unix
        kept: list[str] = []
        for number, line in enumerate(unix.split("\n")[:-1]):
            if number in outside:
                record.add(outside[number], chars=len(line) + 1, lines=1, places=1)
                if line:
                    record.show(outside[number], number, line, 0, len(line))
            elif (settled := self._settle(number, line, record)) is not None:
                kept.append(settled)
        return "\n".join([*kept, ""])

    def _settle(self, number: int, line: str, record: Record) -> str | None:
        """Apply the line rules to a line until they no longer change it, or only once if `once` is true."""
        passes_left, is_first = MAX_SAME_LENGTH, True
        while True:
            before, last = line, ""
            for rule in self.line_rules:
                after = rule.act(line)
                if after != line:
                    changes = list(rule.changes(line))
                    chars = len(line) + 1 if after is None else len(line) - len(after)
                    record.add(rule.name, chars=chars, lines=int(after is None), places=len(changes))
                    record.show(rule.name, number, line, *changes[0])
                    last = rule.name
                if after is None:
                    return None
                line = after
            if line == before or self.once:
                return line
            # the loop ends, because no pass after the first may lengthen the line, and few may keep its length
            passes_left -= not is_first and len(line) >= len(before)
            if passes_left < 0 or (not is_first and len(line) > len(before)):
                raise ParamsError(
                    f"{self.source}, rule {last}: {shorten(before)} becomes {shorten(line)}, and the rules never stop "
                    "changing it; change the rules so that no rule matches the text that a rule inserts, or change "
                    "their order."
                )
            is_first = False
