"""The report on counting."""

import pytest
from interpret.remembering import LENGTHS, ORDERS, SPLITS, remembering
from interpret.small import CPU, PARAMS, TOKENIZER
from interpret.test_counting import RECIPE

from bukva.interpret.counting import Counting
from bukva.report.counting import table

pytestmark = pytest.mark.slow  # the study takes two seconds


@pytest.fixture(scope="module")
def numbers():
    return Counting(remembering(), TOKENIZER, SPLITS, LENGTHS, CPU).study(PARAMS, RECIPE)


def test_the_table_has_a_line_for_each_predictor(numbers):
    title, *lines = table(numbers)
    assert f"{numbers['scores']['chars']:,} characters" in title
    names = ["bigram", "ngrams", "network", "together"]
    assert [line.split()[-1] for line in lines] == [f"{numbers['scores'][name]:.3f}" for name in names]
    assert f"order {ORDERS[-1]}" in lines[1]
