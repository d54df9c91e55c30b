"""README is one page, and the speed that it shows is what the bench has written."""

import pytest
from imports import ROOT

from bukva.base.files import read_json

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("row", ["race-network", "generation"])
def test_a_factor_of_speed_is_that_of_the_bench(row):
    ratio = next(
        score["value"]
        for score in read_json(ROOT / "reports" / "bench.json")["rows"][row]["scores"]
        if score["name"] == "ratio"
    )
    assert f"{ratio:.1f} times as fast" in " ".join(README.split())
