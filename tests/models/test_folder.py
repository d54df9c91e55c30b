"""Saving and loading models. A folder whose files do not belong together is an error that names the file."""

import dataclasses
import json
import shutil
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bukva.core.errors import BukvaError
from bukva.core.files import sha256
from bukva.models.bigram import BigramConfig
from bukva.models.folder import load_model, load_models, save_model
from bukva.models.gpt import GPTConfig
from bukva.models.registry import build
from bukva.text.tokenizers import CharTokenizer

TOKENIZER = CharTokenizer(list("абвгд"))
GPT_SHAPE = GPTConfig(vocab_size=5, n_layer=1, n_head=1, n_embd=8, block_size=7, dropout=0.0)
MODERN = {"positions": "rotary", "norm": "rmsnorm", "activation": "relu2", "qk_norm": True, "bias": True}
BIGRAM_SHAPE = BigramConfig(vocab_size=5, block_size=8)
X = torch.tensor([[0, 1, 4, 2, 0]])


def clones(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "gpt"
    weights = {name: clones(build(GPT_SHAPE)) for name in ("best", "initial")}
    save_model(folder, GPT_SHAPE, TOKENIZER, weights)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """Copy of a model's folder that the test may damage."""
    return shutil.copytree(saved, tmp_path / "gpt")


def edit(file, **values):
    """Change keys of a JSON file; a value of None removes the key."""
    changed = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in changed.items() if value is not None}))


def rejected(folder, words):
    """Assert that loading the folder raises an error of one line, with the advice to rerun the stage."""
    with pytest.raises(BukvaError, match=rf"^[^\n]*{words}[^\n]*[;.] [Rr]erun [^\n]*\.$"):
        load_model(folder)


@pytest.mark.parametrize(
    "config", [BIGRAM_SHAPE, GPT_SHAPE, dataclasses.replace(GPT_SHAPE, **MODERN)], ids=["bigram", "plain", "modern"]
)
def test_a_saved_model_is_loaded_whole(tmp_path, config):
    models = {"best": build(config), "initial": build(config)}
    save_model(tmp_path / "m", config, TOKENIZER, {key: clones(model) for key, model in models.items()})
    for name in ("best", "initial"):
        model, tokenizer = load_model(tmp_path / "m", name)
        assert not model.training
        assert torch.equal(model(X), models[name].eval()(X))
        assert (tokenizer.chars, model.config) == (TOKENIZER.chars, config)


def test_tied_weights_are_saved_as_they_share_memory_and_loaded_tied(tmp_path):
    config = dataclasses.replace(GPT_SHAPE, tie_weights=True)
    tied = build(config)
    save_model(tmp_path / "m", config, TOKENIZER, {"best": tied.state_dict()})
    model, _ = load_model(tmp_path / "m")
    assert torch.equal(model(X), tied.eval()(X))
    model.wte.weight.data[3] = 0
    assert (model(X)[..., 3] == 0).all()


def test_the_folder_holds_the_documented_files_and_no_pickle_with_the_same_bytes_for_the_same_weights(folder):
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert sorted(contents) == [
        "best.safetensors", "config.json", "initial.safetensors", "numerics.json", "vocab.json"
    ]  # fmt: skip
    weights = {name: load_file(folder / f"{name}.safetensors") for name in ("initial", "best")}
    save_model(folder, GPT_SHAPE, TOKENIZER, weights)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == contents
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("model") == "gpt"
    assert config.pop("vocab_sha256") == sha256(folder / "vocab.json")
    assert config == json.loads(json.dumps(dataclasses.asdict(GPT_SHAPE)))


def test_another_vocabulary_is_an_error(folder):
    for chars in ("абвгде", "абвгж"):
        (folder / "vocab.json").write_text(json.dumps({"chars": list(chars)}))
        rejected(folder, r"vocab.json is not the vocabulary that the model was trained with")
    (folder / "vocab.json").unlink()
    rejected(folder, r"vocab.json: this file is not a vocabulary")


NO_SHAPE = r"Cannot load the model's config from .*config.json: .*"
NO_FIT = r"Cannot load the weights from .*best.safetensors: "
ANOTHER = NO_FIT + "the weights were trained with a different config.json"
EDITED = [
    ({"vocab_sha256": None}, NO_SHAPE + "vocab_sha256"),
    ({"window": 3}, NO_SHAPE + "window"),
    ({"model": "lstm"}, NO_SHAPE + "lstm"),
    ({"n_head": 2}, ANOTHER),
]
# values that an attacker may write, with correct digests
STRANGE = [
    ({"n_embd": 2**18}, "Error.* size mismatch for wte.weight"),  # terabytes, which are not allocated
    ({"n_layer": 2}, r"Error.* Missing key\(s\)"),
    ({"positions": "rotary"}, r'Error.* Unexpected key\(s\) in state_dict: "wpe.weight"'),
    ({"activation": ["gelu"]}, "unhashable"),
]


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe{}"])
def test_a_file_that_is_not_a_shape_is_an_error(folder, content):
    (folder / "config.json").write_bytes(content)
    rejected(folder, NO_SHAPE)


