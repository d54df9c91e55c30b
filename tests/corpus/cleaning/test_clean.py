"""Cleaning follows its rules to the character, and every removed character is counted."""

import io
import json
import os
import unicodedata
from pathlib import Path

import pytest
import yaml
from downloads import download_params
from dvc.render.converter.vega import get_datapoints
from hypothesis import example, given, settings
from hypothesis import strategies as st
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.base.files import resolve
from bukva.config.data import Clean
from bukva.config.messages import WAY_BACK
from bukva.corpus.cleaning import clean as cleaning
from bukva.corpus.cleaning.clean import clean_piece
from bukva.corpus.cleaning.removals import Removed
from bukva.corpus.cleaning.rule_sets import RULES, Chosen, chosen_rules, rule_set
from bukva.corpus.collection import PIECE_BYTES, Document, documents, read_table, write_collection
from bukva.corpus.sources.download import download

ROOT = Path(__file__).parents[3]
MIRROR = resolve(os.environ.get("BUKVA_MIRROR", "no mirror"))  # read before a fixture unsets it
TABLE = yaml.safe_load((RULES / "notes.yaml").read_text(encoding="utf-8"))


def clean(text, name):
    return cleaning.clean(text, rule_set(name))


def clean_collection(raw, target, name):
    return cleaning.clean_collection(raw, target, Chosen(rule_set(name), "as the test says"))


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


@pytest.mark.parametrize(
    "path", [*RULES.iterdir(), *RULES.parent.glob("*.py"), ROOT / "rules" / "example.yaml"], ids=lambda path: path.name
)
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
    assert removed == {"line_ends": Removed(len(text) - len(cleaned), 0, text.count("\r"))}


# ---- counts


@settings(max_examples=200)
@given(texts)
@example("")
def test_counts_add_up(text):
    cleaned, removed = clean(text, "notes")
    assert sum(counts.chars for counts in removed.values()) == len(text) - len(cleaned)
    whole = unix(text) if unix(text).endswith("\n") or not text else unix(text) + "\n"
    assert sum(counts.lines for counts in removed.values()) == whole.count("\n") - cleaned.count("\n")
    assert all(type(n) is int for counts in removed.values() for n in (counts.chars, counts.lines))


