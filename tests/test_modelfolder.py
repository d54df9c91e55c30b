"""A model folder needs nothing else, and refuses what does not fit."""

import json

import pytest
import torch

from bukva.errors import BukvaError
from bukva.modelfolder import build, load_model, save_model
from bukva.models.bigram import BigramConfig
from bukva.models.gpt import GPTConfig
from bukva.text.tokenizers import CharTokenizer

TOKENIZER = CharTokenizer(list("абвгд"))
GPT_SHAPE = GPTConfig(vocab_size=5, n_layer=1, n_head=1, n_embd=8, block_size=7, dropout=0.0)


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(1)
    best, initial = build(GPT_SHAPE), build(GPT_SHAPE)
    weights = {"best": best.state_dict(), "initial": initial.state_dict()}
    save_model(tmp_path / "gpt", GPT_SHAPE, TOKENIZER, weights)
    return tmp_path / "gpt"


@pytest.mark.parametrize("config", [GPT_SHAPE, BigramConfig(vocab_size=5, block_size=8)])
@pytest.mark.parametrize("name", ["best", "initial"])
def test_what_was_saved_comes_back(tmp_path, config, name):
    models = {"best": build(config), "initial": build(config)}
    save_model(tmp_path / "m", config, TOKENIZER, {key: model.state_dict() for key, model in models.items()})
    model, tokenizer = load_model(tmp_path / "m", name)
    x = torch.tensor([[0, 4, 2]])
    assert torch.equal(model(x), models[name].eval()(x))
    assert not model.training
    assert (tokenizer.chars, model.config) == (TOKENIZER.chars, config)


def test_the_same_weights_give_the_same_bytes(tmp_path):
    state = build(GPT_SHAPE).state_dict()
    for name in ("a", "b"):
        save_model(tmp_path / name, GPT_SHAPE, TOKENIZER, {"best": state})
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert contents[0] == contents[1]


def test_a_vocabulary_of_another_size_is_refused_by_name(folder):
    (folder / "vocab.json").write_text(json.dumps({"chars": ["а"]}))
    with pytest.raises(BukvaError, match=r"vocab.json has 1 characters, config.json says 5"):
        load_model(folder)


def test_tensors_of_another_shape_are_refused_by_name(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"n_embd": 16}))
    with pytest.raises(BukvaError, match=r"best.safetensors: does not fit config.json.*wte.weight"):
        load_model(folder)


@pytest.mark.parametrize("text", ["", "[]", '{"model": "lstm"}', '{"model": "gpt", "vocab_size": 5}'])
def test_a_shape_that_is_none_is_refused_by_name(folder, text):
    (folder / "config.json").write_text(text)
    with pytest.raises(BukvaError, match=r"config.json: not the shape of a model"):
        load_model(folder)


def test_a_torn_file_is_refused_by_name(folder):
    file = folder / "best.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(BukvaError, match=r"best.safetensors"):
        load_model(folder)
