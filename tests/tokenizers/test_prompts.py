"""What a person writes for the models: refused with a way out, or made readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Evaluate, Sample
from bukva.tokenizers.char import CharTokenizer
from bukva.tokenizers.prompts import check_prompts, check_sentence, readable_prompt

TOKENIZER = CharTokenizer(["\n", " ", "а", "б"])
SPACELESS = CharTokenizer(["\n", "а", "б"])

UNKNOWN = ("error", "drop", "replace")


def sample(*prompts, unknown="error"):
    return Sample(prompts=list(prompts), n_chars=1, temperature=1, top_k=0, top_p=1, seed=0, unknown=unknown)


def evaluate(sentence):
    sizes = {"short_context": 1, "context_chars": 1, "attention_windows": 1, "leak_steps": 1}
    return Evaluate(attention_sentence=sentence, **sizes)


def refusal(call, *arguments):
    with pytest.raises(BukvaError) as error:
        call(*arguments)
    return str(error.value)


# ---- prompts


@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize("prompt", ["\n", "абба", "а б\n"])
def test_a_prompt_over_the_alphabet_is_left_as_it_is(prompt, unknown):
    assert readable_prompt(TOKENIZER, prompt, unknown) == prompt


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_so_it_is_without_a_space_to_put(unknown):
    assert readable_prompt(SPACELESS, "абба", unknown) == "абба"


def test_a_character_outside_the_alphabet_is_refused_and_named_and_what_can_be_done():
    assert refusal(readable_prompt, TOKENIZER, "аббат", "error") == (
        "params.yaml, sample.prompts: 'аббат': not among the 4 characters of the vocabulary: "
        "'т' (U+0442 CYRILLIC SMALL LETTER TE); the first is number 5 of 'аббат'; "
        f"another prompt, or sample.unknown drop or replace, would do.\n{WAY_BACK}"
    )


@pytest.mark.parametrize(("prompt", "left"), [("аббат", "абба"), ("Ab, а?", " а"), ("тат", "а"), ("x\n", "\n")])
def test_it_may_be_dropped(prompt, left):
    assert readable_prompt(TOKENIZER, prompt, "drop") == left


@pytest.mark.parametrize(("prompt", "left"), [("аббат", "абба "), ("тат", " а "), ("x\n", " \n"), ("xyz", "   ")])
def test_it_may_be_replaced_by_a_space(prompt, left):
    assert readable_prompt(TOKENIZER, prompt, "replace") == left


def test_a_prompt_of_which_nothing_is_left_is_refused_and_another_asked_for():
    assert refusal(readable_prompt, TOKENIZER, "xyx", "drop") == (
        "params.yaml, sample.prompts: 'xyx': not among the 4 characters of the vocabulary: "
        "'x' (U+0078 LATIN SMALL LETTER X), 'y' (U+0079 LATIN SMALL LETTER Y); the first is number 1 of 'xyx'; "
        f"another prompt would do.\n{WAY_BACK}"
    )


def test_without_a_space_in_the_vocabulary_nothing_can_be_replaced():
    said = refusal(readable_prompt, SPACELESS, "аббат", "replace")
    assert "'т' (U+0442 CYRILLIC SMALL LETTER TE)" in said
    assert said.endswith(f"; another prompt would do.\n{WAY_BACK}")


@given(st.text("аб \nxя", min_size=1), st.sampled_from(UNKNOWN), st.sampled_from([TOKENIZER, SPACELESS]))
def test_whatever_is_written_can_be_encoded_or_is_refused(prompt, unknown, tokenizer):
    known, chars = [char for char in prompt if char in tokenizer.chars], tokenizer.chars
    if len(known) == len(prompt):
        expected = prompt
    elif unknown == "replace" and " " in chars:
        expected = "".join(char if char in chars else " " for char in prompt)
    elif unknown == "drop" and known:
        expected = "".join(known)
    else:
        assert repr(prompt) in refusal(readable_prompt, tokenizer, prompt, unknown)
        return
    assert readable_prompt(tokenizer, prompt, unknown) == expected
    assert tokenizer.decode(tokenizer.encode(expected)) == expected


# ---- the sentence whose attention is drawn


@pytest.mark.parametrize("sentence", ["", "абба", "а б\n"])
def test_a_sentence_over_the_alphabet_is_taken_and_none_at_all(sentence):
    check_sentence(TOKENIZER, sentence)


def test_a_sentence_with_another_character_is_refused_and_the_character_named():
    assert refusal(check_sentence, TOKENIZER, "бат") == (
        "params.yaml, evaluate.attention_sentence: 'бат': not among the 4 characters of the vocabulary: "
        "'т' (U+0442 CYRILLIC SMALL LETTER TE); the first is number 3 of 'бат'; "
        f"another sentence, or '' for one from the text, would do.\n{WAY_BACK}"
    )


# ---- both, by stage tokenize


def test_what_can_be_read_is_taken():
    check_prompts(TOKENIZER, sample("\n", "абба"), evaluate("а б"))
    check_prompts(TOKENIZER, sample("аббат", unknown="drop"), evaluate(""))
    check_prompts(TOKENIZER, sample("xyz", unknown="replace"), evaluate(""))


@pytest.mark.parametrize("prompts", [("\n", "аббат"), ("аббат", "\n")])
def test_any_prompt_that_cannot_be_read_is_refused(prompts):
    assert refusal(check_prompts, TOKENIZER, sample(*prompts), evaluate("")).startswith(
        "params.yaml, sample.prompts: 'аббат': not among"
    )


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_a_sentence_that_cannot_be_read_is_refused_whatever_is_done_about_prompts(unknown):
    assert refusal(check_prompts, TOKENIZER, sample("\n", unknown=unknown), evaluate("бат")).startswith(
        "params.yaml, evaluate.attention_sentence: 'бат': not among"
    )
