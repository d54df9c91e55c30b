"""The easiest and hardest passages."""

import numpy as np
import pytest

from bukva.anatomy.characters import Characters
from bukva.anatomy.extremes import LENGTH, MOST_OF_WORK, STEP, extremes
from bukva.base.units import bits

SIZES = [1009, 97, 2003, 503, 1511]  # characters of each work; the second is shorter than a passage
N = sum(SIZES)


@pytest.fixture
def characters():
    codes = np.random.default_rng(1).integers(0x430, 0x450, N).astype(np.uint32)
    work = np.repeat(np.arange(len(SIZES)), SIZES)
    return Characters(codes, work, np.zeros((N, 4), np.uint32), np.zeros(N, np.int64))


def test_planted_passages_come_first_in_both_lists(characters):
    nats = np.ones(N, np.float32)
    nats[STEP * 20 : STEP * 20 + LENGTH] = 0.1
    hard = SIZES[0] + SIZES[1] + STEP - (SIZES[0] + SIZES[1]) % STEP + STEP * 7
    nats[hard : hard + LENGTH] = 3
    easiest, hardest = extremes(characters, nats, 3)
    assert (easiest[0].work, hardest[0].work) == (0, 2)
    assert easiest[0].text == characters.text(STEP * 20, STEP * 20 + LENGTH)
    assert hardest[0].text == characters.text(hard, hard + LENGTH)
    assert (easiest[0].mean, hardest[0].mean) == pytest.approx((bits(0.1), bits(3)))
    assert hardest[0].bits.tolist() == pytest.approx([bits(3)] * LENGTH)


def test_passages_are_of_one_work_do_not_overlap_and_are_few_of_each(characters):
    nats = np.random.default_rng(2).random(N).astype(np.float32)
    for found in extremes(characters, nats, 10):
        assert len(found) == 10
        places = [characters.text().index(each.text) for each in found]
        for place, each in zip(places, found, strict=True):
            assert set(characters.work[place : place + LENGTH].tolist()) == {each.work}
        assert min(abs(a - b) for a in places for b in places if a != b) >= LENGTH
        assert max(np.bincount([each.work for each in found])) <= MOST_OF_WORK
    easiest, hardest = extremes(characters, nats, 10)
    assert [each.mean for each in easiest] == sorted(each.mean for each in easiest)
    assert [each.mean for each in hardest] == sorted((each.mean for each in hardest), reverse=True)


def test_a_text_shorter_than_a_passage_has_none(characters):
    short = Characters(*(part[: LENGTH - 1] for part in (characters.codes, characters.work, characters.before,
                                                         characters.context)))  # fmt: skip
    assert extremes(short, np.ones(LENGTH - 1, np.float32), 5) == ([], [])
