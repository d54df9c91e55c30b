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


def found_in(works, chosen, in_train=IN_TRAIN):
    """reports/split.json of works, without the longest passages."""
    shares = rows_of(spans(works, chosen))
    found = {name: _contents(works, _chars(shares, name, len(works))) for name in names_in(shares)}
    for name in list(found)[1:]:
        found[name]["in_train"] = {"before": in_train, "after": dict.fromkeys(in_train, 0.0)}
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("works", "fractions"), [(ONE, (0.7, 0.2, 0.1)), (STRANGE, (0.7, 0.3, 0))])
def test_any_splits_are_drawn_to_the_same_bytes(works, fractions, tmp_path):
    found = found_in(works, split(*fractions), dict.fromkeys(IN_TRAIN, 0.0))
    for file in ("a.png", "b.png"):
        draw_split(found, works, "author", tmp_path / file)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_marks_are_the_shares_of_each_split_beside_the_whole_and_titles_have_the_distances():
    found = found_in(MANY, split(0.7, 0.2, 0.1, "by_author"))
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
    distances = [f"{name} {found[name]['distance']['author']:.3f}" for name in ("train", "val", "test")]
    assert author.get_title("left") == f"Shares of characters by author\ntotal variation: {', '.join(distances)}"


def test_a_bar_has_its_value_and_0_is_written_as_0():
    windows = split_figure(found_in(ONE, split(0.7, 0.2, 0.1)), ONE, "author").axes[3]
    assert [text.get_text() for text in windows.texts] == [*["50", "3.1", "0.07", "0"], *"0000"] * 2
    assert [bar.get_height() for bar in windows.patches][:4] == [50, 3.1, pytest.approx(0.07), 0]
    assert windows.get_yscale() == "log"
    assert windows.get_ylim()[0] < 0.07
