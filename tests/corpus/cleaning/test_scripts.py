"""Letters are counted by script, and the rules that fit them are chosen by a rule that the user is told."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.cleaning.scripts import CharCounts, LettersOf, fitting_rules, is_script, percent, share

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("абвґї abc 文字かな"), max_size=50)


def counted(*parts):
    counts = CharCounts()
    for part in parts:
        counts.add(part)
    return counts


# ---- counts


@given(st.lists(texts, max_size=3), st.integers(1, 7))
def test_characters_are_counted_as_a_counter_does_for_any_size_of_a_piece(parts, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bukva.base.text.PIECE_CHARS", size)
        counts = counted(*parts)
    expected = Counter("".join(parts))
    assert list(counts.items()) == sorted(expected.items())
    assert len(counts) == len(expected)
    assert sum(counts.letters().values()) == sum(n for char, n in expected.items() if char.isalpha())


@given(st.lists(texts, max_size=3), st.integers(0, 7))
def test_the_most_frequent_characters_come_first_and_equally_frequent_ones_by_code_point(parts, most):
    expected = sorted(Counter("".join(parts)).items(), key=lambda item: (-item[1], ord(item[0])))[:most]
    assert list(counted(*parts).most_frequent(most).items()) == expected


def test_letters_are_counted_by_script_and_the_most_frequent_comes_first():
    text = "Слово и word; α 文字 かな カナー 12 ٣ \u0301 ʼ 😀\U00010400"
    assert list(counted(text).letters().items()) == [
        ("Cyrillic", 6),
        ("Latin", 4),
        ("Common", 2),  # the sign of a long vowel is of two scripts, the apostrophe letter of many
        ("Han", 2),
        ("Hiragana", 2),
        ("Katakana", 2),
        ("Deseret", 1),
        ("Greek", 1),
    ]


@given(texts)
def test_the_scripts_of_latin_and_cyrillic_agree_with_the_names_of_letters(text):
    plain = [char for char in text if char.isalpha() and unicodedata.name(char, "").startswith(("LATIN ", "CYRILLIC "))]
    expected = Counter(unicodedata.name(char).split()[0].title() for char in plain)
    found = counted("".join(plain)).letters()
    assert {script: n for script, n in found.items() if n} == dict(expected)
    table = LettersOf("Latin")
    assert "".join(plain).translate(table).count("L") == expected["Latin"]


def test_a_script_is_one_of_unicode_that_letters_have():
    assert all(map(is_script, ["Latin", "Cyrillic", "Old Italic", "Han"]))
    assert not any(map(is_script, ["Common", "Inherited", "Unknown", "latin", "Latin ", "Latn", "Klingon", ""]))


# ---- the rules that fit


@pytest.mark.parametrize(
    ("text", "rules", "why"),
    [
        ("Слово", "notes", "100.0 % of the letters are Cyrillic"),
        ("а" * 90 + "b" * 10, "notes", "90.0 % of the letters are Cyrillic"),
        ("а" * 899 + "b" * 101, "literary", "only 89.9 % of the letters are Cyrillic"),
        ("а" * 9999 + "b", "notes", "99.9 % of the letters are Cyrillic"),
        ("а" * 99 + "ї", "notes", "100.0 % of the letters are Cyrillic"),
        ("а" * 989 + "ї" * 11, "literary", "only 98.9 % of the Cyrillic letters are Russian"),
        ("Въ началѣ было Слово", "literary", "only 94.1 % of the Cyrillic letters are Russian"),
        ("To be, or not to be", "literary", "100.0 % of the letters are Latin"),
        ("道可道，非常道。Tao", "literary", "66.6 % of the letters are Han"),
        ("аб" + "ab" * 3, "literary", "75.0 % of the letters are Latin"),
        ("12 + 3 = 15;\n", "literary", "the text has no letters"),
        ("", "literary", "the text has no letters"),
    ],
)
def test_the_rules_follow_from_the_shares_of_the_letters(text, rules, why):
    assert fitting_rules(counted(text)) == (rules, why)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("Ukrainian", "Як умру, то поховайте мене на могилі, серед степу широкого, на Вкраїні милій"),
        ("Serbian", "Све срећне породице личе једна на другу, свака несрећна породица је несрећна на свој начин"),
        ("Belarusian", "Мой родны кут, як ты мне мілы! Забыць цябе не маю сілы"),
        ("Kazakh", "Барлық адамдар тумысынан азат және қадір-қасиеті мен құқықтары тең болып дүниеге келеді"),
    ],
)
def test_another_language_in_cyrillic_keeps_its_lines(language, text):
    assert fitting_rules(counted(text))[0] == "literary"


def test_shares():
    assert share({}, "Latin") == 0
    assert share({"Latin": 3, "Han": 1}, "Latin") == 0.75
    assert [percent(part) for part in (1, 0.99999, 0.9985, 0.0004, 0)] == [
        "100.0 %",
        "99.9 %",
        "99.8 %",
        "0.0 %",
        "0.0 %",
    ]
