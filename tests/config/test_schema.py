"""params.yaml is read strictly; a mistake is one sentence: where, what, which values are valid, the way back."""

import math
import re
import signal
from itertools import pairwise
from pathlib import Path

import pytest
from dvc.utils.serialize import load_yaml, modify_yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS, parse_params, read_params
from bukva.config.messages import WAY_BACK, shorten
from bukva.config.schema import Params

PROJECT = Path(__file__).parents[2] / PARAMS
TEXT = PROJECT.read_text(encoding="utf-8")
SECTIONS = YAML(typ="safe").load(TEXT)
KEYS = [f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("project") / PARAMS


@pytest.fixture
def rejection(file):
    """The function returned checks that a file with this content is rejected, and returns the sentence."""

    def sentence(content):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(BukvaError) as error:
            read_params(file)
        return sentence_of(str(error.value), file)

    return sentence


def sentence_of(message, file):
    assert message.startswith(f"{file}")
    assert message.endswith(WAY_BACK)
    sentence = message.removeprefix(f"{file}").removesuffix(WAY_BACK).strip(" \n,:")
    assert "\n" not in sentence  # one mistake, one sentence
    assert re.search(r"[^.?!][.?]$", sentence)
    assert not re.search(r"; it (?!should (be|have) )", sentence)
    return sentence


def with_values(**values):
    """The file of the project with these texts as values, by section__key."""
    text = TEXT
    for name, value in values.items():
        section, key = name.split("__")
        head, found, rest = text.partition(f"\n{section}:\n")
        # a value is the rest of the line, and the lines of a list
        rest, n = re.subn(
            rf"(?m)^  {key}:.*(?:\n  - .*)*$", lambda _, key=key, to=value: f"  {key}: {to}", rest, count=1
        )
        assert n == 1
        text = head + found + rest
    return text


def params_with(file, **values):
    file.write_text(with_values(**values), encoding="utf-8")
    return read_params(file)


# ---- the file of the project


def test_the_file_of_the_project_is_valid():
    params = read_params(PROJECT)
    assert params.model_dump() == SECTIONS


def test_the_file_is_as_dvc_writes_it_back(tmp_path):
    """Then `dvc exp run -S` changes one line of it."""
    copy = tmp_path / PARAMS
    copy.write_bytes(PROJECT.read_bytes())
    with modify_yaml(copy) as params:
        params["model"]["n_head"] = params["model"]["n_head"]
    assert copy.read_text(encoding="utf-8") == TEXT


def test_every_key_has_a_comment_above_it():
    key, comment = re.compile(r"  (\w+):"), re.compile(r"  # \S")
    bare = [
        found[1]
        for above, line in pairwise(TEXT.splitlines())
        if (found := key.match(line)) and not comment.match(above)
    ]
    assert bare == ["sha256", "val", "test"]  # these share the comment of url and of train


def test_there_is_no_default_in_code():
    for section in Params.model_fields.values():
        assert section.is_required()
        for key in section.annotation.model_fields.values():
            assert key.is_required()


# ---- mistakes


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("  n_heads: 8\n", "model.n_heads: unknown key with value 8; did you mean n_head?"),
        (
            "  colour: red\n",
            "model.colour: unknown key with value 'red'; known keys are n_layer, n_head, n_embd, block_size, dropout, "
            "positions, norm, activation, qk_norm, bias, tie_weights, proj_init, ngrams, ngram_dropout, network_loss, "
            "ngram_orders.",
        ),
        (
            "  8: red\n",
            "model.8: unknown key; known keys are n_layer, n_head, n_embd, block_size, dropout, positions, norm, "
            "activation, qk_norm, bias, tie_weights, proj_init, ngrams, ngram_dropout, network_loss, ngram_orders.",
        ),
        ("mdoel:\n", "mdoel: unknown key with value None; did you mean model?"),
    ],
)
def test_an_unknown_key_is_rejected_with_the_known_ones(rejection, lines, sentence):
    block = TEXT.index("compute:\n")  # the end of section model
    if lines.startswith(" "):
        assert rejection(TEXT[:block] + lines + TEXT[block:]) == sentence
    else:
        assert rejection(TEXT + lines) == sentence


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_key_is_named(key):
    section, name = key.split(".")
    raw = SECTIONS | {section: {other: value for other, value in SECTIONS[section].items() if other != name}}
    with pytest.raises(BukvaError) as error:
        parse_params(raw, "params.yaml")
    assert sentence_of(str(error.value), PARAMS).startswith(f"{key}: missing; put it back")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_missing_section_is_named(section):
    with pytest.raises(BukvaError) as error:
        parse_params({other: keys for other, keys in SECTIONS.items() if other != section}, "params.yaml")
    assert sentence_of(str(error.value), PARAMS).startswith(f"{section}: missing; put it back")


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("model__n_head", "'4'", "'4' (str)"),
        ("model__n_head", "four", "'four' (str)"),
        ("model__n_head", "4.0", "4.0 (float)"),
        ("model__n_head", "1e3", "1000.0 (float)"),
        ("model__n_head", "true", "True (bool)"),
        ("model__n_head", "", "None (NoneType)"),
        ("model__n_head", "[4]", "[4] (list)"),
        ("model__n_head", "2024-01-01", "datetime.date(2024, 1, 1) (date)"),
        ("model__dropout", "'0.1'", "'0.1' (str)"),
        ("model__dropout", "0,1", "'0,1' (str)"),
        ("model__dropout", "false", "False (bool)"),
        ("train_gpt__learning_rate", "true", "True (bool)"),
        ("train_gpt__seed", "false", "False (bool)"),
        ("train_gpt__learning_rate", ".nan", "nan (float)"),
        ("train_gpt__learning_rate", ".inf", "inf (float)"),
        ("train_gpt__learning_rate", "1e999", "inf (float)"),
        ("sample__temperature", ".inf", "inf (float)"),
        ("split__train", ".nan", "nan (float)"),
        ("evaluate__short_context", "-.inf", "-inf (float)"),
        ("download__path", "3", "3 (int)"),
        ("download__url", "", "None (NoneType)"),
        ("sample__prompts", "'Мой дядя'", "'Мой дядя' (str)"),
    ],
)
def test_a_value_of_another_type_is_rejected(rejection, key, value, shown):
    sentence = rejection(with_values(**{key: value}))
    assert sentence.startswith(f"{key.replace('__', '.')}: {shown} is invalid; it should ")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("download__path", "''", "download.path: '' is empty; use one character or more."),
        ("sample__prompts", "['']", "sample.prompts.0: '' is empty; use one character or more."),
        (
            "download__url",
            '"\\ud800"',
            "download.url: '\\ud800' has half a character (a lone surrogate); remove it.",
        ),
        (
            "download__url",
            "a" * 2049,
            f"download.url: {shorten('a' * 2049)} (str) is invalid; it should have at most 2048 characters.",
        ),
    ],
)
def test_a_text_that_cannot_be_used_is_rejected(rejection, key, value, sentence):
    assert rejection(with_values(**{key: value})) == sentence


