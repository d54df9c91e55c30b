"""A model folder is complete, and loading one whose files do not fit is an error that names the file."""

import dataclasses
import json
import shutil
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from works import save_in_characters

from bukva.base.errors import BukvaError
from bukva.base.files import sha256
from bukva.corpus.splits.folder import load_splits
from bukva.models.bigram import BigramConfig
from bukva.models.folder import load_model, load_models, load_weights, save_model
from bukva.models.gpt import GPTConfig
from bukva.models.registry import build, count_parameters
from bukva.tokenizers.char import CharTokenizer

TOKENIZER = CharTokenizer(list("абвгд"))
GPT_SHAPE = GPTConfig(vocab_size=5, n_layer=1, n_head=1, n_embd=8, block_size=7, dropout=0.0)
BIGRAM_SHAPE = BigramConfig(vocab_size=5, block_size=8)
OTHER_SHAPES = [
    {"positions": "rotary", "norm": "rmsnorm", "activation": "relu2", "qk_norm": True, "bias": True},
    {"positions": "none", "n_layer": 2, "n_head": 2, "dropout": 0.1},
    {"tie_weights": True},
]
SHAPES = [BIGRAM_SHAPE, GPT_SHAPE, *(dataclasses.replace(GPT_SHAPE, **options) for options in OTHER_SHAPES)]


def clones(model):
    """Copies of the weights, as training keeps them."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(1)
    best, initial = build(GPT_SHAPE), build(GPT_SHAPE)
    folder = tmp_path_factory.mktemp("saved") / "gpt"
    save_model(folder, GPT_SHAPE, TOKENIZER, {"best": clones(best), "initial": clones(initial)})
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A copy that the test may damage."""
    return shutil.copytree(saved, tmp_path / "gpt")


def edit(file, **values):
    """Change keys of a JSON file; None removes one."""
    changed = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in changed.items() if value is not None}))


# ---- saved and loaded


@pytest.mark.parametrize("config", SHAPES, ids=lambda config: type(config).__name__)
@pytest.mark.parametrize("name", ["best", "initial"])
def test_a_saved_model_is_loaded_whole(tmp_path, config, name):
    models = {"best": build(config), "initial": build(config)}
    save_model(tmp_path / "m", config, TOKENIZER, {key: clones(model) for key, model in models.items()})
    model, tokenizer = load_model(tmp_path / "m", name)
    x = torch.tensor([[0, 4, 2]])
    assert torch.equal(model(x), models[name].eval()(x))
    assert not model.training
    assert (tokenizer.chars, model.config) == (TOKENIZER.chars, config)


def test_tied_weights_are_loaded_tied(tmp_path):
    config = dataclasses.replace(GPT_SHAPE, tie_weights=True)
    save_model(tmp_path / "m", config, TOKENIZER, {"best": clones(build(config))})
    model, _ = load_model(tmp_path / "m")
    assert sum(parameter.numel() for parameter in model.parameters()) == count_parameters(config)
    model.wte.weight.data[3] = 0
    assert (model(torch.tensor([[0, 4]]))[..., 3] == 0).all()


def test_tied_weights_that_share_memory_are_saved(tmp_path):
    config = dataclasses.replace(GPT_SHAPE, tie_weights=True)
    model = build(config)
    save_model(tmp_path / "m", config, TOKENIZER, {"best": model.state_dict()})
    x = torch.tensor([[0, 4, 2]])
    assert torch.equal(load_model(tmp_path / "m")[0](x), model.eval()(x))


def test_the_same_weights_give_the_same_bytes(tmp_path):
    state = build(GPT_SHAPE).state_dict()
    for name in ("a", "b"):
        save_model(tmp_path / name, GPT_SHAPE, TOKENIZER, {"best": state})
    contents = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("a", "b")]
    assert contents[0] == contents[1]


