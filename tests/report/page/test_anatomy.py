"""Groups of characters: every character is in one of each kind, and their bits are those of a plain loop."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from encoded import KINDS, SPLITS, held_out
from encoded import WORKS as MADE

from bukva.report.page.anatomy import Characters, anatomy, leads, read_characters
from bukva.text.collection import Document
from bukva.text.ids import bits

WORKS = [
    Document("prose", "А", "первая", "1863-1869"),
    Document("prose", "Б", "вторая", "1871"),
    Document("verse", "А", "третья", None),
]
TEXTS = ["Он шёл, 12 дней.\n", "Ёжик й и ещё — ёж\n" * 7, "— Да?\n" * 3]


@pytest.fixture(scope="module")
def characters():
    return Characters("".join(TEXTS), np.repeat(np.arange(3), list(map(len, TEXTS))))


@pytest.fixture(scope="module")
def nats(characters):
    rng = np.random.default_rng(1)
    return {name: rng.random(len(characters.text)).astype(np.float32) for name in ("gpt", "ngram_8")}


@pytest.fixture(scope="module")
def found(characters, nats):
    return anatomy(characters, WORKS, nats)


def check(groups, label, nats):
    """Every label has its characters and their mean in bits, by a loop."""
    for model, of_model in nats.items():
        sums = defaultdict(float)
        for name, value in zip(label, of_model.tolist(), strict=True):
            sums[name] += value
        expected = {name: (n, pytest.approx(bits(sums[name] / n))) for name, n in Counter(label).items()}
        assert {row.Index: (row.chars, getattr(row, model)) for row in groups.itertuples()} == expected


def test_works_are_grouped_by_what_is_known_of_them(found, characters, nats):
    known = {
        "category": ["prose", "prose", "verse"],
        "author": ["А", "Б", "А"],
        "work": ["prose/А/первая", "prose/Б/вторая", "verse/А/третья"],
    }
    for kind, labels in known.items():
        check(found[kind], [labels[row] for row in characters.work], nats)
    nothing = anatomy(characters, [Document("-", "-", str(i)) for i in range(3)], nats)
    assert [len(nothing[kind]) for kind in known] == [1, 1, 3]


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
        return "first character after a word" if before else "other character"

    check(found["class of character"], [of_class(char) for char in "".join(TEXTS)], nats)
    check(found["position in the word"], [place(text, i) for text in TEXTS for i in range(len(text))], nats)


def test_a_character_is_of_the_predictor_that_needs_fewer_bits_or_of_neither_which_is_worse_than_chance():
    half, eighth, chance = np.log([2, 8, 11])
    found = leads(np.array([eighth, half, half, 9, chance]), np.array([half, eighth, half, 9, 9]), 11)
    assert found.tolist() == pytest.approx([2, -2, 0, np.nan, (chance - 9) / math.log(2)], nan_ok=True)


@pytest.mark.parametrize(("kind", "split"), [*itertools.product(KINDS, SPLITS)])
def test_the_scored_characters_are_in_the_order_of_the_works(kind, split, tmp_path):
    text = held_out(tmp_path, kind, split)
    for name in ("val", "test"):
        found = read_characters(tmp_path / "split", tmp_path / "tokens", name)
        assert np.bincount(found.work, minlength=len(MADE)).tolist() == text.chars[name].tolist()
        assert found.text == "".join(text.tokenizer.decode(passage.scored) for passage in text.passages(name, 1))
        assert found.text == text.tokenizer.decode(text.splits[name])[1:]
