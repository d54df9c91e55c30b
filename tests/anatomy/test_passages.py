"""Which passages are shown, and who predicted what, against the definitions written out."""

import math

import numpy as np
import pytest

from bukva.anatomy.characters import Characters
from bukva.anatomy.extremes import LENGTH, MOST_OF_WORK, STEP, extremes
from bukva.anatomy.predictors import lead, neither, shares
from bukva.base.text import code_points
from bukva.base.units import bits

SIZES = [1009, 97, 2003, 503, 1511]  # characters of each work; the second is shorter than a passage
N = sum(SIZES)


def of_works(*texts):
    codes = code_points("".join(texts)).astype(np.uint32)
    work = np.repeat(np.arange(len(texts)), list(map(len, texts)))
    return Characters(codes, work, np.zeros((len(codes), 4), np.uint32), np.zeros(len(codes), np.int64))


@pytest.fixture
def characters():
    letters = np.random.default_rng(1).integers(0x430, 0x450, N)
    return of_works(*("".join(map(chr, part)) for part in np.split(letters, np.cumsum(SIZES)[:-1])))


def test_planted_passages_come_first_among_the_easiest_and_the_hardest(characters):
    nats = np.ones(N, np.float32)
    nats[STEP * 20 : STEP * 20 + LENGTH] = 0.1
    hard = SIZES[0] + SIZES[1] + STEP - (SIZES[0] + SIZES[1]) % STEP + STEP * 7
    nats[hard : hard + LENGTH] = 3
    easiest, hardest = extremes(characters, nats, 3)
    assert (easiest[0].work, hardest[0].work) == (0, 2)
    assert easiest[0].text == characters.text(STEP * 20, STEP * 20 + LENGTH)
    assert hardest[0].text == characters.text(hard, hard + LENGTH)
    assert (easiest[0].mean, hardest[0].mean) == pytest.approx((bits(0.1), bits(3)))
    assert extremes(of_works("а" * (LENGTH - 1)), nats[: LENGTH - 1], 5) == ([], [])


def test_extreme_passages_are_of_one_work_do_not_overlap_and_are_few_of_each(characters):
    for found in extremes(characters, np.random.default_rng(2).random(N).astype(np.float32), 10):
        places = sorted(characters.text().index(each.text) for each in found)
        assert len(places) == 10
        assert np.diff(places).min() >= LENGTH
        assert all(len(set(characters.work[place : place + LENGTH].tolist())) == 1 for place in places)
        assert max(np.bincount([each.work for each in found])) <= MOST_OF_WORK


def test_each_character_has_one_predictor_or_neither_which_is_worse_than_chance():
    counted, learned = np.random.default_rng(3).exponential(2, (2, 1009))
    found, chance = shares(counted, learned, 11), math.log(11)
    wanted = {"counted": 0, "learned": 0, "neither": 0}
    for one, other in zip(counted, learned, strict=True):
        wanted["neither" if min(one, other) > chance else "learned" if other <= one else "counted"] += 1
    assert vars(found) == pytest.approx({name: n / 1009 for name, n in wanted.items()})
    assert neither(np.array([chance + 1e-6, chance]), np.array([9.0, 9.0]), 11).tolist() == [True, False]
    assert lead(-np.log([1 / 8, 1 / 2]), -np.log([1 / 2, 1 / 8])).tolist() == pytest.approx([2, -2])  # bits
