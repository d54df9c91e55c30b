"""The sections of params.yaml, in its order: their keys, types and limits.

Numbers live in params.yaml, and no key has a default. A section accepts values or rejects them, and never changes one,
so no stage depends on this module; the values themselves are dependencies (`params` in dvc.yaml).
"""

import re
from decimal import Decimal
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bukva.config.choices import AUTO, EACH_ONCE, EITHER, LIST, one_of, one_rule_set
from bukva.config.messages import mistake, one_or_another
from bukva.core.redact import redact_url

MOST_STEPS = 10**8  # months of training for all but toys; a greater number is a mistake
Count = Annotated[int, Field(ge=1, le=10**12)]  # a greater number is a mistake, and products of it exceed 64 bits
Steps = Annotated[int, Field(ge=1, le=MOST_STEPS)]
CountOrNone = Annotated[int, Field(ge=0, le=10**12)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]
Unknown = Literal["error", "drop", "replace"]
Order = Literal["epoch", "random"]
Optimizer = Annotated[str, one_of("training/optimizers/__init__.py", "OPTIMIZERS")]

DATASET = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
EXTENSION = re.compile(r"\.[^\s./\\]+")
AUTHORED = ("ruslit",)  # corpora whose works lie in folders of authors; those of others are genres, or anything

# What a request to a served model may have: columns of its rows, and parameters.
PROMPT, TEXT = "prompt", "text"  # columns of the input
CONTINUATION, BITS = "continuation", "bits_per_char"  # columns of the output
SETTINGS = {  # keys of section sample that a request may set, with MLflow's types
    "n_chars": "long",
    "temperature": "double",
    "top_k": "long",
    "top_p": "double",
    "seed": "long",
    "unknown": "string",
}
MOST_CHARS = 10_000  # that a request may ask for in a row: it has some seconds, not a day


