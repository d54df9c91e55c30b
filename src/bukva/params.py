"""params.yaml, read once, strictly, into frozen objects.

Numbers live in params.yaml and nowhere else: there is no default here. Every stage reads the whole file before
it does anything, so that a mistake stops whichever stage runs first. The file is read with DVC's own parser
(ruamel.yaml, YAML 1.2): PyYAML would take 1e-3 for text.
"""

import difflib
import re
import reprlib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from bukva.addresses import shown, without_password
from bukva.errors import BukvaError

PARAMS = Path("params.yaml")
LIKE_AN_ADDRESS = re.compile(r"://|@|/\S*[?#]")  # also one without its beginning
WAY_BACK = "To go back: git checkout params.yaml reports && dvc checkout"

# Which sections a stage reads; dvc.yaml says the same under `params`, and a test compares them.
SECTIONS: dict[str, tuple[str, ...]] = {
    "download": ("download",),
    "clean": ("clean",),
    "tokenize": ("tokenize", "split"),
    "split": ("split",),
    "train-bigram": ("compute", "train_bigram"),
    "train-gpt": ("model", "compute", "train_gpt"),
    "evaluate": ("compute", "evaluate"),
    "sample": ("compute", "sample"),
}

Count = Annotated[int, Field(ge=1, le=10**12)]  # what counts more is a mistake, and 64 bits soon do not hold it
CountOrNone = Annotated[int, Field(ge=0, le=10**12)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]
Order = Literal["epoch", "random"]
Optimizer = Literal["adamw", "muon"]
Unknown = Literal["error", "drop", "replace"]


