"""Prompts that the models continue: texts that the vocabulary has all characters of.

sample.prompts auto takes the newline and the prompts of prompts.yaml in the scripts of the text, as far as the
vocabulary has their characters; if it has none of them, the beginnings of works.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bukva.config.messages import shorten
from bukva.config.schema import Sample, Unknown
from bukva.core.errors import BukvaError, ParamsError, redact_text
from bukva.text.tokenizers.base import Tokenizer

TABLE = Path(__file__).with_name("prompts.yaml")
MAIN = 0.2  # of the letters: a script with a smaller share has no prompts
KANA = ("Hiragana", "Katakana")
KANA_SHARE = 0.1  # of the letters; with as much the text is Japanese, which Han is a part of
ESCAPE = re.compile(r"\\[nt]")  # what -S makes of "\n": two characters, because only YAML reads escape sequences
NEWLINE_ADVICE = """in bash and zsh, -S $'sample.prompts=["\\n"]' passes a newline"""


def chosen_prompts(tokenizer: Tokenizer, sample: Sample, cleaning: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the prompts of params.yaml, for auto those that fit the text; and sentences that say why these.

    Args:
        tokenizer: knows the characters of the text, or of train.
        sample: section of params.yaml.
        cleaning: reports/cleaning.json, with the letters of the text by script and the beginnings of works.

    Raises:
        BukvaError: no prompt can be made of known characters.
    """
    if sample.prompts != "auto":
        prompts = [composed(tokenizer, prompt) for prompt in sample.prompts]
        return prompts, " ".join(["The prompts are those of params.yaml.", *_doubts(sample.prompts, prompts)])
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    newline = _known(tokenizer, ["\n"])
    scripts = _main_scripts(cleaning["letters"])
    if texts := _known(tokenizer, [prompt for script in scripts for prompt in table.get(script, ())]):
        which = ", ".join(f"{script} ({100 * share:.0f} % of the letters)" for script, share in scripts.items())
        return newline + texts, f"The prompts are those for {which}, because sample.prompts is auto."
    openings = ["".join(_known(tokenizer, opening)) for opening in cleaning["openings"]]
    if texts := newline + [opening for opening in openings if opening]:
        which = f"no prompt for {' or '.join(scripts)} fits its characters" if scripts else "the text has no letters"
        return texts, f"The prompts are beginnings of works, because sample.prompts is auto and {which}."
    raise ParamsError("params.yaml, sample.prompts: 'auto' finds no prompt in this text; use a list.")


def _doubts(given: list[str], prompts: list[str]) -> Iterator[str]:
    """Yield sentences about prompts that are changed, or that may not be what the user meant."""
    if n := sum(before != after for before, after in zip(given, prompts, strict=True)):
        yield f"In {n} of {len(given)}, decomposed letters are composed as in the text (Unicode NFC)."
    if n := sum(bool(ESCAPE.search(prompt)) for prompt in prompts):
        yield f"In {n} of {len(given)}, a backslash before n or t stays a backslash; {NEWLINE_ADVICE}."


def check_prompts(tokenizer: Tokenizer, sample: Sample) -> None:
    """Raise a BukvaError if stage sample would reject a prompt of params.yaml.

    A training calls this first, because stage sample comes last, and no stage of the training depends on the prompts.
    """
    for prompt in () if sample.prompts == "auto" else sample.prompts:
        readable_prompt(tokenizer, prompt, sample.unknown)


def opening(tokenizer: Tokenizer) -> str:
    """The newline, as in the lecture notes; where the vocabulary lacks it, the first of the vocabulary."""
    return "\n" if tokenizer.knows("\n") else tokenizer.decode([0])


def readable_prompt(tokenizer: Tokenizer, prompt: str, unknown: Unknown) -> str:
    """The prompt without characters outside the vocabulary: rejected, dropped, or replaced by a space.

    Raises:
        BukvaError: there are some and `unknown` is error, or nothing is left, or the vocabulary lacks the space.
    """
    readable = without_unknown(tokenizer, prompt, unknown)
    advice = "use another prompt, or sample.unknown drop or replace" if unknown == "error" else "use another prompt"
    if ESCAPE.search(prompt) and not tokenizer.knows("\\"):
        advice = NEWLINE_ADVICE
    check_known(tokenizer, readable, "sample.prompts", advice)
    return readable


def composed(tokenizer: Tokenizer, text: str) -> str:
    """Return a text with composed letters (Unicode NFC), unless the vocabulary knows more of it as it is.

    macOS may write й as two characters. A corpus may have it so, too, if no cleaning rule composes it.
    """
    forms = (unicodedata.normalize("NFC", text), text)
    return min(forms, key=lambda form: sum(not tokenizer.knows(char) for char in set(form)))


def without_unknown(tokenizer: Tokenizer, text: str, unknown: Unknown) -> str:
    """Return a text, composed, in which characters outside the vocabulary are dropped, or replaced by a space.

    They stay if `unknown` is error, if nothing would be left, or if the vocabulary lacks the space.
    """
    text = composed(tokenizer, text)
    known = {char for char in (*text, " ") if tokenizer.knows(char)}
    if unknown == "replace" and " " in known:
        return "".join(char if char in known else " " for char in text)
    if unknown == "drop" and known & set(text):
        return "".join(char for char in text if char in known)
    return text


def check_known(tokenizer: Tokenizer, text: str, key: str, advice: str) -> None:
    """Raise BukvaError for a text of parameter `key` with a character outside the vocabulary."""
    try:
        tokenizer.encode(text)
    except BukvaError as error:
        raise ParamsError(f"params.yaml, {key}: {shorten(text)}: {redact_text(error)}; {advice}.") from None


def _main_scripts(letters: Mapping[str, int]) -> dict[str, float]:
    """The scripts with a large share of the letters, and this share; the largest first."""
    total = sum(letters.values())
    shares = {script: count / total for script, count in letters.items()}
    if sum(shares.get(kana, 0) for kana in KANA) >= KANA_SHARE:
        shares["Japanese"] = sum(shares.pop(script, 0) for script in (*KANA, "Han"))
    largest_first = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {script: share for script, share in largest_first if share >= MAIN}


def _known(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    """Those of these texts that can be encoded."""
    return [text for text in texts if all(map(tokenizer.knows, text))]