@pytest.mark.parametrize(("values", "words"), EDITED, ids=str)
def test_an_edited_config_is_an_error_that_names_what_does_not_fit(folder, values, words):
    edit(folder / "config.json", **values)
    rejected(folder, words)


@pytest.mark.parametrize(("values", "words"), STRANGE, ids=str)
def test_a_shape_that_is_not_that_of_the_tensors_is_an_error(folder, values, words):
    edit(folder / "config.json", **values)
    file = folder / "best.safetensors"
    save_file(load_file(file), file, {"config_sha256": sha256(folder / "config.json")})
    rejected(folder, NO_FIT + words)


DAMAGES = {
    "torn": lambda content: content[:100],
    "header of 2^64 - 1": lambda content: struct.pack("<Q", 2**64 - 1) + content[8:],
    "unknown type": lambda content: content.replace(b'"F32"', b'"F99"', 1),
    "pickle": lambda content: b"\x80\x04N." + content,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_an_error_that_names_it_and_the_other_weights_still_load(folder, damage):
    file = folder / "best.safetensors"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    rejected(folder, NO_FIT)
    file.unlink()
    rejected(folder, NO_FIT)
    load_model(folder, "initial")


COUNTING = dataclasses.replace(GPT_SHAPE, ngrams="input", ngram_orders=(3, 2))
UNCOUNTED = r"Cannot load the training split from .*train.npy: "
TRAIN = np.array([0, 1, 2, 3, 4, 0, 1, 3, 2, 0, 1], np.uint8)


@pytest.fixture
def counting(tmp_path):
    """Folder of a model with n-grams, and the models that were saved in it."""
    models = {"best": build(COUNTING), "initial": build(COUNTING)}
    for model in models.values():
        torch.nn.init.normal_(model.experts.weights.weight)
        model.ngrams.count(TRAIN)
        model.eval()
    weights = {name: clones(model) for name, model in models.items()}
    save_model(tmp_path / "m", COUNTING, TOKENIZER, weights, counted=TRAIN)
    return tmp_path / "m", models


def test_a_model_that_counts_counts_again_when_it_is_loaded(counting):
    folder, models = counting
    for name in ("best", "initial"):
        model, _ = load_model(folder, name)
        assert (model.config, bool(model.ngrams)) == (COUNTING, True)
        assert torch.equal(model(X), models[name](X))


def test_a_pickle_in_a_folder_that_fits_is_not_read(tmp_path):
    weights = {"best": clones(build(COUNTING))}
    save_model(tmp_path / "m", COUNTING, TOKENIZER, weights, counted=np.array([{}], object))
    rejected(tmp_path / "m", UNCOUNTED + ".*Python objects")


def test_another_text_than_the_counted_one_is_an_error(counting):
    folder, _ = counting
    assert json.loads((folder / "config.json").read_text())["train_sha256"] == sha256(folder / "train.npy")
    np.save(folder / "train.npy", TRAIN[::-1])
    rejected(folder, UNCOUNTED + "the SHA-256 of the file differs")
    (folder / "train.npy").unlink()
    rejected(folder, UNCOUNTED + ".*No such file")


def test_models_are_loaded_by_name_with_the_tokenizer_that_they_share(tmp_path):
    shapes = {"bigram": BIGRAM_SHAPE, "gpt": GPT_SHAPE}
    folders = {name: tmp_path / name for name in shapes}
    for name, config in shapes.items():
        save_model(folders[name], config, TOKENIZER, {"best": clones(build(config))})
    models, tokenizer = load_models(folders)
    assert {name: model.config for name, model in models.items()} == shapes
    assert not any(model.training for model in models.values())
    assert tokenizer.chars == TOKENIZER.chars
    save_model(folders["gpt"], GPT_SHAPE, CharTokenizer(list("абвгж")), {"best": clones(build(GPT_SHAPE))})
    with pytest.raises(BukvaError, match=r"gpt and .*bigram have different vocabularies. Rerun the training stage.$"):
        load_models(folders)
