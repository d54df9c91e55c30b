"""Cleaning follows its rules to the character, and every removed character is counted."""

import io
import json
import os
import unicodedata
from pathlib import Path

import pytest
import yaml
from downloads import download_params
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.base.files import resolve
from bukva.config.messages import WAY_BACK
from bukva.corpus.cleaning import RULES, Removed, clean, clean_collection
from bukva.corpus.collection import Document, documents, read_table, write_collection
from bukva.corpus.sources import download

ROOT = Path(__file__).parents[2]
MIRROR = resolve(os.environ.get("BUKVA_MIRROR", "no mirror"))  # read before a fixture unsets it
TABLE = yaml.safe_load((RULES / "notes.yaml").read_text(encoding="utf-8"))

# ---- the oracle: the same rules in plain Python, line by line

PREFIXES = ("- ", "\u2013\u00a0", "\u2014 ", "-- ")
LATIN = set("abcdefghjklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")  # without small i
MARKED = set("ÇÉÊÔÜßàáâäçèéêëíîïòóôöùúûüýœ") | {"\u0457", "\u0463"}
GREEK = {chr(code) for code in [*range(0x0370, 0x0400), *range(0x1F00, 0x2000)]}  # the blocks, plain and polytonic
FOREIGN = LATIN | MARKED | GREEK
DELETE = set("_`|~§*#0123456789\t\u0001\u007f«»½\u040c€№¾=()[]{}°<>“”„\"…%'@^\u2011⟨⟩")
NOTES = (  # the 87 symbols that the lecture notes print
    "\n !&,-.:;?i\u00a0\u0300\u0301\u0401\u0406\u0409"
    + "".join(map(chr, range(0x0410, 0x0450)))
    + "\u0451\u0454\u0456\u2013\u2014\u2019"
)


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


@settings(max_examples=400)
@given(texts)
@example("")
@example("\n\n")
@example("- ")
@example("—")
@example("--  /*/\r\r\n//*/ / \n- -- ж")
def test_the_rules_agree_with_the_oracle(text):
    assert clean(text, "notes")[0] == by_the_rules(text)


@pytest.mark.parametrize("form", ["ж{}ж", "{}ж", "ж\n{}", "ж{}{}"])
def test_every_symbol_of_the_basic_plane_agrees_with_the_oracle(form):
    symbols = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    text = "\n".join(form.format(symbol, symbol) for symbol in symbols)
    assert clean(text, "notes")[0] == by_the_rules(text)


@pytest.mark.parametrize("work", sorted((ROOT / "data" / "sample").rglob("*.txt")), ids=lambda path: path.stem)
def test_the_sample_agrees_with_the_oracle(work):
    text = work.read_bytes().decode()
    cleaned, _ = clean(text, "notes")
    assert cleaned == by_the_rules(text)
    assert not set(cleaned) & (FOREIGN | DELETE | {"/"})


# ---- every entry of the table


def name(entry):
    return entry.get("symbols") or entry.get("text") or f"{entry['first']}-{entry['last']}"


def symbols(entry):
    if "symbols" in entry:
        return list(entry["symbols"])
    return [chr(code) for code in range(ord(entry["first"]), ord(entry["last"]) + 1)]


def cases(rule):
    return pytest.mark.parametrize("entry", TABLE[rule], ids=lambda entry: ascii(name(entry)))


def test_the_table_has_the_rules_and_a_reason_for_every_entry():
    assert list(TABLE) == ["strip", "prefixes", "foreign", "delete", "rewrite"]
    assert all(TABLE["strip"].values())
    assert all(entry["reason"] for rule in ("prefixes", "foreign", "delete", "rewrite") for entry in TABLE[rule])


def test_the_table_contains_a_symbol_once():
    named = [symbol for rule in ("foreign", "delete") for entry in TABLE[rule] for symbol in symbols(entry)]
    assert len(named) == len(set(named))
    assert set(named) == FOREIGN | DELETE
    assert sorted(entry["text"] for entry in TABLE["prefixes"]) == sorted(PREFIXES)


def test_leading_white_space_is_removed_and_other_white_space_kept():
    for space in set(SPACES) - {"\n", "\r", "\t"}:
        assert clean(f"{space}{space}ж{space}ж{space}\n{space}\n", "notes")[0] == f"ж{space}ж{space}\n"


@cases("prefixes")
def test_one_prefix_is_removed_from_the_start_of_a_line(entry):
    prefix = entry["text"]
    assert clean(f"{prefix}Да.\n \u00a0{prefix}Нет.\n", "notes")[0] == "Да.\nНет.\n"
    assert clean(f"Да. {prefix}Нет.\n", "notes")[0] == f"Да. {prefix}Нет.\n"
    for second in PREFIXES:
        assert clean(f"{prefix}{second}Да.\n", "notes")[0] == f"{second}Да.\n"


