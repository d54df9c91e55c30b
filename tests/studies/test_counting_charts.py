"""The report on counting."""

import pytest
from studies.remembering import ORDERS, remembering
from studies.small import CPU, PARAMS
from studies.test_counting_study import RECIPE, TEXT

from bukva.studies.counting_charts import table
from bukva.studies.counting_study import study

pytestmark = pytest.mark.slow  # the study takes two seconds


def test_the_table_has_a_line_for_each_predictor():
    numbers = study(remembering(), TEXT, PARAMS, RECIPE, CPU)
    title, *lines = table(numbers)
    assert f"{numbers['scores']['chars']:,} characters" in title
    names = ["bigram", "ngrams", "network", "together"]
    assert [line.split()[-1] for line in lines] == [f"{numbers['scores'][name]:.3f}" for name in names]
    assert f"order {ORDERS[-1]}" in lines[1]
