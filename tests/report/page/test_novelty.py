"""What of a text stands in train: planted copies are found with their works, and counts are those of a dictionary."""

import re

import numpy as np
import pytest
from works import split as section

from bukva.core.schema import Tokenize
from bukva.corpus.splits.encoding import tokenize
from bukva.report.page.novelty import COPIED, LENGTHS, novelty, read_train
from bukva.text.collection import Document, write_collection

RNG = np.random.default_rng(1)
LETTERS = "абвгдежзиклмнопрстуфхцчшщыьэюя     "
WORKS = {name: "".join(RNG.choice(list(LETTERS), n)) + "\n" for name, n in (("один", 4001), ("два", 3001), ("три", 7))}
WORKS["четыре"] = WORKS["один"][300:310] + "Ж" + "".join(RNG.choice(list(LETTERS), 401)) + "\n"


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_collection(folder / "clean", ((Document("п", "А", name), text) for name, text in WORKS.items()))
    params = Tokenize(kind="char", vocabulary="all", vocab_size=277)
    tokenize(folder / "clean", folder / "tokens", params, section(0.8, 0.1, 0.1, "tail"))
    return read_train(folder / "clean", folder / "tokens")


def share(name, start, stop):
    """Characters of a work's share of train."""
    assert stop <= 0.8 * len(WORKS[name])
    return WORKS[name][start:stop]


def other(n, seed):
    return "".join(np.random.default_rng(seed).choice(list("ABCDEFGH "), n))


def test_a_planted_copy_is_found_with_its_place_and_work(train):
    first, second = share("один", 1009, 1009 + 41), share("два", 503, 503 + COPIED)
    texts = [other(31, 1) + first + other(53, 2) + second, other(97, 3)]
    [found] = novelty([texts], train)
    assert [(copy.start, copy.stop, copy.work) for copy in found.copies[0]] == [
        (31, 31 + 41, "п/А/один"),
        (31 + 41 + 53, 31 + 41 + 53 + COPIED, "п/А/два"),
    ]
    assert found.copies[1] == []
    assert found.longest == found.copies[0][0]


def test_what_is_shorter_or_only_in_val_and_test_is_no_copy(train):
    ends = WORKS["один"][3209:3400], WORKS["один"][3700:3900]  # of val, and of test
    [found] = novelty([[other(11, 1) + share("один", 7, 7 + COPIED - 1) + other(11, 2), *ends]], train)
    assert found.copies == [[], [], []]
    assert found.longest is None


def test_of_copies_that_overlap_the_longer_one_is_kept(train):
    [found] = novelty([[share("один", 210, 310) + share("четыре", 10, 40)]], train)  # "четыре" has 10 of "один", too
    assert [(copy.start, copy.stop, copy.work) for copy in found.copies[0]] == [(0, 100, "п/А/один")]


def test_shares_of_n_grams_are_those_of_a_dictionary_for_each_group(train):
    groups = [[share("один", 0, 499) + other(101, 1), other(3, 2)], [WORKS["два"][2500:2900]], [""]]
    sizes = (train.spans[:, 1] - train.spans[:, 0]).tolist()  # in the order of the table
    text = [WORKS[name][:size] for name, size in zip(sorted(WORKS), sizes, strict=True)]
    for group, found in zip(groups, novelty(groups, train), strict=True):
        for n in LENGTHS:
            known = {part[i : i + n] for part in text for i in range(len(part) - n + 1)}
            grams = [each[i : i + n] for each in group for i in range(len(each) - n + 1)]
            expected = sum(gram in known for gram in grams) / len(grams) if grams else None
            assert found.seen[n] == (pytest.approx(expected) if grams else None)


def test_new_words_are_those_that_train_does_not_have_in_any_case(train):
    known = re.findall(r"\w+", share("один", 100, 300))[1:4]
    [found, none] = novelty([[f"{known[0].upper()} {known[1]}, zzz {known[2]} yyy-xxx"], ["12 , "]], train)
    assert found.new_words == pytest.approx(3 / 6)
    assert none.new_words is None
