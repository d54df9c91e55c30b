"""What a person writes for the models to read: prompts, and the sentence whose attention is drawn."""

from bukva import params
from bukva.errors import BukvaError
from bukva.text.tokenizers import CharTokenizer


def refuse_unreadable(tokenizer: CharTokenizer, sample: params.Sample, evaluate: params.Evaluate) -> None:
    """Raise for a text that the models cannot read: by stage tokenize already, not after a night of training.

    Raises:
        BukvaError: names the parameter, the text and the character.
    """
    for prompt in sample.prompts:
        readable_prompt(tokenizer, prompt, sample.unknown)
    refuse_sentence(tokenizer, evaluate.attention_sentence)


def readable_prompt(tokenizer: CharTokenizer, prompt: str, unknown: params.Unknown) -> str:
    """The prompt without characters outside the vocabulary: refused, dropped, or replaced by a space.

    Raises:
        BukvaError: there are some and they are to be refused, or nothing is left, or there is no space to put.
    """
    known = set(tokenizer.chars)
    if unknown == "replace" and " " in known:
        return "".join(char if char in known else " " for char in prompt)
    if unknown == "drop" and known & set(prompt):
        return "".join(char for char in prompt if char in known)
    others = ", or sample.unknown drop or replace," if unknown == "error" else ""
    _refuse(tokenizer, prompt, "sample.prompts", f"another prompt{others}")
    return prompt


def refuse_sentence(tokenizer: CharTokenizer, sentence: str) -> None:
    """Raise for a sentence with a character outside the vocabulary.

    Raises:
        BukvaError: names the sentence and the character.
    """
    _refuse(tokenizer, sentence, "evaluate.attention_sentence", "another sentence, or '' for one from the text,")


def _refuse(tokenizer: CharTokenizer, text: str, key: str, remedy: str) -> None:
    try:
        tokenizer.encode(text)
    except BukvaError as error:
        raise BukvaError(f"params.yaml, {key}: {text!r}: {error}; {remedy} would do.\n{params.WAY_BACK}") from None
