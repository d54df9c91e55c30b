"""Test that counts agree with their nouns."""

import re
import subprocess

import pytest
from imports import ROOT

from bukva.core.words import count


@pytest.mark.parametrize(
    ("n", "noun", "plural", "text"),
    [
        (0, "work", "", "0 works"),
        (1, "work", "", "1 work"),
        (2, "work", "", "2 works"),
        (1, "try", "tries", "1 try"),
        (1024, "try", "tries", "1,024 tries"),
    ],
)
def test_a_count_agrees_with_its_noun(n, noun, plural, text):
    assert count(n, noun, plural) == text


def test_nothing_printed_and_no_page_has_a_plural_in_brackets():
    listed = subprocess.run(
        ["git", "ls-files", "src", "stages", "docs", "*.md"], cwd=ROOT, capture_output=True, text=True
    )
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in listed.stdout.split("\n")
        if name.endswith((".py", ".md", ".j2", ".js"))
    }
    assert {"README.md", "stages/clean.py"} <= set(texts)
    allowed = "Ran experiment(s): "  # DVC prints it
    assert not [name for name, text in texts.items() if re.search(r"\w\((s|es)\)", text.replace(allowed, ""))]
