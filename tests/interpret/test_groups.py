"""Groups of characters: every character is in one of each kind, and their bits are those of a plain loop."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from bukva.interpret.groups import FREQUENCIES, anatomy
from bukva.interpret.predicted import BEFORE, Characters, lead, neither, shares
from bukva.text.characters import code_points
from bukva.text.collection import Document
from bukva.text.ids import bits

WORKS = [
    Document("prose", "А", "первая", "1863-1869"),
    Document("prose", "Б", "вторая", "1871"),
    Document("verse", "А", "третья", None),
]
TEXTS = ["Он шёл, 12 дней.\n", "Ёжик й и ещё — ёж\n" * 7, "— Да?\n" * 3]
TRAIN = "Он шёл ёжик и ещё ёж.\n" * 13


def windows(text):
    padded = "\0" * BEFORE + text
    return np.array([code_points(padded[i : i + BEFORE]).astype(np.uint32) for i in range(len(text))])


@pytest.fixture(scope="module")
def characters():
    return Characters(
        codes=code_points("".join(TEXTS)).astype(np.uint32),
        work=np.repeat(np.arange(3), list(map(len, TEXTS))),
        before=np.concatenate([windows(text) for text in TEXTS]),
        context=np.arange(sum(map(len, TEXTS))) % 17,
    )


@pytest.fixture(scope="module")
def nats(characters):
    rng = np.random.default_rng(1)
    return {name: rng.random(len(characters)).astype(np.float32) for name in ("gpt", "ngram_8")}


@pytest.fixture(scope="module")
def found(characters, nats):
    return anatomy(characters, WORKS, code_points(TRAIN).astype(np.uint32), nats)


def check(groups, label, nats):
    """Every label has its characters and their mean in bits, by a loop."""
    for model, of_model in nats.items():
        sums = defaultdict(float)
        for name, value in zip(label, of_model.tolist(), strict=True):
            sums[name] += value
        expected = {name: (n, pytest.approx(bits(sums[name] / n))) for name, n in Counter(label).items()}
        assert {group.label: (group.chars, group.bits[model]) for group in groups} == expected


def test_works_are_grouped_by_what_is_known_of_them(found, characters, nats):
    known = {
        "category": ["prose", "prose", "verse"],
        "author": ["А", "Б", "А"],
        "decade": ["1860s", "1870s", "-"],
        "work": ["prose/А/первая", "prose/Б/вторая", "verse/А/третья"],
    }
    for kind, labels in known.items():
        check(found[kind], [labels[row] for row in characters.work], nats)
    nothing = anatomy(characters, [Document("-", "-", str(i)) for i in range(3)], characters.codes, nats)
    assert [len(nothing[kind]) for kind in known] == [0, 0, 0, 3]


def test_characters_are_grouped_by_class_and_by_place_in_the_word(found, nats):
    def of_class(char):
        if char in "\n ":
            return "line ends" if char == "\n" else "spaces"
        if char.isdigit():
            return "digits"
        if char.isupper():
            return "capital letters"
        return "letters" if char.isalpha() else "punctuation"

    def place(text, i):
        before = i > 0 and text[i - 1].isalpha()
        if text[i].isalpha():
            return "later letter" if before else "first letter of a word"
        return "what ends a word" if before else "what follows no letter"

    check(found["class"], [of_class(char) for char in "".join(TEXTS)], nats)
    check(found["place"], [place(text, i) for text in TEXTS for i in range(len(text))], nats)


def test_the_frequency_of_a_context_is_how_often_train_has_it(found, nats):
    counts = Counter(TRAIN[i : i + BEFORE] for i in range(len(TRAIN) - BEFORE + 1))

    def label(text, i):
        n = counts[("\0" * BEFORE + text)[i : i + BEFORE]]
        low = max(least for least in FREQUENCIES if least <= n)
        return "0" if low == 0 else f"{low:,} to {FREQUENCIES[FREQUENCIES.index(low) + 1] - 1:,}"

    check(found["frequency"], [label(text, i) for text in TEXTS for i in range(len(text))], nats)
    assert [group.label for group in found["frequency"]] == ["0", "10 to 99"]


def test_each_character_has_one_predictor_or_neither_which_is_worse_than_chance():
    counted, learned = np.random.default_rng(3).exponential(2, (2, 1009))
    found, chance = shares(counted, learned, 11), math.log(11)
    wanted = {"counted": 0, "learned": 0, "neither": 0}
    for one, other in zip(counted, learned, strict=True):
        wanted["neither" if min(one, other) > chance else "learned" if other <= one else "counted"] += 1
    assert vars(found) == pytest.approx({name: n / 1009 for name, n in wanted.items()})
    assert neither(np.array([chance + 1e-6, chance]), np.array([9.0, 9.0]), 11).tolist() == [True, False]
    assert lead(-np.log([1 / 8, 1 / 2]), -np.log([1 / 2, 1 / 8])).tolist() == pytest.approx([2, -2])  # bits
