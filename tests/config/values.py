"""Values for every key of params.yaml, beside those of tests/config/test_schema.py: limits, absurd ones, other types.

A value that the schema accepts must succeed in the stages that read it, or a stage must reject it in a sentence.
"""

import copy
import math

from imports import ROOT

from bukva.base.errors import BukvaError
from bukva.config.load import PARAMS, parse_params, read_yaml
from chaos.project import SMALL

SECTIONS = read_yaml(ROOT / PARAMS)
SECTIONS |= {section: SECTIONS[section] | values for section, values in SMALL.items()}
SECTIONS["download"]["path"], SECTIONS["compute"]["device"] = "book.txt", "cpu"

OTHER_TYPES = [None, "", "8", " ", "²", [], [1], {"a": 1}, b"8", math.nan, -math.inf, True, 1.0]
INTEGERS = [1, 2, 3, 16, 20, 0, -1, -(10**12), 10**8, 2**31, 2**63, 10**30, 1 << 20_000, 1e3, "1e3"]
FRACTIONS = [0.0, 5e-324, 1e-45, 0.3, 0.9999999999999999, 1, 1.0000000000000002, -5e-324, 2.0, 10**400, "0,5"]
RATES = [5e-324, 1e-3, 1, 30.0, 1e40, 1.7e308, 0.0, -0.0, -1e-3, 10**400]
SEEDS = [0, 1337, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -1]
SWITCHES = [True, False, 0, "true"]
CHOICES = ["Muon", "\u00adadamw", "a" * 10_000, 0]
TEXTS = ["\n", "а", "Было\r\nэто", "б" * 16, "б" * 17, "\0", "`|#", "Ё" * 100_000, "\U0001f600", "\ud800"]
LISTS = [["\n"], ["а"] * 20, ["а" * 5000], ["\0"], ["`|#\r\n"], [""], [None], ["а", []], ["\ud800"], "auto", ["auto"]]
ORDERS = [[3], [8, 3], [3, 4, 5, 6, 7, 8], [3, 3], [2], [12], [3.0], ["3"], [[3]], [10**30], list(range(3, 9)) * 1000]
PATHS = [
    *["book.txt", ".", "nowhere", "dvc.yaml", "book.txt/", "a" * 200, "a" * 5000, "a\0b", "empty.txt", "latin.txt"],
    *["~nobody-of-this-name/a", "\ud800", "\n", "-"],
]
OPTIONS = [["stress_accents"], ["latin_passages", "stress_accents"], ["latin"], ["\n"], ["a" * 5000], ["a", "a"], [""]]
ADDRESSES = [
    *["http://127.0.0.1:1/a.txt", "https://127.0.0.1:1", "http://127.0.0.1:1/?key=secret", "http://.x/", "http://*/"],
    *["http://" + "ж" * 300, "http://[::1", "http://[v1.x]/", "http://127.0.0.1:99999/", "http://℀.com/", "//a/b"],
    *["file:///etc/passwd", "http://127.0.0.1:1/\ud800", "https://me:se?cret/@127.0.0.1:1/a", "me:secret@host/a"],
]
DIGESTS = ["a" * 64, "A" * 64, "a" * 63, "a" * 64 + "\n", "а" * 64]
NAMES = ["owner/name", "a/", "../b", "ж/ж", "a" * 201, "main", "*", "[", "\0", "data/train-*", "\ud800"]
ENCODINGS = ["auto", "utf-8", "cp1251", "UTF-8", "rot13", "idna", "no-such"]
EXTENSIONS = [[".py"], [".ж"], ["." + "a" * 99], [".*"], ["py"], [".py", ".py"], ["."], [".a/b"], [". "], [[".py"]]]

