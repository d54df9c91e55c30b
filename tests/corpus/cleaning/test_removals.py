"""The record of what was removed: a few examples of each rule from several works, in a small file."""

import dataclasses
import json

import pytest

from bukva.corpus.cleaning.clean import ALPHABET
from bukva.corpus.cleaning.removals import Account, Cleaned, Example, Record, Removed, example

RULES = ["a", "b"]


def piece(n_lines, *numbers, rule="a"):
    """The account of a piece of so many lines, with examples in these."""
    return Account(1, 1, n_lines, {rule: Removed(1)}, {rule: [Example(number, "", "x", "") for number in numbers]})


def test_an_example_is_a_place_with_its_context_in_the_line():
    text = "раз\n" + "а" * 40 + "XY" + "б" * 40 + "\nдва"
    start = text.index("X")
    assert example(1, text, start, start + 2) == Example(1, "а" * 30, "XY", "б" * 30)
    assert example(0, text, 0, 3, "z") == Example(0, "", "раз", "", "z")
    assert example(0, text, 1, 4) == Example(0, "р", "аз<U+000A>", "")
    assert example(0, "x" * 100, 7, 70) == Example(0, "x" * 7, "x" * 59 + "…", "x" * 30)
    assert example(0, "a\u00adb\u200b", 1, 2) == Example(0, "a", "<U+00AD>", "b<U+200B>")


def test_each_of_the_first_works_gives_one_example_before_one_gives_a_second():
    record = Record(RULES)
    for work, numbers in (("v", [1, 2]), ("w", []), ("x", [0, 1, 2, 3, 4, 5]), ("y", [7])):
        record.begin(work)
        record.add(piece(10, *numbers))
    found = [(one["work"], one["line"]) for one in record.examples()["a"]]
    assert found == [("v", 2), ("x", 1), ("y", 8), ("v", 3), ("x", 2)]
    assert list(record.examples()) == ["a"]


def test_a_rule_is_wanted_while_the_work_may_give_more_examples():
    record = Record(RULES)
    for number in range(7):
        work = f"w{number}"
        record.begin(work)
        assert record.wanted(work) == (RULES if number < 5 else ["b"])
        if number < 5:
            record.add(piece(3, 0, 1))
            assert record.wanted(work) == RULES
            record.add(piece(3, 0, 1, 2, 2))
        assert record.wanted(work) == ["b"]


def test_examples_that_nobody_wants_any_more_change_nothing():
    """Pieces are cleaned before the ones before them are recorded, so they come with examples that are too many."""
    asked, unasked = Record(RULES), Record(RULES)
    for number in range(7):
        work = f"w{number}"
        asked.begin(work)
        unasked.begin(work)
        for one in (piece(3, 0, 1), piece(3, *[2] * (number % 3)), piece(5, 0, 0, 1, 2), piece(2, 1, rule="b")):
            wanted = {rule: found for rule, found in one.examples.items() if rule in asked.wanted(work)}
            asked.add(dataclasses.replace(one, examples=wanted))
            unasked.add(one)
    assert unasked.examples() == asked.examples()
    assert [len(found) for found in asked.examples().values()] == [5, 5]


def test_lines_are_counted_through_the_pieces_of_a_work():
    record = Record(RULES)
    record.begin("v")
    for numbers in ([2], [], [0]):
        record.add(piece(3, *numbers))
    assert [one["line"] for one in record.examples()["a"]] == [3, 7]


def test_the_works_that_lost_most_are_at_most_ten_in_a_fixed_order():
    record = Record(RULES)
    for number in range(13):
        record.begin(f"w{number:02}")
        record.add(Account.of("x" * 20, Cleaned("x" * (20 - number // 2), 1, {})))
    assert [(work, lost["chars"], lost["share"]) for work, lost in record.lost_most().items()] == [
        ("w12", 6, 0.3), ("w10", 5, 0.25), ("w11", 5, 0.25), ("w08", 4, 0.2), ("w09", 4, 0.2), ("w06", 3, 0.15),
        ("w07", 3, 0.15), ("w04", 2, 0.1), ("w05", 2, 0.1), ("w02", 1, 0.05),
    ]  # fmt: skip


@pytest.mark.parametrize("n_rules", [1, 7, 12, 61])
def test_the_report_of_any_number_of_rules_is_small(n_rules):
    rules = [f"{'r' * 36}{number}" for number in range(n_rules)]
    record = Record(rules)
    for number in range(11):
        record.begin(f"poems/Pushkin/work {number}.txt")
        line = "ж" * 200
        examples = {rule: [example(0, line, 40, 110, "")] * 5 for rule in rules}
        record.add(Account.of(line, Cleaned("", 1, dict.fromkeys(rules, Removed(1)), examples)))
    report = {"removed": record.removed(), "examples": record.examples(), "lost_most": record.lost_most()}
    report["alphabet"] = dict.fromkeys(map(chr, range(0x1F300, 0x1F300 + ALPHABET)), 10**9)
    assert len(json.dumps(report, ensure_ascii=False, indent=2).encode()) < 50_000
    assert all(len(found) == max(1, min(5, 60 // n_rules)) for found in record.examples().values())
