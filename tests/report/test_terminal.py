"""The table of scores, and the verdict."""

from pathlib import Path

import numpy as np
import pytest

from bukva.corpus.collection import Document
from bukva.pipeline.stages import TrainedModel
from bukva.report import terminal
from bukva.report.terminal import against_counting, best_baseline, table, verdict
from bukva.scoring.characters import CharScores, files_of, save_scores

SCORES = {
    "gpt": {"val": {"bits_per_char": 2.5}, "test": {"bits_per_char": 2.125}},
    "bigram": {"val": {"bits_per_char": 3.5}, "test": {"bits_per_char": 3.25}},
    "third": {"val": {"bits_per_char": 2.75}, "test": {"bits_per_char": 2.625}},
    "baselines": {
        "val": {"uniform": 6.0, "unigram": 4.5, "bigram_exact": 3.375, "ngram_6": 2.5, "ppmd": 2.4},
        "test": {"uniform": 6.0, "unigram": 4.5, "bigram_exact": 3.375, "ngram_6": 2.25, "ppmd": 2.375},
    },
    "best_counted": "ngram_6",
    "mixture": {"of": ["gpt", "ngram_6"], "val": {"bits_per_char": 2.25}, "test": {"bits_per_char": 2.0}},
    "window": {"length": 64, "stride": 32, "unit": "character"},
    "context": {"test": {"short_context": 8, "gain_bits_per_char": 0.031}},
}


@pytest.mark.parametrize("names", [["gpt"], ["bigram", "gpt"], ["bigram", "third", "gpt"]])
def test_the_table_has_every_model_and_split(monkeypatch, names):
    models = {name: TrainedModel(f"train-{name}", name, name.upper(), Path(name), Path(name)) for name in names}
    monkeypatch.setattr(terminal, "trained_models", lambda: models)
    result = table(SCORES)
    assert [column.header for column in result.columns] == ["model", "val", "test"]
    labels, bits = list(result.columns[0].cells), list(result.columns[2].cells)
    assert labels[:4] == ["every character equally likely", "by frequency", "bigram, counted", "n-grams of order 6"]
    assert "adaptive" in labels[4]
    assert labels[5:] == [*(f"{name.upper()}, learned" for name in names), "half GPT, half n-grams of order 6"]
    assert bits[3:5] == ["2.250", "2.375"]
    assert bits[5:] == [*(f"{SCORES[name]['test']['bits_per_char']:.3f}" for name in names), "2.000"]


def test_a_baseline_that_one_split_has_no_figure_of_is_left_out_there():
    baselines = {split: dict(values) for split, values in SCORES["baselines"].items()}
    del baselines["test"]["ppmd"]
    cells = list(table(SCORES | {"baselines": baselines}).columns[2].cells)
    assert cells[4] == ""


def test_the_table_names_the_window_rule():
    assert table(SCORES).caption.startswith("windows of 64 characters, stride 32; each work after its own text\n")
    assert "learning on from the held-out text as it goes" in table(SCORES).caption


def test_the_verdict_compares_with_the_exact_bigram_and_names_the_gain_by_context():
    assert verdict(SCORES) == (
        "On test the GPT is 1.250 bits per character better than the exact bigram; 0.031 of that comes from context "
        "beyond 8 characters."
    )


def test_a_score_that_is_better_than_the_gpts_is_named():
    assert best_baseline(SCORES) == [
        "The best score on test is not the GPT's 2.125: half GPT, half n-grams of order 6 has 2.000."
    ]
    worse = SCORES | {"mixture": SCORES["mixture"] | {"test": {"bits_per_char": 2.2}}}
    assert best_baseline(worse) == []
    without = SCORES["baselines"]["test"].copy()
    del without["ppmd"]  # a text may be too short for it
    assert best_baseline(worse | {"baselines": SCORES["baselines"] | {"test": without}}) == []
    baselines = SCORES["baselines"] | {"test": SCORES["baselines"]["test"] | {"ppmd": 2.1}}
    assert best_baseline(worse | {"baselines": baselines}) == [
        "The best score on test is not the GPT's 2.125: ppmd, which learns on from the text that it is scored on, has "
        "2.100."
    ]


def test_the_verdict_says_so_when_the_gpt_is_worse():
    scores = SCORES | {"gpt": {"test": {"bits_per_char": 3.5}}}
    assert verdict(scores).startswith("On test the GPT is 0.125 bits per character worse than the exact bigram; ")


@pytest.mark.parametrize(("gain", "said"), [(0.25, "is better than"), (0.0, "are identical")])
def test_the_gpt_is_compared_with_counting_and_the_mixture_with_the_gpt(tmp_path, gain, said):
    rng, chars = np.random.default_rng(1), np.full(13, 101)
    counted = rng.normal(2, 0.1, chars.sum()).astype(np.float32)
    gpt = counted - np.float32(gain)
    works = [Document("-", "-", str(number)) for number in range(len(chars))]
    nats = {"ngram_6": {"test": counted}, "gpt": {"test": gpt}, "mixture": {"test": gpt}}
    save_scores(tmp_path / "scores", {"text": {"test": "1"}}, works, {"test": chars}, nats)
    first, second = against_counting(SCORES, CharScores.read(files_of(tmp_path / "scores")))
    assert said in first
    assert "n-grams of order 6" in first
    assert "are identical" in second
