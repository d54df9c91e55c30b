"""A trained model for other programs: bukva.load, and the model that MLflow serves."""

import inspect
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from imports import SHIPPED
from serving.test_writer import FP32, TEXT, TOKENIZERS, T

import bukva
from bukva.core.errors import BukvaError
from bukva.core.params import read_params
from bukva.core.schema import MOST_CHARS
from bukva.evaluation.samples import answer
from bukva.models.bigram import Bigram, BigramConfig
from bukva.models.folder import CONFIG, save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.models.window_rule import nats_of, stride_of
from bukva.serving.writer import Writer
from bukva.text.ids import bits
from bukva.text.tokenizers.char import CharTokenizer

with warnings.catch_warnings(action="ignore"):  # of mlflow, when it is imported
    from mlflow.exceptions import MlflowException

    from bukva.serving.pyfunc import TextModel

TOKENIZER = TOKENIZERS["char"]
SHAPE = GPTConfig(len(TOKENIZER), 2, 2, 20, T, 0.0)
SETTINGS = {"n_chars": 13, "temperature": 0.9, "top_k": 0, "top_p": 1.0, "seed": 3}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(5)
    weights = {key: tensor * 6 for key, tensor in GPT(SHAPE).state_dict().items()}
    path = tmp_path_factory.mktemp("models") / "gpt"
    save_model(path, SHAPE, TOKENIZER, {"best": weights, "initial": weights}, {})
    return path


@pytest.fixture(scope="module")
def gpt(folder: Path) -> Writer:
    return bukva.load(folder)


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
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(Path(bukva.__file__).parents[1])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = run.stdout.split()
    assert "bukva" in imported
    assert "load" in dir(bukva)
    assert not [name for name in imported if name.startswith("bukva.") or name in ("torch", "numpy", "mlflow")]


def test_it_writes_what_stage_sample_writes_for_the_first_prompt(folder, gpt):
    params = read_params(SHIPPED).sample.model_copy(update={"n_chars": 37, "seed": 3, "top_k": 5, "top_p": 0.9})
    given = answer({"GPT": folder}, ["аб"], params, gpt.machine)
    wanted = {one["temperature"]: one["written"] for one in given if one["state"] == "trained"}
    assert len(set(wanted.values())) > 1
    for temperature, written in wanted.items():
        assert gpt.generate("аб", 37, temperature=temperature, top_k=5, top_p=0.9, seed=3) == written


def test_the_defaults_of_generate_are_those_of_params_yaml():
    parameters = inspect.signature(Writer.generate).parameters
    defaults = {name: each.default for name, each in parameters.items() if name not in ("self", "prompt")}
    assert defaults == read_params(SHIPPED).sample.model_dump(exclude={"prompts"})


def test_a_served_model_answers_as_a_loaded_one(served, gpt):
    answers = served([{"prompt": "аб"}, {"text": TEXT}, {"prompt": "г, ", "text": "вг"}])
    assert list(answers["continuation"])[::2] == [gpt.generate(prompt, **SETTINGS) for prompt in ("аб", "г, ")]
    assert answers.loc[0, "bits_per_char"] is None  # what is not asked for; NaN is not JSON
    assert answers.loc[1, "continuation"] is None
    nats = nats_of(gpt.model, TOKENIZER.encode(TEXT), T, stride_of(T))
    assert answers.loc[1, "bits_per_char"] == gpt.bits(TEXT) == pytest.approx(bits(float(nats.mean())), rel=1e-6)
    drawn = {served([{"prompt": "аб"}], temperature=1.5, seed=seed).loc[0, "continuation"] for seed in (1, 2)}
    greedy = {served([{"prompt": "аб"}], temperature=0.0, seed=seed).loc[0, "continuation"] for seed in (1, 2)}
    assert (len(drawn), len(greedy)) == (2, 1)


def small_writer(chars):
    torch.manual_seed(5)
    return Writer(Bigram(BigramConfig(len(chars), 8)).eval(), CharTokenizer(chars), FP32)


def test_a_text_is_read_as_the_vocabulary_of_the_model_allows():
    writer = small_writer("\nйм")
    assert writer.generate("ми\u0306", 9) == writer.generate("мй", 9)  # decomposed letters are composed
    assert writer.bits("ми\u0306") == writer.bits("мй")


@pytest.mark.parametrize(
    ("rows", "settings", "sentence"),
    [
        ([{"promt": "аб"}], {}, "The request has neither prompt nor text; each row needs at least one of them."),
        ([], {}, "The request has neither prompt nor text; each row needs at least one of them."),
        (
            [{"prompt": "аб"}, {"promt": "аб"}],
            {},
            "Row 2, neither prompt nor text is a string; set at least one of them.",
        ),
        ([{"prompt": "аб"}, {"prompt": ""}], {}, "Row 2, prompt: '' is too short; use a longer one."),
        ([{"prompt": "аб"}, {"text": "аx"}], {}, "; use another text."),
        (
            [{"prompt": "а"}],
            {"temperature": -1.0},
            "temperature: -1.0 (float) is invalid. The value should be greater than or",
        ),
        ([{"prompt": "а"}], {"n_chars": MOST_CHARS + 1}, f"The value should be less than or equal to {MOST_CHARS}."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(served, rows, settings, sentence):
    with pytest.raises(MlflowException) as error:
        served(rows, **settings)
    assert sentence in error.value.message
    assert error.value.get_http_status_code() == 400


def test_a_folder_without_a_model_is_refused_with_a_sentence(tmp_path):
    for folder in (tmp_path / "nothing", str(tmp_path)):
        with pytest.raises(BukvaError, match=rf"{folder} does not contain a trained model \({CONFIG} is missing\)"):
            bukva.load(folder)
