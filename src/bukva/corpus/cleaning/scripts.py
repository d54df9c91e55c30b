"""The scripts of a text, and the cleaning rules that fit them.

A letter is a character of Unicode's category L, and its script is Unicode's property Script: Latin, Cyrillic, Han and
so on; Common where several scripts share a letter.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from fontTools.unicodedata import script, script_name

from bukva.text.characters import code_points

CYRILLIC = "Cyrillic"
RUSSIAN = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ")
MOSTLY_CYRILLIC = 0.9  # of all letters; the rest are quotations
MOSTLY_RUSSIAN = 0.99  # of the Cyrillic letters; other languages and Russian before 1918 have several per cent less

Letters = Mapping[str, int]  # script -> letters, the most frequent script first


class CharCounts:
    """Count how often each character occurs in the texts added so far."""

    def __init__(self) -> None:
        self._counts = np.zeros(sys.maxunicode + 1, np.int64)  # by code point

    def add(self, text: str) -> None:
        """Count the characters of a text."""
        counts = np.bincount(code_points(text))
        self._counts[: len(counts)] += counts

    def __len__(self) -> int:
        """How many different characters."""
        return int(np.count_nonzero(self._counts))

    def items(self) -> Iterator[tuple[str, int]]:
        """The characters that occur, in the order of code points, and how often."""
        for code in np.flatnonzero(self._counts).tolist():
            yield chr(code), int(self._counts[code])

    def most_frequent(self, most: int) -> dict[str, int]:
        """The characters that occur most often, at most so many; in the order of code points where equally often."""
        return dict(sorted(self.items(), key=lambda item: -item[1])[:most])

    def letters(self) -> Letters:
        """The letters by script."""
        found: Counter[str] = Counter()
        for char, count in self.items():
            if char.isalpha():
                found[str(script_name(script(char)))] += count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def share(letters: Letters, name: str) -> float:
    """The share of the letters that are of this script; 0 if there are no letters."""
    return letters.get(name, 0) / max(1, sum(letters.values()))


def percent(part: float) -> str:
    """A share as people read it: 99.8 %; less than all is never shown as 100 %."""
    return f"{int(part * 1000) / 10:.1f} %"


def fitting_rules(counts: CharCounts) -> tuple[str, str]:
    """The rule set for a text, and why.

    `notes` for Russian: at least 90 % of the letters are Cyrillic, and at least 99 % of these are in the alphabet of
    today's Russian, because `notes` deletes every line with a letter of Ukrainian or of the old spelling. Otherwise
    `literary`.
    """
    letters = counts.letters()
    if not letters:
        return "literary", "the text has no letters"
    cyrillic = share(letters, CYRILLIC)
    if cyrillic < MOSTLY_CYRILLIC:
        most = next(iter(letters))
        which = f"{percent(share(letters, most))} of the letters are {most}"
        return "literary", which if most != CYRILLIC else f"only {which}"
    russian = sum(count for char, count in counts.items() if char in RUSSIAN) / letters[CYRILLIC]
    if russian < MOSTLY_RUSSIAN:
        return "literary", f"only {percent(russian)} of the Cyrillic letters are Russian"
    return "notes", f"{percent(cyrillic)} of the letters are Cyrillic"
