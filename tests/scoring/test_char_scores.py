"""Scores per character on disk: they survive a round trip, and a broken file is named."""

import numpy as np
import pytest

from bukva.core.errors import BukvaError
from bukva.scoring.char_scores import CharScores, files_of, save_scores
from bukva.text.collection import Work
from bukva.text.ids import nats_of_chars

WORKS = [Work("prose", "Ава", "a, b"), Work("prose", "Ява", "о", "1863-1869"), Work("-", "-", "c")]
CHARS = {"val": np.array([3, 0, 4]), "test": np.array([2, 5, 0])}
ABOUT = {"window": {"length": 6, "stride": 3}, "text": {"val": "1", "test": "2"}}


def nats(n, seed=1):
    return np.random.default_rng(seed).random(n).astype(np.float32)


@pytest.fixture
def folder(tmp_path):
    scored = {"gpt": {"val": nats(7), "test": nats(7, 2)}, "ngram_3": {"val": nats(7, 3), "test": nats(7, 4)}}
    save_scores(tmp_path / "scores", ABOUT, WORKS, CHARS, scored)
    return tmp_path / "scores"


def test_what_is_written_is_read(folder):
    scores = CharScores.read(files_of(folder))
    assert scores.about == ABOUT
    assert scores.works == WORKS
    assert {split: chars.tolist() for split, chars in scores.chars.items()} == {"val": [3, 0, 4], "test": [2, 5, 0]}
    np.testing.assert_array_equal(scores.nats("ngram_3", "test"), nats(7, 4))
    assert scores.nats("gpt", "val").dtype == np.float32
    with pytest.raises(BukvaError, match=r"mlp/test.npy: cannot be read"):
        scores.nats("mlp", "test")


@pytest.mark.parametrize(
    ("name", "content"),
    [("about.json", b"{"), ("works.csv", b"category,author\na,b\n"), ("gpt/val.npy", b"x"), ("gpt/val.npy", None)],
    ids=["torn", "columns lack", "not an array", "too short"],
)
def test_a_broken_file_is_an_error_that_says_what_to_do(folder, name, content):
    if content:
        (folder / name).write_bytes(content)
    else:
        np.save(folder / name, nats(5))
    with pytest.raises(BukvaError, match=r"(cannot be read|gpt/val.npy: ).*run `dvc repro -f evaluate`"):
        CharScores.read(files_of(folder)).nats("gpt", "val")


def test_an_id_of_several_characters_gives_each_an_equal_part_and_one_of_none_adds_to_the_one_before():
    of_chars = nats_of_chars(np.array([6.0, 1.0, 2.0, 5.0]), np.array([3, 1, 0, 1]))
    assert of_chars.tolist() == [2, 2, 2, 3, 5]
