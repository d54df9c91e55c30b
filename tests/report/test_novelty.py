"""What of a text stands in train: planted copies are found with their works, and counts are those of a dictionary."""

import re

import numpy as np
import pytest
from works import SPLITS, encoded

from bukva.report.novelty import COPIED, LENGTHS, longest, novelty
from bukva.text.collection import Work, write_collection
from bukva.text.ids import read_shares

RNG = np.random.default_rng(1)
LETTERS = "абвгдежзиклмнопрстуфхцчшщыьэюя     "
WORKS = {name: "".join(RNG.choice(list(LETTERS), n)) + "\n" for name, n in (("один", 4001), ("два", 3001), ("три", 7))}
WORKS["четыре"] = WORKS["один"][300:310] + "Ж" + "".join(RNG.choice(list(LETTERS), 401)) + "\n"


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_collection(folder / "clean", ((Work("п", "А", name), text) for name, text in WORKS.items()))
    encoded(folder, "char", SPLITS["tail"])
    return folder / "clean", folder / "tokens"


def share(name, start, stop):
    assert stop <= 0.8 * len(WORKS[name])
    return WORKS[name][start:stop]


def other(n, seed):
    return "".join(np.random.default_rng(seed).choice(list("ABCDEFGH "), n))


ENDS = WORKS["один"][3209:3400], WORKS["один"][3700:3900]  # of val, and of test


@pytest.mark.parametrize(
    ("texts", "copies"),
    [
        (  # with its place and its work
            [other(31, 1) + share("один", 1009, 1050) + other(53, 2) + share("два", 503, 503 + COPIED), other(97, 3)],
            [[(31, 72, "п/А/один"), (125, 125 + COPIED, "п/А/два")], []],
        ),
        ([other(11, 1) + share("один", 7, 7 + COPIED - 1) + other(11, 2), *ENDS], [[], [], []]),
        # "четыре" has ten characters of "один" as well
        ([share("один", 210, 310) + share("четыре", 10, 40)], [[(0, 100, "п/А/один")]]),
    ],
    ids=["planted", "shorter or only in val and test", "overlapping: the longer one"],
)
def test_a_copy_is_a_long_passage_of_train(train, texts, copies):
    [found] = novelty([texts], *train)
    assert found.copies == copies
    assert longest(found.copies[0]) == next(iter(copies[0]), None)


def test_shares_of_n_grams_are_those_of_a_dictionary_for_each_group(train):
    groups = [[share("один", 0, 499) + other(101, 1), other(3, 2)], [WORKS["два"][2500:2900]], [""]]
    shares = read_shares(train[1])[lambda table: table["split"] == "train"]  # in the order of the works
    text = [WORKS[name][:n] for name, n in zip(sorted(WORKS), shares["stop"] - shares["start"], strict=True)]
    for group, found in zip(groups, novelty(groups, *train), strict=True):
        for n in LENGTHS:
            known = {part[i : i + n] for part in text for i in range(len(part) - n + 1)}
            grams = [each[i : i + n] for each in group for i in range(len(each) - n + 1)]
            expected = sum(gram in known for gram in grams) / len(grams) if grams else None
            assert found.seen[n] == (pytest.approx(expected) if grams else None)


def test_new_words_are_those_that_train_does_not_have_in_any_case(train):
    known = re.findall(r"\w+", share("один", 100, 300))[1:4]
    [found, none] = novelty([[f"{known[0].upper()} {known[1]}, zzz {known[2]} yyy-xxx"], ["12 , "]], *train)
    assert found.new_words == pytest.approx(3 / 6)
    assert none.new_words is None
