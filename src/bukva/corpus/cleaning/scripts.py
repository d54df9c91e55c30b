"""The scripts of a text, and the cleaning rules that fit them.

A letter is a character of Unicode's category L, and its script is Unicode's property Script: Latin, Cyrillic, Han and
so on; Common where several scripts share a letter.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
from fontTools.unicodedata import script, script_code, script_name

from bukva.text.characters import code_points, pieces

CYRILLIC = "Cyrillic"
RUSSIAN = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ")
MOSTLY_CYRILLIC = 0.9  # of all letters; the rest are quotations
MOSTLY_RUSSIAN = (
    0.99  # of the Cyrillic letters; other languages and Russian before 1918 have several per cent of others
)

Letters = Mapping[str, int]  # script -> letters, the most frequent script first


Counted = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]  # (n,) code points, and how often each occurs


def counted(text: str) -> Counted:
    """The characters of a piece of text."""
    counts = np.bincount(code_points(text))
    codes = np.flatnonzero(counts)
    return codes, counts[codes]


class CharCounts:
    """How often each character occurs in the texts added so far."""

    def __init__(self) -> None:
        """Start without characters."""
        self._counts = np.zeros(sys.maxunicode + 1, np.int64)  # by code point

    def add(self, text: str) -> None:
        """Add the characters of a text."""
        for piece in pieces(text):
            self.add_counted(counted(piece))

    def add_counted(self, piece: Counted) -> None:
        """Add characters that were counted elsewhere."""
        codes, counts = piece
        self._counts[codes] += counts

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
                found[script_of(char)] += count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def script_of(char: str) -> str:
    """The name of a character's script."""
    return str(script_name(script(char)))


def is_script(name: str) -> bool:
    """Whether letters can have a script of this name, spelled as Unicode does."""
    code = script_code(name, "Zzzz")
    return code not in ("Zinh", "Zyyy", "Zzzz") and script_name(code) == name  # inherited, common, unknown


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


class LettersOf(dict[int, str]):
    """A table for str.translate: letters of one script become L, other letters O, and all else disappears."""

    def __init__(self, name: str) -> None:
        """Start an empty table; it grows with the characters that are looked up."""
        super().__init__()
        self._name = name

    def __missing__(self, code: int) -> str:
        """Look a character up once."""
        char = chr(code)
        self[code] = ("L" if script_of(char) == self._name else "O") if char.isalpha() else ""
        return self[code]