class Section(BaseModel):
    """Strict (no text for numbers, no true for 1; an int for a float will do), closed and frozen."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Download(Section):
    """Which text to read, and where it lies."""

    corpus: Literal["sample", "ruslit", "tinyshakespeare", "local", "url"]
    path: Annotated[str, Field(min_length=1)]
    url: Annotated[str, Field(max_length=2048)]  # as many as sitemaps.org allows
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]

    @model_validator(mode="after")
    def _address_is_no_secret(self) -> "Download":
        if "@" in self.url:  # wherever it stands: a password that was pasted as it is may hold a / or a ?
            raise _mistake(
                "url",
                shown(self.url),
                "has a user or a password before an @, and params.yaml is committed; without them, and with a line "
                "`machine HOST login USER password PASSWORD` in ~/.netrc, it would do (an @ of a path is written %40)",
            )
        return self

    @model_validator(mode="after")
    def _address_is_complete(self) -> "Download":
        if self.corpus == "url":
            if not self.url.startswith(("http://", "https://")):
                what = "corpus url needs an address that starts with http:// or https://"
                raise _mistake("url", shown(self.url), what)
            if not _names_a_host(self.url):
                what = (
                    "is no address of a file: no host, a port that is no number, or a blank; https://HOST/FILE would do"
                )
                raise _mistake("url", shown(self.url), what)
            if not self.sha256:
                raise _mistake("sha256", self.sha256, "corpus url needs the digest that sha256sum prints of the file")
        return self


class Clean(Section):
    """Which rules the text goes through."""

    rules: Literal["notes", "none"]


class Tokenize(Section):
    """What becomes one id."""

    kind: Literal["char"]
    vocabulary: Literal["all", "train"]


class Split(Section):
    """Which characters the models learn from, are chosen by, and are judged by."""

    strategy: Literal["tail", "contiguous"]
    train: Annotated[float, Field(gt=0, lt=1)]
    val: Annotated[float, Field(gt=0, lt=1)]
    test: Annotated[float, Field(ge=0, lt=1)]

    @model_validator(mode="after")
    def _fractions_sum_to_one(self) -> "Split":
        total = sum((Decimal(str(share)) for share in (self.train, self.val, self.test)), Decimal(0))
        if abs(total - 1) > Decimal("1e-9"):
            raise _mistake("train, val, test", f"{self.train}, {self.val}, {self.test}", f"sum to {total}, not to 1")
        return self


class Model(Section):
    """The shape of the GPT."""

    n_layer: Annotated[int, Field(ge=1, le=1000)]
    n_head: Annotated[int, Field(ge=1, le=2**24)]
    n_embd: Annotated[int, Field(ge=1, le=2**24)]
    block_size: Annotated[int, Field(ge=2, le=2**24)]
    dropout: Annotated[float, Field(ge=0, lt=1)]
    positions: Literal["learned", "rotary", "none"]
    norm: Literal["layernorm", "rmsnorm"]
    activation: Literal["gelu", "relu", "relu2"]
    qk_norm: bool
    bias: bool
    tie_weights: bool
    proj_start: Literal["scaled", "zero"]

    @model_validator(mode="after")
    def _heads_share_the_channels(self) -> "Model":
        if self.n_embd % self.n_head:
            fitting = [n for n in range(1, min(self.n_embd, 64) + 1) if self.n_embd % n == 0]
            raise _mistake(
                "n_head",
                self.n_head,
                f"does not divide n_embd {self.n_embd}; {', '.join(map(str, fitting))} would",
            )
        if self.positions == "rotary" and self.n_embd // self.n_head % 2:
            raise _mistake(
                "positions",
                self.positions,
                f"needs heads of an even number of channels, and n_embd {self.n_embd} / n_head {self.n_head} is "
                f"{self.n_embd // self.n_head}; learned would do",
            )
        return self


class Compute(Section):
    """On what the models are trained and scored."""

    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "fp32", "bf16"]
    threads: Annotated[int, Field(ge=0, le=1024)]  # OpenMP ends a program that asks for too many


class Training(Section):
    """How one model is trained; the same keys for both."""

    optimizer: Optimizer
    n_steps: Count
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
                raise _mistake(
                    key, getattr(self, key), f"is more than n_steps {self.n_steps}; n_steps or less would do"
                )
        return self

    @model_validator(mode="after")
    def _batches_divide(self) -> "Training":
        parts = self.micro_batches * getattr(self, "processes", 1)
        if self.batch_size % parts:
            raise _mistake(
                "batch_size",
                self.batch_size,
                f"cannot be divided into {parts} equal parts (micro_batches times processes); "
                f"{-(-self.batch_size // parts) * parts} would do",
            )
        return self


class TrainBigram(Training):
    """The notes' bigram; its windows are shorter than the GPT's, for it looks at one character only."""

    optimizer: Literal["adamw"]  # a table of characters has no matrix between hidden channels
    block_size: Annotated[int, Field(ge=2, le=2**24)]


class TrainGPT(Training):
    """The GPT; its block_size is the model's."""

    processes: Annotated[int, Field(ge=1, le=1024)]


class Evaluate(Section):
    """What is measured beside the plain scores."""

    short_context: Count
    context_chars: Count
    attention_sentence: Annotated[str, Field(max_length=2**24)]
    attention_windows: Count
    leak_steps: Count


class Sample(Section):
    """What both models are asked to write."""

    prompts: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    n_chars: Annotated[int, Field(ge=1, le=10**8)]  # a day of writing
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
    model: Model
    compute: Compute
    train_bigram: TrainBigram
    train_gpt: TrainGPT
    evaluate: Evaluate
    sample: Sample

    @model_validator(mode="after")
    def _context_fits(self) -> "Params":
        if self.evaluate.short_context > self.model.block_size:
            raise _mistake(
                "evaluate.short_context",
                self.evaluate.short_context,
                f"is more than model.block_size {self.model.block_size}; that or less would do",
            )
        if len(self.evaluate.attention_sentence) > self.model.block_size:
            raise _mistake(
                "evaluate.attention_sentence",
                self.evaluate.attention_sentence,
                f"has {len(self.evaluate.attention_sentence)} characters, more than model.block_size "
                f"{self.model.block_size}; a shorter one, or '' for one from the text, would do",
            )
        return self


def read_params(path: Path = PARAMS) -> Params:
    """Read and validate the whole file.

    Raises:
        BukvaError: one sentence for each mistake, naming section, key, value and what would do, then the way back.
    """
    return parse_params(read_raw_params(path), str(path))