@pytest.mark.parametrize("value", ["[3]", "['Мой дядя', null]"])
def test_a_prompt_is_text(rejection, value):
    assert re.match(r"sample\.prompts\.[01]: .* is invalid; it ", rejection(with_values(sample__prompts=value)))


def test_works_that_a_strategy_cuts_are_not_grouped(rejection):
    assert rejection(with_values(split__duplicates="group")) == (
        "split.duplicates: 'group' needs whole works, but strategy tail cuts them; use remove or keep, or strategy "
        "by_work."
    )


@pytest.mark.parametrize(
    ("key", "items"),
    [
        ("model.ngram_orders", "is empty; use one item or more."),
        ("sample.prompts", "is empty; use one item or more."),
        ("model.ngram_orders", "names an item twice; use each of them once."),
    ],
)
def test_a_list_has_items_and_each_once(rejection, key, items):
    value = "[]" if "empty" in items else "[5, 5]"
    assert rejection(with_values(**{key.replace(".", "__"): value})) == f"{key}: {value} {items}"


def test_a_section_is_keys(rejection):
    sentence = rejection(re.sub(r"(?ms)^clean:.*?(?=^\w)", "clean: notes\n", TEXT))
    assert sentence == "clean: 'notes' (str) is invalid; it should be keys with values."


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model__n_layer", "0"),
        ("model__n_layer", "1001"),
        ("model__n_head", "0"),
        ("model__n_head", "-4"),
        ("model__n_embd", "0"),
        ("model__block_size", "1"),
        ("model__dropout", "1.0"),
        ("model__dropout", "-0.1"),
        ("split__train", "0"),
        ("split__train", "1"),
        ("split__val", "0"),
        ("split__test", "-0.05"),
        ("compute__threads", "-1"),
        ("train_bigram__block_size", "1"),
        *[
            (f"{section}__{key}", value)
            for section in ("train_bigram", "train_gpt")
            for key, value in [
                ("n_steps", "0"),
                ("n_steps", "100000001"),
                ("batch_size", "0"),
                ("learning_rate", "0"),
                ("learning_rate", "-1e-3"),
                ("warmup_steps", "-1"),
                ("decay_to", "1.1"),
                ("decay_to", "-0.1"),
                ("weight_decay", "-0.1"),
                ("beta2", "0"),
                ("beta2", "1"),
                ("grad_clip", "-1"),
                ("eval_every", "0"),
                ("micro_batches", "0"),
                ("patience", "-1"),
                ("seed", "-1"),
                ("seed", str(2**63)),
            ]
        ],
        ("train_gpt__processes", "0"),
        ("evaluate__short_context", "0"),
        ("evaluate__context_chars", "0"),
        ("evaluate__attention_windows", "0"),
        ("evaluate__leak_steps", "0"),
        ("evaluate__leak_steps", "1000000000000"),
        ("sample__n_chars", "0"),
        ("sample__temperature", "-0.1"),
        ("sample__top_k", "-1"),
        ("sample__top_p", "0"),
        ("sample__top_p", "1.1"),
        ("sample__seed", "-1"),
        ("tokenize__vocab_size", "256"),
        ("tokenize__vocab_size", "20001"),
        ("split__duplicate_chars", "30"),
        ("split__duplicate_chars", "10001"),
    ],
)
def test_a_number_out_of_range_is_rejected(rejection, key, value):
    number = YAML(typ="safe").load(value)
    assert rejection(with_values(**{key: value})).startswith(
        f"{key.replace('__', '.')}: {number} is out of range; it should be "
    )


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("download__corpus", "'sample', 'ruslit', 'tinyshakespeare', 'local', 'url' or 'huggingface'"),
        ("clean__rules", "'auto', 'literary', 'notes', 'none' or 'file'"),
        ("tokenize__kind", "'char', 'byte' or 'bpe'"),
        ("tokenize__vocabulary", "'all' or 'train'"),
        ("tokenize__unknown", "'error', 'drop' or 'replace'"),
        ("split__strategy", "'tail', 'contiguous', 'by_work' or 'by_author'"),
        ("split__duplicates", "'keep', 'group' or 'remove'"),
        ("model__positions", "'learned', 'rotary' or 'none'"),
        ("model__norm", "'layernorm' or 'rmsnorm'"),
        ("model__activation", "'gelu', 'relu' or 'relu2'"),
        ("compute__device", "'auto', 'cpu' or 'cuda'"),
        ("compute__precision", "'auto', 'fp32' or 'bf16'"),
        ("train_bigram__optimizer", "'adamw'"),
        ("train_gpt__optimizer", "'adamw' or 'muon'"),
        ("train_bigram__order", "'epoch' or 'random'"),
        ("train_gpt__order", "'epoch' or 'random'"),
        ("sample__unknown", "'error', 'drop' or 'replace'"),
    ],
)
def test_an_unknown_name_is_rejected_with_the_known_ones(rejection, key, known):
    sentence = rejection(with_values(**{key: "Notes"}))
    assert sentence == f"{key.replace('__', '.')}: 'Notes' is unknown; use {known}."


