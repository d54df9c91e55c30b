"""Cleaning follows its rules to the character, and every removed character is counted."""

import io
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import texts_in

from bukva.config.messages import WAY_BACK
from bukva.core.errors import BukvaError
from bukva.corpus.cleaning import clean as cleaning
from bukva.corpus.cleaning.clean import Chosen
from bukva.corpus.cleaning.rule_sets import rule_set
from bukva.text.collection import PIECE_BYTES, TABLE, TEXT, Document, documents, read_table, write_collection

ROOT = Path(__file__).parents[3]


NOTES = rule_set("notes")


def clean(text):
    found = cleaning.clean(text, NOTES)
    return found.text, found.removed


def clean_collection(raw, target, name="notes"):
    return cleaning.clean_collection(raw, target, Chosen(rule_set(name), "as the test says"))


# ---- the oracle: the same rules in plain Python, line by line

PREFIXES = ("- ", "\u2013\u00a0", "\u2014 ", "-- ")
LATIN = set("abcdefghjklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")  # without small i
MARKED = set("ÇÉÊÔÜßàáâäçèéêëíîïòóôöùúûüýœ") | {"\u0457", "\u0463"}
GREEK = {chr(code) for code in [*range(0x0370, 0x0400), *range(0x1F00, 0x2000)]}  # the blocks, plain and polytonic
FOREIGN = LATIN | MARKED | GREEK
DELETE = set("_`|~§*#0123456789\t\u0001\u007f«»½\u040c€№¾=()[]{}°<>“”„\"…%'@^\u2011⟨⟩")


def unix(text):
    """The text with its line ends as line feeds: Python's own universal newlines."""
    return io.StringIO(text, newline=None).read()


def by_the_rules(text):
    cleaned = []
    for line in (unix(text) + "\n").split("\n"):
        line = line.lstrip()
        if line == "":
            continue
        for prefix in PREFIXES:
            if line.startswith(prefix):
                line = line[len(prefix) :]
                break
        if any(symbol in FOREIGN for symbol in line):
            continue
        line = "".join(symbol for symbol in line if symbol not in DELETE)
        line = line.replace("//", ". ").replace("/", "")
        cleaned.append(line + "\n")
    return "".join(cleaned)