def read_raw_params(path: Path = PARAMS) -> dict[str, Any]:
    """The file as DVC reads it, sections not yet validated."""
    from ruamel.yaml import YAML

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BukvaError(f"{path}: there is no such file; run this in the project's folder. {WAY_BACK}") from None
    except UnicodeDecodeError as error:
        raise BukvaError(f"{path}: byte {error.start} is not UTF-8. {WAY_BACK}") from None
    except OSError as error:
        raise BukvaError(f"{path}: cannot be read ({error.strerror}). {WAY_BACK}") from None
    try:
        raw = YAML(typ="safe").load(text)
    except Exception as error:  # the parser lets through what int(), float(), datetime() and the stack raise
        raise BukvaError(f"{path}: not YAML: {_fault(error)}. {WAY_BACK}") from None
    if not isinstance(raw, dict):
        raise BukvaError(f"{path}: holds {type(raw).__name__}, not sections with keys. {WAY_BACK}")
    return raw


def parse_params(raw: dict[str, Any], where: str) -> Params:
    """Validate sections that were read already; `where` names their source in errors."""
    try:
        return Params.model_validate(raw)
    except ValidationError as error:
        mistakes = [f"{where}, {_sentence(details)}" for details in error.errors(include_url=False)]
        raise BukvaError("\n".join([*mistakes, WAY_BACK])) from None


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # of brackets, ports and letters that no host has
        return False


def _mistake(key: str, value: object, what: str) -> PydanticCustomError:
    # braces in the template would be read as fields, so everything goes in as context
    return PydanticCustomError("mistake", "{key}: {value} {what}", {"key": key, "value": _told(value), "what": what})


def _fault(error: Exception) -> str:
    """What the YAML parser says, without the values and lines that it quotes: there may be an address among them."""
    from ruamel.yaml.error import MarkedYAMLError

    if not isinstance(error, MarkedYAMLError):
        return " ".join(without_password(error).split())
    said = f"{error.context or ''} {(error.problem or '').partition(' with value ')[0]}"
    mark = error.problem_mark or error.context_mark
    return f"{' '.join(without_password(said).split())}, line {mark.line + 1}, column {mark.column + 1}"


class _Told(reprlib.Repr):
    """Values as errors show them: an address without its secrets, and nothing that fills a page."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring, self.maxother = 200, 60

    def repr_str(self, text: str, level: int) -> str:
        return super().repr_str(shown(text) if LIKE_AN_ADDRESS.search(text) else text, level)

    def repr_int(self, number: int, level: int) -> str:
        if number.bit_length() < 128:
            return super().repr_int(number, level)
        return f"about {'-' if number < 0 else ''}2**{number.bit_length() - 1}"  # Python itself writes 4300 digits


_told = _Told().repr


def _sentence(details: ErrorDetails) -> str:
    """One pydantic error in the reader's words."""
    location, value = [str(part) for part in details["loc"]], details["input"]
    where = ".".join(location)
    context = details.get("ctx", {})
    match details["type"]:
        case "mistake":
            return f"{'.'.join([*location, str(context['key'])])}: {context['value']} {context['what']}."
        case "extra_forbidden":
            return f"{where}: unknown key with value {_told(value)}; {_known_keys(location)}"
        case "missing":
            return f"{where}: missing; put it back (git diff params.yaml shows what went)."
        case "literal_error":
            return f"{where}: {_told(value)} is not known; {context['expected']} would do."
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            return f"{where}: {_told(value)} is out of range; {details['msg'].removeprefix('Input ')}."
        case "string_pattern_mismatch":
            return (
                f"{where}: {_told(value)} is not a SHA-256 digest; 64 digits 0-9a-f (sha256sum FILE), or '', would do."
            )
        case _:
            kind, what = type(value).__name__, details["msg"].removeprefix("Input ")
            return f"{where}: {_told(value)} ({kind}) will not do; {what}."


def _known_keys(location: list[str]) -> str:
    section: type[BaseModel] = Params
    for part in location[:-1]:
        section = section.model_fields[part].annotation  # type: ignore[assignment]
    known = list(section.model_fields)
    close = difflib.get_close_matches(location[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}."