class Section(BaseModel):
    """Strict (no text for numbers, no true for 1; an int is accepted as a float), closed and frozen."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def author_word(corpus: str) -> str:
    """What texts and figures call the level above a work: a genre or a folder is no author.

    Data and JSON have the key author for both.
    """
    return "author" if corpus in AUTHORED else "collection"


class Download(Section):
    """Which text to read, and where it is."""

    corpus: Literal["sample", "ruslit", "tinyshakespeare", "local", "url", "huggingface"]
    path: Annotated[str, Field(min_length=1)]
    url: Annotated[str, Field(max_length=2048)]  # the limit of sitemaps.org
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]
    dataset: Annotated[str, Field(max_length=200)]
    revision: Annotated[str, Field(max_length=200)]
    files: Annotated[str, Field(min_length=1, max_length=1000)]
    encoding: Annotated[str, one_of("corpus/sources/formats/encodings.py", "ENCODINGS")]
    text_column: Annotated[str, Field(min_length=1)]
    strict: bool
    extensions: Annotated[list[Annotated[str, Field(max_length=100)]], EACH_ONCE]

    @model_validator(mode="after")
    def _names_are_complete(self) -> "Download":
        for name in self.extensions:
            if not EXTENSION.fullmatch(name):
                what = "is not an extension; use a dot and what follows it at the end of a name, such as .py"
                raise mistake("extensions", name, what)
        if self.corpus == "huggingface" and not DATASET.fullmatch(self.dataset):
            raise mistake("dataset", self.dataset, "is not a dataset of the Hugging Face hub; use OWNER/NAME")
        return self

    @model_validator(mode="after")
    def _address_is_complete_and_no_secret(self) -> "Download":
        what = ""
        if "@" in self.url:  # anywhere: a password may contain / or ?
            what = (
                "has a user or a password before an @, and params.yaml is committed; remove them and add the line "
                "`machine HOST login USER password PASSWORD` to ~/.netrc (write an @ of a path as %40)"
            )
        elif self.corpus == "url" and not self.url.startswith(("http://", "https://")):
            what = "is not an address; use one that starts with http:// or https://"
        elif self.corpus == "url" and not _has_host(self.url):
            what = "is not the address of a file (no host, an invalid port, or a blank); use https://HOST/FILE"
        if what:
            raise mistake("url", redact_url(self.url), what)
        if self.corpus == "url" and not self.sha256:
            raise mistake("sha256", self.sha256, "is empty; corpus url needs the digest that sha256sum FILE prints")
        return self


class Clean(Section):
    """Which cleaning rules are applied."""

    rules: Annotated[str, one_rule_set()]
    file: Annotated[str, Field(min_length=1)]
    optional: Annotated[list[Annotated[str, Field(min_length=1)]], EACH_ONCE]


class Tokenize(Section):
    """What becomes one id, and whose characters make the vocabulary."""

    kind: Annotated[str, one_of("text/tokenizers/__init__.py", "TOKENIZERS")]
    vocabulary: Literal["all", "train"]
    unknown: Unknown
    vocab_size: Annotated[
        int, Field(ge=257, le=20_000)
    ]  # the 256 bytes and a merge; MAX_SYMBOLS in corpus/splits/encoding.py


class Split(Section):
    """Which characters are train, val and test."""

    strategy: Literal["tail", "contiguous", "by_work", "by_author"]
    duplicates: Literal["keep", "group", "remove"]
    duplicate_chars: Annotated[int, Field(ge=31, le=10_000)]
    train: Annotated[float, Field(gt=0, lt=1)]
    val: Annotated[float, Field(gt=0, lt=1)]
    test: Annotated[float, Field(ge=0, lt=1)]

    @model_validator(mode="after")
    def _groups_are_of_whole_works(self) -> "Split":
        if self.duplicates == "group" and self.strategy in ("tail", "contiguous"):
            what = f"needs whole works, but strategy {self.strategy} cuts them; use remove or keep, or strategy by_work"
            raise mistake("duplicates", self.duplicates, what)
        return self

    @model_validator(mode="after")
    def _fractions_sum_to_one(self) -> "Split":
        total = sum((Decimal(str(share)) for share in (self.train, self.val, self.test)), Decimal(0))
        if abs(total - 1) > Decimal("1e-9"):
            raise mistake(
                "train, val, test", f"{self.train}, {self.val}, {self.test}", f"sum to {total}; make them sum to 1"
            )
        return self


class Model(Section):
    """The shape of the GPT."""

    n_layer: Annotated[int, Field(ge=1, le=1000)]
    n_head: Annotated[int, Field(ge=1, le=2**24)]
    n_embd: Annotated[int, Field(ge=1, le=2**24)]
    block_size: Annotated[int, Field(ge=2, le=2**24)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    positions: Annotated[str, one_of("models/gpt.py", "POSITIONS")]
    norm: Annotated[str, one_of("models/gpt.py", "NORMS")]
    activation: Annotated[str, one_of("models/gpt.py", "ACTIVATIONS")]
    qk_norm: bool
    bias: bool
    tie_weights: bool
    proj_init: Annotated[str, one_of("models/gpt.py", "PROJ_INITS")]
    ngrams: Annotated[str, one_of("models/gpt.py", "NGRAMS")]
    ngram_dropout: Annotated[float, Field(ge=0, lt=1)]
    network_loss: Annotated[float, Field(ge=0, lt=1)]
    ngram_orders: Annotated[list[Annotated[int, Field(ge=1, le=12)]], Field(min_length=1), EACH_ONCE]

    @model_validator(mode="after")
    def _heads_share_the_channels(self) -> "Model":
        if self.n_embd % self.n_head:
            fitting = [n for n in range(1, min(self.n_embd, 64) + 1) if self.n_embd % n == 0]
            raise mistake(
                "n_head",
                self.n_head,
                f"does not divide n_embd {self.n_embd}; use {one_or_another([str(n) for n in fitting])}",
            )
        if self.positions == "rotary" and self.n_embd // self.n_head % 2:
            raise mistake(
                "positions",
                self.positions,
                f"needs an even number of channels per head, but n_embd {self.n_embd} / n_head {self.n_head} is "
                f"{self.n_embd // self.n_head}; use learned, or another n_head",
            )
        return self


class Baselines(Section):
    """What stage baselines counts on train, and which rows it scores."""

    max_order: Annotated[int, Field(ge=0, le=12)]
    ngram_orders: Annotated[list[Annotated[int, Field(ge=3, le=12)]], EACH_ONCE]

    @model_validator(mode="after")
    def _rows_are_counted(self) -> "Baselines":
        if self.max_order and self.ngram_orders and max(self.ngram_orders) > self.max_order:
            raise mistake(
                "ngram_orders",
                self.ngram_orders,
                f"asks for order {max(self.ngram_orders)}, but max_order is {self.max_order}; use a greater max_order, "
                "or shorter n-grams",
            )
        return self


class Compute(Section):
    """Device, precision and threads of training and scoring."""

    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16"]
    threads: Annotated[int, Field(ge=0, le=1024)]  # OpenMP aborts a process with too many


class Training(Section):
    """How one model is trained; the same keys for both."""

    optimizer: Optimizer
    n_steps: Steps
    batch_size: Count
    micro_batches: Count
    learning_rate: Rate
    warmup_steps: CountOrNone
    decay_to: Share
    weight_decay: Annotated[float, Field(ge=0)]
    beta2: Annotated[float, Field(gt=0, lt=1)]
    grad_clip: Annotated[float, Field(ge=0)]
    eval_every: Count
    patience: CountOrNone
    order: Order
    seed: Seed

    @model_validator(mode="after")
    def _intervals_fit(self) -> "Training":
        for key in ("warmup_steps", "eval_every"):
            if getattr(self, key) > self.n_steps:
                raise mistake(key, getattr(self, key), f"is more than n_steps {self.n_steps}; use n_steps or less")
        return self

    @model_validator(mode="after")
    def _batches_divide(self) -> "Training":
        divisor = self.micro_batches * getattr(self, "processes", 1)
        if self.batch_size % divisor:
            raise mistake(
                "batch_size",
                self.batch_size,
                f"is not divisible by micro_batches times processes, {divisor}; "
                f"use {-(-self.batch_size // divisor) * divisor}",
            )
        return self


class TrainBigram(Training):
    """The bigram of the lecture notes; its windows are short because it uses one character of context only."""

    optimizer: Literal["adamw"]  # a table of characters has no matrix of hidden channels
    block_size: Annotated[int, Field(ge=2, le=2**24)]


class TrainGPT(Training):
    """The GPT; its block_size is the model's."""

    processes: Annotated[int, Field(ge=1, le=1024)]


