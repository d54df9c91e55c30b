"""Test the axes of charts."""

import pandas as pd
import pytest

from bukva.report import charts


def test_one_score_has_an_axis_around_it_and_more_scores_have_their_own():
    def scale(*bits):
        rows = pd.DataFrame([{"label": "baseline", "colour": "red", "bits": each} for each in bits])
        layers = charts.dots(rows, "bits", "one score")["layer"]
        return next(layer["encoding"]["x"]["scale"] for layer in layers if layer["mark"]["type"] == "point")

    assert scale(2.5)["domain"] == pytest.approx([2.45, 2.55])
    assert "domain" not in scale(2.5, 2.6)
