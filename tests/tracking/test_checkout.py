"""Which experiment made the files of the checkout."""

from pathlib import Path

import pytest

from bukva.base.files import write_text
from bukva.config.schema import Params
from bukva.tracking.checkout import experiment_of_checkout
from bukva.tracking.reading import read_journals
from bukva.tracking.writing import Log

METRICS, SAMPLES = Path("reports/metrics.json"), Path("reports/samples.md")


def finish(name: str, params: Params, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], end="FINISHED") -> None:
    """Stages of an experiment end with these files: stage -> content."""
    monkeypatch.setenv("DVC_EXP_NAME", name)
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    for stage, content in files.items():
        log = Log(stage, params)
        path = {"evaluate": METRICS, "sample": SAMPLES, "train-gpt": Path("curve.csv")}[stage]
        write_text(path, content)
        log.artifact(path)
        log.end(end)


def test_it_is_the_newest_one_whose_reports_are_there(
    alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert experiment_of_checkout() is None
    for name, scores in (("first", "1"), ("second", "2"), ("third", "3"), ("again", "2")):
        finish(name, params, monkeypatch, {"evaluate": scores, "sample": "text"})
    keys = {journal.start["experiment"]: journal.key for journal in read_journals()}
    assert experiment_of_checkout() == ("again", keys["again"])
    write_text(METRICS, "1")
    assert experiment_of_checkout() == ("first", keys["first"])
    write_text(SAMPLES, "edited")
    assert experiment_of_checkout() is None


def test_only_reports_count_and_the_last_of_each_stage(
    alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish("ours", params, monkeypatch, {"evaluate": "0", "train-gpt": "1"})
    finish("ours", params, monkeypatch, {"evaluate": "1"})
    finish("killed", params, monkeypatch, {"evaluate": "1"}, end="KILLED")
    write_text(Path("curve.csv"), "another")
    assert experiment_of_checkout()[0] == "ours"
    write_text(METRICS, "0")
    assert experiment_of_checkout() is None
