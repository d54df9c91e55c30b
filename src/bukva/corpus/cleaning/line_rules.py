"""Rules as people write them: a list of named rules, applied to one line after the other until nothing changes.

So cleaning a cleaned text changes nothing, whatever the rules are, and a work can be cut at any line end.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from bukva.config.messages import WAY_BACK, shorten
from bukva.core.errors import BukvaError
from bukva.corpus.cleaning.removals import EXAMPLES, Cleaned, Example, Removed, RemovedByRule, example
from bukva.corpus.cleaning.scripts import LettersOf

SAME_LENGTH = 10  # passes that may leave a line as long as it was: rules in an unlucky order need some

ROMAN = frozenset("IVXLCDM")  # the letters of Roman numbers, which are the headings of chapters in any language

Place = tuple[int, int, str]  # start, stop and replacement of what a rule changes in a line


class LineRule(Protocol):
    """One rule; a line is without its line feed."""

    @property
    def name(self) -> str:
        """In counts and errors."""
        ...

    def act(self, line: str) -> str | None:
        """The line after the rule; None if the rule removes it."""
        ...

    def places(self, line: str) -> Iterator[Place]:
        """Where the rule changes a line that it changes; at least one place."""
        ...


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
            if (replacement := found.expand(self.template)) != found[0]:
                yield *found.span(), replacement


@dataclass(frozen=True)
class DropLines:
    """Remove each line that satisfies a condition."""

    name: str
    condition: Callable[[str], object]

    def act(self, line: str) -> str | None:
        return None if self.condition(line) else line

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
        normal = unicodedata.normalize(self.form, line)
        same = _same(line, normal)
        rest, normal = line[same:], normal[same:]
        same_after = _same(rest[::-1], normal[::-1])
        yield same, len(line) - same_after, normal[: len(normal) - same_after]


def _same(one: str, other: str) -> int:
    """With how many equal characters two texts begin."""
    differ = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


class PassageIn:
    """Whether more than half of the letters of a line are of this script, and are not only a Roman number."""

    def __init__(self, script: str) -> None:
        """Start with no letter looked up."""
        self._table = LettersOf(script)

    def __call__(self, line: str) -> bool:
        """Whether this line is such a passage."""
        letters = line.translate(self._table)
        return 2 * letters.count("L") > len(letters) and not set(filter(str.isalpha, line)) <= ROMAN


@dataclass(frozen=True)
class LineRules:
    """A rule set of such rules; `source` is its file, for errors."""

    name: str
    source: str
    line_rules: tuple[LineRule, ...]

    ends_works = True

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules, in their order."""
        return tuple(rule.name for rule in self.line_rules)

    def apply(self, text: str, wanted: Collection[str]) -> Cleaned:
        """Clean a text of complete lines, one or more, each ended by a line feed.

        Raises:
            BukvaError: a rule changes what it or another one wrote, again and again.
        """
        tally = _Tally(self.rules, wanted)
        lines = text.split("\n")[:-1]
        kept = [self._settle(number, line, tally) for number, line in enumerate(lines)]
        cleaned = "".join(f"{line}\n" for line in kept if line is not None)
        return Cleaned(cleaned, len(lines), tally.removed, tally.examples)

    def _settle(self, number: int, line: str, tally: "_Tally") -> str | None:
        """Apply all rules in their order, again and again until the line stays the same; None if one removes it."""
        spare, first = SAME_LENGTH, True
        while True:
            before, last = line, ""
            for rule in self.line_rules:
                after = rule.act(line)
                if after != line:
                    tally.add(rule, number, line, after)
                    last = rule.name
                if after is None:
                    return None
                line = after
            if line == before:
                return line
            # it ends: each pass after the first makes the line shorter, or is one of a few
            spare -= not first and len(line) >= len(before)
            if spare < 0 or (not first and len(line) > len(before)):
                raise BukvaError(_endless(self.source, last, before, line))
            first = False


class _Tally:
    """What the rules did to one piece of text."""

    def __init__(self, rules: Sequence[str], wanted: Collection[str]) -> None:
        self.removed: RemovedByRule = dict.fromkeys(rules, Removed())
        self.examples: dict[str, list[Example]] = {rule: [] for rule in wanted}

    def add(self, rule: LineRule, number: int, line: str, after: str | None) -> None:
        places = list(rule.places(line))
        chars = len(line) + 1 if after is None else len(line) - len(after)
        self.removed[rule.name] += Removed(chars, int(after is None), len(places))
        found = self.examples.get(rule.name)
        if found is not None and len(found) < EXAMPLES:
            found.append(example(number, line, *places[0]))


def _endless(source: str, rule: str, before: str, after: str) -> str:
    what = f"{shorten(before)} becomes {shorten(after)}, which the rules change again, and so on without end"
    advice = "let no rule match what it or another rule writes, or change their order"
    return f"{source}, rule {rule}: {what}; {advice}.\n{WAY_BACK}"
