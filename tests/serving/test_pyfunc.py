"""A served model: what it answers, and what it says to requests that make no sense."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from bukva.base.units import bits
from bukva.config.load import read_params
from bukva.config.request import MOST_CHARS
from bukva.models.folder import save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.scoring.window_rule import nats_of, stride_of
from bukva.serving.writer import Writer
from bukva.tokenizers.char import CharTokenizer
from bukva.training.device import prepare

with warnings.catch_warnings(action="ignore"):  # of mlflow, when it is imported
    from mlflow.exceptions import MlflowException

    from bukva.serving.pyfunc import TextModel

TOKENIZER = CharTokenizer(sorted("\n !,абвг"))
CONFIG = GPTConfig(len(TOKENIZER), 2, 2, 20, 11, 0.0)
SETTINGS = {"n_chars": 13, "temperature": 0.9, "top_k": 0, "top_p": 1.0, "seed": 3, "unknown": "error"}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(5)
    weights = {key: tensor * 6 for key, tensor in GPT(CONFIG).state_dict().items()}
    path = tmp_path_factory.mktemp("served") / "gpt"
    save_model(path, CONFIG, TOKENIZER, {"best": weights}, {})
    return path


@pytest.fixture(scope="module")
def model(folder: Path):
    loaded = TextModel()
    loaded.load_context(SimpleNamespace(artifacts={"model": str(folder)}))
    return loaded


@pytest.fixture(scope="module")
def writer(folder: Path):
    return Writer.load(folder, prepare(read_params().compute))


def ask(model, rows, **settings):
    return model.predict(None, pd.DataFrame(rows), SETTINGS | settings)


def test_a_prompt_is_continued_as_the_playground_would(model, writer):
    how = read_params().sample.model_copy(update=SETTINGS)
    answer = ask(model, [{"prompt": "аб"}, {"prompt": "г, "}])
    wanted = ["".join(piece.text for piece in writer.write(prompt, how)) for prompt in ("аб", "г, ")]
    assert list(answer["continuation"]) == wanted
    assert list(answer.columns) == ["continuation"]


def test_a_text_is_scored_by_the_window_rule(model, writer):
    text = "аб вг, аб!\n" * 3
    with writer.machine.autocast():
        nats = nats_of(writer.model, writer.tokenizer.encode(text), 11, stride_of(11))
    [score] = ask(model, [{"text": text}])["bits_per_char"]
    assert score == pytest.approx(bits(float(np.mean(nats))), rel=1e-6)


def test_rows_may_have_different_columns_and_what_is_not_asked_for_is_none(model):
    answer = ask(model, [{"prompt": "аб"}, {"text": "аб"}, {"prompt": "а", "text": "вг"}])
    known = answer.notna().to_numpy().tolist()
    assert known == [[True, False], [False, True], [True, True]]
    assert answer.loc[0, "bits_per_char"] is None  # NaN is not JSON


def test_settings_are_those_of_section_sample(model):
    greedy, again = (ask(model, [{"prompt": "аб"}], temperature=0.0, seed=seed) for seed in (1, 2))
    drawn, other = (ask(model, [{"prompt": "аб"}], temperature=1.5, seed=seed) for seed in (1, 2))
    assert greedy.equals(again)
    assert not drawn.equals(other)
    assert len(ask(model, [{"prompt": "аб"}], n_chars=5).loc[0, "continuation"]) == 5
    assert ask(model, [{"prompt": "аxб"}], unknown="drop").equals(ask(model, [{"prompt": "аб"}]))


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        ([{"promt": "аб"}], {}, "The input has neither column prompt, which is continued, nor text, which is scored."),
        ([{"prompt": "аб"}, {"prompt": ""}], {}, "Row 2, prompt: '' is too short; use a longer one."),
        ([{"prompt": "аx"}], {}, "use another text, or parameter unknown drop or replace."),
        ([{"prompt": "а"}], {"temperature": -1.0}, "temperature: -1.0 is out of range; it should be greater than or"),
        ([{"prompt": "а"}], {"n_chars": MOST_CHARS + 1}, f"use {MOST_CHARS} or fewer."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_with_a_sentence(model, rows, settings, sentence):
    with pytest.raises(MlflowException) as error:
        ask(model, rows, **settings)
    assert sentence in error.value.message
    assert error.value.get_http_status_code() == 400


def test_all_rows_are_checked_before_the_first_is_answered(model, monkeypatch):
    monkeypatch.setattr(Writer, "write", lambda *_: pytest.fail("answered"))
    with pytest.raises(MlflowException, match="Row 2"):
        ask(model, [{"prompt": "аб"}, {"prompt": "x"}])
