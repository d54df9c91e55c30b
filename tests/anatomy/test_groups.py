"""Groups of characters: every character is in one of each kind, and their bits are those of a plain loop."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from bukva.anatomy.characters import BEFORE, Characters
from bukva.anatomy.groups import FREQUENCIES, anatomy
from bukva.base.text import code_points
from bukva.base.units import bits
from bukva.corpus.collection import Document

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


def by(label, nats):
    """label -> characters and bits per character, by a loop."""
    sums = defaultdict(float)
    for name, value in zip(label, nats.tolist(), strict=True):
        sums[name] += value
    return {name: (n, bits(sums[name] / n)) for name, n in Counter(label).items()}


def check(groups, label, nats):
    for model, of_model in nats.items():
        expected = by(label, of_model)
        assert {group.label: group.chars for group in groups} == {name: n for name, (n, _) in expected.items()}
        for group in groups:
            assert group.bits[model] == pytest.approx(expected[group.label][1])


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("category", ["prose", "prose", "verse"]),
        ("author", ["А", "Б", "А"]),
        ("decade", ["1860s", "1870s", "-"]),
        ("work", ["prose/А/первая", "prose/Б/вторая", "verse/А/третья"]),
    ],
)
def test_works_are_grouped_by_what_is_known_of_them(found, characters, nats, kind, labels):
    check(found[kind], [labels[row] for row in characters.work], nats)


def test_what_no_work_has_makes_no_groups(characters, nats):
    unknown = [Document("-", "-", str(i)) for i in range(3)]
    groups = anatomy(characters, unknown, characters.codes, nats)
    assert [groups[kind] for kind in ("category", "author", "decade")] == [[], [], []]
    assert len(groups["work"]) == 3


def test_classes_of_characters(found, characters, nats):
    def label(char):
        if char == "\n":
            return "line ends"
        if char == " ":
            return "spaces"
        if char.isdigit():
            return "digits"
        if char.isupper():
            return "capital letters"
        return "letters" if char.isalpha() else "punctuation"

    check(found["class"], [label(char) for char in characters.text()], nats)


def test_the_first_letter_of_a_word_is_one_that_follows_no_letter(found, nats):
    def label(text, i):
        before = i > 0 and text[i - 1].isalpha()
        if text[i].isalpha():
            return "later letter" if before else "first letter of a word"
        return "what ends a word" if before else "what follows no letter"

    check(found["place"], [label(text, i) for text in TEXTS for i in range(len(text))], nats)


def test_positions_are_in_ranges_that_hold_all_of_them(found):
    assert sum(group.chars for group in found["context"]) == sum(map(len, TEXTS))
    edges = [tuple(map(int, group.label.split(" to "))) for group in found["context"] if " to " in group.label]
    assert edges == sorted(edges)
    assert (edges[0][0], edges[-1][-1]) == (0, 16)


def test_the_frequency_of_a_context_is_how_often_train_has_it(found, nats):
    counts = Counter(TRAIN[i : i + BEFORE] for i in range(len(TRAIN) - BEFORE + 1))

    def label(text, i):
        n = counts[("\0" * BEFORE + text)[i : i + BEFORE]]
        low = max(least for least in FREQUENCIES if least <= n)
        return "0" if low == 0 else f"{low:,} to {FREQUENCIES[FREQUENCIES.index(low) + 1] - 1:,}"

    check(found["frequency"], [label(text, i) for text in TEXTS for i in range(len(text))], nats)
    assert [group.label for group in found["frequency"]] == ["0", "10 to 99"]
