"""Whether the scores of two experiments measure the same, and what differs if they do not."""

from typing import Any

from bukva.compare.groups import COMPARABLE
from bukva.compare.results import Result
from bukva.core.errors import BukvaError
from bukva.text.tokenizers import tokenizer_class

# what of about.json must be equal, and how an error names it
NAMED = {"window": "window rule", "alphabet": "alphabet", "text": "text"}


def check_has(result: Result, model: str, split: str) -> None:
    """Raise where an experiment has no scores of this model on this split."""
    known = result.about["models"]
    if model not in known:
        raise BukvaError(f"{result.revision.name}: has no model {model}; use {' or '.join(known)}.")
    if split not in result.about["text"]:
        raise BukvaError(
            f"{result.revision.name}: has no scores on {split}, only on {' and '.join(result.about['text'])}."
        )


def check_comparable(a: Result, b: Result, split: str) -> None:
    """Raise where two scores do not measure the same; the sentence says what differs.

    Both are over the same characters of the same text. Where the tokenizers differ, windows and alphabets cannot be the
    same: a window is counted in ids, and byte and bpe have no alphabet. Then a remark says so.
    """
    for part in COMPARABLE if tokenizer_of(a) == tokenizer_of(b) else ("text",):
        ours, theirs = a.about[part], b.about[part]
        if part == "text":
            ours, theirs = ours[split][:12], theirs[split][:12]
        if ours != theirs:
            unit = unit_of(a)
            raise BukvaError(
                f"{b.revision.name} and {a.revision.name} cannot be compared: the {_named(part, split)} is not the "
                f"same ({_shown(part, theirs, unit)} against {_shown(part, ours, unit)}); {_remedy(part)}."
            )


def tokenizer_of(result: Result) -> tuple[str, int | None]:
    """Its kind, and the size that was asked for where it can be chosen."""
    params = result.params["tokenize"]
    return params["kind"], params["vocab_size"] if params["kind"] == "bpe" else None


def unit_of(result: Result) -> str:
    """What one of its ids stands for, in a word."""
    return tokenizer_class(tokenizer_of(result)[0]).unit


def _named(part: str, split: str) -> str:
    return f"{split} text" if part == "text" else NAMED[part]


def _shown(part: str, value: Any, unit: str) -> str:
    match part:
        case "window":
            return f"windows of {value['length']} {unit}s with stride {value['stride']}, context: {value['context']}"
        case "alphabet":
            return f"{len(value)} characters"
        case _:
            return f"SHA-256 {value}"


def _remedy(part: str) -> str:
    return {
        "window": "use the same model.block_size",
        "alphabet": "use the same vocabulary",
        "text": "use the same corpus, cleaning rules and split",
    }[part]