def test_the_folder_holds_the_documented_files_and_no_pickle(folder):
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["best.safetensors", "config.json", "initial.safetensors", "numerics.json", "vocab.json"]
    config = json.loads((folder / "config.json").read_text())
    assert config.pop("model") == "gpt"
    assert len(config.pop("vocab_sha256")) == 64
    assert config == json.loads(json.dumps(dataclasses.asdict(GPT_SHAPE)))


# ---- the vocabulary


@pytest.mark.parametrize("chars", [["а"], list("абвгде"), []])
def test_a_vocabulary_of_another_size_is_an_error(folder, chars):
    (folder / "vocab.json").write_text(json.dumps({"chars": chars}))
    with pytest.raises(BukvaError, match=rf"vocab.json has {len(chars)} characters, but config.json has 5"):
        load_model(folder)


def test_a_vocabulary_of_other_characters_is_an_error(folder):
    (folder / "vocab.json").write_text(json.dumps({"chars": list("абвгж")}))
    with pytest.raises(BukvaError, match=r"vocab.json holds other characters than those the model was trained on"):
        load_model(folder)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"chars": 5}', '{"chars": ["б", "а"]}', '{"chars": [1, 2]}'])
def test_a_file_that_is_not_a_vocabulary_is_an_error(folder, text):
    (folder / "vocab.json").write_text(text)
    with pytest.raises(BukvaError, match=r"vocab.json: not a vocabulary"):
        load_model(folder)


def test_a_folder_without_a_vocabulary_is_an_error(folder):
    (folder / "vocab.json").unlink()
    with pytest.raises(BukvaError, match=r"vocab.json"):
        load_model(folder)


# ---- the shape


def invalid_shape(folder, words):
    with pytest.raises(BukvaError, match=rf"config.json: not the shape of a model \(.*{words}") as error:
        load_model(folder)
    assert str(error.value).endswith("; rerun the training stage.")


@pytest.mark.parametrize("text", ["", "[]", "5", "null", "{", '{"model": "gpt"', '{"model": "lstm"}', "\ufeff{}"])
def test_a_file_that_is_not_a_shape_is_an_error(folder, text):
    (folder / "config.json").write_text(text)
    invalid_shape(folder, "")


def test_a_config_that_is_not_text_is_an_error(folder):
    (folder / "config.json").write_bytes(b"\xff\xfe{}")
    invalid_shape(folder, "")


def test_a_folder_without_a_config_is_an_error(folder):
    (folder / "config.json").unlink()
    invalid_shape(folder, "No such file")


@pytest.mark.parametrize("field", ["vocab_size", "n_layer", "n_head", "n_embd", "block_size"])
@pytest.mark.parametrize("value", [1.5, 8.0, "33", True, -1, 0, [5], {}])
def test_an_invalid_size_is_an_error_that_names_the_field(folder, field, value):
    edit(folder / "config.json", **{field: value})
    invalid_shape(folder, f"{field} cannot be ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dropout", 1.5),
        ("dropout", "0.1"),
        ("dropout", True),
        ("dropout", float("nan")),
        ("bias", 0),
        ("tie_weights", "true"),
        ("positions", "sinus"),
        ("positions", ["learned"]),
        ("norm", True),
        ("activation", {}),
        ("n_layer", 1001),
        ("n_layer", 10**30),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_field(folder, field, value):
    edit(folder / "config.json", **{field: value})
    invalid_shape(folder, f"{field} cannot be ")


def test_heads_that_do_not_divide_the_channels_are_an_error(folder):
    edit(folder / "config.json", n_head=3)
    invalid_shape(folder, "n_head 3 does not divide n_embd 8")


@pytest.mark.parametrize("key", ["model", "vocab_sha256", "vocab_size", "n_layer", "n_head", "n_embd", "block_size"])
def test_a_missing_key_is_an_error_that_names_it(folder, key):
    edit(folder / "config.json", **{key: None})
    invalid_shape(folder, key)


def test_an_unknown_key_is_an_error_that_names_it(folder):
    edit(folder / "config.json", window=3)
    invalid_shape(folder, "window")


