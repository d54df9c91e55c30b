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
BIGRAM = BigramConfig(vocab_size=5, block_size=8)
PLAIN = GPTConfig(vocab_size=5, n_layer=1, n_head=1, n_embd=8, block_size=7, dropout=0.0)
MODERN = {"positions": "rotary", "norm": "rmsnorm", "activation": "relu2", "qk_norm": True, "bias": True}
COUNTING = dataclasses.replace(PLAIN, ngrams="input", ngram_orders=(3, 2))
TRAIN = np.array([0, 1, 2, 3, 4, 0, 1, 3, 2, 0, 1], np.uint8)  # what COUNTING counts
X = torch.tensor([[0, 1, 4, 2, 0]])


def saved(folder, config, tokenizer=TOKENIZER):
    """Save a model with two sets of weights, and return the models that have them."""
    models = {"best": build(config).eval(), "initial": build(config).eval()}
    for model in models.values():
        if model.ngrams:
            torch.nn.init.normal_(model.experts.weights.weight)
            model.ngrams.count(TRAIN)
    weights = {name: model.state_dict() for name, model in models.items()}
    save_model(folder, config, tokenizer, weights, counted=TRAIN if models["best"].ngrams else None)
    return models


@pytest.mark.parametrize(
    "config",
    [BIGRAM, PLAIN, dataclasses.replace(PLAIN, **MODERN), COUNTING, dataclasses.replace(PLAIN, tie_weights=True)],
    ids=["bigram", "plain", "modern", "counting", "tied"],
)
def test_a_saved_model_is_loaded_whole(tmp_path, config):
    models = saved(tmp_path / "m", config)
    for name in ("best", "initial"):
        model, tokenizer = load_model(tmp_path / "m", name)
        assert not model.training
        assert torch.equal(model(X), models[name](X))
        assert (tokenizer.chars, model.config) == (TOKENIZER.chars, config)
    if isinstance(config, GPTConfig) and config.tie_weights:
        model.wte.weight.data[3] = 0
        assert (model(X)[..., 3] == 0).all()


def test_the_folder_holds_the_documented_files_with_the_same_bytes_for_the_same_weights(tmp_path):
    folder, weights = tmp_path / "m", {name: model.state_dict() for name, model in saved(tmp_path / "m", PLAIN).items()}
    contents = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert sorted(contents) == [
        "best.safetensors", "config.json", "initial.safetensors", "numerics.json", "vocab.json"
    ]  # fmt: skip
    save_model(folder, PLAIN, TOKENIZER, weights)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == contents
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("model") == "gpt"
    assert config.pop("vocab_sha256") == sha256(folder / "vocab.json")
    assert config == json.loads(json.dumps(dataclasses.asdict(PLAIN)))


# ---- what is not a model


def edited(folder, **values):
    """Change keys of config.json; a value of None removes the key."""
    file = folder / "config.json"
    changed = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in changed.items() if value is not None}))


def disguised(folder, **values):
    """Change keys of config.json, and make the digest in the weights fit, as an attacker can."""
    edited(folder, **values)
    file = folder / "best.safetensors"
    save_file(load_file(file), file, {"config_sha256": sha256(folder / "config.json")})


def pickled(folder):
    np.save(folder / "train.npy", np.array([{}], object))
    disguised(folder, train_sha256=sha256(folder / "train.npy"))


def vocabulary(chars):
    return lambda folder: (folder / "vocab.json").write_text(json.dumps({"chars": list(chars)}))


def weights(change):
    """Change the content of the best weights by a function."""
    return lambda folder: (folder / "best.safetensors").write_bytes(change((folder / "best.safetensors").read_bytes()))


def config(content):
    return lambda folder: (folder / "config.json").write_bytes(content)


def missing(name):
    return lambda folder: (folder / name).unlink()


NO_CONFIG = r"Cannot load the model's config from .*config.json: .*"
NO_WEIGHTS = r"Cannot load the weights from .*best.safetensors: "
NO_TRAIN = r"Cannot load the training split from .*train.npy: .*"
NO_VOCABULARY = "vocab.json is not the vocabulary that the model was trained with"
DAMAGES = [
    (vocabulary("абвгде"), NO_VOCABULARY),
    (vocabulary("абвгж"), NO_VOCABULARY),
    (missing("vocab.json"), "vocab.json: this file is not a vocabulary"),
    *((config(content), NO_CONFIG) for content in (b"", b"null", b"\xff\xfe{}")),
    (lambda folder: edited(folder, vocab_sha256=None), NO_CONFIG + "vocab_sha256"),
    (lambda folder: edited(folder, window=3), NO_CONFIG + "window"),
    (lambda folder: edited(folder, model="lstm"), NO_CONFIG + "lstm"),
    (lambda folder: edited(folder, n_head=2), NO_WEIGHTS + "the weights were trained with a different config.json"),
    # terabytes, which are not allocated
    (lambda folder: disguised(folder, n_embd=2**18), NO_WEIGHTS + "Error.* size mismatch for wte.weight"),
    (lambda folder: disguised(folder, n_layer=2), NO_WEIGHTS + r"Error.* Missing key\(s\)"),
    (lambda folder: disguised(folder, positions="rotary"), NO_WEIGHTS + r'Error.* Unexpected key\(s\).*"wpe.weight"'),
    (lambda folder: disguised(folder, activation=["gelu"]), NO_WEIGHTS + "unhashable"),
    (weights(lambda content: content[:100]), NO_WEIGHTS),
    (weights(lambda content: struct.pack("<Q", 2**64 - 1) + content[8:]), NO_WEIGHTS),
    (weights(lambda content: content.replace(b'"F32"', b'"F99"', 1)), NO_WEIGHTS),
    (weights(lambda content: b"\x80\x04N." + content), NO_WEIGHTS),  # a pickle
    (missing("best.safetensors"), NO_WEIGHTS),
    (lambda folder: np.save(folder / "train.npy", TRAIN[::-1]), NO_TRAIN + "the SHA-256 of the file differs"),
    (missing("train.npy"), NO_TRAIN + "No such file"),
    (pickled, NO_TRAIN + "Python objects"),
]


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    saved(folder := tmp_path_factory.mktemp("intact") / "m", COUNTING)
    return folder


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_folder_is_an_error_of_one_sentence_and_undamaged_weights_still_load(intact, tmp_path, damage, words):
    folder = shutil.copytree(intact, tmp_path / "m")
    damage(folder)
    with pytest.raises(BukvaError, match=rf"^[^\n]*{words}[^\n]*[;.] [Rr]erun [^\n]*\.$"):
        load_model(folder)
    if words == NO_WEIGHTS:
        load_model(folder, "initial")


def test_models_are_loaded_by_name_with_the_tokenizer_that_they_share(tmp_path):
    configs = {"bigram": BIGRAM, "gpt": PLAIN}
    folders = {name: tmp_path / name for name in configs}
    for name, config in configs.items():
        saved(folders[name], config)
    models, tokenizer = load_models(folders)
    assert {name: model.config for name, model in models.items()} == configs
    assert not any(model.training for model in models.values())
    assert tokenizer.chars == TOKENIZER.chars
    saved(folders["gpt"], PLAIN, CharTokenizer(list("абвгж")))
    with pytest.raises(BukvaError, match=r"gpt and .*bigram have different vocabularies. Rerun the training stage.$"):
        load_models(folders)
