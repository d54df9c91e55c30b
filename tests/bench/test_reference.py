"""`make reference` names scores that have changed."""

from bench.reference import changes


def test_only_a_score_that_changed_by_more_than_seeds_and_processors_do_is_named():
    before, now = {"val": 2.381, "test": 2.368}, {"val": 2.400, "test": 2.389}
    assert changes("ngrams", before, now) == ["ngrams, test 2.389, before 2.368"]
    assert changes("ngrams", now, before) == ["ngrams, test 2.368, before 2.389"]