SPACES = [chr(code) for code in range(0x3001) if chr(code).isspace()]
plain = st.sampled_from(["\n", "\n", "\n", " ", "ж", "слово", "ё", "i", "-", ".", "\u2013", "\u2014", "/", "//"])
special = st.sampled_from([*PREFIXES, *SPACES, "\r\n", "\n\r", "\ufeff", "\u200b", "\u0301", "\0", *sorted(DELETE)])
alien = st.sampled_from([*sorted(LATIN | MARKED), "α", "Ω", "\u1f00", "ñ", "😀"])
texts = st.lists(plain | plain | special | alien | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


@settings(max_examples=60)
@given(texts)
@example("")
@example("\n\n")
@example("—")
@example("--  /*/\r\r\n//*/ / \n- -- ж")
@example("\u2014 -- Да. - Нет.\n-Да.\n\u2014\u00a0Да.\nмiръ\n* ж\n«- ж")
@example("\n".join(["ж", "", " - ж", "Q/", "//"] * 3))
def test_the_rules_agree_with_the_oracle_and_the_counts_add_up(text):
    cleaned, removed = clean(text)
    assert cleaned == by_the_rules(text)
    assert sum(counts.chars for counts in removed.values()) == len(text) - len(cleaned)
    whole = unix(text) if unix(text).endswith("\n") or not text else unix(text) + "\n"
    assert sum(counts.lines for counts in removed.values()) == whole.count("\n") - cleaned.count("\n")


def test_every_symbol_of_the_basic_plane_agrees_with_the_oracle():
    symbols = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    text = "\n".join(f"{symbol}ж{symbol}{symbol}" for symbol in symbols)
    assert clean(text)[0] == by_the_rules(text)


def test_the_sample_agrees_with_the_oracle():
    works = sorted((ROOT / "data" / "sample").rglob("*.txt"))
    assert len(works) == 38
    for work in works:
        text = work.read_bytes().decode()
        assert clean(text)[0] == by_the_rules(text), work


def test_works_stay_separate_and_the_report_sums_the_counts_of_all(tmp_path):
    works = {
        Document("poems", "Blok", "a", "1908"): "— Да.\r\nNein.\n",
        Document("poems", "Blok", "b"): "Bonjour",
        Document("prose", "-", "c", "1863-1869"): " \n  Ночь 1/.😀",
    }
    write_collection(tmp_path / "raw", works.items())
    report = clean_collection(tmp_path / "raw", tmp_path / "clean")
    assert texts_in(tmp_path / "clean") == dict(zip(works, ["Да.\n", "", "Ночь .😀\n"], strict=True))
    assert read_table(tmp_path / "clean")["chars"].tolist() == [4, 0, 8]
    assert (report["works"], report["chars_before"], report["chars"]) == (3, 13 + 7 + 13, 12)
    assert report["symbols"] == len(set("Да.\nНочь 😀"))
    assert report["removed"] == [
        {"rule": "line_ends", "chars": 1 - 1 - 1, "lines": 0, "places": 1},
        {"rule": "empty_lines", "chars": 2, "lines": 1, "places": 1},
        {"rule": "indentation", "chars": 2, "lines": 0, "places": 1},
        {"rule": "foreign", "chars": len("Nein.\nBonjour\n"), "lines": 2, "places": 2},
        {"rule": "prefixes", "chars": 2, "lines": 0, "places": 1},
        {"rule": "delete", "chars": 1, "lines": 0, "places": 1},
        {"rule": "double_strokes", "chars": 0, "lines": 0, "places": 0},
        {"rule": "strokes", "chars": 1, "lines": 0, "places": 1},
    ]
    assert report["examples"]["strokes"] == [
        {"work": "prose/-/c", "line": 2, "before": "Ночь ", "removed": "/", "after": ".😀"}
    ]
    assert report["alphabet"] == dict.fromkeys("\n.", 2) | dict.fromkeys(" ДНаочь😀", 1)


def test_an_empty_result_names_the_rules_and_writes_nothing(tmp_path):
    works = [(Document("-", "-", "a"), "  To be,\nor not\n"), (Document("-", "-", "b"), "to be.")]
    write_collection(tmp_path / "raw", works)
    write_collection(tmp_path / "clean", [(Document("-", "-", "former"), "ж")])
    with pytest.raises(BukvaError) as error:
        clean_collection(tmp_path / "raw", tmp_path / "clean")
    assert str(error.value) == (
        "params.yaml, clean.rules: 'notes' removes the whole text (foreign 21 characters, indentation 2 "
        f"characters); use none, or another corpus.\n{WAY_BACK}"
    )
    assert [document.work for document in documents(read_table(tmp_path / "clean"))] == ["former"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "raw"]


def test_a_line_longer_than_a_piece_stays_one_line_and_its_counts_add_up(tmp_path):
    words = "слово " * (PIECE_BYTES // 4)
    works = {"a": f"— {words}1\n{words}latin\nЯ", "b": "ж" * PIECE_BYTES * 2}
    write_collection(tmp_path / "raw", [(Document("-", "-", name), [text]) for name, text in works.items()])
    report = clean_collection(tmp_path / "raw", tmp_path / "clean")
    first, second = texts_in(tmp_path / "clean").values()
    assert first.startswith(words + "\n")  # the second line loses only the piece with Latin letters
    assert set(first.removeprefix(words + "\n").removesuffix("Я\n")) <= set("слово ")
    assert second == works["b"] + "\n"
    assert [one["line"] for one in report["examples"]["foreign"]] == [2]
    assert sum(rule["chars"] for rule in report["removed"]) == report["chars_before"] - report["chars"]


# ---- several processes clean a collection into the same bytes and the same report as one

LINES = "— Да, «так» и/или //иначе...\r\n\n  Oui, oui, oui!\n№ {}\u00ad и\u0306 слово  \nCafe\u0301 [7]\n\n"


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """Eleven works in pieces of 997 bytes, two of them empty, one with a line of many pieces."""
    monkeypatch.setattr("bukva.text.collection.PIECE_BYTES", 997)
    monkeypatch.setattr(cleaning, "SHARED_BYTES", 0)
    texts = ["".join(LINES.format(n) for n in range(7 * number)) for number in range(9)]
    texts += ["слово " * 1013 + "ё" * 1499 + "\r\nещё\r", ""]
    write_collection(tmp_path / "raw", [(Document("-", "-", f"{n:02}"), text) for n, text in enumerate(texts)])
    return tmp_path / "raw"


def cleaned_by(processes, raw, rules):
    """The report and the bytes of both files."""
    target = raw.with_name(f"{rules.name} {processes}")
    report = cleaning.clean_collection(raw, target, Chosen(rules, ""), processes)
    return report, [(target / name).read_bytes() for name in (TEXT, TABLE)]


@pytest.mark.parametrize(("rules", "processes"), [("notes", 3), ("literary", 2)])
def test_the_bytes_and_the_report_are_the_same_for_any_number_of_processes(raw, rules, processes):
    alone = cleaned_by(1, raw, rule_set(rules))
    assert cleaned_by(processes, raw, rule_set(rules)) == alone
    report, _ = alone
    assert sum(counts["chars"] for counts in report["removed"]) == report["chars_before"] - report["chars"]
