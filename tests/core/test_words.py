"""Test that counts agree with their nouns."""

import subprocess

from bukva.core.words import count
from tests.support.imports import ROOT


def test_a_count_agrees_with_its_noun():
    assert [count(n, "work") for n in (0, 1, 2)] == ["0 works", "1 work", "2 works"]
    assert [count(n, "try", "tries") for n in (1, 1024)] == ["1 try", "1,024 tries"]


def test_nothing_printed_and_no_page_has_a_plural_in_brackets():
    command = ["git", "grep", "-hE", r"\w\((s|es)\)", "--", "src", "stages", "*.md"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    assert found  # README shows what DVC prints
    assert [line for line in found if "Ran experiment(s): " not in line] == []
