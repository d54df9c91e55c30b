"""The report on counting."""

import pytest
from interpret.remembering import LENGTHS, ORDERS, SPLITS, remembering
from interpret.small import CPU, PARAMS, TOKENIZER
from interpret.test_counting import RECIPE

from bukva.interpret.counting import Counting
from bukva.report.counting import NEITHER, passage_page, table

pytestmark = pytest.mark.slow  # the study takes two seconds


@pytest.fixture(scope="module")
def numbers():
    return Counting(remembering(), TOKENIZER, SPLITS, LENGTHS, CPU).study(PARAMS, RECIPE)


def test_the_page_needs_nothing_else_and_escapes_the_text(numbers, tmp_path):
    char = {**numbers["passage"]["chars"][0], "char": "<", "share": None}
    passage_page({**numbers, "passage": {"work": 0, "chars": [char]}}, tmp_path / "passage.html")
    page = (tmp_path / "passage.html").read_text(encoding="utf-8")
    assert ">&lt;</span>" in page
    assert f"background:{NEITHER}" in page
    assert "http" not in page
    assert "src=" not in page


def test_the_table_has_a_line_for_each_predictor(numbers):
    title, *lines = table(numbers)
    assert f"{numbers['scores']['chars']:,} characters" in title
    names = ["bigram", "ngrams", "network", "together"]
    assert [line.split()[-1] for line in lines] == [f"{numbers['scores'][name]:.3f}" for name in names]
    assert f"order {ORDERS[-1]}" in lines[1]
