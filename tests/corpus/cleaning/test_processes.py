"""Several processes clean a collection into the same bytes and the same report as one."""

import pytest
from works import texts_in

from bukva.base.errors import BukvaError
from bukva.base.files import PIECE_BYTES
from bukva.corpus.cleaning import clean as cleaning
from bukva.corpus.cleaning.clean import clean, clean_collection
from bukva.corpus.cleaning.rule_files import line_rules, read_entries
from bukva.corpus.cleaning.rule_sets import RULES, Chosen, rule_set
from bukva.corpus.collection import TABLE, TEXT, Document, write_collection

LINES = "— Да, «так» и/или //иначе...\r\n\n  Oui, oui, oui!\n№ {}\u00ad и\u0306 слово  \nCafe\u0301 [7]\n\n"


def literary():
    """The rule set with passages, whose rule keeps a table of letters."""
    return line_rules("literary", "literary.yaml", read_entries(RULES / "literary.yaml", "literary.yaml"))


CHOSEN = {"notes": rule_set("notes"), "literary": literary(), "none": rule_set("none")}


@pytest.fixture
def raw(tmp_path, monkeypatch):
    """Eleven works in pieces of 997 bytes, two of them empty, one with a line of many pieces."""
    monkeypatch.setattr("bukva.corpus.collection.PIECE_BYTES", 997)
    monkeypatch.setattr(cleaning, "SHARED_BYTES", 0)
    texts = ["".join(LINES.format(n) for n in range(7 * number)) for number in range(9)]
    texts += ["слово " * 1013 + "ё" * 1499 + "\r\nещё\r", ""]
    write_collection(tmp_path / "raw", [(Document("-", "-", f"{n:02}"), text) for n, text in enumerate(texts)])
    return tmp_path / "raw"


def cleaned(raw, rules, processes):
    """The report and the bytes of both files."""
    target = raw.with_name(f"{rules.name} {processes}")
    report = clean_collection(raw, target, Chosen(rules, ""), processes)
    return report, [(target / name).read_bytes() for name in (TEXT, TABLE)]


@pytest.mark.parametrize("name", CHOSEN)
def test_the_bytes_and_the_report_are_the_same_for_any_number_of_processes(raw, name):
    rules = CHOSEN[name]
    alone = cleaned(raw, rules, 1)
    for processes in (2, 3):
        assert cleaned(raw, rules, processes) == alone
    of_works = {document: clean(text, rules) for document, text in texts_in(raw).items() if document.work != "09"}
    after = texts_in(raw.with_name(f"{name} 3"))
    assert {document: after[document] for document in of_works} == {key: text for key, (text, _) in of_works.items()}
    assert sum(counts["chars"] for counts in alone[0]["removed"]) == alone[0]["chars_before"] - alone[0]["chars"]


def test_examples_are_those_of_the_first_works_for_any_number_of_processes(raw):
    report, _ = cleaned(raw, CHOSEN["notes"], 3)
    found = [(one["work"], one["line"]) for one in report["examples"]["foreign"]]
    assert found == [(f"-/-/{n:02}", 3) for n in range(1, 6)]  # work 0 is empty; the report has five


def test_a_rule_without_end_is_the_same_sentence_from_any_process(raw, tmp_path):
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, replace: x, by: xx}\n")
    rules = line_rules("file", "own.yaml", read_entries(tmp_path / "own.yaml", "own.yaml"))
    write_collection(raw, [(Document("-", "-", name), "слово\n" * 997 + name) for name in ("x", "y", "xx")])
    sentences = []
    for processes in (1, 2):
        with pytest.raises(BukvaError) as error:
            cleaned(raw, rules, processes)
        sentences.append(str(error.value))
        assert not raw.with_name(f"file {processes}").exists()
    assert sentences[0].startswith("own.yaml, rule a: 'xx' becomes 'xxxx', which the rules change again")
    assert sentences[1] == sentences[0]


def test_a_small_corpus_starts_no_process(raw, monkeypatch):
    monkeypatch.setattr(cleaning, "SHARED_BYTES", 1 << 26)
    monkeypatch.setattr("bukva.base.workers._start", pytest.fail)
    assert cleaned(raw, CHOSEN["notes"], 3)[0]["works"] == 11


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_memory_is_bounded_by_the_pieces_in_flight_also_for_one_line(raw, processes, peak_memory, monkeypatch):
    monkeypatch.setattr("bukva.corpus.collection.PIECE_BYTES", PIECE_BYTES)
    write_collection(raw, [(Document("-", "-", "w"), ("слово " * 2**17 for _ in range(61)))])  # 88 MB
    before = peak_memory()
    report = clean_collection(raw, raw.with_name("clean"), Chosen(rule_set("notes"), ""), processes)
    assert report["chars"] == 61 * 6 * 2**17 + 1
    assert peak_memory() - before < 40 * PIECE_BYTES
