"""Prompts and the sentence for attention: rejected with advice, or made encodable."""

import unicodedata

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.config.schema import Evaluate, Sample
from bukva.encoding.prompts import TABLE, Prompts, check_prompts, check_sentence, chosen_prompts, readable_prompt
from bukva.tokenizers.byte import ByteTokenizer
from bukva.tokenizers.char import CharTokenizer

TOKENIZER = CharTokenizer(["\n", " ", "а", "б"])
SPACELESS = CharTokenizer(["\n", "а", "б"])

UNKNOWN = ("error", "drop", "replace")
CLEANING = {"letters": {"Cyrillic": 7}, "openings": ["аб"]}
SCRIPTS = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
EVERYTHING = CharTokenizer(sorted(set("\n abcdefg".join(prompt for prompts in SCRIPTS.values() for prompt in prompts))))


def sample(*prompts, unknown="error"):
    return Sample(prompts=list(prompts) or "auto", n_chars=1, temperature=1, top_k=0, top_p=1, seed=0, unknown=unknown)


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


# ---- prompts that are chosen


def chosen(tokenizer, letters, openings=()):
    return chosen_prompts(tokenizer, sample(), {"letters": letters, "openings": list(openings)})


def test_prompts_of_a_list_are_taken_as_they_are():
    assert chosen_prompts(TOKENIZER, sample("аббат", "\n"), CLEANING) == Prompts(
        ["аббат", "\n"], "The prompts are those of params.yaml."
    )


def test_a_russian_text_gets_the_newline_and_the_prompts_of_the_lecture_notes():
    assert chosen(EVERYTHING, {"Cyrillic": 267_002}) == Prompts(
        ["\n", "Мой дядя самых честных правил", "— Куда ты идёшь? "],
        "The prompts are those for Cyrillic (100 % of the letters), because sample.prompts is auto.",
    )


@pytest.mark.parametrize("script", sorted(set(SCRIPTS) - {"Japanese"}))
def test_every_script_of_the_table_has_its_prompts(script):
    assert chosen(EVERYTHING, {script: 81, "Common": 19}).texts == ["\n", *SCRIPTS[script]]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ({"Latin": 60, "Cyrillic": 40}, ["Latin", "Cyrillic"]),
        ({"Cyrillic": 60, "Latin": 40}, ["Cyrillic", "Latin"]),
        ({"Cyrillic": 81, "Latin": 19}, ["Cyrillic"]),
        ({"Cyrillic": 80, "Latin": 20}, ["Cyrillic", "Latin"]),
        ({"Han": 91, "Hiragana": 5, "Katakana": 4}, ["Han"]),
        ({"Hiragana": 50, "Han": 40, "Katakana": 10}, ["Japanese"]),
        ({"Katakana": 10, "Han": 90}, ["Japanese"]),
        ({"Latin": 60, "Han": 20, "Hiragana": 20}, ["Latin", "Japanese"]),
        ({"Hangul": 85, "Han": 15}, ["Hangul"]),
    ],
)
def test_each_script_with_a_fifth_of_the_letters_has_prompts(letters, expected):
    prompts = chosen(EVERYTHING, letters)
    assert prompts.texts == ["\n", *(prompt for script in expected for prompt in SCRIPTS[script])]
    assert all(script in prompts.why for script in expected)


def test_only_prompts_of_known_characters_are_taken():
    tokenizer = CharTokenizer(sorted(set("Once upon a time")))
    assert chosen(tokenizer, {"Latin": 9}, ["One"]).texts == ["Once upon a time"]
    assert chosen(tokenizer, {"Latin": 5, "Greek": 5}).texts == ["Once upon a time"]


def test_a_text_without_a_prompt_in_its_script_gets_beginnings_of_works():
    assert chosen(TOKENIZER, {"Cherokee": 9}, ["аб а", "xбy", "xyz"]) == Prompts(
        ["\n", "аб а", "б"],
        "The prompts are beginnings of works, because sample.prompts is auto and the text lacks characters of the "
        "prompts for Cherokee, or bukva has none.",
    )
    assert chosen(TOKENIZER, {}, ["xyz"]).texts == ["\n"]
    assert "the prompts for letters" in chosen(TOKENIZER, {}).why


def test_no_prompt_at_all_is_rejected():
    arguments = CharTokenizer(["1", "2"]), sample(), {"letters": {}, "openings": ["345"]}
    assert rejection(chosen_prompts, *arguments) == (
        f"params.yaml, sample.prompts: 'auto' finds no prompt in this text; use a list.\n{WAY_BACK}"
    )
    assert rejection(check_prompts, *arguments[:2], evaluate(""), arguments[2], 7).startswith(
        "params.yaml, sample.prompts"
    )


@given(st.sets(st.characters(exclude_categories=["Cs"]), min_size=1), st.sampled_from([*SCRIPTS, "Runic"]))
def test_chosen_prompts_can_be_encoded_whatever_the_text(chars, script):
    tokenizer = CharTokenizer(sorted(chars))
    for prompt in chosen(tokenizer, {script: 1}, ["".join(sorted(chars))]).texts:
        assert tokenizer.decode(tokenizer.encode(prompt)) == prompt != ""


def test_the_prompts_are_composed_and_in_their_scripts():
    from bukva.corpus.cleaning.scripts import script_of

    for name, prompts in SCRIPTS.items():
        assert len(prompts) == 2
        for prompt in prompts:
            assert unicodedata.is_normalized("NFC", prompt)
            scripts = {script_of(char) for char in prompt if char.isalpha()} - {"Common"}
            assert scripts == {name} or (name == "Japanese" and scripts <= {"Han", "Hiragana", "Katakana"})


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
    check_prompts(TOKENIZER, sample("\n", "абба"), evaluate("а б"), CLEANING, 7)
    check_prompts(TOKENIZER, sample("аббат", unknown="drop"), evaluate(""), CLEANING, 7)
    check_prompts(TOKENIZER, sample("xyz", unknown="replace"), evaluate(""), CLEANING, 7)


@pytest.mark.parametrize("prompts", [("\n", "аббат"), ("аббат", "\n")])
def test_one_prompt_that_cannot_be_encoded_is_rejected(prompts):
    assert rejection(check_prompts, TOKENIZER, sample(*prompts), evaluate(""), CLEANING, 7).startswith(
        "params.yaml, sample.prompts: 'аббат': not in"
    )


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_a_sentence_that_cannot_be_encoded_is_rejected_for_every_value_of_unknown(unknown):
    assert rejection(check_prompts, TOKENIZER, sample("\n", unknown=unknown), evaluate("бат"), CLEANING, 7).startswith(
        "params.yaml, evaluate.attention_sentence: 'бат': not in"
    )
