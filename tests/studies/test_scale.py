"""The table of the scale, against its closed form and published values."""

import pytest

from bukva.studies.attention_study import scale_table


def test_random_scores_have_the_variance_of_the_head_size_without_the_scale_and_one_with_it():
    # reference values: 64 random keys, published for the same head sizes
    reference = {4: (0.283, 2.77), 16: (0.587, 1.36), 64: (0.794, 0.58), 256: (0.896, 0.27)}
    rows = scale_table()
    for raw, scaled in zip(rows[::2], rows[1::2], strict=True):
        hs = raw["head_size"]
        assert raw["variance"] == pytest.approx(hs, rel=0.05)
        assert scaled["variance"] == pytest.approx(1, rel=0.05)
        assert scaled["entropy"] == pytest.approx(3.69, abs=0.03)
        if hs in reference:
            assert (raw["peak"], raw["entropy"]) == pytest.approx(reference[hs], abs=0.05)
