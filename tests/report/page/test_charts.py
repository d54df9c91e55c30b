"""The specifications of the charts: what they show, in which order. Altair checks them against Vega-Lite's schema."""

import pandas as pd
import pytest

from bukva.report.page import charts


def rows_in(spec):
    """All rows of data of a specification."""
    return [row for rows in spec["datasets"].values() for row in rows]


def found(spec, key):
    """All values of a key anywhere in a specification."""
    if isinstance(spec, dict):
        own = [spec[key]] if key in spec else []
        return own + [value for part in spec.values() for value in found(part, key)]
    return [value for part in spec for value in found(part, key)] if isinstance(spec, list) else []


POINTS = pd.DataFrame(
    {
        "model": ["GPT"] * 3,
        "colour": ["#e0566f"] * 3,
        "split": ["val"] * 3,
        "step": [0, 7, 11],
        "chars": [0, 70, 110],
        "bits": [6.0, 3.5, 2.5],
    }
)


def test_a_scale_changes_the_losses_only_and_leaves_out_no_point():
    specs = {scale: charts.curves(POINTS, "step", "updates", scale) for scale in charts.SCALES}
    for scale, spec in specs.items():
        assert [row["step"] for row in rows_in(spec)] == [0, 7, 11]
        assert "scale" not in spec["encoding"]["x"]
        assert (spec["encoding"]["y"]["scale"].get("type") == "log") is (scale == "log")
    low, high = specs["zoomed"]["encoding"]["y"]["scale"]["domain"]
    assert 2.4 < low < 2.5
    assert 3.5 < high < 3.6  # step 7 of 11, and not step 0, the beginning


def test_scores_are_in_order_with_intervals_where_there_are_some():
    rows = pd.DataFrame(
        [
            {"label": "b", "colour": "#8c8c8c", "bits": 3.0, "low": 2.9, "high": 3.1},
            {"label": "a", "colour": "#e0566f", "bits": 2.0, "low": None, "high": None},
        ]
    )
    spec = charts.scores(rows, "val")
    assert [sort for sort in found(spec, "sort") if sort] == [["a", "b"]] * 3
    assert {row["label"]: (row["low"], row["high"]) for row in rows_in(spec)} == {"a": (None, None), "b": (2.9, 3.1)}


@pytest.mark.parametrize(("sort", "labels"), [(True, ["y", "x"]), (False, ["x", "y"])])
def test_groups_are_sorted_by_the_first_model_or_stay_in_order(sort, labels):
    rows = pd.DataFrame(
        {
            "label": ["x", "x", "y", "y"],
            "chars": [3, 3, 5, 5],
            "model": ["A", "B"] * 2,
            "colour": ["#111", "#222"] * 2,
            "bits": [3.0, 1.0, 2.0, 2.5],
        }
    )
    spec = charts.groups(rows, "author", sort=sort)
    assert all(order == labels for order in found(spec, "sort"))
