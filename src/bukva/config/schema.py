"""The sections of params.yaml: their keys, types and limits. Those of the data stages are in bukva.config.data.

Numbers live in params.yaml, and no key has a default. A section accepts values or rejects them, and never changes one,
so no stage depends on this module; the values themselves are dependencies (`params` in dvc.yaml).
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from bukva.config.choices import AUTO, EACH_ONCE, EITHER, LIST, one_of
from bukva.config.data import Clean, Download, Split, Tokenize
from bukva.config.messages import mistake, one_or_another
from bukva.config.section import Count, CountOrNone, Rate, Section, Seed, Share, Steps, Unknown

Order = Literal["epoch", "random"]
Optimizer = Annotated[str, one_of("training/optimizers/__init__.py", "OPTIMIZERS")]


class Model(Section):
    """The shape of the GPT."""

    n_layer: Annotated[int, Field(ge=1, le=1000)]
    n_head: Annotated[int, Field(ge=1, le=2**24)]
    n_embd: Annotated[int, Field(ge=1, le=2**24)]
    block_size: Annotated[int, Field(ge=2, le=2**24)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    positions: Annotated[str, one_of("models/transformer.py", "POSITIONS")]
    norm: Annotated[str, one_of("models/transformer.py", "NORMS")]
    activation: Annotated[str, one_of("models/transformer.py", "ACTIVATIONS")]
    qk_norm: bool
    bias: bool
    tie_weights: bool
    proj_init: Annotated[str, one_of("models/transformer.py", "PROJ_INITS")]
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