@pytest.mark.parametrize("kind", ["lstm", "GPT", ["gpt"], {}, 1])
def test_an_unknown_kind_of_model_is_an_error(folder, kind):
    edit(folder / "config.json", model=kind)
    invalid_shape(folder, "")


@pytest.mark.parametrize("digest", ["", "0" * 64, 5, ["a"]])
def test_a_digest_of_another_vocabulary_is_an_error(folder, digest):
    edit(folder / "config.json", vocab_sha256=digest)
    with pytest.raises(BukvaError, match=r"vocab.json holds other characters"):
        load_model(folder)


# ---- the tensors


def invalid_tensors(folder, words):
    with pytest.raises(BukvaError, match=rf"best.safetensors: {words}") as error:
        load_model(folder)
    assert str(error.value).endswith("; rerun the training stage.")


@pytest.mark.parametrize(
    ("values", "tensor"),
    [
        ({"n_embd": 16}, r"blocks.0.attention.proj.weight is float32 \(8, 8\), not float32 \(16, 16\)"),
        ({"n_embd": 2**18}, "blocks.0.attention.proj.weight is"),  # terabytes, of which none is allocated
        ({"block_size": 6}, r"wpe.weight is float32 \(7, 8\), not float32 \(6, 8\)"),
        ({"n_layer": 2}, r"blocks.1.attention.proj.weight is absent, not float32 \(8, 8\)"),
        ({"positions": "rotary"}, r"wpe.weight is float32 \(7, 8\), not absent"),
        ({"norm": "rmsnorm"}, r"blocks.0.ln_1.bias is float32 \(8,\), not absent"),
        ({"bias": True}, r"blocks.0.attention.proj.bias is absent, not float32 \(8,\)"),
        ({"model": "bigram", "n_layer": None, "n_head": None, "n_embd": None, "dropout": None}
         | dict.fromkeys(["positions", "norm", "activation", "qk_norm", "bias", "tie_weights", "proj_init", "ngrams",
                          "ngram_dropout", "network_loss", "ngram_orders"]),
         "blocks.0.attention"),
    ],
    ids=str,
)  # fmt: skip
def test_tensors_of_another_shape_are_an_error_that_names_the_first(folder, values, tensor):
    edit(folder / "config.json", **values)
    invalid_tensors(folder, f"does not fit config.json beside it: {tensor}")


@pytest.mark.parametrize("values", [{"n_embd": 2**40}, {"block_size": 2**62}, {"block_size": 10**30}], ids=str)
def test_a_shape_that_exceeds_any_memory_is_an_error(folder, values):
    edit(folder / "config.json", **values)
    with pytest.raises(BukvaError, match=r"config.json"):
        load_model(folder)


def test_untied_tensors_of_a_tied_config_are_an_error(folder):
    edit(folder / "config.json", tie_weights=True)
    with pytest.raises(BukvaError, match=r"best.safetensors: does not fit config.json beside it"):
        load_model(folder)


def rewrite(folder, change):
    file = folder / "best.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def test_a_missing_tensor_is_an_error_that_names_it(folder):
    rewrite(folder, lambda tensors: tensors.pop("ln_f.bias"))
    invalid_tensors(folder, r"does not fit config.json beside it: ln_f.bias is absent, not float32 \(8,\)")


def test_a_file_without_tensors_is_an_error(folder):
    rewrite(folder, lambda tensors: tensors.clear())
    invalid_tensors(folder, "does not fit config.json beside it: .* is absent, not")


def test_an_extra_tensor_is_an_error_that_names_it(folder):
    rewrite(folder, lambda tensors: tensors.update(extra=torch.zeros(2, 3)))
    invalid_tensors(folder, r"does not fit config.json beside it: extra is float32 \(2, 3\), not absent")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_a_tensor_of_another_type_is_an_error_that_names_it(folder, dtype):
    rewrite(folder, lambda tensors: tensors.update({"wte.weight": tensors["wte.weight"].to(dtype)}))
    name = str(dtype).removeprefix("torch.")
    invalid_tensors(folder, rf"does not fit config.json beside it: wte.weight is {name} \(5, 8\), not float32 \(5, 8\)")


