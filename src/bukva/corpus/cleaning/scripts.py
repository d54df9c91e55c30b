"""Count the letters of a text by script, and choose the rule set that fits the text.

A letter is a character of Unicode's category L. The script is the writing system of a letter, such as Latin, Cyrillic
or Han (Unicode's property Script). Letters that several scripts share have the script Common.
"""

from collections import Counter

import numpy as np
from fontTools.unicodedata import script, script_name

from bukva.text.characters import code_points

CYRILLIC = "Cyrillic"
RUSSIAN = frozenset("абвгдеёжзийклмнопрстуфхцчшщъыьэюяАБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ")
MOSTLY_CYRILLIC = 0.9  # minimum fraction of Cyrillic among all letters; the other letters are assumed to be quotations
# Minimum fraction of Russian among the Cyrillic letters. Ukrainian, and Russian before 1918, have less.
MOSTLY_RUSSIAN = 0.99


def char_counts(text: str) -> Counter[str]:
    """Count the characters of a text, like `Counter(text)` but thirty times as fast."""
    counts = np.bincount(code_points(text))
    return Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()})


def letters_by_script(counts: Counter[str]) -> dict[str, int]:
    """Return the number of letters of each script, the script with most letters first.

    `counts` has the number of occurrences of each character.
    """
    by_script: Counter[str] = Counter()
    for char, n in counts.items():
        if char.isalpha():
            by_script[str(script_name(script(char)))] += n
    return dict(sorted(by_script.items(), key=lambda item: (-item[1], item[0])))


def percent(part: float) -> str:
    """Format a fraction as a percentage, such as 99.8 %. Round down, so that only 1 becomes 100.0 %."""
    return f"{int(part * 1000) / 10:.1f} %"


def fitting_rules(counts: Counter[str]) -> tuple[str, str]:
    """Return the name of the rule set that fits a text, and the reason as a phrase for the report.

    `notes` fits modern Russian: at least 90 % of the letters are Cyrillic, and at least 99 % of the Cyrillic letters
    are in today's Russian alphabet. The second condition is needed because `notes` deletes every line that contains ї,
    a Ukrainian letter, or ѣ, a letter of Russian before 1918. `literary` fits all other texts.
    """
    letters = letters_by_script(counts)
    if not letters:
        return "literary", "the text has no letters"
    cyrillic = letters.get(CYRILLIC, 0) / sum(letters.values())
    if cyrillic < MOSTLY_CYRILLIC:
        most, n = next(iter(letters.items()))
        which = f"{percent(n / sum(letters.values()))} of the letters are {most}"
        return "literary", which if most != CYRILLIC else f"only {which}"
    russian = sum(counts[char] for char in RUSSIAN) / letters[CYRILLIC]
    if russian < MOSTLY_RUSSIAN:
        return "literary", f"only {percent(russian)} of the Cyrillic letters are Russian"
    return "notes", f"{percent(cyrillic)} of the letters are Cyrillic"