@pytest.mark.parametrize(
    ("n_embd", "n_head", "fitting"),
    [("128", "3", "1, 2, 4, 8, 16, 32 or 64"), ("12", "24", "1, 2, 3, 4, 6 or 12"), ("7", "2", "1 or 7")],
)
def test_heads_that_do_not_divide_the_channels_are_rejected_with_those_that_do(rejection, n_embd, n_head, fitting):
    sentence = rejection(with_values(model__n_embd=n_embd, model__n_head=n_head))
    assert sentence == f"model.n_head: {n_head} does not divide n_embd {n_embd}; use {fitting}."


def test_rotary_positions_need_heads_of_an_even_number_of_channels(file, rejection):
    assert params_with(file, model__positions="rotary").model.positions == "rotary"
    assert rejection(with_values(model__n_embd=12, model__n_head=4)) == (
        "model.positions: 'rotary' needs an even number of channels per head, but n_embd 12 / n_head 4 is 3; "
        "use learned, or another n_head."
    )


def test_a_sentence_to_draw_must_fit_a_block(file, rejection):
    assert params_with(file, evaluate__attention_sentence="'" + "а" * 64 + "'").evaluate.attention_sentence == "а" * 64
    longer = "'" + "а" * 65 + "'"
    assert params_with(file, evaluate__attention_sentence=longer, tokenize__kind="bpe").tokenize.kind == "bpe"
    sentence = rejection(with_values(evaluate__attention_sentence=longer))
    assert sentence.startswith("evaluate.attention_sentence: 'а")
    assert sentence.endswith(
        "has 65 characters, more than model.block_size 64; use a shorter one, or '' for a passage of the text."
    )


