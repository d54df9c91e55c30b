"""A writer has the text and the bits of a model as generation and scoring do; bukva.load and MLflow use it."""

import inspect
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import far_from_zero

import bukva
from bukva.backends.device import Machine
from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.core.schema import MOST_CHARS
from bukva.evaluation.samples import answer
from bukva.models.folder import CONFIG, save_model
from bukva.models.gpt import GPTConfig
from bukva.models.registry import build
from bukva.scoring.window_rule import nats_of, stride_of
from bukva.serving.writer import Writer
from bukva.text.ids import bits
from bukva.text.tokenizers import BPETokenizer, ByteTokenizer, CharTokenizer
from tests.support.imports import SHIPPED

with warnings.catch_warnings(action="ignore"):  # of mlflow, when it is imported
    from mlflow.exceptions import MlflowException

    from bukva.serving.pyfunc import TextModel

TEXT = "аб вг, аб!\n" * 3  # longer than two windows
T = 11
TOKENIZERS = {"char": CharTokenizer(sorted("\n !,абвг")), "bpe": BPETokenizer.train([TEXT * 20], 263)}
SETTINGS = {"n_chars": 13, "temperature": 0.9, "top_k": 0, "top_p": 1.0, "seed": 3}
pytestmark = pytest.mark.filterwarnings("ignore")


def sharp(tokenizer, **shape):
    """A writer whose model is far from equally likely characters."""
    model = far_from_zero(build(GPTConfig(len(tokenizer), 2, 2, 20, T, 0.0, **shape)))
    if model.ngrams:
        model.ngrams.count(tokenizer.encode(TEXT * 20))
    return Writer(model, tokenizer, Machine(torch.device("cpu"), torch.float32))


@pytest.fixture(params=["char", "bpe"], scope="module")
def folder(request, tmp_path_factory):
    made, path = sharp(TOKENIZERS[request.param]), tmp_path_factory.mktemp("models") / "gpt"
    weights = made.model.state_dict()
    save_model(path, made.model.config, made.tokenizer, {"best": weights, "initial": weights}, {})
    return path


@pytest.fixture(scope="module")
def writer(folder):
    return bukva.load(folder)


def how(**changes):
    return read_params(SHIPPED).sample.model_copy(update={"n_chars": 37, "temperature": 0.9, "seed": 3} | changes)


def test_it_writes_what_stage_sample_writes_for_the_first_prompt_in_pieces(folder, writer):
    given = answer({"GPT": folder}, ["аб"], how(top_k=5, top_p=0.9), writer.machine)
    wanted = {one["temperature"]: one["written"] for one in given if one["state"] == "trained"}
    assert len(set(wanted.values())) > 1
    for temperature, written in wanted.items():
        pieces = [piece.text for piece in writer.write("аб", how(temperature=temperature, top_k=5, top_p=0.9))]
        assert all(pieces)
        assert "".join(pieces) == written
        assert writer.generate("аб", 37, temperature=temperature, top_k=5, top_p=0.9, seed=3) == written


def test_bits_are_those_of_the_window_rule_and_the_first_piece_has_none(writer):
    first, *others = writer.score(TEXT)
    assert first.bits is None
    wanted = bits(1) * nats_of(writer.model, writer.tokenizer.encode(TEXT), T, stride_of(T))
    np.testing.assert_allclose([piece.bits for piece in others], wanted, rtol=1e-6)
    assert "".join([first.text, *(piece.text for piece in others)]) == TEXT


def test_a_character_of_several_bytes_is_written_whole():
    writer = sharp(ByteTokenizer())
    writer.model.lm_head = torch.nn.Linear(20, 256)
    writer.model.lm_head.weight.data.zero_()
    bias = torch.full((256,), -50.0)
    bias[list("д".encode())] = 0.0  # two bytes, in any order
    writer.model.lm_head.bias.data = bias
    pieces = list(writer.write("а", how(n_chars=40, temperature=1.0)))
    whole = [piece for piece in pieces if piece.text == "д"]
    assert whole
    assert [round(piece.bits, 3) for piece in whole] == [2.0] * len(whole)  # one bit a byte
    assert "".join(piece.text for piece in pieces).replace("\ufffd", "д").strip("д") == ""


def test_the_likeliest_pieces_are_those_of_the_model_after_the_last_window(writer):
    ids = torch.from_numpy(writer.tokenizer.encode(TEXT).astype(np.int64))
    start = next(start for start in range(0, len(ids), stride_of(T)) if len(ids) - start <= T)
    with torch.no_grad():
        wanted = writer.model(ids[None, start:])[0, -1].softmax(-1).sort(descending=True)
    found = writer.likeliest(TEXT, 3)
    assert [piece for piece, _ in found] == [writer.tokenizer.pieces[i] for i in wanted.indices[:3]]
    np.testing.assert_allclose([p for _, p in found], wanted.values[:3], rtol=1e-5)
    assert len(writer.likeliest(TEXT, 1000)) == len(writer.tokenizer)


