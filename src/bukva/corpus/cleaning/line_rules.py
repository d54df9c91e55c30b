"""Cleaning rules for single lines.

A rule set is a list of named rules. All of them are applied to a line, again and again, until the line no longer
changes. Therefore cleaning a cleaned text changes nothing. (Rule sets with `once` are the exception.) A work can be
divided into pieces at any line end, because each line is cleaned separately.
Rules that cut a work at its marks (bukva.corpus.cleaning.marks) come first. Line rules do not see the lines that these
rules remove.
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

MAX_SAME_LENGTH = 10  # passes that may leave the length of a line unchanged; rules in an unlucky order need several

Change = tuple[int, int, str]  # one change in a line: start, stop and replacement

# Every rule has a name, which counts and errors use. `act` returns the changed line, or None to remove it. `changes`
# yields at least one change; call it only for a line that the rule changes. Lines are passed without their line feed.


@dataclass(frozen=True)
class Substitute:
    """Replace the matches of a regular expression; delete them if the template is empty."""

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
    """Remove each line that contains a match of a regular expression."""

    name: str
    pattern: re.Pattern[str]

    def act(self, line: str) -> str | None:
        return None if self.pattern.search(line) else line

    def changes(self, line: str) -> Iterator[Change]:
        yield 0, len(line), ""


@dataclass(frozen=True)
class Normalise:
    """Convert each line to a normal form of Unicode."""

    name: str
    form: Literal["NFC", "NFKC"]

    def act(self, line: str) -> str | None:
        return unicodedata.normalize(self.form, line)

    def changes(self, line: str) -> Iterator[Change]:
        """Yield one change, at the first character that differs."""
        normal = unicodedata.normalize(self.form, line)
        differ = (at for at, (char, other) in enumerate(zip(line, normal, strict=False)) if char != other)
        at = next(differ, len(normal))
        yield at, at + 1, normal[at : at + 1]


LineRule = Substitute | DropLines | Normalise


@dataclass(frozen=True)
class LineRules:
    """A rule set.

    source: name of the rule file in error messages.
    cuts: rules that cut a whole work at its marks, before the line rules.
    once: apply the rules to each line only once, as the lecture notes do.
    """

    name: str
    source: str
    line_rules: tuple[LineRule, ...]
    cuts: tuple[Cut, ...] = ()
    once: bool = False

    @functools.cached_property
    def rule_names(self) -> tuple[str, ...]:
        """Names of all rules, in the order in which they are applied."""
        return tuple(rule.name for rule in (*self.cuts, *self.line_rules))

    def apply(self, text: str, outside: Outside) -> Cleaned:
        """Clean one or more complete lines, each of which ends with a line feed.

        Args:
            text: the lines.
            outside: the number of each line to remove first -> the name of the rule that removes it.

        Raises:
            BukvaError: the rules never stop changing a line.
        """
        removed: RemovedByRule = dict.fromkeys(self.rule_names, Removed())
        examples: dict[str, list[Example]] = {rule: [] for rule in self.rule_names}

        def record(rule: LineRule, number: int, line: str, after: str | None) -> None:
            changes = list(rule.changes(line))
            chars = len(line) + 1 if after is None else len(line) - len(after)
            removed[rule.name] += Removed(chars, int(after is None), len(changes))
            if len(examples[rule.name]) < EXAMPLES:
                examples[rule.name].append(example(number, line, *changes[0]))

        lines = text.split("\n")[:-1]
        for number, rule in outside.items():
            removed[rule] += Removed(len(lines[number]) + 1, 1, 1)
            if lines[number] and len(examples[rule]) < EXAMPLES:
                examples[rule].append(example(number, lines[number], 0, len(lines[number])))
        inside = (item for item in enumerate(lines) if item[0] not in outside) if outside else enumerate(lines)
        kept = [self._settle(number, line, record) for number, line in inside]
        return Cleaned("".join(f"{line}\n" for line in kept if line is not None), len(lines), removed, examples)

    def _settle(self, number: int, line: str, record: Callable[[LineRule, int, str, str | None], None]) -> str | None:
        """Apply all rules in their order until the line no longer changes; return None if a rule removes it."""
        passes_left, is_first = MAX_SAME_LENGTH, True
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
            # The loop ends, because each pass after the first shortens the line, except for MAX_SAME_LENGTH passes.
            if not is_first:
                passes_left -= len(line) >= len(before)
                if passes_left < 0 or len(line) > len(before):
                    raise ParamsError(_endless(self.source, last, before, line))
            is_first = False


def _endless(source: str, rule: str, before: str, after: str) -> str:
    what = f"{shorten(before)} becomes {shorten(after)}, and the rules never stop changing it"
    advice = "change the rules so that none matches the output of a rule, or reorder them"
    return f"{source}, rule {rule}: {what}; {advice}."
