"""The rows of the table of scores: their order, their kinds and what they are called."""

from bukva.evaluation.rows import chart_of, rows_of
from bukva.project.stages import trained_models

SCORED = {"train": {"bits_per_char": 2.5}, "val": {"bits_per_char": 2.25}, "test": {"bits_per_char": 2.125}}
SCORES = {
    "bigram": SCORED,
    "gpt": SCORED,
    "baselines": {
        "train": {"unigram": 4.5},
        "val": {"uniform": 6.0, "unigram": 4.5, "ngram_5": 2.6},
        "test": {"uniform": 6.0, "unigram": 4.5, "ngram_5": 2.6},
    },
    "window": {"length": 64, "stride": 32, "unit": "character"},
}
WITH_MEMORY = SCORES | {"network": SCORED}


def rows(scores):
    return [(row.key, row.kind, row.label) for row in rows_of(scores, trained_models())]


def test_the_whole_and_the_network_of_a_gpt_with_a_memory_have_a_row_each():
    plain = [
        ("uniform", "counted", "every character equally likely"),
        ("unigram", "counted", "by frequency"),
        ("ngram_5", "counted", "n-grams of order 5"),
        ("bigram", "learned", "bigram, learned"),
    ]
    assert rows(SCORES) == [*plain, ("gpt", "learned", "GPT, learned")]
    both = [("network", "learned", "GPT without its n-grams"), ("gpt", "together", "GPT with its n-grams")]
    assert rows(WITH_MEMORY) == [*plain, *both]


def test_a_row_has_the_bits_of_each_split_that_was_scored_and_the_unit_of_its_ids():
    of_bytes = WITH_MEMORY | {"window": {"length": 64, "stride": 32, "unit": "byte"}}
    found = {row.key: row for row in rows_of(of_bytes, trained_models())}
    assert found["network"].bits == {"train": 2.5, "val": 2.25, "test": 2.125}
    assert found["uniform"].bits == {"val": 6.0, "test": 6.0}
    assert found["uniform"].label == "every byte equally likely"
    # what dvc plots draws: each look at test is counted
    assert chart_of([found["network"]]) == [{"model": "GPT without its n-grams", "bits_per_char": 2.25}]
