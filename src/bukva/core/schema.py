"""The sections of params.yaml, with the types and limits of their keys. No key has a default.

Validation accepts or rejects values and never changes them. So no stage in dvc.yaml depends on this module.
"""

import ast
import codecs
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    GetPydanticSchema,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import literal_schema

from bukva.core.errors import redact_url
from bukva.core.files import PACKAGE
from bukva.core.messages import AUTO, LIST, mistake, one_or_another, require


def _keys_of(table: str, file: Path) -> list[str]:
    """Return the keys of a dict in a module, without running the module, which may import torch."""
    [keys] = [
        node.value.keys
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == table and isinstance(node.value, ast.Dict)
    ]
    return [ast.literal_eval(key) for key in keys if key]


# choices that higher packages define (tests/test_layers.py)
RULE_SETS = sorted(file.stem for file in (PACKAGE / "corpus/cleaning/rules").glob("*.yaml"))
OPTIMIZERS = sorted(file.stem for file in (PACKAGE / "training/optimizers").glob("[!_]*.py"))
TOKENIZERS = _keys_of("TOKENIZERS", PACKAGE / "text/tokenizers.py")
NORMS = _keys_of("NORMS", PACKAGE / "models/gpt.py")
ACTIVATIONS = _keys_of("ACTIVATIONS", PACKAGE / "models/gpt.py")

# corpus/sources/encodings.py guesses among most of these
ENCODINGS = (
    "auto", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32",
    "cp1251", "koi8-r", "koi8-u", "iso8859-5", "mac-cyrillic",
    "gb18030", "big5hkscs", "cp932", "euc-jp", "cp949",
    "cp1252", "iso8859-15", "mac-roman", "cp1250", "iso8859-2", "iso8859-16", "cp1257", "iso8859-13",
    "cp1253", "iso8859-7", "cp1254", "cp1255", "iso8859-8", "cp1256", "iso8859-6", "cp1258", "cp874",
    "cp437", "cp850", "cp860", "cp861", "cp863", "cp865", "cp852", "cp775", "cp866", "cp855", "cp1125",
    "cp737", "cp869", "cp857", "cp862", "cp864", "cp720",
    "iso2022-jp", "iso2022-kr", "hz", "shift-jis", "euc-kr", "big5",
)  # fmt: skip


def one_of(*values: str) -> GetPydanticSchema:
    """Return a type that accepts only these values. Unlike `Literal`, it also works for computed values."""
    return GetPydanticSchema(lambda *_: literal_schema(list(values)))