KINDS = [
    ([*INTEGERS, 31, 257, 263, 1024, 20_000], {"tokenize": ["vocab_size"], "split": ["duplicate_chars"]}),
    (INTEGERS, {
        "model": ["n_layer", "n_head", "n_embd", "block_size"], "compute": ["threads"],
        "train_bigram": ["block_size", "n_steps", "batch_size", "micro_batches", "warmup_steps", "eval_every",
                         "patience"],
        "train_gpt": ["n_steps", "batch_size", "micro_batches", "processes", "warmup_steps", "eval_every", "patience"],
        "evaluate": ["short_context", "context_chars", "attention_windows", "leak_steps"],
        "sample": ["n_chars", "top_k"],
    }),
    (FRACTIONS, {
        "split": ["train", "val", "test"], "model": ["dropout", "ngram_dropout", "network_loss"],
        "train_bigram": ["decay_to", "beta2"], "train_gpt": ["decay_to", "beta2"], "sample": ["top_p"],
    }),
    (RATES, {
        "train_bigram": ["learning_rate", "weight_decay", "grad_clip"],
        "train_gpt": ["learning_rate", "weight_decay", "grad_clip"], "sample": ["temperature"],
    }),
    (SEEDS, {"train_bigram": ["seed"], "train_gpt": ["seed"], "sample": ["seed"]}),
    (SWITCHES, {"download": ["strict"], "model": ["qk_norm", "bias", "tie_weights"]}),
    (["local", "url"], {"download": ["corpus"]}),
    (["literary", "none", "file"], {"clean": ["rules"]}),
    ([*CHOICES, "byte", "bpe"], {"tokenize": ["kind"]}),
    ([*CHOICES, "train"], {"tokenize": ["vocabulary"]}),
    ([*CHOICES, "drop", "replace"], {"tokenize": ["unknown"], "sample": ["unknown"]}),
    ([*CHOICES, "contiguous", "by_work", "by_author"], {"split": ["strategy"]}),
    ([*CHOICES, "keep", "group"], {"split": ["duplicates"]}),
    ([*CHOICES, "learned", "rotary", "none"], {"model": ["positions"]}),
    ([*CHOICES, "rmsnorm"], {"model": ["norm"]}),
    ([*CHOICES, "gelu", "relu"], {"model": ["activation"]}),
    ([*CHOICES, "scaled"], {"model": ["proj_init"]}),
    ([*CHOICES, "logits", "input"], {"model": ["ngrams"]}),
    ([*CHOICES, "auto", "cuda"], {"compute": ["device"]}),
    ([*CHOICES, "auto", "bf16"], {"compute": ["precision"]}),
    ([*CHOICES, "adamw"], {"train_bigram": ["optimizer"], "train_gpt": ["optimizer"]}),
    ([*CHOICES, "random"], {"train_bigram": ["order"], "train_gpt": ["order"]}),
    (TEXTS, {"evaluate": ["attention_sentence"], "download": ["text_column"]}),
    (LISTS, {"sample": ["prompts"]}),
    (ORDERS, {"evaluate": ["ngram_orders"], "model": ["ngram_orders"]}),
    (PATHS, {"download": ["path"], "clean": ["file"]}),
    (OPTIONS, {"clean": ["optional"]}),
    (ADDRESSES, {"download": ["url"]}),
    (DIGESTS, {"download": ["sha256"]}),
    (NAMES, {"download": ["dataset", "revision", "files"]}),
    (ENCODINGS, {"download": ["encoding"]}),
    (EXTENSIONS, {"download": ["extensions"]}),
]  # fmt: skip
VALUES = {
    f"{section}.{key}": [*values, *OTHER_TYPES]
    for values, keys in KINDS
    for section, names in keys.items()
    for key in names
}


def with_changes(changes):
    """The sections with other values, by section.key."""
    sections = copy.deepcopy(SECTIONS)
    for name, value in changes.items():
        section, key = name.split(".")
        sections[section][key] = value
    return sections


def rejection(changes):
    """The message of the schema, or nothing for valid parameters."""
    try:
        parse_params(with_changes(changes), "params.yaml")
    except BukvaError as error:
        return str(error)
    return ""
