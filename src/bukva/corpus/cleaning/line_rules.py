"""Cleaning rules: a list of named rules, applied to each line until it stays the same.

So cleaning a cleaned text changes nothing, whatever the rules are, and a work can be cut at any line end. Rules that
cut a work at its marks (bukva.corpus.cleaning.marks) come first: no other rule sees the lines that they remove.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from bukva.config.messages import shorten
from bukva.core.errors import ParamsError
from bukva.corpus.cleaning.marks import Cut, Outside
from bukva.corpus.cleaning.removals import EXAMPLES, Cleaned, Example, Removed, RemovedByRule, example

SAME_LENGTH = 10  # passes that may keep the length of a line: rules in an unlucky order need several

Place = tuple[int, int, str]  # start, stop and replacement of one change in a line

# Every rule has a name, for counts and errors. `act` returns the changed line, or None to remove it. `places` is for
# lines that the rule changes, and yields at least one place. Lines have no line feed.


@dataclass(frozen=True)
class Substitute:
    """Replace what a regular expression matches; delete it if the template is empty."""

    name: str
    pattern: re.Pattern[str]
    template: str

    def act(self, line: str) -> str | None:
        return self.pattern.sub(self.template, line)

    def places(self, line: str) -> Iterator[Place]:
        for found in self.pattern.finditer(line):
            replacement = self.template and found.expand(self.template)
            if replacement != found[0]:
                yield *found.span(), replacement


@dataclass(frozen=True)
class DropLines:
    """Remove each line in which a regular expression is found."""

    name: str
    pattern: re.Pattern[str]

    def act(self, line: str) -> str | None:
        return None if self.pattern.search(line) else line

    def places(self, line: str) -> Iterator[Place]:
        yield 0, len(line), ""


@dataclass(frozen=True)
class Normalise:
    """Write each character in a normal form of Unicode."""

    name: str
    form: Literal["NFC", "NFKC"]

    def act(self, line: str) -> str | None:
        return unicodedata.normalize(self.form, line)

    def places(self, line: str) -> Iterator[Place]:
        """Yield one place: the first character that differs."""
        normal = unicodedata.normalize(self.form, line)
        differ = (at for at, (char, other) in enumerate(zip(line, normal, strict=False)) if char != other)
        at = next(differ, len(normal))
        yield at, at + 1, normal[at : at + 1]


LineRule = Substitute | DropLines | Normalise


@dataclass(frozen=True)
class LineRules:
    """A rule set.

    source: the name of its file in error messages.
    cuts: rules that cut a whole work at its marks, before all others.
    once: apply the rules to each line only once, as the lecture notes do.
    """

    name: str
    source: str
    line_rules: tuple[LineRule, ...]
    cuts: tuple[Cut, ...] = ()
    once: bool = False

    @functools.cached_property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules, in their order."""
        return tuple(rule.name for rule in (*self.cuts, *self.line_rules))

    def apply(self, text: str, outside: Outside) -> Cleaned:
        """Clean one or more complete lines, each of which ends with a line feed.

        Args:
            text: the lines.
            outside: numbers of lines to remove first, and the rule that removes each.

        Raises:
            BukvaError: the rules change a line again and again, without end.
        """
        removed: RemovedByRule = dict.fromkeys(self.rules, Removed())
        examples: dict[str, list[Example]] = {rule: [] for rule in self.rules}

        def record(rule: LineRule, number: int, line: str, after: str | None) -> None:
            places = list(rule.places(line))
            chars = len(line) + 1 if after is None else len(line) - len(after)
            removed[rule.name] += Removed(chars, int(after is None), len(places))
            if len(examples[rule.name]) < EXAMPLES:
                examples[rule.name].append(example(number, line, *places[0]))

        lines = text.split("\n")[:-1]
        for number, rule in outside.items():
            removed[rule] += Removed(len(lines[number]) + 1, 1, 1)
            if lines[number] and len(examples[rule]) < EXAMPLES:
                examples[rule].append(example(number, lines[number], 0, len(lines[number])))
        inside = (item for item in enumerate(lines) if item[0] not in outside) if outside else enumerate(lines)
        kept = [self._settle(number, line, record) for number, line in inside]
        return Cleaned("".join(f"{line}\n" for line in kept if line is not None), len(lines), removed, examples)

    def _settle(self, number: int, line: str, record: Callable[[LineRule, int, str, str | None], None]) -> str | None:
        """Apply all rules in their order until the line stays the same; return None if a rule removes it."""
        spare, is_first = SAME_LENGTH, True
        while True:
            before, last = line, ""
            for rule in self.line_rules:
                after = rule.act(line)
                if after != line:
                    record(rule, number, line, after)
                    last = rule.name
                if after is None:
                    return None
                line = after
            if line == before or self.once:
                return line
            # The loop ends: each pass after the first shortens the line, or is one of SAME_LENGTH.
            if not is_first:
                spare -= len(line) >= len(before)
                if spare < 0 or len(line) > len(before):
                    raise ParamsError(_endless(self.source, last, before, line))
            is_first = False


def _endless(source: str, rule: str, before: str, after: str) -> str:
    what = f"{shorten(before)} becomes {shorten(after)}, which the rules change again, and so on without end"
    advice = "let no rule match what it or another rule writes, or change their order"
    return f"{source}, rule {rule}: {what}; {advice}."