@pytest.fixture
def in_a_second():
    """Stop a test that runs for more than a second."""

    def stop(*_):
        raise TimeoutError("still computing")

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 1)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, former)


@pytest.mark.usefixtures("in_a_second")
def test_any_number_of_channels_is_rejected_at_once():
    raw = SECTIONS | {"model": SECTIONS["model"] | {"n_head": 4, "n_embd": 10**400 + 1}}
    with pytest.raises(BukvaError, match=r"model.n_embd: .* is out of range"):
        parse_params(raw, "params.yaml")


@pytest.mark.parametrize(
    ("shares", "total"),
    [(("0.9", "0.05", "0.06"), "1.01"), (("0.8", "0.1", "0"), "0.9"), (("0.5", "0.5", "1e-6"), "1.000001")],
)
def test_fractions_that_do_not_sum_to_one_are_rejected(rejection, shares, total):
    train, val, test = shares
    sentence = rejection(with_values(split__train=train, split__val=val, split__test=test))
    assert sentence.startswith(f"split.train, val, test: '{float(train)}, {float(val)}, {float(test)}'")
    assert sentence.endswith(f"sum to {total}; make them sum to 1.")


@pytest.mark.parametrize("url", ["''", "example.org/a.txt", "file:///a.txt"])
def test_corpus_url_needs_an_address(rejection, url):
    sentence = rejection(with_values(download__corpus="url", download__url=url, download__sha256="0" * 63 + "a"))
    assert sentence == (
        f"download.url: {YAML(typ='safe').load(url)!r} is not an address; use one that starts with http:// or https://."
    )


def test_corpus_url_needs_a_digest(rejection):
    sentence = rejection(with_values(download__corpus="url", download__url="https://example.org/a.txt"))
    assert sentence == "download.sha256: '' is empty; corpus url needs the digest that sha256sum FILE prints."


@pytest.mark.parametrize("digest", ["a" * 63, "a" * 65, "A" * 64, "g" * 64, '"' + "a" * 64 + '\\n"'])
def test_a_digest_is_64_digits(rejection, digest):
    sentence = rejection(with_values(download__sha256=digest))
    assert re.match(r"download\.sha256: '\w+(\\n)?' is not a SHA-256 digest; use 64 digits", sentence)


@pytest.mark.parametrize("section", ["train_bigram", "train_gpt"])
@pytest.mark.parametrize("key", ["warmup_steps", "eval_every"])
def test_an_interval_longer_than_the_training_is_rejected(rejection, section, key):
    sentence = rejection(
        with_values(
            **{f"{section}__n_steps": "300", f"{section}__warmup_steps": "0"}
            | {f"{section}__eval_every": "300", f"{section}__{key}": "301"}
        )
    )
    assert sentence == f"{section}.{key}: 301 is more than n_steps 300; use n_steps or less."


@pytest.mark.parametrize(
    ("section", "values", "divisor", "fitting"),
    [
        ("train_gpt", {"batch_size": "16", "micro_batches": "3"}, 3, 18),
        ("train_gpt", {"batch_size": "16", "processes": "5"}, 5, 20),
        ("train_gpt", {"batch_size": "13", "micro_batches": "2", "processes": "3"}, 6, 18),
        ("train_bigram", {"batch_size": "7", "micro_batches": "2"}, 2, 8),
    ],
)
def test_a_batch_that_cannot_be_divided_is_rejected_with_one_that_can(rejection, section, values, divisor, fitting):
    sentence = rejection(with_values(**{f"{section}__{key}": value for key, value in values.items()}))
    assert sentence == (
        f"{section}.batch_size: {values['batch_size']} is not divisible by micro_batches times processes, {divisor}; "
        f"use {fitting}."
    )


def test_a_short_context_longer_than_the_context_is_rejected(rejection):
    sentence = rejection(with_values(model__block_size="64", evaluate__short_context="65"))
    assert sentence == "evaluate.short_context: 65 is more than model.block_size; use 64 or less."


