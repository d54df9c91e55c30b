"""Letters are counted by script, and the rules that fit them are chosen by a rule that the user is told."""

import unicodedata
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bukva.corpus.cleaning.scripts import CharCounts, LettersOf, fitting_rules

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("абвґї abc 文字かな"), max_size=50)


def counted(*parts):
    counts = CharCounts()
    for part in parts:
        counts.add(part)
    return counts


@given(st.lists(texts, max_size=3), st.integers(1, 7), st.integers(0, 7))
def test_characters_are_counted_as_a_counter_does_for_any_size_of_a_piece(parts, size, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bukva.base.text.PIECE_CHARS", size)
        counts = counted(*parts)
    expected = Counter("".join(parts))
    assert list(counts.items()) == sorted(expected.items())
    assert len(counts) == len(expected)
    assert sum(counts.letters().values()) == sum(n for char, n in expected.items() if char.isalpha())
    by_frequency = sorted(expected.items(), key=lambda item: (-item[1], ord(item[0])))
    assert list(counts.most_frequent(most).items()) == by_frequency[:most]


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


def test_the_scripts_of_latin_and_cyrillic_agree_with_the_names_of_letters():
    letters = [char for char in map(chr, range(0x10000)) if char.isalpha()]
    plain = [char for char in letters if unicodedata.name(char, "").startswith(("LATIN ", "CYRILLIC "))]
    expected = Counter(unicodedata.name(char).split()[0].title() for char in plain)
    assert counted("".join(plain)).letters() == dict(expected)
    assert "".join(plain).translate(LettersOf("Latin")).count("L") == expected["Latin"]


@pytest.mark.parametrize(
    ("text", "rules", "why"),
    [
        ("а" * 90 + "b" * 10, "notes", "90.0 % of the letters are Cyrillic"),
        ("а" * 899 + "b" * 101, "literary", "only 89.9 % of the letters are Cyrillic"),
        ("а" * 9999 + "b", "notes", "99.9 % of the letters are Cyrillic"),
        ("а" * 99 + "ї", "notes", "100.0 % of the letters are Cyrillic"),
        ("а" * 989 + "ї" * 11, "literary", "only 98.9 % of the Cyrillic letters are Russian"),
        ("Въ началѣ было Слово", "literary", "only 94.1 % of the Cyrillic letters are Russian"),
        ("道可道，非常道。Tao", "literary", "66.6 % of the letters are Han"),
        ("12 + 3 = 15;\n", "literary", "the text has no letters"),
    ],
    ids=ascii,
)
def test_the_rules_follow_from_the_shares_of_the_letters(text, rules, why):
    assert fitting_rules(counted(text)) == (rules, why)
