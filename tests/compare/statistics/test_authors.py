"""Effect by author against loops over works."""

import numpy as np
import pytest

from bukva.compare.statistics.text import Units, by_author

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
        assert effect.difference == pytest.approx(total / sum(CHARS[row] for row in rows))
    assert [effect.author for effect in authors.effects] == list("abcd")
    assert authors.better == sum(effect.difference < 0 for effect in authors.effects)
    assert authors.worse == sum(effect.difference > 0 for effect in authors.effects)


def test_the_author_without_whom_the_verdict_is_another_is_named():
    rng = np.random.default_rng(4)
    by_one = [-0.2 * (name == "b") + rng.normal(0, 0.01) for name in AUTHORS]
    alike = np.random.default_rng(1).normal(-0.2, 0.03, 21)
    for effects, authors, deciding in (
        (by_one, AUTHORS, [("b", "cannot tell")]),
        (alike, AUTHORS, []),
        (alike, ["a"] * 20 + ["d"], [("a", "cannot tell")]),
        (alike, ["a"] * 21, []),  # an only author is not left out
    ):
        found = compared(effects, authors=authors).deciding
        assert [(effect.author, effect.without) for effect in found] == deciding
    assert compared([-0.2, -0.1], chars=[997, 499], authors=["a", "b"]).deciding == []  # too few works
