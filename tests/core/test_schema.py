"""Tests of the validation of params.yaml and of its error messages."""

import contextlib
import copy
import dataclasses
import math
import re
import shutil
from pathlib import Path

import pytest
import tiny
import torch
import torch.nn.functional as F
from dvc.utils.hydra import apply_overrides
from dvc.utils.serialize import load_yaml

from bukva.core import schema
from bukva.core.errors import BukvaError
from bukva.core.params import PARAMS, flatten, parse_params, read_params, read_yaml
from bukva.core.schema import off_values
from bukva.corpus.cleaning.rule_sets import RULES
from bukva.models import gpt
from bukva.models.bigram import BigramConfig
from bukva.text import tokenizers
from bukva.training.run import Task, start
from stages import train_bigram
from tests.support.imports import ROOT, SHIPPED

TEXT = SHIPPED.read_text(encoding="utf-8")
SECTIONS = read_yaml(SHIPPED)


def with_values(changes):
    raw = copy.deepcopy(SECTIONS)
    for name, value in changes.items():
        section, key = name.split(".")
        raw[section][key] = value
    return raw


def mistakes(raw):
    """Return the message of each mistake, without the name of the file."""
    with pytest.raises(BukvaError) as error:
        parse_params(raw, "params.yaml")
    lines = str(error.value).split("\n")
    assert all(line.startswith("params.yaml, ") for line in lines)
    return [line.removeprefix("params.yaml, ") for line in lines]


def rejected(changes):
    [sentence] = mistakes(with_values(changes))
    return sentence


def test_a_file_with_a_byte_order_mark_is_valid(tmp_path):
    (tmp_path / PARAMS).write_text("\ufeff" + TEXT, encoding="utf-8")
    assert read_params(tmp_path / PARAMS).model_dump() == SECTIONS == load_yaml(SHIPPED)


def test_the_file_of_the_project_has_the_keys_of_the_tests_and_dvc_changes_one_line_of_it(tmp_path):
    assert flatten(read_yaml(ROOT / PARAMS)).keys() == flatten(SECTIONS).keys()
    text = (ROOT / PARAMS).read_text(encoding="utf-8")
    file = Path(shutil.copy(ROOT / PARAMS, tmp_path))
    apply_overrides(file, ["model.n_head=2048"])  # as `dvc exp run -S model.n_head=2048`
    lines = zip(text.splitlines(), file.read_text(encoding="utf-8").splitlines(), strict=True)
    assert [new for old, new in lines if old != new] == ["  n_head: 2048"]


def choices(key):
    with contextlib.suppress(BukvaError):
        parse_params(with_values({key: "none of these"}), "")
        return []  # any text is valid
    return re.findall(r"'(\w+)'", "\n".join(mistakes(with_values({key: "none of these"}))).partition("value. Use ")[2])


def test_the_comment_of_a_key_has_all_its_values():
    comment = section = ""
    for line in (ROOT / PARAMS).read_text(encoding="utf-8").splitlines():
        key = line.strip().partition(":")[0]
        if line.startswith("  #"):
            comment += line
        elif line.startswith("  ") and not key.startswith("-"):
            if key != "encoding":
                assert [name for name in choices(f"{section}.{key}") if not re.search(rf"\b{name}\b", comment)] == []
            comment = ""
        elif key and not line.startswith(" "):
            section = key


def test_an_unknown_key_is_rejected_with_the_key_that_is_meant_or_the_known_ones():
    known = ", ".join(SECTIONS["compute"])
    unknown = "this key is unknown (its value is"
    assert rejected({"model.n_heads": 8}) == f"model.n_heads: {unknown} 8). Did you mean `n_head`?"
    assert rejected({"compute.colour": "red"}) == f"compute.colour: {unknown} 'red'). Known keys: {known}."
    assert mistakes(SECTIONS | {"mdoel": None}) == [f"mdoel: {unknown} None). Did you mean `model`?"]
    what = "clean: 'notes' (str) is invalid. The value should have keys with values."
    assert mistakes(SECTIONS | {"clean": "notes"}) == [what]


