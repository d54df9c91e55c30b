"""Texts of a user that the models must be able to encode: prompts, and the sentence whose attention is drawn."""

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Evaluate, Sample, Unknown
from bukva.tokenizers.base import Tokenizer


def check_prompts(tokenizer: Tokenizer, sample: Sample, evaluate: Evaluate, block_size: int) -> None:
    """Raise for a text that the models cannot read; stage tokenize calls this, before anything is trained.

    Raises:
        BukvaError: names the parameter, the text and the character.
    """
    for prompt in sample.prompts:
        readable_prompt(tokenizer, prompt, sample.unknown)
    check_sentence(tokenizer, evaluate.attention_sentence, block_size)


def readable_prompt(tokenizer: Tokenizer, prompt: str, unknown: Unknown) -> str:
    """The prompt without characters outside the vocabulary: rejected, dropped, or replaced by a space.

    Raises:
        BukvaError: there are some and `unknown` is error, or nothing is left, or the vocabulary lacks the space.
    """
    known = {char for char in (*prompt, " ") if tokenizer.knows(char)}
    if unknown == "replace" and " " in known:
        return "".join(char if char in known else " " for char in prompt)
    if unknown == "drop" and known & set(prompt):
        return "".join(char for char in prompt if char in known)
    advice = "use another prompt, or sample.unknown drop or replace" if unknown == "error" else "use another prompt"
    _check_known(tokenizer, prompt, "sample.prompts", advice)
    return prompt


def check_sentence(tokenizer: Tokenizer, sentence: str, block_size: int) -> None:
    """Raise for a sentence with a character outside the vocabulary, or of more ids than the GPT sees at once.

    Raises:
        BukvaError: names the sentence, and the character or the number of ids.
    """
    key, advice = "evaluate.attention_sentence", "or '' for a passage of the text"
    _check_known(tokenizer, sentence, key, f"use another, {advice}")
    n_ids = len(tokenizer.encode(sentence))
    if n_ids > block_size:
        raise BukvaError(
            f"params.yaml, {key}: {sentence!r} has {n_ids} {tokenizer.unit}s, more than model.block_size "
            f"{block_size}; use a shorter one, {advice}.\n{WAY_BACK}"
        )


def _check_known(tokenizer: Tokenizer, text: str, key: str, advice: str) -> None:
    try:
        tokenizer.encode(text)
    except BukvaError as error:
        raise BukvaError(f"params.yaml, {key}: {text!r}: {error}; {advice}.\n{WAY_BACK}") from None