class Evaluate(Section):
    """What stage evaluate measures beside the scores."""

    short_context: Count
    context_chars: Count
    attention_sentence: Annotated[str, Field(max_length=2**24)]
    attention_windows: Count
    leak_steps: Steps


class Sample(Section):
    """How the models continue the prompts."""

    prompts: Annotated[
        Annotated[Literal["auto"], *AUTO]
        | Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1), LIST],
        EITHER,
    ]
    n_chars: Annotated[int, Field(ge=1, le=10**8)]  # takes a day
    temperature: Annotated[float, Field(ge=0)]
    top_k: CountOrNone
    top_p: Annotated[float, Field(gt=0, le=1)]
    seed: Seed
    unknown: Unknown


class Params(Section):
    """All of params.yaml."""

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
    def _orders_are_counted(self) -> "Params":
        orders, counted = self.model.ngram_orders, self.baselines.max_order
        if self.model.ngrams != "none" and max(orders) > counted:
            raise mistake(
                "model.ngram_orders",
                orders,
                f"asks for order {max(orders)}, but baselines.max_order is {counted}; use -S baselines.max_order="
                f"{max(orders)}, or shorter n-grams",
            )
        return self

    @model_validator(mode="after")
    def _context_fits(self) -> "Params":
        if self.evaluate.short_context > self.model.block_size:
            raise mistake(
                "evaluate.short_context",
                self.evaluate.short_context,
                f"is more than model.block_size; use {self.model.block_size} or less",
            )
        # a piece of bpe may have several characters: stage tokenize counts its ids
        if self.tokenize.kind != "bpe" and len(self.evaluate.attention_sentence) > self.model.block_size:
            raise mistake(
                "evaluate.attention_sentence",
                self.evaluate.attention_sentence,
                f"has {len(self.evaluate.attention_sentence)} characters, more than model.block_size "
                f"{self.model.block_size}; use a shorter one, or '' for a passage of the text",
            )
        return self


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # invalid brackets, ports or letters
        return False
