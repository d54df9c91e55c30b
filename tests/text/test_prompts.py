"""Prompts are encodable, or are rejected with advice."""

import pytest
import yaml

from bukva.core.errors import BukvaError
from bukva.core.schema import Sample
from bukva.text.prompts import TABLE, chosen_prompts, readable_prompt
from bukva.text.tokenizers import CharTokenizer

TOKENIZER = CharTokenizer(["\n", " ", "а", "б"])
SCRIPTS = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
EVERYTHING = CharTokenizer(sorted(set("\n abcdefg".join(prompt for prompts in SCRIPTS.values() for prompt in prompts))))


def sample(*prompts):
    return Sample(prompts=list(prompts) or "auto", n_chars=1, temperature=1, top_k=0, top_p=1, seed=0)


def rejection(call, *arguments):
    with pytest.raises(BukvaError) as error:
        call(*arguments)
    return str(error.value)


def test_an_unknown_character_is_rejected_with_advice_and_without_the_secrets_of_an_address():
    assert readable_prompt(TOKENIZER, "а б\n") == "а б\n"
    assert rejection(readable_prompt, TOKENIZER, "аббат") == (
        "params.yaml, sample.prompts: 'аббат': not in the vocabulary of 4 characters: "
        "'т' (U+0442 CYRILLIC SMALL LETTER TE); the first unknown character is number 5 of 'аббат'; "
        "use another prompt."
    )
    assert "secret" not in rejection(readable_prompt, TOKENIZER, "https://me:secret@host/?key=secret")


NFC, NFD = "й", "и\u0306"


@pytest.mark.parametrize(
    ("known", "given", "read"),
    [
        (NFC, NFD, NFC),
        ("и\u0301" + NFC, NFD, NFC),  # the vocabulary of a text with stress marks has other combining characters
        (NFC + NFD, NFD, NFC),
        (NFD, NFD, NFD),  # a decomposed text that no rule has composed
        (NFD, NFC, None),
    ],
)
def test_a_decomposed_prompt_is_composed_unless_the_text_is_decomposed(known, given, read):
    tokenizer = CharTokenizer(sorted(set(known)))
    if read is None:
        assert "'й' (U+0439" in rejection(readable_prompt, tokenizer, given)
    else:
        assert readable_prompt(tokenizer, given) == read
        prompts, why = chosen_prompts(tokenizer, sample(given, given), {})
        assert prompts == [read, read]
        assert ("In 2 of 2, decomposed letters are composed" in why) == (given != read)


def test_a_newline_that_the_shell_left_as_two_characters_is_named_with_the_command_that_passes_one():
    advice = """in bash and zsh, -S $'sample.prompts=["\\n"]' passes a newline."""
    assert rejection(readable_prompt, TOKENIZER, r"\n").endswith(f"; {advice}")
    prompts, why = chosen_prompts(CharTokenizer(["\\", "n"]), sample(r"\n"), {})
    assert prompts == [r"\n"]
    assert why.endswith(f"In 1 of 1, a backslash before n or t stays a backslash; {advice}")


def chosen(tokenizer, letters, openings=()):
    return chosen_prompts(tokenizer, sample(), {"letters": letters, "openings": list(openings)})[0]


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ({"Cyrillic": 81, "Latin": 19}, ["Cyrillic"]),
        ({"Cyrillic": 20, "Latin": 80}, ["Latin", "Cyrillic"]),
        ({"Latin": 60, "Han": 20, "Hiragana": 20}, ["Latin", "Japanese"]),
    ],
)
def test_each_script_with_a_fifth_of_the_letters_has_prompts(letters, expected):
    assert chosen(EVERYTHING, letters) == ["\n", *(prompt for script in expected for prompt in SCRIPTS[script])]


def test_a_text_without_known_prompts_in_its_script_gets_beginnings_of_works_or_is_rejected():
    assert chosen(TOKENIZER, {"Cherokee": 9}, ["аб а", "xбy", "xyz"]) == ["\n", "аб а", "б"]
    reasons = {"Cherokee": "no prompt for Cherokee fits its characters", "": "the text has no letters"}
    for script, why in reasons.items():
        cleaning = {"letters": {script: 9} if script else {}, "openings": ["аб а"]}
        _, reason = chosen_prompts(TOKENIZER, sample(), cleaning)
        assert reason == f"The prompts are beginnings of works, because sample.prompts is auto and {why}."
    assert rejection(chosen, CharTokenizer(["1", "2"]), {}, ["345"]) == (
        "params.yaml, sample.prompts=auto: no prompt suits this text; list your own prompts instead."
    )
