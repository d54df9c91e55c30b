"""The report on counting."""

import pytest
from interpret.remembering import ORDERS, remembering
from interpret.small import CPU, PARAMS
from interpret.test_counting import RECIPE, TEXT

from bukva.interpret.counting import study
from bukva.report.counting import table

pytestmark = pytest.mark.slow  # the study takes two seconds


def test_the_table_has_a_line_for_each_predictor():
    numbers = study(remembering(), TEXT, PARAMS, RECIPE, CPU)
    title, *lines = table(numbers)
    assert f"{numbers['scores']['chars']:,} characters" in title
    names = ["bigram", "ngrams", "network", "together"]
    assert [line.split()[-1] for line in lines] == [f"{numbers['scores'][name]:.3f}" for name in names]
    assert f"order {ORDERS[-1]}" in lines[1]