def test_no_key_and_no_section_has_a_default():
    for section, keys in SECTIONS.items():
        what = "this key is missing. Add it, or look for a removed line with `git diff params.yaml`"
        others = {name: values for name, values in SECTIONS.items() if name != section}
        assert mistakes(others) == [f"{section}: {what}"]
        assert sorted(mistakes(others | {section: {}})) == [f"{section}.{key}: {what}" for key in sorted(keys)]


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("model.n_head", "4", "'4' (str) is invalid. The value should be a valid integer."),
        ("model.n_head", True, "True (bool) is invalid. The value should be a valid integer."),
        ("train_gpt.learning_rate", math.nan, "nan (float) is invalid. The value should be a finite number."),
        ("model.bias", 1, "1 (int) is invalid. The value should be a valid boolean."),
        ("download.path", "", "'' (str) is invalid. The value should have at least 1 character."),
        ("download.url", "a" * 2049, f"'{'a' * 97}...{'a' * 98}' (str) is invalid. The value should have at most "
         "2048 characters."),
        ("download.sha256", "A", "'A' (str) is invalid. The value should be the 64 hexadecimal digits that sha256sum "
         "prints."),
        ("download.extensions.0", ["py"], "'py' (str) is invalid. The value should be a file extension, such as .py."),
        ("sample.prompts.1", ["а", 3], "3 (int) is invalid. The value should be a valid string."),
        ("model.ngram_orders", [], "[] (list) is invalid. The value should have at least 1 item after validation, not "
         "0."),
        ("model.ngram_orders", [5, 5], "[5, 5] contains an item twice. Use each item once."),
        ("sample.prompts", "Мой дядя", "'Мой дядя' (str) is invalid. The value should be auto or a list."),
        ("download.encoding", "windows-1251", "'windows-1251' is another name of cp1251. Use cp1251."),
    ],
)  # fmt: skip
def test_a_value_that_a_key_does_not_take_is_rejected(key, value, what):
    section, name, *_ = key.split(".")
    assert rejected({f"{section}.{name}": value}) == f"{key}: {what}"


def test_a_name_that_no_encoding_has_is_rejected_with_the_known_ones():
    for name in ("utf-9", "rot13"):
        said = rejected({"download.encoding": name})
        assert said.startswith(f"download.encoding: {name!r} is not a valid value. Use 'auto', ")


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("tokenize.kind", tokenizers.TOKENIZERS),
        ("model.norm", gpt.NORMS),
        ("model.activation", gpt.ACTIVATIONS),
    ],
)
def test_the_choices_are_the_keys_of_the_tables_in_the_code(key, table):
    assert choices(key) == list(table)
    assert set(schema.RULE_SETS) == {file.stem for file in RULES.iterdir()}


@pytest.mark.parametrize(
    ("key", "beyond", "at"),
    [
        ("tokenize.vocab_size", (256, 20_001), (257, 20_000)),
        ("model.n_layer", (0, 1001), (1, 1000)),
        ("model.n_embd", (0, 2**24 + 1, 10**400 + 1), (2**24,)),
        ("model.dropout", (-0.1, 1.0), (0,)),
        ("compute.threads", (-1, 1025), (0, 1024)),
        ("train_gpt.batch_size", (0, 10**12 + 1), ()),
        ("train_gpt.learning_rate", (0.0, -1e-3), (5e-324, 1)),
        ("train_gpt.seed", (-1, 2**63), (0, 2**63 - 1)),
        ("sample.top_p", (0.0, 1.1), (1,)),
    ],
)
def test_a_number_beyond_a_limit_is_rejected_and_one_at_it_is_valid(key, beyond, at):
    for value in beyond:
        assert re.match(rf"{key}: .+ is invalid. The value should be (greater|less) than ", rejected({key: value}))
    for value in at:
        assert flatten(parse_params(with_values({key: value}), "").model_dump())[key] == value


def test_every_number_has_a_lower_limit_and_every_integer_an_upper_one():
    for key, value in flatten(SECTIONS).items():
        if type(value) in (int, float):
            assert "The value should be greater than " in rejected({key: type(value)(-1)})
        if type(value) is int:
            assert "The value should be less than " in rejected({key: 2**70})


