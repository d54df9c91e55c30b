"""Cleaning follows its rules exactly, and every removed character is counted."""

import re
from pathlib import Path

import pytest
from corpus.cleaning.cleaned import clean
from corpus.cleaning.notes_rules import EXCLUDE, FOREIGN, PREFIXES, clean_lines
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import saved, texts_in

from bukva.core.errors import BukvaError
from bukva.corpus.cleaning import clean as cleaning
from bukva.corpus.cleaning.rule_sets import rule_set
from bukva.text.collection import Work, read_table, works_in, write_collection

ROOT = Path(__file__).parents[3]
NOTES = rule_set("notes")


def clean_collection(raw, target, name="notes"):
    return cleaning.clean_collection(raw, target, rule_set(name), "as the test says")


SPACES = [chr(code) for code in range(0x3001) if chr(code).isspace()]
plain = st.sampled_from(["\n", "\n", "\n", " ", "ж", "слово", "ё", "i", "-", ".", "\u2013", "\u2014", "/", "//"])
special = st.sampled_from([*PREFIXES, *SPACES, "\r\n", "\n\r", "\ufeff", "\u200b", "\u0301", "\0", *sorted(EXCLUDE)])
alien = st.sampled_from([*sorted(FOREIGN), "ñ", "😀"])
texts = st.lists(plain | plain | special | alien | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


@settings(max_examples=200)
@given(texts)
@example("")
@example("\n\n")
@example("- ")
@example("—")
@example("--  /*/\r\r\n//*/ / \n- -- ж")
@example("\u2014 -- Да. - Нет.\n-Да.\n\u2014\u00a0Да.\nмiръ\n* ж\n«- ж")
@example("/7/ж/*/*/\n  /\u2028/😀//\n")
def test_the_rules_are_those_of_the_lecture_notes_and_the_counts_add_up(text):
    cleaned, removed = clean(text, NOTES)
    assert cleaned == clean_lines(text)
    n_lines = len(re.findall(r"\r\n|\r|\n|[^\r\n]\Z", text))
    assert sum(lines for _, lines, _ in removed.values()) == n_lines - cleaned.count("\n")
    assert sum(chars for chars, _, _ in removed.values()) == len(text) - len(cleaned)


def test_every_symbol_of_the_basic_plane_and_the_sample_agree_with_the_rules():
    symbols = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    works = sorted((ROOT / "data" / "sample").rglob("*.txt"))
    assert len(works) == 38
    lines = "\n".join(f"{symbol}ж{symbol}{symbol}" for symbol in symbols)
    for text in [lines, *(work.read_bytes().decode() for work in works)]:
        assert clean(text, NOTES)[0] == clean_lines(text)


def test_works_stay_separate_and_the_report_sums_the_counts_of_all(tmp_path):
    works = {
        Work("poems", "Blok", "a", "1908"): "— Да.\r\nNein.\n",
        Work("poems", "Blok", "b"): "Bonjour",
        Work("prose", "-", "c", "1863-1869"): " \n  Ночь 1/.😀",
    }
    write_collection(tmp_path / "raw", works.items())
    report = clean_collection(tmp_path / "raw", tmp_path / "clean")
    assert texts_in(tmp_path / "clean") == dict(zip(works, ["Да.\n", "", "Ночь .😀\n"], strict=True))
    assert read_table(tmp_path / "clean")["chars"].tolist() == [4, 0, 8]
    assert (report["works"], report["chars_before"], report["chars"]) == (3, 13 + 7 + 13, 12)
    assert report["symbols"] == len(set("Да.\nНочь 😀"))
    assert [tuple(rule.values()) for rule in report["removed"] if rule["places"]] == [
        ("line_ends", 1 - 1 - 1, 0, 1),
        ("empty_lines", 2, 1, 1),
        ("indentation", 2, 0, 1),
        ("foreign", len("Nein.\nBonjour\n"), 2, 2),
        ("prefixes", 2, 0, 1),
        ("delete", 1, 0, 1),
        ("strokes", 1, 0, 1),
    ]
    assert [*report["removed"][1]] == ["rule", "chars", "lines", "places"]
    assert report["examples"]["strokes"] == [
        {"work": "prose/-/c", "line": 2, "before": "Ночь ", "removed": "/", "after": ".😀"}
    ]
    assert report["alphabet"] == dict.fromkeys("\n.", 2) | dict.fromkeys(" ДНаочь😀", 1)


def test_an_empty_result_names_the_rules_and_writes_nothing(tmp_path):
    # the line end that stays after the digits does not count as text
    saved(tmp_path / "raw", {"a": "  To be,\nor not\n", "b": "31415\n"})
    saved(tmp_path / "clean", {"former": "ж"})
    with pytest.raises(BukvaError) as error:
        clean_collection(tmp_path / "raw", tmp_path / "clean")
    assert str(error.value) == (
        "params.yaml, clean.rules: 'notes' removes the whole text (rule foreign: 14 characters, "
        "rule delete: 5 characters, rule indentation: 2 characters); use 'none', or another corpus."
    )
    assert [work.work for work in works_in(read_table(tmp_path / "clean"))] == ["former"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "raw"]
