"""Who predicted what, against the definitions written out."""

import math

import numpy as np
import pytest

from bukva.anatomy.characters import Characters
from bukva.anatomy.predictors import LENGTH, lead, neither, passage, shares
from bukva.base.text import code_points


def of_works(*texts):
    codes = code_points("".join(texts)).astype(np.uint32)
    work = np.repeat(np.arange(3, 3 + len(texts)), list(map(len, texts)))
    return Characters(codes, work, np.zeros((len(codes), 4), np.uint32), np.zeros(len(codes), np.int64))


def test_the_lead_is_the_difference_in_bits():
    np.testing.assert_allclose(lead(-np.log([1 / 8, 1 / 2]), -np.log([1 / 2, 1 / 8])), [2, -2])


def test_each_character_has_one_predictor_or_neither():
    rng = np.random.default_rng(3)
    counted, learned = rng.exponential(2, (2, 1009))
    found, chance = shares(counted, learned, 11), math.log(11)
    wanted = {"counted": 0, "learned": 0, "neither": 0}
    for one, other in zip(counted, learned, strict=True):
        wanted["neither" if min(one, other) > chance else "learned" if other <= one else "counted"] += 1
    assert vars(found) == pytest.approx({name: n / 1009 for name, n in wanted.items()})
    assert min(wanted.values()) > 50


def test_a_character_is_beyond_both_only_if_both_are_worse_than_chance():
    certain, chance, less = 0.0, math.log(7), math.log(7) + 1e-6
    counted, learned = np.array([less, less, certain, chance]), np.array([less, certain, less, less])
    assert neither(counted, learned, 7).tolist() == [True, False, False, False]


def test_the_passage_begins_with_the_first_whole_line_of_the_longest_work():
    long = "конец строки\n" + "а" * 900
    characters = of_works("б" * 700, long, "в" * 50)
    assert characters.text(passage(characters).start, passage(characters).stop) == "а" * LENGTH


@pytest.mark.parametrize("text", ["а" * 700, "а" * 300, "а" * 250 + "\n" + "б" * 250])
def test_a_work_without_a_line_that_fits_is_shown_from_its_start(text):
    characters = of_works("в", text)
    assert passage(characters) == slice(1, 1 + min(LENGTH, len(text)))
