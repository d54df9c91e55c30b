"""The figure of the splits shows the numbers of reports/split.json."""

import numpy as np
import pytest
from report.strange import MANY, ONE, STRANGE
from works import split

from bukva.corpus.splits.division import rows_of
from bukva.corpus.splits.folder import names_in
from bukva.corpus.splits.report import _chars, _contents
from bukva.corpus.splits.strategies import spans
from bukva.report.split_figure import draw_split, split_figure

IN_TRAIN = {"8": 0.5, "16": 0.031, "32": 0.0007, "64": 0.0}
WORKS = {"one": ONE, "strange": STRANGE, "many": MANY}


def found_in(works, chosen, in_train=IN_TRAIN):
    """reports/split.json of works, without the longest passages."""
    shares = rows_of(spans(works, chosen))
    found = {name: _contents(works, _chars(shares, name, len(works))) for name in names_in(shares)}
    for name in list(found)[1:]:
        found[name]["in_train"] = {"before": in_train, "after": dict.fromkeys(in_train, 0.0)}
    return found


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("fractions", [(0.7, 0.2, 0.1), (0.7, 0.3, 0)])
def test_any_splits_are_drawn_to_the_same_bytes(name, fractions, tmp_path):
    found = found_in(WORKS[name], split(*fractions))
    for file in ("a.png", "b.png"):
        draw_split(found, WORKS[name], "author", tmp_path / file)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("strategy", ["tail", "by_work", "by_author"])
def test_the_marks_are_the_shares_of_each_split_beside_the_whole(strategy):
    found = found_in(MANY, split(0.7, 0.2, 0.1, strategy))
    author, category, *_ = split_figure(found, MANY, "author").axes
    sums = MANY.groupby("category")["chars"].sum().sort_values(ascending=False)
    assert [label.get_text() for label in category.get_yticklabels()] == list(sums.index)
    np.testing.assert_allclose([bar.get_width() for bar in category.patches], sums / sums.sum(), rtol=1e-12)
    for line, part in zip(category.lines, found.values(), strict=True):
        chars = {row["category"]: row["chars"] for row in part["categories"]}
        np.testing.assert_allclose(line.get_xdata(), [chars[name] / part["chars"] for name in sums.index], rtol=1e-12)
    for drawn in [author.patches, *author.lines]:
        shares = drawn.get_xdata() if hasattr(drawn, "get_xdata") else [bar.get_width() for bar in drawn]
        assert len(shares) == 16
        assert sum(shares) == pytest.approx(1, abs=1e-12)
    assert author.get_yticklabels()[-1].get_text() == "others (22)"


def test_each_title_has_the_distances():
    found = found_in(MANY, split(0.7, 0.2, 0.1, "by_author"))
    for kind, axes in zip(("author", "category", "decade"), split_figure(found, MANY, "author").axes, strict=False):
        distances = [f"{name} {found[name]['distance'][kind]:.3f}" for name in ("train", "val", "test")]
        assert axes.get_title("left") == f"Shares of characters by {kind}\ntotal variation: {', '.join(distances)}"


def test_an_empty_split_has_no_distance():
    found = found_in(ONE, split(0.7, 0.2, 0.1))
    found["test"] |= _contents(ONE, np.zeros(1, np.int64))
    assert "test (empty)" in split_figure(found, ONE, "author").axes[0].get_title("left")


def test_a_bar_has_its_value_and_0_is_written_as_0():
    windows = split_figure(found_in(ONE, split(0.7, 0.2, 0.1)), ONE, "author").axes[3]
    assert [text.get_text() for text in windows.texts] == [*["50", "3.1", "0.07", "0"], *"0000"] * 2
    assert [bar.get_height() for bar in windows.patches][:4] == [50, 3.1, pytest.approx(0.07), 0]
    assert windows.get_yscale() == "log"
    assert windows.get_ylim()[0] < 0.07


def test_windows_of_which_none_is_in_train_are_drawn(tmp_path):
    found = found_in(ONE, split(0.7, 0.2, 0.1), dict.fromkeys(IN_TRAIN, 0.0))
    draw_split(found, ONE, "author", tmp_path / "split.png")
    assert {text.get_text() for text in split_figure(found, ONE, "author").axes[3].texts} == {"0"}
