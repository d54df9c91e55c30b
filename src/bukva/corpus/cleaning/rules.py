"""Cleaning rules for single lines and for the text outside of a book, and the rule sets that apply them."""

import functools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bukva.core.errors import ParamsError
from bukva.core.messages import shorten
from bukva.corpus.cleaning.removals import Record

LINE_ENDS = "line_ends"  # name of the rule that converts line ends; every rule set has it
# Maximum number of passes over a line that change the line but do not shorten it. Rules in an unlucky order need
# several.
MAX_SAME_LENGTH = 10

Change = tuple[int, int, str]  # one change in a line: start and stop of the replaced text, and its replacement

# Each rule for single lines has a name and two methods. `act` returns the changed line, or None if the rule removes the
# line. `changes` yields each change, and may be called only for a line that the rule changes. Lines have no line feed.


@dataclass(frozen=True)
class Substitute:
    """Rule that replaces each match of `pattern` with `template`, which may refer to groups of the match."""

    name: str
    pattern: re.Pattern[str]
    template: str

    def act(self, line: str) -> str | None:
        return self.pattern.sub(self.template, line)

    def changes(self, line: str) -> Iterator[Change]:
        for match in self.pattern.finditer(line):
            replacement = self.template and match.expand(self.template)
            if replacement != match[0]:
                yield *match.span(), replacement


@dataclass(frozen=True)
class DropLines:
    """Rule that removes each line in which `pattern` has a match."""

    name: str
    pattern: re.Pattern[str]

    def act(self, line: str) -> str | None:
        return None if self.pattern.search(line) else line

    def changes(self, line: str) -> Iterator[Change]:
        yield 0, len(line), ""


@dataclass(frozen=True)
class Normalise:
    """Rule that converts each line to a Unicode normalization form. This counts as one change."""

    name: str
    form: Literal["NFC", "NFKC"]

    def act(self, line: str) -> str | None:
        return unicodedata.normalize(self.form, line)

    def changes(self, line: str) -> Iterator[Change]:
        normal = unicodedata.normalize(self.form, line)
        differ = (at for at, (char, other) in enumerate(zip(line, normal, strict=False)) if char != other)
        at = next(differ, len(normal))
        yield at, at + 1, normal[at : at + 1]


LineRule = Substitute | DropLines | Normalise


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
        for pattern, is_start in [*((one, True) for one in self.starts), *((one, False) for one in self.ends)]:
            for match in pattern.finditer(text):
                if not text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip():
                    line = text.count("\n", 0, match.start())
                    yield range(line, line + match[0].count("\n") + 1), is_start


@dataclass(frozen=True)
class RuleSet:
    """Named cleaning rules that are applied to a text: first `cuts`, and then `line_rules` to each line that is left.

    The line rules are applied to a line until it no longer changes, so cleaning a text a second time changes nothing.
    With `once`, they are applied only once, as in the lecture notes. `source` is the rule file, for error messages.
    """

    name: str
    source: str
    line_rules: tuple[LineRule, ...]
    cuts: tuple[Cut, ...] = ()
    once: bool = False

    @functools.cached_property
    def rule_names(self) -> tuple[str, ...]:
        """The names of all rules, in the order in which they are applied."""
        return (LINE_ENDS, *(rule.name for rule in (*self.cuts, *self.line_rules)))

    def clean(self, text: str, record: Record) -> str:
        """Clean the text of a work, and record what the rules removed.

        Line ends become line feeds, and every rule set but `none` adds one to a work that does not end with it.

        Raises:
            BukvaError: the line rules would never stop changing a line.
        """
        unix = text.replace("\r\n", "\n").replace("\r", "\n")
        is_none = not self.cuts and not self.line_rules
        if unix and not unix.endswith("\n") and not is_none:
            unix += "\n"
        record.add(LINE_ENDS, chars=len(text) - len(unix), lines=0, places=text.count("\r"))
        if is_none:
            return unix
        outside = {line: cut.name for cut in reversed(self.cuts) for lines in cut.outside(unix) for line in lines}
        kept: list[str] = []
        for number, line in enumerate(unix.split("\n")[:-1]):
            if number in outside:
                record.add(outside[number], chars=len(line) + 1, lines=1, places=1)
                if line:
                    record.show(outside[number], number, line, 0, len(line))
            elif (settled := self._settle(number, line, record)) is not None:
                kept.append(settled)
        return "".join(f"{line}\n" for line in kept)

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
            # The loop always ends: no pass after the first may lengthen the line, and at most MAX_SAME_LENGTH of these
            # passes may change the line without shortening it.
            if not is_first:
                passes_left -= len(line) >= len(before)
                if passes_left < 0 or len(line) > len(before):
                    raise ParamsError(
                        f"{self.source}, rule {last}: {shorten(before)} becomes {shorten(line)}, and the rules never "
                        "stop changing it; change the rules so that no rule matches the text that a rule inserts, or "
                        "change their order."
                    )
            is_first = False