@pytest.mark.parametrize(
    "line", ["-Да.", "\u2013 Да.", "\u2014Да.", "\u2014\u00a0Да.", "--Да.", "--- Да.", "\u2010 Да."]
)
def test_similar_prefixes_are_kept(line):
    assert clean(line, "notes")[0] == f"{line}\n"


@cases("foreign")
def test_a_line_with_a_foreign_symbol_is_removed_and_its_neighbours_kept(entry):
    for symbol in symbols(entry):
        for line in (f"ж{symbol}ж", symbol, f"{symbol}ж", f"- ж{symbol}"):
            assert clean(f"Один.\n{line}\nДва.\n", "notes")[0] == "Один.\nДва.\n"


def test_a_line_with_small_i_is_kept():
    assert clean("мiръ\n", "notes")[0] == "мiръ\n"


@cases("delete")
def test_a_deleted_symbol_is_removed_and_its_line_kept(entry):
    for symbol in symbols(entry):
        assert clean(f"ж{symbol}ж{symbol}{symbol}\n", "notes")[0] == "жж\n"
        assert clean(f"ж\n#{symbol}\nж\n", "notes")[0] == "ж\n\nж\n"


@cases("rewrite")
def test_strokes_are_rewritten(entry):
    assert clean(f"ж{entry['text']}ж\n", "notes")[0] == f"ж{entry['with']}ж\n"


def test_deletion_comes_before_rewriting_and_after_stripping():
    assert clean("/*/", "notes")[0] == ". \n"
    assert clean("* ж", "notes")[0] == " ж\n"
    assert clean("«- ж", "notes")[0] == "- ж\n"


def test_the_rules_are_not_idempotent():
    once, _ = clean("* * *\n«— Да».\n", "notes")
    twice, _ = clean(once, "notes")
    assert (once, twice) == ("  \n— Да.\n", "Да.\n")


@pytest.mark.parametrize("path", [RULES / "notes.yaml", RULES.parent / "cleaning.py"], ids=lambda path: path.name)
def test_every_symbol_of_the_sources_is_visible(path):
    """Invisible symbols such as no-break spaces are written as code points, so that a reader can tell them apart."""
    invisible = {
        symbol
        for symbol in path.read_text(encoding="utf-8")
        if unicodedata.category(symbol) in {"Cc", "Cf", "Zs", "Zl", "Zp", "Mn"} and symbol not in " \n"
    }
    assert invisible == set()


# ---- without rules


@given(texts)
@example("")
@example("ж")
def test_without_rules_only_line_ends_change(text):
    cleaned, removed = clean(text, "none")
    assert cleaned == unix(text)
    assert removed == {"line_ends": Removed(len(text) - len(cleaned))}


# ---- counts


@settings(max_examples=200)
@given(texts)
@example("")
def test_counts_add_up(text):
    cleaned, removed = clean(text, "notes")
    assert sum(counts.chars for counts in removed.values()) == len(text) - len(cleaned)
    whole = unix(text) if unix(text).endswith("\n") else unix(text) + "\n"
    assert sum(counts.lines for counts in removed.values()) == whole.count("\n") - cleaned.count("\n")
    assert all(type(n) is int for counts in removed.values() for n in (counts.chars, counts.lines))


def test_the_counts_of_a_small_text():
    text = "\r\n  — Он сказал: «да».\r\n \n- Oui, oui!\n№ 12/34 // 5\nж"
    cleaned, removed = clean(text, "notes")
    assert cleaned == "Он сказал: да.\n  .  \nж\n"
    assert removed == {
        "line_ends": Removed(2 - 1),  # two carriage returns removed, a line feed added
        "leading_white_space": Removed(1 + 2 + 2, 2),
        "prefixes": Removed(2),  # the prefix of the foreign line is counted with its line
        "foreign": Removed(len("- Oui, oui!\n"), 1),
        "delete": Removed(2 + 1 + 2 + 2 + 1),
        "rewrite": Removed(1 + 0),
    }


# ---- in pieces


@settings(max_examples=200)
@given(texts, st.integers(1, 7))
@example("\n".join(["ж", "", " - ж", "Q/", "//"] * 3), 1)
def test_the_size_of_a_piece_changes_nothing(text, size):
    whole = clean(text, "notes")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bukva.base.text.PIECE_CHARS", size)
        assert clean(text, "notes") == whole


# ---- a collection


