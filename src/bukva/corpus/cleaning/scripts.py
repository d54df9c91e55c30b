"""Count the letters of a text by script, and choose the rule set that fits the text.

A letter is a character of Unicode's category L. The script is the writing system of a letter, such as Latin, Cyrillic
or Han (Unicode's property Script). Letters that several scripts share have the script Common.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from fontTools.unicodedata import script, script_name

from bukva.text.characters import code_points

CYRILLIC = "Cyrillic"
RUSSIAN = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ")
MOSTLY_CYRILLIC = 0.9  # minimum fraction of Cyrillic among all letters; the other letters are assumed to be quotations
# Minimum fraction of Russian among the Cyrillic letters. Ukrainian, and Russian before 1918, have less.
MOSTLY_RUSSIAN = 0.99

Letters = Mapping[str, int]  # number of letters by name of the script, in descending order


class CharCounts:
    """Counter of the characters in all texts that have been added."""

    def __init__(self) -> None:
        self._counts = np.zeros(sys.maxunicode + 1, np.int64)  # by code point

    def add(self, text: str) -> None:
        """Add the characters of a text to the counts."""
        counts = np.bincount(code_points(text))
        self._counts[: len(counts)] += counts

    def __len__(self) -> int:
        """Return the number of different characters."""
        return int(np.count_nonzero(self._counts))

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield each character that occurs and its count, in the order of code points."""
        for code in np.flatnonzero(self._counts).tolist():
            yield chr(code), int(self._counts[code])

    def most_frequent(self, most: int) -> dict[str, int]:
        """Return the counts of the `most` most frequent characters, by character, in descending order.

        Characters with equal counts are in the order of code points.
        """
        return dict(sorted(self.items(), key=lambda item: -item[1])[:most])

    def letters(self) -> Letters:
        """Return the number of letters of each script, by name of the script. The script with most letters is first."""
        by_script: Counter[str] = Counter()
        for char, count in self.items():
            if char.isalpha():
                by_script[str(script_name(script(char)))] += count
        return dict(sorted(by_script.items(), key=lambda item: (-item[1], item[0])))


def share(letters: Letters, name: str) -> float:
    """Return the fraction of all letters that belong to the script `name`, or 0 for a text without letters."""
    return letters.get(name, 0) / max(1, sum(letters.values()))


def percent(part: float) -> str:
    """Format a fraction as a percentage, such as 99.8 %. Round down, so that only 1 becomes 100.0 %."""
    return f"{int(part * 1000) / 10:.1f} %"


def fitting_rules(counts: CharCounts) -> tuple[str, str]:
    """Return the name of the rule set that fits a text, and the reason as a phrase for the report.

    `notes` fits modern Russian: at least 90 % of the letters are Cyrillic, and at least 99 % of the Cyrillic letters
    are in today's Russian alphabet. The second condition is needed because `notes` deletes every line that contains ї,
    a Ukrainian letter, or ѣ, a letter of Russian before 1918. `literary` fits all other texts.
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
