"""Choose and check the prompts, the texts that the models continue. Their characters must be in the vocabulary."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from bukva.core.errors import BukvaError, ParamsError, redact_text
from bukva.core.messages import shorten
from bukva.core.schema import Sample
from bukva.text.tokenizers import Tokenizer

TABLE = Path(__file__).with_name("prompts.yaml")
MAIN = 0.2  # minimum fraction of the letters that a main script of the text has
KANA = ("Hiragana", "Katakana")
KANA_SHARE = 0.1  # minimum fraction of kana in a Japanese text; Han letters then count as Japanese
ESCAPE = re.compile(r"\\[nt]")  # -S passes "\n" as two characters, because only YAML interprets it as a newline
NEWLINE_ADVICE = """in bash and zsh, -S $'sample.prompts=["\\n"]' passes a newline"""


def chosen_prompts(tokenizer: Tokenizer, sample: Sample, cleaning: Mapping[str, Any]) -> tuple[list[str], str]:
    """Return the prompts for the models, and sentences for the report that say why these prompts were chosen.

    With `sample.prompts=auto`, they are the newline and the prompts in prompts.yaml for the main scripts (writing
    systems) of the text by reports/cleaning.json, or beginnings of works if the tokenizer can encode none of these.
    """
    if sample.prompts != "auto":
        prompts = [composed(tokenizer, prompt) for prompt in sample.prompts]
        why = "The prompts are those of params.yaml."
        if n := sum(before != after for before, after in zip(sample.prompts, prompts, strict=True)):
            why += f" In {n} of {len(prompts)}, decomposed letters are composed as in the text (Unicode NFC)."
        if n := sum(bool(ESCAPE.search(prompt)) for prompt in prompts):
            why += f" In {n} of {len(prompts)}, a backslash before n or t stays a backslash; {NEWLINE_ADVICE}."
        return prompts, why
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
    raise ParamsError("params.yaml, sample.prompts=auto: no prompt suits this text; list your own prompts instead.")


def check_prompts(tokenizer: Tokenizer, sample: Sample) -> None:
    """Raise a ParamsError, before a training, if stage sample would not accept the prompts of params.yaml."""
    for prompt in () if sample.prompts == "auto" else sample.prompts:
        readable_prompt(tokenizer, prompt)


def default_prompt(tokenizer: Tokenizer) -> str:
    """Return the newline, as in the lecture notes, or the text of id 0 if the vocabulary has no newline."""
    return "\n" if tokenizer.can_encode("\n") else tokenizer.decode([0])


def readable_prompt(tokenizer: Tokenizer, prompt: str) -> str:
    """Return the prompt in the form of `composed`. ParamsError: it has a character that is not in the vocabulary."""
    readable = composed(tokenizer, prompt)
    try:
        tokenizer.encode(readable)
    except BukvaError as error:
        is_escaped = ESCAPE.search(prompt) and not tokenizer.can_encode("\\")
        advice = NEWLINE_ADVICE if is_escaped else "use another prompt"
        why = f"{shorten(readable)}: {redact_text(error)}; {advice}."
        raise ParamsError(f"params.yaml, sample.prompts: {why}") from None
    return readable


def composed(tokenizer: Tokenizer, text: str) -> str:
    """Return a text in Unicode NFC, in which й is one character, unless this has more characters that are unknown."""
    # macOS may write й as two characters, and so may the corpus if no cleaning rule composes them
    forms = (unicodedata.normalize("NFC", text), text)
    return min(forms, key=lambda form: sum(not tokenizer.can_encode(char) for char in set(form)))


def _main_scripts(letters: Mapping[str, int]) -> dict[str, float]:
    """Return the fraction of the letters that each main script has, in descending order."""
    total = sum(letters.values())
    shares = {script: count / total for script, count in letters.items()}
    if sum(shares.get(kana, 0) for kana in KANA) >= KANA_SHARE:
        shares["Japanese"] = sum(shares.pop(script, 0) for script in (*KANA, "Han"))
    largest_first = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return {script: share for script, share in largest_first if share >= MAIN}


def _known(tokenizer: Tokenizer, texts: Iterable[str]) -> list[str]:
    return [text for text in texts if all(map(tokenizer.can_encode, text))]
