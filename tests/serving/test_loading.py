"""bukva.load: a trained model for other programs."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import bukva
from bukva.base.errors import BukvaError
from bukva.config.load import read_params
from bukva.generation.samples import answer
from bukva.models.folder import CONFIG, save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.serving.writer import Writer
from bukva.tokenizers.char import CharTokenizer

T = 11
TOKENIZER = CharTokenizer(sorted("\n !,абвг"))
SHAPE = GPTConfig(len(TOKENIZER), 2, 2, 20, T, 0.0)


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


def test_importing_bukva_imports_nothing_else(tmp_path):
    program = "import sys; before = set(sys.modules); import bukva; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(Path(bukva.__file__).parents[1])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = run.stdout.split()
    assert "bukva" in imported
    assert not [name for name in imported if name.startswith("bukva.") or name in ("torch", "numpy", "mlflow")]


def test_it_writes_what_stage_sample_writes_for_the_first_prompt(folder, gpt):
    params = read_params().sample.model_copy(update={"n_chars": 37, "seed": 3, "top_k": 5, "top_p": 0.9})
    [(_, given)] = answer({"GPT": folder}, ["аб"], params, gpt.machine)
    wanted = {one.temperature: one.written for one in given if one.state == "trained"}
    assert len(set(wanted.values())) > 1
    for temperature, written in wanted.items():
        assert gpt.generate("аб", 37, temperature=temperature, top_k=5, top_p=0.9, seed=3) == written


def test_the_defaults_of_generate_are_those_of_params_yaml():
    parameters = inspect.signature(Writer.generate).parameters
    defaults = {name: each.default for name, each in parameters.items() if name not in ("self", "prompt")}
    assert defaults == read_params().sample.model_dump(exclude={"prompts"})


def test_unknown_characters_can_be_dropped_or_replaced(gpt):
    assert gpt.bits("аxб вг", unknown="drop") == gpt.bits("аб вг")
    assert gpt.generate("аxб", 7, unknown="replace") == gpt.generate("а б", 7)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda gpt: gpt.generate(""), "prompt: '' is too short; use a longer one."),
        (lambda gpt: gpt.generate("а", temperature=-1.0), "temperature: -1.0 is out of range"),
        (lambda gpt: gpt.bits("а"), "text: 'а' is too short; use a longer one."),
        (lambda gpt: gpt.bits("аéб"), "text: not in the vocabulary of 8 characters: 'é'.*; use another text, or"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(gpt, ask, sentence):
    with pytest.raises(BukvaError, match=sentence):
        ask(gpt)


def test_what_is_no_trained_model_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(BukvaError, match=r"nothing: no such folder; use the folder of a trained model, such as data/"):
        bukva.load(tmp_path / "nothing")
    with pytest.raises(BukvaError, match=rf"not a trained model, because {CONFIG} is missing; use the folder of a"):
        bukva.load(str(tmp_path))
