"""A writer that learns from what was typed, and forgets it."""

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient
from imports import SHIPPED

from bukva.backends.device import Machine
from bukva.config.load import read_params
from bukva.models.gpt import GPT, GPTConfig
from bukva.serving.app import site
from bukva.serving.learning import Learner
from bukva.serving.writer import Writer
from bukva.text.tokenizers.char import CharTokenizer
from bukva.tracking.ui import Server

CHARS = sorted("\n !абвгде")
TEXT = "где ад, баба где вада!"
TRAIN = np.random.default_rng(4).integers(len(CHARS), size=401).astype(np.uint8)
SAMPLE = read_params(SHIPPED).sample.model_copy(update={"n_chars": 29, "seed": 3})
KINDS = {"plain": "none", "with n-grams": "input"}


def writer_of(ngrams):
    torch.manual_seed(2)
    gpt = GPT(GPTConfig(len(CHARS), 1, 2, 8, 13, 0.0, ngrams=ngrams, ngram_orders=(2, 5))).eval()
    gpt.count(TRAIN)
    return Writer(gpt, CharTokenizer(CHARS), Machine(torch.device("cpu"), torch.float32))


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def writer(request):
    return writer_of(request.param)


@pytest.fixture(scope="module")
def learner(writer):
    return Learner(writer, TRAIN)


def mean(scored):
    assert scored[0].bits is None
    return np.mean([piece.bits for piece in scored[1:]])


def test_the_more_often_a_text_was_read_the_fewer_bits_it_has(learner, writer):
    bits = []
    for n in range(4):
        with learner.shared_writer([TEXT] * n) as learned:
            bits.append(mean(learned.score(TEXT)))
    assert bits[0] < mean(writer.score(TEXT))
    assert bits == sorted(bits, reverse=True)
    assert bits[3] < 0.6 * bits[0]


def test_nothing_is_kept_from_one_request_to_the_next(learner):
    with learner.shared_writer([]) as learned:
        before = learned.score(TEXT)
    with learner.shared_writer([TEXT, TEXT[::-1]]) as learned:
        assert learned.score(TEXT) != before
    with learner.shared_writer([]) as learned:
        assert learned.score(TEXT) == before


def test_what_was_learned_is_what_it_writes_and_expects(learner, writer):
    phrase = "ад, баба где ва"
    with learner.shared_writer([TEXT] * 9) as learned:
        assert learned.likeliest(phrase, 1)[0][0] == "д"
        assert learned.likeliest("где ад, б", 1)[0][0] == "а"
        assert sum(p for _, p in learned.likeliest(phrase, len(CHARS))) == pytest.approx(1, abs=1e-6)
        how = SAMPLE.model_copy(update={"temperature": 0.0})
        written = "".join(piece.text for piece in learned.write("где ад", how))
        assert written.startswith(" баба где вада!"[: len(written)])
        assert len(written) == 29  # further than a window
    assert "".join(piece.text for piece in writer.write("где ад", how)) != written


def test_a_text_that_is_not_written_to_its_end_keeps_nobody_waiting(learner):
    whole = list(learner.separate_writer([TEXT]).write("где", SAMPLE))
    steps = learner.separate_writer([TEXT]).write("где", SAMPLE)
    pieces = [next(steps) for _ in range(5)]
    with learner.shared_writer([TEXT[::-1]]) as learned:
        assert learned.score(TEXT)
    assert pieces + list(steps) == whole


def test_a_text_of_one_character_and_one_without_known_characters_are_not_scored(learner):
    with learner.shared_writer([""]) as learned:
        assert [piece.bits for piece in learned.score("а")] == [None]
        assert [piece.bits for piece in learned.score("ю")] == [None]


class OneModel:
    """A library of a GPT, which learns, and of one that does not."""

    def __init__(self):
        self._writer = writer_of("none")
        self._learner = Learner(self._writer, TRAIN)

    def writer(self, _):
        return self._writer

    def learner(self, key):
        return self._learner if key == "learns" else None


def test_the_page_gets_the_bits_with_and_without_learning_and_only_where_it_asks():
    client = TestClient(site(OneModel(), SAMPLE, Server("http://127.0.0.1:5000")), base_url="http://127.0.0.1")

    def scored(model, **request):
        return client.post("/play/score", json={"model": model, "text": TEXT} | request).json()

    static = scored("learns")
    assert static["unlearned"] is None
    assert scored("cannot", learned=[TEXT]) == static
    learned = scored("learns", learned=[TEXT])
    assert learned["unlearned"] == static["scored"] != learned["scored"]
    assert scored("learns") == static
    answer = client.post("/play/write", json={"model": "learns", "text": TEXT, "learned": [TEXT]})
    assert answer.status_code == 200
    assert "at most 100 items" in scored("learns", learned=["а"] * 101)["error"]