def matching(pattern: str, what: str) -> AfterValidator:
    """Return a validator for text that matches `pattern`. In error messages, `what` describes the valid text."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError("spelling", "should be {what}", {"what": what})
        return text

    return AfterValidator(check)


def _each_once(items: list[Any]) -> list[Any]:
    require(len(set(items)) == len(items), "", items, "contains an item twice. Use each item once")
    return items


# encoding -> larger encoding in ENCODINGS that contains it
SUBSETS = {"iso8859-1": "cp1252", "ascii": "utf-8", "gb2312": "gb18030", "gbk": "gb18030"}


def _check_encoding_name(encoding: object) -> object:
    """Reject aliases of the encodings in `ENCODINGS`, such as windows-1251 for cp1251."""
    if not isinstance(encoding, str) or encoding in ENCODINGS:
        return encoding
    try:
        meant = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return encoding
    for name in ENCODINGS[1:]:  # [0] is auto
        if codecs.lookup(name).name == SUBSETS.get(meant, meant):
            raise mistake("", encoding, f"is another name of {name}. Use {name}")
    return encoding


MOST_STEPS = 10**8  # more steps take months, except for toy models
Count = Annotated[int, Field(ge=1, le=10**12)]  # products of larger numbers overflow 64 bits
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
CountOrZero = Annotated[int, Field(ge=0, le=10**12)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Rate = Annotated[float, Field(gt=0, le=1e6)]  # multiples of the rate must fit into float32
Order = Literal["epoch", "random"]
EACH_ONCE = AfterValidator(_each_once)
EXTENSION = matching(r"\.[^\s./\\]+", "a file extension, such as .py")
AUTO_OR_LIST = Discriminator(
    lambda value: AUTO if value == "auto" else LIST if isinstance(value, list) else None,
    custom_error_type="neither",
    custom_error_message="should be auto or a list",
)

# the dataset, the commit and the pattern of files, in the notation of huggingface_hub
DATASET = re.compile(r"hf://datasets/(\w[\w.-]*/\w[\w.-]*)(?:@([\w.-]+))?(?:/(.+))?", re.ASCII)

# Requests to a model that MLflow serves: columns of input and output, and the keys of section `sample` that a request
# may set, with MLflow's types.
PROMPT, TEXT, CONTINUATION, BITS = "prompt", "text", "continuation", "bits_per_char"
SETTINGS = {"n_chars": "long", "temperature": "double", "top_k": "long", "top_p": "double", "seed": "long"}
MOST_CHARS = 10_000  # maximum of n_chars in a request, because it should be answered within seconds


@dataclass(frozen=True)
class Off:
    """The value with which a key has no effect. The bigram, tests and recipes with `others: off` need not set it."""

    value: object


class Section(BaseModel):
    """Base class of the sections of params.yaml. Unknown keys are errors, and objects are frozen.

    Types are strict. Text and `true` are not accepted as numbers, but an int is accepted as a float.
    """

    model_config = {"strict": True, "extra": "forbid", "frozen": True, "allow_inf_nan": False}


def author_word(corpus: str) -> str:
    """Return what messages and figures call a folder of works: "author", or "collection" in all corpora but RusLit.

    Tables and JSON files always use the key `author`.
    """
    return "author" if corpus == "ruslit" else "collection"


class Download(Section):
    corpus: Literal["sample", "ruslit", "tinyshakespeare", "local", "url", "huggingface"]
    path: Annotated[str, Field(min_length=1)]
    url: Annotated[str, Field(max_length=2048)]  # the limit of sitemaps.org
    sha256: Annotated[str, matching(r"([0-9a-f]{64})?", "the 64 hexadecimal digits that sha256sum prints")]
    encoding: Annotated[str, one_of(*ENCODINGS), BeforeValidator(_check_encoding_name)]
    text_column: Annotated[str, Field(min_length=1)]
    extensions: Annotated[list[Annotated[str, Field(max_length=100), EXTENSION]], EACH_ONCE]

    @model_validator(mode="after")
    def _check(self) -> "Download":
        shown = redact_url(self.url)
        if self.corpus == "huggingface":
            what = "is not a dataset on the Hugging Face hub. Use hf://datasets/OWNER/NAME@COMMIT"
            require(DATASET.fullmatch(self.url), "url", shown, what)
        else:
            what = (
                "has a user name or a password before an @, but params.yaml is committed. Remove them and add the line "
                "`machine HOST login USER password PASSWORD` to ~/.netrc. If the @ is part of a path, write it as %40"
            )
            require("@" not in self.url, "url", shown, what)  # also after / or ?, which a password may contain
        if self.corpus == "url":
            require(_is_address(self.url), "url", shown, "is not the address of a file. Use https://HOST/FILE")
            what = "needs the digest of the file. To compute it: `sha256sum FILE`"
            require(self.sha256, "sha256", self.sha256, f"is empty, but `download.corpus=url` {what}")
        return self


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        return is_web and url.isprintable() and " " not in url
    except ValueError:  # raised for invalid brackets, ports or characters
        return False


class Clean(Section):
    rules: Annotated[str, one_of("auto", *RULE_SETS, "none", "file")]
    file: Annotated[str, Field(min_length=1)]


class Tokenize(Section):
    kind: Annotated[str, one_of(*TOKENIZERS)]
    vocabulary: Literal["all", "train"]
    # at least the 256 bytes and one merge; at most MAX_SYMBOLS of stage tokenize
    vocab_size: Annotated[int, Field(ge=257, le=20_000)]


class Split(Section):
    strategy: Literal["tail", "contiguous", "by_work", "by_author"]
    duplicates: Literal["keep", "remove"]
    train: Annotated[float, Field(gt=0, lt=1)]
    val: Annotated[float, Field(gt=0, lt=1)]
    test: Annotated[float, Field(ge=0, lt=1)]

    @model_validator(mode="after")
    def _check(self) -> "Split":
        total, fractions = self.train + self.val + self.test, f"{self.train}, {self.val}, {self.test}"
        what = f"sum to {total}. Change them so that they sum to 1"
        require(abs(total - 1) <= 1e-9, "train, val, test", fractions, what)
        return self


class Model(Section):
    """Architecture of the GPT."""

    n_layer: Annotated[int, Field(ge=1, le=1000)]
    n_head: Annotated[int, Field(ge=1, le=2**24)]
    n_embd: Annotated[int, Field(ge=1, le=2**24)]
    block_size: Annotated[int, Field(ge=2, le=2**24)]
    dropout: Annotated[float, Field(ge=0, lt=1), Off(0.0)]
    positions: Literal["learned", "rotary", "none"]
    norm: Annotated[str, one_of(*NORMS)]
    activation: Annotated[str, one_of(*ACTIVATIONS)]
    qk_norm: Annotated[bool, Off(False)]
    bias: Annotated[bool, Off(False)]
    tie_weights: Annotated[bool, Off(False)]
    short_convolution: Annotated[bool, Off(False)]
    hashed_ngrams: Annotated[list[Annotated[int, Field(ge=2, le=12)]], EACH_ONCE, Off([])]
    proj_init: Literal["scaled", "zero"]
    ngrams: Literal["none", "targets", "logits", "input"]
    ngram_orders: Annotated[list[Annotated[int, Field(ge=1, le=12)]], Field(min_length=1), EACH_ONCE]

    @model_validator(mode="after")
    def _check(self) -> "Model":
        divisors = [str(n) for n in range(1, min(self.n_embd, 64) + 1) if self.n_embd % n == 0]
        what = f"does not divide `n_embd`, which is {self.n_embd}. Use {one_or_another(divisors)}"
        require(self.n_embd % self.n_head == 0, "n_head", self.n_head, what)
        head_size = self.n_embd // self.n_head
        what = f"needs an even number of channels per head, but `n_embd` / `n_head` is {head_size}. Use 'learned', or"
        is_odd = self.positions == "rotary" and head_size % 2
        require(not is_odd, "positions", self.positions, f"{what} another `n_head`")
        return self


class Baselines(Section):
    max_order: Annotated[int, Field(ge=0, le=12)]  # greatest length of the n-grams to count


class Compute(Section):
    device: Literal["auto", "cpu", "cuda"]
    backend: Literal["auto", "plain"]
    precision: Literal["auto", "fp32", "bf16"]
    threads: Annotated[int, Field(ge=0, le=1024)]  # with too many threads, OpenMP aborts the process


class Training(Section):
    """Hyperparameters of both trainings."""

    n_steps: Steps
    batch_size: Count
    learning_rate: Rate
    eval_every: Count
    order: Order
    seed: Seed

    @model_validator(mode="after")
    def _check(self) -> "Training":
        for key in ("warmup_steps", "eval_every"):
            value = getattr(self, key, 0)
            require(value <= self.n_steps, key, value, f"is more than `n_steps`. Use {self.n_steps} or less")
        return self


class TrainBigram(Training):
    """Hyperparameters of the bigram. Its windows can be short, because it uses only one character of context."""

    block_size: Annotated[int, Field(ge=2, le=2**24)]


class TrainGPT(Training):
    """Hyperparameters of the GPT. Its `block_size` is in section `model`."""

    optimizer: Annotated[str, one_of(*OPTIMIZERS)]
    micro_batches: Count
    processes: Annotated[int, Field(ge=1, le=1024)]
    warmup_steps: Annotated[CountOrZero, Off(0)]
    decay_to: Annotated[float, Field(ge=0, le=1)]
    weight_decay: Annotated[float, Field(ge=0), Off(0.0)]
    beta2: Annotated[float, Field(gt=0, lt=1)]
    grad_clip: Annotated[float, Field(ge=0), Off(0.0)]
    patience: Annotated[CountOrZero, Off(0)]

    @model_validator(mode="after")
    def _check_parts(self) -> "TrainGPT":
        divisor = self.micro_batches * self.processes
        next_multiple = -(-self.batch_size // divisor) * divisor
        what = f"is not divisible by {divisor}, which is `micro_batches` times `processes`. Use {next_multiple}"
        require(self.batch_size % divisor == 0, "batch_size", self.batch_size, what)
        return self


class Evaluate(Section):
    short_context: Count  # context of an additional score


class Sample(Section):
    prompts: Annotated[
        Annotated[Literal["auto"], Tag(AUTO)]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1), Tag(LIST)],
        AUTO_OR_LIST,
    ]
    n_chars: Annotated[int, Field(ge=1, le=10**8)]  # generating this many characters takes a day
    temperature: Annotated[float, Field(ge=0)]
    top_k: CountOrZero
    top_p: Annotated[float, Field(gt=0, le=1)]
    seed: Seed


class Params(Section):
    """All sections of params.yaml."""

    download: Download
    clean: Clean
    tokenize: Tokenize
    split: Split
    baselines: Baselines
    model: Model
    compute: Compute
    train_bigram: TrainBigram
    train_gpt: TrainGPT
    evaluate: Evaluate
    sample: Sample

    @model_validator(mode="after")
    def _check(self) -> "Params":
        orders, counted, most = self.model.ngram_orders, self.baselines.max_order, max(self.model.ngram_orders)
        what = f"has an order above `baselines.max_order`, which is {counted}. Use -S baselines.max_order={most}, or"
        is_counted = self.model.ngrams == "none" or most <= counted
        require(is_counted, "model.ngram_orders", orders, f"{what} lower orders")
        short, T = self.evaluate.short_context, self.model.block_size
        require(short <= T, "evaluate.short_context", short, f"is more than `model.block_size`. Use {T} or less")
        return self


def off_values(section: str) -> dict[str, Any]:
    """Return the keys of a section that can be off, with the values that turn them off (see `Off`)."""
    fields = Params.__annotations__[section].model_fields if section in Params.__annotations__ else {}
    return {key: mark.value for key, field in fields.items() for mark in field.metadata if isinstance(mark, Off)}