@pytest.fixture
def raw(tmp_path):
    texts = {
        Document("poems", "Blok", "a", "1908"): "— Да.\r\nNein.\n",
        Document("poems", "Blok", "b"): "Bonjour",
        Document("prose", "-", "c", "1863-1869"): "Ночь 1.",
    }
    write_collection(tmp_path / "raw", texts.items())
    return tmp_path / "raw"


def test_works_stay_separate_and_an_empty_one_stays_in_the_table(raw, tmp_path):
    clean_collection(raw, tmp_path / "clean", "notes")
    table = read_table(tmp_path / "clean")
    assert list(documents(table)) == list(documents(read_table(raw)))
    assert list(texts_in(tmp_path / "clean").values()) == ["Да.\n", "", "Ночь .\n"]
    assert table["chars"].tolist() == [4, 0, 7]


def test_without_rules_a_collection_loses_carriage_returns_only(raw, tmp_path):
    report = clean_collection(raw, tmp_path / "clean", "none")
    assert list(texts_in(tmp_path / "clean").values()) == ["— Да.\nNein.\n", "Bonjour", "Ночь 1."]
    assert report["removed"] == [{"rule": "line_ends", "chars": 1, "lines": 0}]


def test_the_report_sums_the_counts_of_all_works(raw, tmp_path):
    report = clean_collection(raw, tmp_path / "clean", "notes")
    assert json.loads(json.dumps(report)) == {
        "rule_set": "notes",
        "works": 3,
        "chars_before": 13 + 7 + 7,
        "chars": 11,
        "symbols": len(set("Да.\nНочь ")),
        "removed": [
            {"rule": "line_ends", "chars": 1 - 1 - 1, "lines": 0},
            {"rule": "leading_white_space", "chars": 0, "lines": 0},
            {"rule": "prefixes", "chars": 2, "lines": 0},
            {"rule": "foreign", "chars": len("Nein.\nBonjour\n"), "lines": 2},
            {"rule": "delete", "chars": 1, "lines": 0},
            {"rule": "rewrite", "chars": 0, "lines": 0},
        ],
    }
    assert sum(rule["chars"] for rule in report["removed"]) == report["chars_before"] - report["chars"]


def test_the_symbols_are_counted_after_rewriting_on_all_planes(tmp_path):
    texts = [
        (Document("-", "-", "a"), "ж//😀\U0010ffff/"),
        (Document("-", "-", "b"), ""),
        (Document("-", "-", "c"), "😀"),
    ]
    write_collection(tmp_path / "raw", texts)
    report = clean_collection(tmp_path / "raw", tmp_path / "clean", "notes")
    assert report["symbols"] == len(set("ж. 😀\U0010ffff\n"))


def test_an_empty_result_names_the_rules_and_writes_nothing(tmp_path):
    texts = [(Document("-", "-", "a"), "  To be,\nor not\n"), (Document("-", "-", "b"), "to be.")]
    write_collection(tmp_path / "raw", texts)
    write_collection(tmp_path / "clean", [(Document("-", "-", "former"), "ж")])
    with pytest.raises(BukvaError) as error:
        clean_collection(tmp_path / "raw", tmp_path / "clean", "notes")
    assert str(error.value) == (
        "params.yaml, clean.rules: 'notes' removes the whole text (foreign 21 characters, leading_white_space 2 "
        f"characters); use none, or another corpus.\n{WAY_BACK}"
    )
    assert [document.work for document in documents(read_table(tmp_path / "clean"))] == ["former"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clean", "raw"]


# ---- RusLit, the corpus of the lecture notes


@pytest.mark.slow
def test_cleaned_ruslit_has_the_87_symbols_of_the_lecture_notes(tmp_path, monkeypatch):
    if not list(MIRROR.glob("RusLit-*.tar.gz")):
        pytest.skip("BUKVA_MIRROR is not a folder with the archive of RusLit")
    monkeypatch.setenv("BUKVA_MIRROR", str(MIRROR))
    download(download_params(corpus="ruslit"), tmp_path / "raw", lambda *_: None, pytest.fail)
    report = clean_collection(tmp_path / "raw", tmp_path / "clean", "notes")
    assert (report["works"], report["chars"], report["symbols"]) == (373, 34_824_659, 87)
    symbols_found = set()
    before, after = texts_in(tmp_path / "raw"), texts_in(tmp_path / "clean")
    for document, text, cleaned in zip(before, before.values(), after.values(), strict=True):
        assert cleaned == by_the_rules(text), document
        symbols_found.update(cleaned)
    assert "".join(sorted(symbols_found)) == NOTES
    assert clean_collection(tmp_path / "clean", tmp_path / "again", "notes")["chars"] == 34_814_956
