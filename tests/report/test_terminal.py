"""The rows of the table of scores, the table in the terminal, and the sentences below it."""

import pytest

from bukva.project.stages import trained_models
from bukva.report.terminal import context, headline, show, table
from bukva.scoring.rows import chart_of, rows_of

SCORES = {
    "gpt": {"train": {"bits_per_char": 2.25}, "val": {"bits_per_char": 2.5}, "test": {"bits_per_char": 2.125}},
    "bigram": {"train": {"bits_per_char": 3.75}, "val": {"bits_per_char": 3.5}, "test": {"bits_per_char": 3.25}},
    "baselines": {
        "train": {"uniform": 6.0},
        "val": {"uniform": 6.0, "unigram": 4.5, "bigram_exact": 3.375, "ngram_6": 2.625, "ppmd": 2.4},
        "test": {"uniform": 6.0, "unigram": 4.5, "bigram_exact": 3.375, "ngram_6": 2.25, "ppmd": 2.375},
    },
    "best_counted": "ngram_6",
    "window": {"length": 64, "stride": 32, "unit": "token"},
    "context": {"val": {"short_context": 8, "gain_bits_per_char": 0.031}},
}
BASELINES = [
    ("uniform", "counted", "every token equally likely"),
    ("unigram", "counted", "by frequency"),
    ("bigram_exact", "counted", "bigram, counted"),
    ("ngram_6", "counted", "n-grams of order 6"),
    ("ppmd", "compressor", "ppmd"),
    ("bigram", "learned", "bigram, learned"),
]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, [("gpt", "learned", "GPT, learned")]),
        (
            {"network": SCORES["gpt"]},
            [("network", "learned", "GPT without its n-grams"), ("gpt", "together", "GPT with its n-grams")],
        ),
    ],
)
def test_each_score_has_a_row_and_a_gpt_with_ngrams_has_one_without_them(more, expected):
    rows = {row.key: row for row in rows_of(SCORES | more, trained_models())}
    assert [(row.key, row.kind, row.label) for row in rows.values()] == [*BASELINES, *expected]
    assert rows["gpt"].bits == {"train": 2.25, "val": 2.5, "test": 2.125}
    assert rows["unigram"].bits == {"val": 4.5, "test": 4.5}
    # what dvc plots draws: each look at test is counted
    assert chart_of([rows["ppmd"]]) == [{"model": "ppmd", "bits_per_char": 2.4}]


def test_the_table_has_the_bigram_the_best_n_gram_and_the_gpt_and_all_baselines_on_request():
    header, rows = table(SCORES)
    assert header == ["model", "train", "val"]  # each look at test is counted
    assert rows == [
        ["bigram, learned", "3.750", "3.500"],
        ["n-grams of order 6", "", "2.625"],
        ["GPT, learned", "2.250", "2.500"],
    ]
    assert [row[3] for row in table(SCORES, with_test=True)[1]] == ["3.250", "2.250", "2.125"]
    labels = [row[0] for row in table(SCORES, everything=True)[1]]
    assert len(labels) == len(BASELINES) + len(["gpt"])
    assert any(label.startswith("ppmd (") and label.endswith("adaptive)") for label in labels)


def test_the_sentences_say_what_a_bit_and_context_mean_and_compare_with_counting_and_the_bigram():
    assert headline(SCORES) == (
        "The GPT needs 2.500 bits per character on val: it is as uncertain as a uniform guess among 5.7 "
        "characters. That is 0.125 bits better than the best model that only counts (n-grams of order 6), and "
        "1.000 bits better than the bigram."
    )
    equal = SCORES | {"gpt": {"val": {"bits_per_char": 2.6254}}}
    assert "That is as good as the best model that only counts (n-grams of order 6), and 0.875 bits" in headline(equal)
    worse = SCORES | {"gpt": {"val": {"bits_per_char": 2.75}}}
    assert "0.125 bits worse than the best" in headline(worse)
    assert context(SCORES).startswith(
        "Context beyond 8 tokens improves the GPT by 0.031 bits per character on val. All models were scored in "
        "windows of 64 tokens with stride 32, and with the preceding text of the same work as context; "
    )


def test_a_narrow_terminal_breaks_cells_between_words(monkeypatch, capsys):
    changed = "train_gpt.learning_rate=0.003, model.n_head=8, train_gpt.weight_decay=0.5"
    names = {"val": "2.411", "against the baseline": "-0.011 not significant", "changed": changed, "cost": "103 s"}
    for width in (74, 76, 80, 90, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        show("Experiments", ["experiment", *names], [["three-heads, also wide", *names.values()]], justify="left")
        shown = capsys.readouterr().out
        assert set(changed.split()) <= set(shown.split()), width
        assert max(map(len, shown.splitlines())) <= width
