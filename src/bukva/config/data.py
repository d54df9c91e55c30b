"""The sections of the data stages: which text is read, and how it becomes train, val and test."""

import re
from decimal import Decimal
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from bukva.config.choices import EACH_ONCE, one_of, one_rule_set
from bukva.config.messages import mistake
from bukva.config.section import Section, Unknown
from bukva.core.redact import redact_url

DATASET = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
EXTENSION = re.compile(r"\.[^\s./\\]+")
AUTHORED = ("ruslit",)  # corpora whose works lie in folders of authors; those of others are genres, or anything


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
    def _extensions_are_the_ends_of_names(self) -> "Download":
        for name in self.extensions:
            if not EXTENSION.fullmatch(name):
                what = "is not an extension; use a dot and what follows it at the end of a name, such as .py"
                raise mistake("extensions", name, what)
        return self

    @model_validator(mode="after")
    def _dataset_is_named(self) -> "Download":
        if self.corpus == "huggingface" and not DATASET.fullmatch(self.dataset):
            raise mistake("dataset", self.dataset, "is not a dataset of the Hugging Face hub; use OWNER/NAME")
        return self

    @model_validator(mode="after")
    def _address_is_no_secret(self) -> "Download":
        if "@" in self.url:  # anywhere: a password may contain / or ?
            raise mistake(
                "url",
                redact_url(self.url),
                "has a user or a password before an @, and params.yaml is committed; remove them and add the line "
                "`machine HOST login USER password PASSWORD` to ~/.netrc (write an @ of a path as %40)",
            )
        return self

    @model_validator(mode="after")
    def _address_is_complete(self) -> "Download":
        if self.corpus == "url":
            if not self.url.startswith(("http://", "https://")):
                what = "is not an address; use one that starts with http:// or https://"
                raise mistake("url", redact_url(self.url), what)
            if not _has_host(self.url):
                what = "is not the address of a file (no host, an invalid port, or a blank); use https://HOST/FILE"
                raise mistake("url", redact_url(self.url), what)
            if not self.sha256:
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


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # invalid brackets, ports or letters
        return False
