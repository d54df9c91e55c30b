"""The report on counting."""

import pytest
from studies.remembering import ORDERS, remembering
from studies.small import CPU, PARAMS
from studies.test_counting_study import RECIPE, TEXT

from bukva.studies.counting_charts import counting_report, table
from bukva.studies.counting_study import study

pytestmark = pytest.mark.slow  # the study takes two seconds


def test_the_table_has_a_line_for_each_predictor():
    numbers = study(remembering(), TEXT, PARAMS, RECIPE, CPU)
    title, *lines = table(numbers)
    assert f"{numbers['scores']['chars']:,} characters" in title
    names = ["bigram", "ngrams", "network", "together"]
    assert [line.split()[-1] for line in lines] == [f"{numbers['scores'][name]:.3f}" for name in names]
    assert f"order {ORDERS[-1]}" in lines[1]


def test_a_text_without_words_has_no_chart_of_positions_in_words(tmp_path):
    numbers = study(remembering(), TEXT, PARAMS, RECIPE, CPU)
    counting_report(numbers, tmp_path / "words")
    counting_report({**numbers, "by_position": []}, tmp_path / "digits")
    with_words, without = ({file.name for file in (tmp_path / name).iterdir()} for name in ("words", "digits"))
    assert with_words - without == {"share_by_position.png"}
    assert without == {"counting.json", "passage.png", "share_over_training.png"}
    *_, last = table({**numbers, "by_position": []})
    assert last == "The text has no words, so the chart by position in the word is left out."