def test_each_of_several_mistakes_is_reported(file):
    file.write_text(with_values(model__n_layer="0", clean__rules="notse"), encoding="utf-8")
    with pytest.raises(BukvaError) as error:
        read_params(file)
    rules, layers, way_back = str(error.value).split("\n")
    assert rules == f"{file}, clean.rules: 'notse' is unknown; use 'auto', 'literary', 'notes', 'none' or 'file'."
    assert layers.startswith(f"{file}, model.n_layer: 0 is out of range")
    assert way_back == WAY_BACK


# ---- files that are not YAML with sections


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TEXT.replace("model:", "model", 1), "line"),
        (TEXT.replace("\n  n_head:", "\n\tn_head:"), "line"),
        (TEXT + "model: [\n", "line"),
        (with_values(model__n_head="4\n  n_head: 8"), 'duplicate key "n_head"'),
        (TEXT + "model: {}\n", 'duplicate key "model"'),
        (TEXT + "---\n" + TEXT, "single document"),
        (with_values(model__n_head="!secret 4"), "!secret"),
        ("\0", "#x0000"),
    ],
    ids=["colon", "tab", "bracket", "key twice", "section twice", "documents", "tag", "zero byte"],
)
def test_broken_yaml_is_rejected_with_the_line(rejection, content, words):
    sentence = rejection(content)
    assert sentence.startswith("not YAML: ")
    assert words in sentence


@pytest.mark.parametrize(
    "value",
    ["2024-13-45", "0x_", "-_", "!!int four", "!!float four", "!!bool si", '"\\U00110000"', "1" * 5000, "[" * 500],
)
def test_a_value_that_yaml_cannot_parse_is_rejected(rejection, value):
    assert rejection(with_values(model__n_head=value)).startswith("not YAML: ")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        *[("", "is empty"), ("# all gone\n", "is empty")],
        *[("- 1\n", "contains list, not sections with keys"), ("3", "contains int, not sections with keys")],
    ],
)
def test_a_file_without_sections_is_rejected(rejection, content, what):
    assert rejection(content) == f"{what}."


@pytest.mark.parametrize("encoding", ["cp1251", "utf-16"])
def test_a_file_that_is_not_utf_8_is_rejected(rejection, encoding):
    assert re.fullmatch(r"byte \d+ is not UTF-8\.", rejection(f"{TEXT}# Мой дядя\n".encode(encoding)))


def test_a_missing_file_is_rejected(tmp_path):
    with pytest.raises(BukvaError) as error:
        read_params(tmp_path / PARAMS)
    assert (
        sentence_of(str(error.value), tmp_path / PARAMS) == "does not exist; run the command in the project's folder."
    )


def test_a_folder_instead_of_the_file_is_rejected(tmp_path):
    (tmp_path / PARAMS).mkdir()
    with pytest.raises(BukvaError) as error:
        read_params(tmp_path / PARAMS)
    assert sentence_of(str(error.value), tmp_path / PARAMS) == "cannot be read (Is a directory)."


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("model__n_head", "0x" + "f" * 5000, "model.n_head: about 2**19999 is out of range"),
        ("sample__top_k", "-0x" + "f" * 5000, "sample.top_k: about -2**19999 is out of range"),
        ("train_gpt__patience", "0x" + "f" * 5000, "train_gpt.patience: about 2**19999 is out of range"),
        ("evaluate__attention_sentence", '"\\ud800"', "evaluate.attention_sentence: '\\ud800' has half a character"),
        ("compute__threads", "1025", "compute.threads: 1025 is out of range"),
        ("train_gpt__processes", "1025", "train_gpt.processes: 1025 is out of range"),
        ("sample__n_chars", "1000000000", "sample.n_chars: 1000000000 is out of range"),
    ],
)
def test_a_value_that_once_failed_in_a_stage_is_rejected(rejection, key, value, shown):
    assert rejection(with_values(**{key: value})).startswith(shown)


def test_a_long_value_is_shortened(rejection):
    assert len(rejection(with_values(clean__rules="a" * 10**6))) < 400


@pytest.mark.parametrize("url", ["https://", "https://[::1", "https://host:x/", "https://a b/", '"https://host/\\n"'])
def test_an_address_has_a_host_and_no_blanks(rejection, url):
    sentence = rejection(with_values(download__corpus="url", download__url=url, download__sha256="a" * 64))
    assert "is not the address of a file" in sentence


