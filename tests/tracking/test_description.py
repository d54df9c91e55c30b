"""Sections in a description that people edit too."""

from collections.abc import Mapping

import pytest

from bukva.tracking.description import CUT, MOST_CHARS, SECTION_CHARS, with_sections

OWN = "Started from commit 0123456."
A, B, C = {"against a": "a is better"}, {"against b": "b is better"}, {"against c": "no verdict"}
NEW_A = {"against a": "a is worse"}


class Run:
    """A run with a description, which gets sections again and again."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.received: Mapping[str, str] = {}

    def get(self, sections: Mapping[str, str]) -> str:
        self.text, self.received = with_sections(self.text, sections, self.received)
        return self.text

    def shown(self) -> list[str]:
        """The lines that MLflow shows."""
        return [line for line in self.text.splitlines() if line and not line.startswith("<!--")]


def test_sections_stand_below_the_text_in_their_order() -> None:
    run = Run(OWN)
    run.get(A | B)
    assert run.shown() == [OWN, "### against a", "a is better", "### against b", "b is better"]


def test_the_same_sections_again_change_nothing() -> None:
    run = Run("")
    before, received = run.get(A | B), run.received
    assert run.get(A | B) == before
    assert run.received == received


def test_a_section_that_changed_is_replaced_where_it_stands() -> None:
    run = Run(OWN)
    run.get(A | B)
    run.get(NEW_A | B | C)
    headings = [line for line in run.shown() if line.startswith("#")]
    assert headings == ["### against a", "### against b", "### against c"]
    assert "a is worse" in run.text
    assert "a is better" not in run.text


def test_text_that_a_person_wrote_around_sections_stays() -> None:
    run = Run(OWN)
    text = run.get(A | B)
    run.text = f"Mine, above.\n\n{text.replace('<!-- bukva', 'Between.  <!-- bukva')}\n\nBelow.\n"
    expected = run.text.replace("a is better", "a is worse")
    assert run.get(NEW_A | B) == expected


def test_a_section_that_a_person_changed_stays_and_a_new_version_is_added_below() -> None:
    run = Run(OWN)
    run.text = run.get(A | B).replace("a is better", "a is better, says Anna")
    run.get(A | B)
    assert run.shown() == [OWN, "### against a", "a is better, says Anna", "### against b", "b is better"]
    for newer in ("a is worse", "a is much worse"):
        run.get({"against a": newer} | B)
        assert run.shown()[1:3] == ["### against a", "a is better, says Anna"]
        assert run.shown()[5:] == ["### against a", newer]


def test_a_section_that_a_person_removed_comes_back_when_it_changes() -> None:
    run = Run(OWN)
    run.get(A)
    run.text = OWN
    run.get(A | B)
    assert run.shown() == [OWN, "### against b", "b is better"]
    run.get(NEW_A | B)
    assert run.shown()[3:] == ["### against a", "a is worse"]


def test_a_person_who_removes_half_of_the_marks_loses_nothing() -> None:
    run = Run(OWN)
    run.text = run.get(A | B).replace("<!-- /bukva -->", "", 1)
    run.get(NEW_A | {"against b": "b is worse"})
    assert run.shown()[1:] == [
        "### against a",
        "a is better",
        "### against b",
        "b is worse",
        "### against a",
        "a is worse",
    ]


def test_a_text_that_was_sent_but_not_remembered_is_not_doubled() -> None:
    for sections in (A, NEW_A):
        run = Run(OWN)
        run.get(A)
        remembered = run.received
        text = run.get(sections | B)
        run.received = remembered
        assert run.get(sections | B) == text


def test_two_journals_of_one_experiment_add_their_sections_once() -> None:
    """Two machines fill one server; each knows its own sections only."""
    run = Run(OWN)
    run.get(A)
    text = run.get(B)
    assert run.get(A) == run.get(B) == text
    assert run.get(NEW_A) == text.replace("a is better", "a is worse")


def test_the_oldest_sections_give_way_to_new_ones() -> None:
    run, words = Run(OWN), "слово " * 200
    for number in range(13):
        run.get({f"against {earlier}": f"{earlier} {words}" for earlier in range(number + 1)})
        assert len(run.text) <= MOST_CHARS
    headings = [line for line in run.shown() if line.startswith("#")]
    assert headings == [f"### against {number}" for number in (7, 8, 9, 10, 11, 12)]
    run.get({"against 0": f"new {words}", **{f"against {number}": f"{number} {words}" for number in range(1, 13)}})
    headings = [line for line in run.shown() if line.startswith("#")]
    assert headings == [f"### against {number}" for number in (8, 9, 10, 11, 12, 0)]
    run.get({f"against {number}": f"{number} {words if number != 8 else 2 * words}" for number in range(1, 13)})
    headings = [line for line in run.shown() if line.startswith("#")]
    assert headings == [f"### against {number}" for number in (8, 10, 11, 12, 0)]
    assert run.shown()[0] == OWN


@pytest.mark.parametrize("own", ["x" * 7990, "x" * MOST_CHARS])
def test_a_section_for_which_a_person_left_no_room_is_left_out(own: str) -> None:
    run = Run(own)
    assert run.get(A) == own
    assert run.get(A) == own


def test_a_long_section_is_cut_at_the_end_of_a_line() -> None:
    lines = [f"| author {number:04d} | 0.1 |" for number in range(500)]
    run = Run("")
    run.get({"against a": "\n".join(lines)})
    _, *kept, last = run.shown()
    assert last == CUT
    assert kept == lines[: len(kept)]
    assert SECTION_CHARS - 50 < len("\n".join(kept)) <= SECTION_CHARS
