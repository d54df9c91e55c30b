"""Works are summed by label."""

from bukva.corpus.cleaning.page import NOT_GIVEN, largest, works_and_chars


def test_the_largest_and_the_others_are_the_whole():
    sums = works_and_chars(["b", "a", "b", "-", "c", "d"], [5, 8, 2, 9, 8, 1])
    assert sums == {"b": [7, 2], "a": [8, 1], "-": [9, 1], "c": [8, 1], "d": [1, 1]}
    assert largest(sums, 3) == [(NOT_GIVEN, [9, 1]), ("a", [8, 1]), ("c", [8, 1]), ("others (2)", [8, 3])]
    assert [label for label, _ in largest(sums, 5)] == [NOT_GIVEN, "a", "c", "b", "d"]


def test_decades_are_in_their_order_and_unknown_ones_and_others_last():
    sums = {"1850s": [2], "-": [9], "1790s": [5], "1860s": [1], "1840s": [7]}
    rows = largest(sums, 4, by_name=True)
    assert rows == [("1790s", [5]), ("1840s", [7]), ("1850s", [2]), (NOT_GIVEN, [9]), ("others (1)", [1])]