def test_a_model_with_counts_predicts_with_them_or_without_them():
    writer = sharp(TOKENIZERS["char"], ngrams="logits", ngram_orders=(3,))
    for each, model in ((writer, writer.model), (writer.without_ngrams(), writer.model.without_ngrams())):
        wanted = nats_of(model, writer.tokenizer.encode(TEXT), T, stride_of(T)) * bits(1)
        np.testing.assert_allclose([piece.bits for piece in each.score(TEXT)[1:]], wanted, rtol=1e-6)
    assert writer.likeliest(TEXT, 3) != writer.without_ngrams().likeliest(TEXT, 3)


def test_what_a_model_cannot_read_is_left_out():
    writer = sharp(TOKENIZERS["char"])
    assert writer.readable("aбéв") == "бв"
    assert writer.readable("é") == "\n" == writer.readable("")
    without = sharp(CharTokenizer(["а", "б"]))
    assert without.readable("") == "а"
    assert [(piece.text, piece.bits) for piece in without.score("а")] == [("а", None)]


@pytest.fixture(scope="module")
def served(folder):
    """A function of rows and settings that differ: the answer of the served model."""
    model = TextModel()
    model.load_context(SimpleNamespace(artifacts={"model": str(folder)}))

    def answers(rows, **settings):
        given = pd.DataFrame(rows)
        known = [name for name in given if name in ("prompt", "text")]  # MLflow drops all other columns
        return model.predict(None, given[known] if known else pd.DataFrame(), SETTINGS | settings)

    return answers


def test_importing_bukva_imports_nothing_else(tmp_path):
    program = "import sys; before = set(sys.modules); import bukva; print(*sorted(set(sys.modules) - before))"
    environment = {"PYTHONPATH": str(Path(bukva.__file__).parents[1])}
    imported = subprocess.check_output(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, text=True
    ).split()
    assert "bukva" in imported
    assert "load" in dir(bukva)
    assert not [name for name in imported if name.startswith("bukva.") or name in ("torch", "numpy", "mlflow")]


def test_the_defaults_of_generate_are_those_of_params_yaml():
    parameters = inspect.signature(Writer.generate).parameters
    defaults = {name: each.default for name, each in parameters.items() if name not in ("self", "prompt")}
    assert defaults == read_params(SHIPPED).sample.model_dump(exclude={"prompts"})


def test_a_served_model_answers_as_a_loaded_one(served, writer):
    answers = served([{"prompt": "аб"}, {"text": TEXT}, {"prompt": "г, ", "text": "вг, аб!"}])
    assert list(answers["continuation"])[::2] == [writer.generate(prompt, **SETTINGS) for prompt in ("аб", "г, ")]
    assert answers.loc[0, "bits_per_char"] is None  # what is not asked for; NaN is not JSON
    assert answers.loc[1, "continuation"] is None
    first, *others = writer.score(TEXT)
    mean = sum(piece.bits for piece in others) / len(TEXT.removeprefix(first.text))
    assert answers.loc[1, "bits_per_char"] == writer.bits(TEXT) == pytest.approx(mean)
    drawn, greedy = (
        {served([{"prompt": "аб"}], temperature=temperature, seed=seed).loc[0, "continuation"] for seed in (1, 2)}
        for temperature in (1.5, 0.0)
    )
    assert (len(drawn), len(greedy)) == (2, 1)


NEITHER = "The request has neither prompt nor text; each row needs at least one of them."


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        ([{"promt": "аб"}], {}, NEITHER),
        ([{"prompt": "аб"}, {}], {}, "Row 2, neither prompt nor text is a string; set at least one of them."),
        ([{"prompt": "аб"}, {"text": "аx"}], {}, "; use another text."),
        ([{"prompt": "а"}], {"temperature": -1.0},
         "temperature: -1.0 (float) is invalid. The value should be greater than or"),
        ([{"prompt": "а"}], {"n_chars": MOST_CHARS + 1}, f"The value should be less than or equal to {MOST_CHARS}."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", ["char"], indirect=True)  # bpe can read every character
def test_a_request_that_makes_no_sense_is_refused(served, rows, settings, sentence):
    with pytest.raises(MlflowException) as error:
        served(rows, **settings)
    assert sentence in error.value.message
    assert error.value.get_http_status_code() == 400


def test_a_folder_without_a_model_is_refused_with_a_sentence(tmp_path):
    for folder in (tmp_path / "nothing", str(tmp_path)):
        with pytest.raises(BukvaError, match=rf"{folder} does not contain a trained model \({CONFIG} is missing\)"):
            bukva.load(folder)
