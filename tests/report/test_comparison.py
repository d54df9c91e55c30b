"""What MLflow keeps of comparisons."""

import itertools
from types import SimpleNamespace

from bukva.report import comparison as report


def test_the_verdicts_of_each_model_row_and_split_have_names_of_their_own(monkeypatch):
    kept = []
    monkeypatch.setattr(report, "markdown", lambda _: "")
    monkeypatch.setattr(report, "journal_of", lambda _, name: name)
    monkeypatch.setattr(report, "save_note", lambda made, tags, files: kept.append((made, *tags, *files)) or True)
    for row, split in itertools.product(("gpt", "bigram"), ("val", "test")):
        a = SimpleNamespace(name="heads/8", model=row)
        b = SimpleNamespace(name="b", result=SimpleNamespace(lock={}))
        verdict = SimpleNamespace(verdict="better")
        assert report._save_verdict(SimpleNamespace(a=a, b=b, split=split, verdict=verdict))
    assert kept[0] == ("b", "bukva.against.heads-8.gpt.val", "comparisons/heads-8-gpt-val.md")
    assert len(set(kept)) == 4