def test_a_key_that_is_off_has_no_effect(monkeypatch):
    """These keys are off in the training of the bigram, which therefore equals a loop with torch's AdamW."""
    calls = []
    monkeypatch.setattr(train_bigram, "read_params", lambda: read_params(SHIPPED))
    monkeypatch.setattr(train_bigram, "train", lambda *arguments: calls.append(arguments))
    train_bigram.main()
    [(_, _, recipe, _, _)] = calls
    recipe = recipe.model_copy(update={"n_steps": 9, "batch_size": 3, "eval_every": 4})
    task = Task.of(BigramConfig(tiny.V, tiny.T), tiny.splits(), tiny.TOKENIZER, recipe, tiny.CPU)
    state = start(task)
    weight = next(iter(state.model.parameters())).detach().clone().requires_grad_()
    optimizer = torch.optim.AdamW([weight], weight_decay=0.0)
    for step in range(1, 10):
        [(x, y)] = task.windows.batch(step)
        optimizer.param_groups[0]["lr"] = recipe.learning_rate * (1 - (step - 1) / 8)
        optimizer.zero_grad()
        F.cross_entropy(weight[x].flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    tiny.run(task, state)
    torch.testing.assert_close(next(iter(state.weights().values())), weight.detach(), rtol=0, atol=1e-5)
    plain = gpt.GPTConfig(vocab_size=7, n_layer=1, n_head=1, n_embd=8, block_size=5, dropout=0.0)  # of the notes
    assert dataclasses.replace(plain, **off_values("model")) == plain


URL = {"download.corpus": "url", "download.sha256": "0" * 63 + "a"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model.n_embd": 12, "model.n_head": 24},
         "model.n_head: 24 does not divide `n_embd`, which is 12. Use 1, 2, 3, 4, 6 or 12."),
        ({"model.n_embd": 12, "model.n_head": 4}, "model.positions: 'rotary' needs an even number of "
         "channels per head, but `n_embd` / `n_head` is 3. Use 'learned', or another `n_head`."),
        ({"split.train": 0.5, "split.val": 0.5, "split.test": 1e-6},
         "split.train, val, test: '0.5, 0.5, 1e-06' sum to 1.000001. Change them so that they sum to 1."),
        ({"train_gpt.n_steps": 300, "train_gpt.eval_every": 300, "train_gpt.warmup_steps": 301},
         "train_gpt.warmup_steps: 301 is more than `n_steps`. Use 300 or less."),
        ({"train_gpt.batch_size": 13, "train_gpt.micro_batches": 2, "train_gpt.processes": 3},
         "train_gpt.batch_size: 13 is not divisible by 6, which is `micro_batches` times `processes`. Use 18."),
        ({"model.block_size": 63, "evaluate.short_context": 64},
         "evaluate.short_context: 64 is more than `model.block_size`. Use 63 or less."),
        (URL | {"download.url": "file:///a.txt"},
         "download.url: 'file:///a.txt' is not the address of a file. Use https://HOST/FILE."),
        (URL | {"download.url": "https://host/a", "download.sha256": ""},
         "download.sha256: '' is empty, but `download.corpus=url` needs the digest of the file. To compute it: "
         "`sha256sum FILE`."),
        ({"download.corpus": "huggingface", "download.url": "owner/name"},
         "download.url: 'owner/name' is not a dataset on the Hugging Face hub. Use hf://datasets/OWNER/NAME@COMMIT."),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_together_are_rejected(changes, sentence):
    assert rejected(changes) == sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"model.n_embd": 128, "model.n_head": 128, "model.positions": "learned"},
        {"model.block_size": 2, "evaluate.short_context": 2},
        {"split.train": 0.7, "split.val": 0.2, "split.test": 0.1},  # in floating point 0.9999999999999999
        {"train_gpt.n_steps": 300, "train_gpt.warmup_steps": 300, "train_gpt.eval_every": 300},
        {"train_gpt.batch_size": 12, "train_gpt.micro_batches": 2, "train_gpt.processes": 3},
        URL | {"download.url": "http://example.org/a"},
        {"sample.prompts": [" Ёж\r\n", "и\u0306 \u00ad", "е\u0308\0"]},
    ],
)
def test_values_that_just_fit_together_are_valid_and_unchanged(changes):
    assert parse_params(with_values(changes), "").model_dump() == with_values(changes)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (TEXT.replace("\n  n_head:", "\n\tn_head:"), r"not valid YAML: while scanning .* line \d+, column \d+"),
        (TEXT + "model: {}\n", r'not valid YAML: .* found duplicate key "model", line \d+, column \d+'),
        (TEXT.replace("n_head: 4", "n_head: !secret 4"), r"not valid YAML: could not determine a .*!secret.*"),
        (TEXT.replace("n_head: 4", f"n_head: {'[' * 100_000}"), r"not valid YAML: .*"),
        ("# all gone\n", "empty"),
        ("- 1\n", None),
        (f"{TEXT}# Мой дядя\n".encode("cp1251"), r"not valid UTF-8 \(at byte \d+\)\. Save it as UTF-8"),
    ],
    ids=["tab", "key twice", "tag", "deep", "empty", "list", "cp1251"],
)
def test_a_file_that_is_not_sections_of_yaml_is_one_sentence(tmp_path, content, what):
    (tmp_path / PARAMS).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BukvaError) as error:
        read_params(tmp_path / PARAMS)
    sentence = rf"is {what}\." if what else r"must contain sections with keys, but is a list\."
    assert re.fullmatch(f"{re.escape(str(tmp_path / PARAMS))} {sentence}", str(error.value))


def test_a_file_that_is_missing_or_a_folder_is_one_sentence(tmp_path):
    for path, why in ((tmp_path / PARAMS, "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(BukvaError) as error:
            read_params(path)
        assert str(error.value) == f"{path} cannot be read ({why}). Run the command in the folder of the project."
