"""What cleaning removed: counts for each rule, examples in context, and the works that lost most."""

import dataclasses
import heapq
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

CONTEXT_CHARS = 30  # on each side of what an example removes
LONGEST = 60  # characters of an example itself
EXAMPLES = 5  # of one rule
ALL_EXAMPLES = 60  # of all rules, so that the report stays below 50 kB
WORKS = 10  # that lost most


@dataclass(frozen=True)
class Removed:
    """What one rule removed: characters (line ends included) and whole lines; negative where it added some.

    `places` says how often the rule acted: on matches or symbols, or on lines if it is a rule about lines.
    """

    chars: int = 0
    lines: int = 0
    places: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        return Removed(self.chars + other.chars, self.lines + other.lines, self.places + other.places)


RemovedByRule = dict[str, Removed]


@dataclass(frozen=True)
class Example:
    """One place where a rule acted, with its neighbours in the line; the number of the line counts from 0."""

    line: int
    before: str
    removed: str
    after: str
    replacement: str = ""


def example(line: int, text: str, start: int, stop: int, replacement: str = "") -> Example:
    """The example of a rule that replaces text[start:stop]; its context ends with the line."""
    first = max(text.rfind("\n", 0, start) + 1, start - CONTEXT_CHARS)
    after, _, _ = text[stop : stop + CONTEXT_CHARS].partition("\n")
    whole = text[start:stop]
    removed = whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"
    shown = text[first:start], removed, "" if whole.endswith("\n") else after, replacement[:LONGEST]
    return Example(line, *map(visible, shown))


@dataclass(frozen=True)
class Cleaned:
    """A text of complete lines after cleaning; `lines` is the number of its lines before."""

    text: str
    lines: int
    removed: RemovedByRule
    examples: Mapping[str, Sequence[Example]] = field(default_factory=dict)


@dataclass(frozen=True)
class Account:
    """What cleaning did to a piece of a work: its characters and lines before, and what was removed from them."""

    chars: int
    lost: int
    lines: int
    removed: RemovedByRule
    examples: Mapping[str, Sequence[Example]]

    @staticmethod
    def of(text: str, cleaned: Cleaned) -> "Account":
        """The account of a text that was cleaned."""
        lost = len(text) - len(cleaned.text)
        return Account(len(text), lost, cleaned.lines, cleaned.removed, cleaned.examples)


class RuleSet(Protocol):
    """Rules that clean a text; `rules` are their names in the order of their counts."""

    @property
    def name(self) -> str:
        """As in clean.rules."""
        ...

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules, in their order."""
        ...

    @property
    def ends_works(self) -> bool:
        """Whether each work is made to end in a line feed."""
        ...

    def apply(self, text: str, wanted: Collection[str]) -> Cleaned:
        """Clean a text of complete lines, one or more, and give a few examples of the wanted rules.

        The result is the same however a work is cut at line ends.
        """
        ...


@dataclass(frozen=True)
class Chosen:
    """A rule set, and why it is used."""

    rules: RuleSet
    why: str


class Record:
    """What was removed from a collection, work by work."""

    def __init__(self, rules: Sequence[str]) -> None:
        """Start with nothing removed.

        Args:
            rules: the names of the rules.
        """
        self.totals: RemovedByRule = dict.fromkeys(rules, Removed())
        self._limit = max(1, min(EXAMPLES, ALL_EXAMPLES // max(1, len(rules))))
        self._examples: dict[str, dict[str, list[Example]]] = {rule: {} for rule in rules}  # by rule and work
        self._lost: dict[str, tuple[int, int]] = {}  # work -> characters lost, characters before
        self._work, self._line = "", 0

    def begin(self, work: str) -> None:
        """What is added from here on is of this work."""
        self._work, self._line = work, 0
        self._lost[work] = (0, 0)

    def wanted(self, work: str) -> list[str]:
        """The rules of which a work can still give examples, by what has been added so far.

        The first works that have some give a few each. Pieces that are added later may already have what is wanted.
        """
        return [rule for rule in self._examples if self._room(rule, work)]

    def add(self, piece: Account) -> None:
        """Add the next piece of the work; examples beyond what is wanted are left out."""
        for rule, removed in piece.removed.items():
            self.totals[rule] += removed
        for rule, examples in piece.examples.items():
            room = self._room(rule, self._work)
            if examples and room:
                numbered = (dataclasses.replace(one, line=one.line + self._line + 1) for one in examples)
                self._examples[rule].setdefault(self._work, []).extend(itertools.islice(numbered, room))
        lost, chars = self._lost[self._work]
        self._lost[self._work] = (lost + piece.lost, chars + piece.chars)
        self._line += piece.lines

    def _room(self, rule: str, work: str) -> int:
        """How many more examples of a rule a work can give."""
        found = self._examples[rule]
        is_one_of_the_first = work in found or len(found) < self._limit
        return self._limit - len(found.get(work, ())) if is_one_of_the_first else 0

    def removed(self) -> list[dict[str, Any]]:
        """The counts of each rule."""
        return [{"rule": rule, **dataclasses.asdict(counts)} for rule, counts in self.totals.items()]

    def examples(self) -> dict[str, list[dict[str, Any]]]:
        """Examples of the rules that acted: one of each work, then a second one of each, and so on."""
        chosen = {rule: list(itertools.islice(_in_turn(found), self._limit)) for rule, found in self._examples.items()}
        return {rule: examples for rule, examples in chosen.items() if examples}

    def lost_most(self) -> dict[str, dict[str, Any]]:
        """The works that lost most characters, with the share of their text; no list, because DVC joins lists."""
        lost = [(-lost, work, chars) for work, (lost, chars) in self._lost.items() if lost > 0]
        most = heapq.nsmallest(WORKS, lost)
        return {work: {"chars": -minus, "share": round(-minus / chars, 4)} for minus, work, chars in most}


def _in_turn(found: Mapping[str, Sequence[Example]]) -> Iterator[dict[str, Any]]:
    for row in itertools.zip_longest(*found.values()):
        for work, one in zip(found, row, strict=True):
            if one is not None:
                values = {"work": work, **dataclasses.asdict(one)}
                yield values if one.replacement else {key: values[key] for key in values if key != "replacement"}


def visible(text: str) -> str:
    """Text whose invisible characters are written as code points: <U+00AD>."""
    return "".join(char if char.isprintable() else f"<U+{ord(char):04X}>" for char in text)
