"""Effect by author against loops over works."""

import json

import numpy as np
import pytest

from bukva.statistics.authors import by_author
from bukva.statistics.text import compare_text
from bukva.statistics.units import Units

AUTHORS = [*("abcab" * 4), "d"]
CHARS = [211, 0, 467, 223, 479, *[307] * 16]


def compared(effects, chars=CHARS, authors=AUTHORS):
    """By author, from the differences of each work in bits per character."""
    works = Units.works(chars)
    base = works.chars * 2.5
    return by_author(base, base + works.chars * np.array(effects)[works.rows], works, authors)


def test_differences_are_those_of_the_characters_of_each_author():
    effects = np.random.default_rng(1).normal(-0.02, 0.03, 21)
    authors = compared(effects)
    for effect in authors.effects:
        rows = [row for row, name in enumerate(AUTHORS) if name == effect.author]
        total = sum(CHARS[row] * effects[row] for row in rows)
        assert effect.chars == sum(CHARS[row] for row in rows)
        assert effect.difference == pytest.approx(total / effect.chars)
        assert effect.share == pytest.approx(total / sum(CHARS))
    assert [effect.author for effect in authors.effects] == list("abcd")


def test_shares_sum_to_the_difference_on_the_whole_text():
    effects = np.random.default_rng(1).normal(-0.02, 0.03, 21)
    expected = sum(n * effect for n, effect in zip(CHARS, effects, strict=True)) / sum(CHARS)
    assert sum(effect.share for effect in compared(effects).effects) == pytest.approx(expected)


def test_authors_are_counted_by_the_direction_in_which_they_move():
    effects = [{"a": -0.1, "b": 0.2, "c": -0.3, "d": 0.0}[name] for name in AUTHORS]
    authors = compared(effects)
    assert (authors.better, authors.worse, len(authors.effects)) == (2, 1, 4)


def test_the_author_who_decides_is_named():
    rng = np.random.default_rng(4)
    effects = [-0.2 * (name == "b") + rng.normal(0, 0.01) for name in AUTHORS]
    works = Units.works(CHARS)
    assert (
        compare_text(works.chars * 2.5, works.chars * (2.5 + np.array(effects)[works.rows]), works).verdict == "better"
    )
    assert [(effect.author, effect.without) for effect in compared(effects).deciding] == [("b", "cannot tell")]


def test_nobody_decides_when_all_move_alike():
    effects = np.random.default_rng(1).normal(-0.2, 0.03, 21)
    assert compared(effects).deciding == []


def test_the_author_of_every_work_but_one_decides():
    effects = np.random.default_rng(1).normal(-0.2, 0.03, 21)
    authors = compared(effects, authors=["a"] * 20 + ["d"])
    assert [(effect.author, effect.without) for effect in authors.deciding] == [("a", "cannot tell")]


def test_an_only_author_is_not_left_out():
    effects = np.random.default_rng(1).normal(-0.2, 0.03, 21)
    assert compared(effects, authors=["a"] * 21).deciding == []


def test_a_text_of_few_works_has_effects_but_nobody_is_left_out():
    authors = compared([-0.2, -0.1], chars=[997, 499], authors=["a", "b"])
    assert (authors.better, authors.deciding) == (2, [])


def test_json_has_no_nan():
    text = json.dumps(compared([0.0] * 21).to_json(), allow_nan=False)
    assert json.loads(text)["better"] == 0