def test_the_counts_of_a_small_text():
    text = "\r\n  — Он сказал: «да».\r\n \n- Oui, oui!\n№ 12/34 // 5\nж"
    cleaned, removed = clean(text, "notes")
    assert cleaned == "Он сказал: да.\n  .  \nж\n"
    assert removed == {
        "line_ends": Removed(2 - 1, 0, 2),  # two carriage returns removed, a line feed added
        "leading_white_space": Removed(1 + 2 + 2, 2, 3),
        "prefixes": Removed(2, 0, 1),  # the prefix of the foreign line is counted with its line
        "foreign": Removed(len("- Oui, oui!\n"), 1, 1),
        "delete": Removed(2 + 1 + 2 + 2 + 1, 0, 8),
        "rewrite": Removed(1 + 0, 0, 2),
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


@pytest.mark.parametrize("name", ["notes", "literary", "none"])
@settings(max_examples=100)
@given(st.lists(texts, max_size=4))
def test_a_work_may_be_cut_at_any_line_end(name, parts):
    cut = [f"{part}\n" for part in parts]
    whole, removed = clean("".join(cut), name)
    cleaned = [clean_piece(piece, rule_set(name)) for piece in cut]
    assert "".join(piece.text for piece in cleaned) == whole
    for rule in removed:
        assert sum((piece.removed[rule] for piece in cleaned), Removed()) == removed[rule]


# ---- examples in context: found in another way, by comparing a line with what the oracle made of it


def examples(text, name="notes"):
    rules = rule_set(name)
    return {rule: found for rule, found in clean_piece(text, rules, rules.rules).examples.items() if found}


def test_an_example_of_each_rule_is_in_its_line():
    found = examples("  — Он сказал: «да» и/или нет.\n \n- Oui, oui!\nстих//стих\n")
    assert {
        rule: [(one.line, one.before, one.removed, one.after, one.replacement) for one in ones]
        for rule, ones in found.items()
    } == {
        "leading_white_space": [
            (0, "", "  ", "\u2014 Он сказал: «да» и/или нет.", ""),
            (1, "", " <U+000A>", "", ""),
        ],
        "prefixes": [(0, "  ", "\u2014 ", "Он сказал: «да» и/или нет.", "")],
        "foreign": [(2, "", "- Oui, oui!", "", "")],
        "delete": [
            (0, "  \u2014 Он сказал: ", "«", "да» и/или нет.", ""),
            (0, "  \u2014 Он сказал: «да", "»", " и/или нет.", ""),
        ],
        "rewrite": [(0, "Он сказал: да и", "/", "или нет.", ""), (3, "стих", "//", "стих", ". ")],
    }


@settings(max_examples=200)
@given(texts, st.sampled_from(["notes", "literary"]))
def test_the_first_examples_are_in_the_lines_they_name(text, name):
    lines = (unix(text) + "\n").split("\n")
    for rule, ones in examples(text, name).items():
        assert 0 < len(ones) <= 5
        for one in ones:
            if rule not in ("rewrite", "canonical", "trailing_white_space"):  # they see what other rules left
                shown = "".join(
                    char if char.isprintable() else f"<U+{ord(char):04X}>" for char in lines[one.line] + "\n"
                )
                assert one.before + one.removed.removesuffix("…") in shown


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
    assert report["removed"] == [{"rule": "line_ends", "chars": 1, "lines": 0, "places": 1}]


def test_the_report_sums_the_counts_of_all_works(raw, tmp_path):
    report = clean_collection(raw, tmp_path / "clean", "notes")
    assert json.loads(json.dumps(report)) == {
        "rule_set": "notes",
        "why": "as the test says",
        "works": 3,
        "chars_before": 13 + 7 + 7,
        "chars": 11,
        "symbols": len(set("Да.\nНочь ")),
        "removed": [
            {"rule": "line_ends", "chars": 1 - 1 - 1, "lines": 0, "places": 1},
            {"rule": "leading_white_space", "chars": 0, "lines": 0, "places": 0},
            {"rule": "prefixes", "chars": 2, "lines": 0, "places": 1},
            {"rule": "foreign", "chars": len("Nein.\nBonjour\n"), "lines": 2, "places": 2},
            {"rule": "delete", "chars": 1, "lines": 0, "places": 1},
            {"rule": "rewrite", "chars": 0, "lines": 0, "places": 0},
        ],
        "examples": {
            "prefixes": [
                {"work": "poems/Blok/a", "line": 1, "before": "", "removed": "\u2014 ", "after": "Да."},
            ],
            "foreign": [
                {"work": "poems/Blok/a", "line": 2, "before": "", "removed": "Nein.", "after": ""},
                {"work": "poems/Blok/b", "line": 1, "before": "", "removed": "Bonjour", "after": ""},
            ],
            "delete": [
                {"work": "prose/-/c", "line": 1, "before": "Ночь ", "removed": "1", "after": "."},
            ],
        },
        "lost_most": {"poems/Blok/a": {"chars": 9, "share": 0.6923}, "poems/Blok/b": {"chars": 7, "share": 1.0}},
        "letters": {"Cyrillic": len("ДаНочь")},
        "alphabet": dict.fromkeys("\n.", 2) | dict.fromkeys(" ДНаочь", 1),
        "openings": ["Да.", "Ночь ."],
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


@pytest.mark.parametrize(("n_works", "rules"), [(3, "notes"), (13, "literary")])
def test_dvc_draws_what_each_rule_removed(n_works, rules, tmp_path):
    """DVC joins all lists of objects in a file, row by row; no other list may overwrite or follow these rows."""
    texts = [(Document("-", "-", f"{number:02}"), "\u2014 Да\u00ad 1. \r\nNein. \n") for number in range(n_works)]
    write_collection(tmp_path / "raw", texts)
    report = clean_collection(tmp_path / "raw", tmp_path / "clean", rules)
    drawn = get_datapoints(report)
    assert [(row["rule"], row["chars"]) for row in drawn] == [(of["rule"], of["chars"]) for of in report["removed"]]
    assert len(report["lost_most"]) == min(10, n_works)


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
    assert len(json.dumps(report, ensure_ascii=False, indent=2).encode()) < 50_000
    auto = chosen_rules(Clean(rules="auto", file="-", optional=[]), tmp_path / "raw")
    assert (auto.rules.name, auto.why) == ("notes", "because 99.4 % of the letters are Cyrillic (clean.rules auto)")
    symbols_found = set()
    before, after = texts_in(tmp_path / "raw"), texts_in(tmp_path / "clean")
    for document, text, cleaned in zip(before, before.values(), after.values(), strict=True):
        assert cleaned == by_the_rules(text), document
        symbols_found.update(cleaned)
    assert "".join(sorted(symbols_found)) == NOTES
    assert clean_collection(tmp_path / "clean", tmp_path / "again", "notes")["chars"] == 34_814_956


def test_a_line_longer_than_a_piece_stays_one_line_and_its_counts_add_up(tmp_path):
    words = "слово " * (PIECE_BYTES // 4)
    texts = {"a": f"— {words}1\n{words}latin\nЯ", "b": "ж" * PIECE_BYTES * 2}
    write_collection(tmp_path / "raw", [(Document("-", "-", name), [text]) for name, text in texts.items()])
    report = clean_collection(tmp_path / "raw", tmp_path / "clean", "notes")
    first, second = texts_in(tmp_path / "clean").values()
    assert first.startswith(words + "\n")  # the second line loses only the piece with Latin letters
    assert set(first.removeprefix(words + "\n").removesuffix("Я\n")) <= set("слово ")
    assert second == texts["b"] + "\n"
    assert sum(rule["chars"] for rule in report["removed"]) == report["chars_before"] - report["chars"]
