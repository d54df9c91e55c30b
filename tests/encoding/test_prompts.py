"""Prompts and the sentence for attention: rejected with advice, or made encodable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Evaluate, Sample
from bukva.encoding.prompts import check_prompts, check_sentence, readable_prompt
from bukva.tokenizers.byte import ByteTokenizer
from bukva.tokenizers.char import CharTokenizer

TOKENIZER = CharTokenizer(["\n", " ", "а", "б"])
SPACELESS = CharTokenizer(["\n", "а", "б"])

UNKNOWN = ("error", "drop", "replace")


def sample(*prompts, unknown="error"):
    return Sample(prompts=list(prompts), n_chars=1, temperature=1, top_k=0, top_p=1, seed=0, unknown=unknown)


def evaluate(sentence):
    sizes = {"short_context": 1, "context_chars": 1, "attention_windows": 1, "leak_steps": 1, "ngram_orders": [3]}
    return Evaluate(attention_sentence=sentence, **sizes)


def rejection(call, *arguments):
    with pytest.raises(BukvaError) as error:
        call(*arguments)
    return str(error.value)


# ---- prompts


@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize("prompt", ["\n", "абба", "а б\n"])
def test_a_prompt_over_the_vocabulary_is_unchanged(prompt, unknown):
    assert readable_prompt(TOKENIZER, prompt, unknown) == prompt


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_a_prompt_over_a_vocabulary_without_space_is_unchanged(unknown):
    assert readable_prompt(SPACELESS, "абба", unknown) == "абба"


def test_an_unknown_character_is_rejected_with_advice():
    assert rejection(readable_prompt, TOKENIZER, "аббат", "error") == (
        "params.yaml, sample.prompts: 'аббат': not in the vocabulary of 4 characters: "
        "'т' (U+0442 CYRILLIC SMALL LETTER TE); the first is character 5 of 'аббат'; "
        f"use another prompt, or sample.unknown drop or replace.\n{WAY_BACK}"
    )


@pytest.mark.parametrize(("prompt", "left"), [("аббат", "абба"), ("Ab, а?", " а"), ("тат", "а"), ("x\n", "\n")])
def test_unknown_characters_may_be_dropped(prompt, left):
    assert readable_prompt(TOKENIZER, prompt, "drop") == left


@pytest.mark.parametrize(("prompt", "left"), [("аббат", "абба "), ("тат", " а "), ("x\n", " \n"), ("xyz", "   ")])
def test_unknown_characters_may_be_replaced_by_a_space(prompt, left):
    assert readable_prompt(TOKENIZER, prompt, "replace") == left


def test_a_prompt_without_a_known_character_is_rejected():
    assert rejection(readable_prompt, TOKENIZER, "xyx", "drop") == (
        "params.yaml, sample.prompts: 'xyx': not in the vocabulary of 4 characters: "
        "'x' (U+0078 LATIN SMALL LETTER X), 'y' (U+0079 LATIN SMALL LETTER Y); the first is character 1 of 'xyx'; "
        f"use another prompt.\n{WAY_BACK}"
    )


def test_without_a_space_in_the_vocabulary_replace_rejects():
    message = rejection(readable_prompt, SPACELESS, "аббат", "replace")
    assert "'т' (U+0442 CYRILLIC SMALL LETTER TE)" in message
    assert message.endswith(f"; use another prompt.\n{WAY_BACK}")


@given(st.text("аб \nxя", min_size=1), st.sampled_from(UNKNOWN), st.sampled_from([TOKENIZER, SPACELESS]))
def test_any_prompt_can_be_encoded_or_is_rejected(prompt, unknown, tokenizer):
    known, chars = [char for char in prompt if char in tokenizer.chars], tokenizer.chars
    if len(known) == len(prompt):
        expected = prompt
    elif unknown == "replace" and " " in chars:
        expected = "".join(char if char in chars else " " for char in prompt)
    elif unknown == "drop" and known:
        expected = "".join(known)
    else:
        assert repr(prompt) in rejection(readable_prompt, tokenizer, prompt, unknown)
        return
    assert readable_prompt(tokenizer, prompt, unknown) == expected
    assert tokenizer.decode(tokenizer.encode(expected)) == expected


# ---- the sentence whose attention is drawn


@pytest.mark.parametrize("sentence", ["", "абба", "а б\n"])
def test_a_sentence_over_the_vocabulary_or_none_is_accepted(sentence):
    check_sentence(TOKENIZER, sentence, 4)


def test_a_sentence_with_an_unknown_character_is_rejected():
    assert rejection(check_sentence, TOKENIZER, "бат", 4) == (
        "params.yaml, evaluate.attention_sentence: 'бат': not in the vocabulary of 4 characters: "
        "'т' (U+0442 CYRILLIC SMALL LETTER TE); the first is character 3 of 'бат'; "
        f"use another, or '' for a passage of the text.\n{WAY_BACK}"
    )


def test_a_sentence_of_more_ids_than_a_window_is_rejected():
    check_sentence(ByteTokenizer(), "abб", 4)
    assert rejection(check_sentence, ByteTokenizer(), "абв", 5) == (
        "params.yaml, evaluate.attention_sentence: 'абв' has 6 bytes, more than model.block_size 5; "
        f"use a shorter one, or '' for a passage of the text.\n{WAY_BACK}"
    )


# ---- both, in stage tokenize


def test_texts_that_can_be_encoded_are_accepted():
    check_prompts(TOKENIZER, sample("\n", "абба"), evaluate("а б"), 7)
    check_prompts(TOKENIZER, sample("аббат", unknown="drop"), evaluate(""), 7)
    check_prompts(TOKENIZER, sample("xyz", unknown="replace"), evaluate(""), 7)


@pytest.mark.parametrize("prompts", [("\n", "аббат"), ("аббат", "\n")])
def test_one_prompt_that_cannot_be_encoded_is_rejected(prompts):
    assert rejection(check_prompts, TOKENIZER, sample(*prompts), evaluate(""), 7).startswith(
        "params.yaml, sample.prompts: 'аббат': not in"
    )


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_a_sentence_that_cannot_be_encoded_is_rejected_for_every_value_of_unknown(unknown):
    assert rejection(check_prompts, TOKENIZER, sample("\n", unknown=unknown), evaluate("бат"), 7).startswith(
        "params.yaml, evaluate.attention_sentence: 'бат': not in"
    )