# ---- valid files


@pytest.mark.parametrize("text", ["1e-3", "1E-3", "0.001", "+1e-03"])
def test_a_number_may_have_an_exponent(file, text):
    """PyYAML reads 1e-3 as text."""
    assert params_with(file, train_gpt__learning_rate=text).train_gpt.learning_rate == 1e-3


def test_a_small_number_may_be_written_as_python_writes_it(file):
    assert repr(3e-5) == "3e-05"
    assert params_with(file, train_gpt__learning_rate="3e-05").train_gpt.learning_rate == 3e-5


def test_a_number_is_the_one_that_dvc_reads(file):
    assert params_with(file, model__n_head="1", model__n_embd="0128").model.n_embd == 128  # YAML 1.1 reads 88, or text


def test_an_integer_is_accepted_as_a_float(file):
    rate = params_with(file, train_gpt__learning_rate="1").train_gpt.learning_rate
    assert (type(rate), rate) == (float, 1.0)


@pytest.mark.parametrize(
    "values",
    [
        *[{"model__n_embd": "128", "model__n_head": n_head} for n_head in ("1", "2", "4", "8", "64")],
        {"model__n_embd": "128", "model__n_head": "128", "model__positions": "learned"},
        {"model__dropout": "0"},
        {"model__block_size": "2", "evaluate__short_context": "2"},
        {"split__train": "0.95", "split__val": "0.05", "split__test": "0"},
        {"split__train": "0.7", "split__val": "0.2", "split__test": "0.1"},  # in floating point 0.9999999999999999
        {"split__train": "0.3333333333", "split__val": "0.3333333333", "split__test": "0.3333333333"},
        {"train_gpt__seed": str(2**63 - 1)},
        {"train_gpt__n_steps": "300", "train_gpt__warmup_steps": "300", "train_gpt__eval_every": "300"},
        {"train_gpt__decay_to": "1"},
        {"sample__temperature": "0", "sample__top_p": "1"},
        {"download__corpus": "url", "download__url": "http://example.org/a", "download__sha256": "0" * 63 + "a"},
    ],
)
def test_values_at_the_limits_are_valid(file, values):
    params_with(file, **values)


def test_a_byte_order_mark_is_accepted(file):
    file.write_text("\ufeff" + TEXT, encoding="utf-8")
    assert read_params(file) == read_params(PROJECT)


def test_parameters_cannot_be_changed():
    params = read_params(PROJECT)
    with pytest.raises(ValidationError, match="frozen"):
        params.model = params.model
    for section in SECTIONS:
        chosen = getattr(params, section)
        for key in SECTIONS[section]:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(chosen, key, getattr(chosen, key))


# ---- any content


scalars = st.one_of(
    st.integers().map(str),
    st.integers(-3, 3000).map(str),
    st.floats().map(lambda x: repr(x) if math.isfinite(x) else f".{x}".replace(".-", "-.")),
    st.booleans().map(str),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(
        lambda text: '"' + re.sub(r'(["\\\n])', "", text) + '"'
    ),
    st.text("0123456789+-._:exoabinftTZ~", max_size=12),
    st.text("a1 -+.:_'\"[]{}#&*!|>%@`,?\\=<~", max_size=8),
    st.builds(
        "!!{} {}".format,
        st.sampled_from(["int", "float", "bool", "str", "null", "binary", "timestamp"]),
        st.text("01x."),
    ),
)


def is_valid_or_rejected(file):
    """Whether the file has the values that DVC reads, or is rejected with a sentence and the way back."""
    try:
        params = read_params(file)
    except BukvaError as error:
        return str(error).startswith(f"{file}") and str(error).endswith(WAY_BACK)
    return params.model_dump() == load_yaml(file)


@settings(max_examples=150)
@given(st.sampled_from(KEYS), scalars)
@example("train_gpt.learning_rate", "9" * 400)
@example("download.url", "|")
def test_any_value_is_valid_or_rejected_in_a_sentence(file, key, value):
    file.write_text(with_values(**{key.replace(".", "__"): value}), encoding="utf-8")
    assert is_valid_or_rejected(file)


@settings(max_examples=60)
@given(st.one_of(st.text("ab:-[]{}!&*'\"\n 1", max_size=20).map(str.encode), st.binary(max_size=20)))
def test_any_file_is_valid_or_rejected_in_a_sentence(file, content):
    file.write_bytes(content)
    assert is_valid_or_rejected(file)
