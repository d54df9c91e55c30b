"""The scored characters of a split, and which predictor was better on each of them."""

import itertools
import math

import numpy as np
import pytest
from encoded import KINDS, SPLITS, WORKS, held_out

from bukva.report.page.experiment import Characters, read_characters
from bukva.report.page.results import leads, passage


def test_a_character_is_of_the_predictor_that_needs_fewer_bits_or_of_neither_which_is_worse_than_chance():
    half, eighth, chance = np.log([2, 8, 11])
    found = leads(np.array([eighth, half, half, 9, chance]), np.array([half, eighth, half, 9, 9]), 11)
    assert found.tolist() == pytest.approx([2, -2, 0, np.nan, (chance - 9) / math.log(2)], nan_ok=True)


@pytest.mark.parametrize(("kind", "split"), [*itertools.product(KINDS, SPLITS)])
def test_the_scored_characters_are_in_the_order_of_the_works(kind, split, tmp_path):
    text = held_out(tmp_path, kind, split)
    for name in ("val", "test"):
        found = read_characters(tmp_path / "split", tmp_path / "tokens", name)
        assert np.bincount(found.work, minlength=len(WORKS)).tolist() == text.chars[name].tolist()
        assert found.text == "".join(text.tokenizer.decode(passage.scored) for passage in text.passages(name, 1))
        assert found.text == text.tokenizer.decode(text.splits[name])[1:]


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (["аб", "первая\nвторая строка"], "вторая"),  # after the first line of the longest work
        (["вторая строка", "а\n"], "вторая"),
        (["аб\n", "одна строка\nи"], "одна с"),  # the first half of the work has no line end
    ],
)
def test_the_passage_begins_after_a_line_of_the_longest_work(texts, shown):
    characters = Characters("".join(texts), np.repeat(np.arange(len(texts)), list(map(len, texts))))
    assert characters.text[passage(characters, 6)] == shown