def test_a_transposed_tensor_is_an_error_that_names_it(folder):
    rewrite(folder, lambda tensors: tensors.update({"wte.weight": tensors["wte.weight"].mT.contiguous()}))
    invalid_tensors(folder, r"does not fit config.json beside it: wte.weight is float32 \(8, 5\)")


DAMAGES = {
    "torn": lambda content: content[:100],
    "a byte short": lambda content: content[:-1],
    "a byte long": lambda content: content + b"\0",
    "empty": lambda content: content[:0],
    "zeros": lambda content: bytes(len(content)),
    "header is not an object": lambda content: content[:8] + b"[" + content[9:],
    "header of an exabyte": lambda content: struct.pack("<Q", 2**60) + content[8:],
    "header of 2^64 - 1": lambda content: struct.pack("<Q", 2**64 - 1) + content[8:],
    "unknown type": lambda content: content.replace(b'"F32"', b'"F99"', 1),
    "other shape": lambda content: content.replace(b'"shape":[8]', b'"shape":[9]', 1),
    "pickle": lambda content: b"\x80\x04N." + content,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_an_error_that_names_it(folder, damage):
    file = folder / "best.safetensors"
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    assert file.read_bytes() != whole
    invalid_tensors(folder, "not readable as tensors")


def test_a_missing_file_is_an_error_and_the_other_weights_still_load(folder):
    (folder / "best.safetensors").unlink()
    invalid_tensors(folder, "not readable as tensors")
    load_model(folder, "initial")


@pytest.mark.parametrize("values", [{"dropout": 0.5}, {"activation": "relu"}, {"n_head": 2}])
def test_an_edited_config_is_an_error_even_where_all_shapes_agree(folder, values):
    edit(folder / "config.json", **values)
    with pytest.raises(BukvaError, match=r"best.safetensors: was not trained with the config.json beside it"):
        load_model(folder)


# ---- a model that counts

COUNTING = dataclasses.replace(GPT_SHAPE, ngrams="input", ngram_orders=(3, 2))
TRAIN = np.array([0, 1, 2, 3, 4, 0, 1, 3, 2, 0, 1], np.uint8)
X = torch.tensor([[0, 1, 4, 2, 0]])


@pytest.fixture
def counting(tmp_path):
    """The folder of a model that counts, and the models that it was made from."""
    torch.manual_seed(1)
    models = {"best": build(COUNTING), "initial": build(COUNTING)}
    for model in models.values():
        torch.nn.init.normal_(model.experts.weights.weight)
        model.count(TRAIN)
        model.eval()
    weights = {name: clones(model) for name, model in models.items()}
    save_model(tmp_path / "m", COUNTING, TOKENIZER, weights, counted=TRAIN)
    return tmp_path / "m", models


def invalid_counts(folder, words):
    with pytest.raises(BukvaError, match=rf"^[^\n]*train.npy: {words}[^\n]*; rerun the training stage\.$"):
        load_model(folder)


@pytest.mark.parametrize("name", ["best", "initial"])
def test_a_model_that_counts_counts_again_when_it_is_loaded(counting, name):
    folder, models = counting
    model, _ = load_model(folder, name)
    assert (model.config, model.counts) == (COUNTING, True)
    assert torch.equal(model(X), models[name](X))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_counted_text_has_the_bytes_of_the_split(tmp_path, dtype):
    ids = TRAIN.astype(dtype)
    shares = {"train": np.array([[0, 11]]), "val": np.array([[11, 16]])}
    save_in_characters(tmp_path / "split", np.concatenate([ids, ids[:5]]), shares)
    train = load_splits(tmp_path / "split")["train"]
    save_model(tmp_path / "m", COUNTING, TOKENIZER, {"best": clones(build(COUNTING))}, counted=train)
    assert (tmp_path / "m/train.npy").read_bytes() == (tmp_path / "split/train.npy").read_bytes()
    assert json.loads((tmp_path / "m/config.json").read_text())["train_sha256"] == sha256(tmp_path / "m/train.npy")


def test_other_weights_are_loaded_into_a_model_and_its_counts_stay(counting):
    folder, models = counting
    model, _ = load_model(folder, "initial")
    memory = model.ngrams
    (folder / "train.npy").unlink()  # is not read again
    for name in ("best", "initial"):
        load_weights(model, folder, name)
        assert torch.equal(model(X), models[name](X))
    assert model.ngrams is memory


def test_weights_of_another_shape_are_not_loaded_into_a_model(counting, folder):
    model, _ = load_model(counting[0])
    with pytest.raises(BukvaError, match=r"best.safetensors: does not fit config.json beside it: experts"):
        load_weights(model, folder, "best")


@pytest.mark.parametrize("memory", ["none", "logits"])
def test_only_a_model_that_counts_has_the_text(tmp_path, memory):
    config = dataclasses.replace(COUNTING, ngrams=memory)
    counted = None if memory == "none" else TRAIN
    save_model(tmp_path / "m", config, TOKENIZER, {"best": clones(build(config))}, counted=counted)
    assert (tmp_path / "m/train.npy").exists() == ("train_sha256" in (tmp_path / "m/config.json").read_text())
    assert (tmp_path / "m/train.npy").exists() == (memory != "none")
    assert load_model(tmp_path / "m")[0].counts == (memory != "none")


def test_a_missing_text_is_an_error(counting):
    (counting[0] / "train.npy").unlink()
    invalid_counts(counting[0], r"not readable \(.*No such file")


def test_another_text_is_an_error(counting):
    np.save(counting[0] / "train.npy", TRAIN[::-1])
    invalid_counts(counting[0], "is not the text that the model beside it has counted")


@pytest.mark.parametrize(
    "damage", [name for name in DAMAGES if name in ("torn", "a byte short", "empty", "zeros", "pickle")]
)
def test_a_damaged_text_is_an_error(counting, damage):
    file = counting[0] / "train.npy"
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    invalid_counts(counting[0], "is not the text that the model beside it has counted")


@pytest.mark.parametrize("digest", [None, "", "0" * 64])
def test_a_config_that_names_another_text_is_an_error(counting, digest):
    edit(counting[0] / "config.json", train_sha256=digest)
    with pytest.raises(BukvaError, match=r"; rerun the training stage\.$"):
        load_model(counting[0])


def test_a_pickle_in_place_of_the_text_is_not_read(counting):
    np.save(counting[0] / "train.npy", np.array([{}], object), allow_pickle=True)
    invalid_counts(counting[0], "is not the text that the model beside it has counted")


# ---- several models


def test_models_are_loaded_by_name_with_their_shared_tokenizer(tmp_path):
    shapes = {"bigram": BIGRAM_SHAPE, "gpt": GPT_SHAPE}
    for name, config in shapes.items():
        save_model(tmp_path / name, config, TOKENIZER, {"best": clones(build(config))})
    models, tokenizer = load_models({name: tmp_path / name for name in shapes})
    assert {name: model.config for name, model in models.items()} == shapes
    assert not any(model.training for model in models.values())
    assert tokenizer.chars == TOKENIZER.chars


def test_models_of_different_vocabularies_are_an_error(tmp_path):
    tokenizers = {"bigram": TOKENIZER, "gpt": CharTokenizer(list("абвгж"))}
    for name, tokenizer in tokenizers.items():
        save_model(tmp_path / name, BIGRAM_SHAPE, tokenizer, {"best": clones(build(BIGRAM_SHAPE))})
    with pytest.raises(BukvaError, match=r"gpt: its vocabulary is not that of .*bigram; rerun the training stage.$"):
        load_models({name: tmp_path / name for name in tokenizers})
