"""Test that counts agree with their nouns."""

import re
import subprocess

from bukva.core.words import count
from tests.support.imports import ROOT


def test_a_count_agrees_with_its_noun():
    assert [count(n, "work") for n in (0, 1, 2)] == ["0 works", "1 work", "2 works"]
    assert [count(n, "try", "tries") for n in (1, 1024)] == ["1 try", "1,024 tries"]


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
