"""Define cleaning rules for single lines, and rule sets.

A rule set is a list of named rules. The rules for single lines are applied to a line again and again, until they no
longer change it. Therefore, cleaning a text a second time changes nothing. (The exception is a rule set with
`once=True`, which applies its rules to each line only once.) Each line is cleaned separately, so a work can be divided
into pieces at any line end.

A rule set can also have rules that remove the text outside the start and end marks of a work (marks.py). These rules
are applied first. The rules for single lines are then applied only to the lines that are left.
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

# Maximum number of passes over a line that change the line but not its length. Rules in an unlucky order need several.
MAX_SAME_LENGTH = 10

Change = tuple[int, int, str]  # one change in a line: start and stop of the replaced text, and its replacement

# Counts and error messages identify a rule by its `name`. `act` applies the rule to a line. It returns the new line, or
# None if the rule removes the line. `changes` yields each change that the rule makes in a line. It may be called only
# for a line that the rule changes. Lines are passed without their line feed.


@dataclass(frozen=True)
class Substitute:
    """Rule that replaces each match of the regular expression `pattern` in a line with `template`.

    The template may refer to groups of the match. If the template is empty, the match is deleted.
    """

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
    """Rule that removes each line in which the regular expression `pattern` has a match."""

    name: str
    pattern: re.Pattern[str]

    def act(self, line: str) -> str | None:
        return None if self.pattern.search(line) else line

    def changes(self, line: str) -> Iterator[Change]:
        yield 0, len(line), ""


@dataclass(frozen=True)
class Normalise:
    """Rule that converts each line to the Unicode normalization form `form`."""

    name: str
    form: Literal["NFC", "NFKC"]

    def act(self, line: str) -> str | None:
        return unicodedata.normalize(self.form, line)

    def changes(self, line: str) -> Iterator[Change]:
        """Yield exactly one change, at the first character that normalization changes."""
        normal = unicodedata.normalize(self.form, line)
        differ = (at for at, (char, other) in enumerate(zip(line, normal, strict=False)) if char != other)
        at = next(differ, len(normal))
        yield at, at + 1, normal[at : at + 1]


LineRule = Substitute | DropLines | Normalise


@dataclass(frozen=True)
class LineRules:
    """Rule set: the named cleaning rules that are applied to a text.

    name: name of the rule set.
    source: name of the rule file, for error messages.
    line_rules: the rules for single lines, in the order in which they are applied.
    cuts: the rules that remove the text outside the start and end marks of a work (see `Cut`). They are applied before
        the line rules.
    once: whether the line rules are applied to each line only once, as in the lecture notes. Otherwise they are applied
        until the line no longer changes.
    """

    name: str
    source: str
    line_rules: tuple[LineRule, ...]
    cuts: tuple[Cut, ...] = ()
    once: bool = False

    @functools.cached_property
    def rule_names(self) -> tuple[str, ...]:
        """The names of all rules, in the order in which the rules are applied."""
        return tuple(rule.name for rule in (*self.cuts, *self.line_rules))

    def apply(self, text: str, outside: Outside) -> Cleaned:
        """Clean a text that consists of one or more whole lines.

        Args:
            text: the lines. Each line ends with a line feed.
            outside: the lines to remove because they lie outside the start and end marks of the work. The keys are line
                numbers in `text`, counted from 0. The values are the names of the rules that remove these lines.

        Raises:
            BukvaError: the line rules would never stop changing a line.
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
        """Apply the line rules to a line until they no longer change it, or only once if `once` is true."""
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
            # The loop always ends: no pass after the first may lengthen the line, and at most MAX_SAME_LENGTH of these
            # passes may change the line without shortening it.
            if not is_first:
                passes_left -= len(line) >= len(before)
                if passes_left < 0 or len(line) > len(before):
                    raise ParamsError(_endless(self.source, last, before, line))
            is_first = False


def _endless(source: str, rule: str, before: str, after: str) -> str:
    what = f"{shorten(before)} becomes {shorten(after)}, and the rules never stop changing it"
    advice = "change the rules so that no rule matches the text that a rule inserts, or change their order"
    return f"{source}, rule {rule}: {what}; {advice}."
