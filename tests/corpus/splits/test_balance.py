"""The distance between the shares of a split and those of the corpus."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.splits.balance import decades, shares, total_variation

works = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 97)), min_size=1, max_size=13)


def shares_of(works):
    labels, chars = zip(*works, strict=True)
    return shares(pd.Series(labels), np.array(chars))


def expected_distance(part, whole):
    """The largest difference of the share of any set of labels (the definition), over all sets."""
    labels = sorted({label for label, _ in [*part, *whole]})

    def share(works, chosen):
        return sum(n for label, n in works if label in chosen) / sum(n for _, n in works)

    sets = [{label for i, label in enumerate(labels) if bits >> i & 1} for bits in range(1 << len(labels))]
    return max(share(part, chosen) - share(whole, chosen) for chosen in sets)


@given(works, works)
def test_the_distance_is_the_largest_difference_of_any_set_of_labels(part, whole):
    assert total_variation(shares_of(part), shares_of(whole)) == pytest.approx(expected_distance(part, whole))


def test_a_part_of_equal_shares_has_distance_0_and_one_of_other_labels_1():
    whole = shares_of([("a", 30), ("b", 50), ("a", 20)])
    assert whole.to_dict() == {"a": 0.5, "b": 0.5}
    assert total_variation(shares_of([("a", 7), ("b", 7)]), whole) == 0
    assert total_variation(shares_of([("c", 7)]), whole) == 1


def test_works_without_characters_in_a_split_count_nothing():
    part = shares(pd.Series(["a", "b"]), np.array([5, 0]))
    assert total_variation(part, shares_of([("a", 1), ("b", 1)])) == 0.5


def test_a_year_may_be_a_range_or_missing():
    years = pd.Series(["1863", "1863-1869", "1899–1900", None, "n. d.", "c. 1830"])
    assert decades(years).tolist() == ["1860s", "1860s", "1890s", "-", "-", "1830s"]
