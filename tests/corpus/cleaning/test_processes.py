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


def from_file(path, name):
    """The rule set of a file with all its optional rules."""
    return line_rules(name, path.name, read_entries(path, path.name))


CHOSEN = {"notes": rule_set("notes"), "literary": from_file(RULES / "literary.yaml", "literary")}


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
    alone = cleaned(raw, CHOSEN[name], 1)
    assert cleaned(raw, CHOSEN[name], 3) == alone
    report, _ = alone
    of_works = {work: clean(text, CHOSEN[name])[0] for work, text in texts_in(raw).items() if work.work != "09"}
    after = texts_in(raw.with_name(f"{name} 3"))
    assert {work: after[work] for work in of_works} == of_works
    assert sum(counts["chars"] for counts in report["removed"]) == report["chars_before"] - report["chars"]
    if name == "notes":
        found = [(one["work"], one["line"]) for one in report["examples"]["foreign"]]
        assert found == [(f"-/-/{n:02}", 3) for n in range(1, 6)]  # work 0 is empty; the report has five


def test_a_rule_without_end_is_the_same_sentence_from_any_process(raw, tmp_path):
    (tmp_path / "own.yaml").write_text("rules:\n- {name: a, replace: x, by: xx}\n")
    write_collection(raw, [(Document("-", "-", name), "слово\n" * 997 + name) for name in ("x", "y", "xx")])
    sentences = []
    for processes in (1, 2):
        with pytest.raises(BukvaError) as error:
            cleaned(raw, from_file(tmp_path / "own.yaml", "file"), processes)
        sentences.append(str(error.value))
        assert not raw.with_name(f"file {processes}").exists()
    assert sentences[0].startswith("own.yaml, rule a: 'xx' becomes 'xxxx', which the rules change again")
    assert sentences[1] == sentences[0]


@pytest.mark.slow
def test_memory_is_bounded_by_the_pieces_in_flight_also_for_one_line(raw, peak_memory, monkeypatch):
    monkeypatch.setattr("bukva.corpus.collection.PIECE_BYTES", PIECE_BYTES)
    write_collection(raw, [(Document("-", "-", "w"), ("слово " * 2**17 for _ in range(61)))])  # 88 MB
    before = peak_memory()
    report = clean_collection(raw, raw.with_name("clean"), Chosen(rule_set("notes"), ""), 2)
    assert report["chars"] == 61 * 6 * 2**17 + 1
    assert peak_memory() - before < 40 * PIECE_BYTES
