"""Stage publish completes MLflow with the stages that DVC restored."""

import json
from pathlib import Path

import pytest
from repository import commit, run_git
from tracking.test_experiment import changed

from bukva.core.files import write_json, write_text
from bukva.project.lock import read_lock
from bukva.tracking.journal import NOTES, JournalWriter, read_journals
from bukva.tracking.publish import publish
from bukva.tracking.sync import LATER

CURVE = """\
step,chars_seen,train_nats_per_char,val_nats_per_char,learning_rate
100,800,3.5,3.25,0.1
200,1600,3.0,,0.1
300,2400,2.5,2.75,0.1
400,3200,2.25,3.0,0.1
"""


def entry(*outs, digest="1"):
    return {"cmd": "python", "outs": [{"path": out, "md5": digest} for out in outs]}


def lock(**stages):
    content = {"schema": "2.0", "stages": {name.replace("_", "-"): value for name, value in stages.items()}}
    write_text(Path("dvc.lock"), json.dumps(content))  # which is YAML too


def write_gpt(weights="weights"):
    write_text(Path("data/models/gpt/model.safetensors"), weights)
    write_text(Path("reports/curves/train_gpt.csv"), CURVE)
    return entry("data/models/gpt", "reports/curves/train_gpt.csv", digest=weights)


def log_gpt(params, status="FINISHED", **outs):
    log = JournalWriter("train-gpt", params)
    for out in write_gpt(**outs)["outs"]:
        log.artifact(Path(out["path"]))
    log.end(status)


def restored():
    """Stage of each journal, and whether DVC restored it."""
    return [(journal.start["stage"], journal.start["restored"]) for journal in read_journals()]


def test_the_journal_of_a_restored_training_is_written_from_its_files(alone, params):
    lock(train_gpt=write_gpt())
    write_json(Path("data/scores/about.json"), {"models": {"gpt": {"parameters": 7}}})
    publish(params)
    (journal,) = read_journals()
    assert (restored(), journal.status()[0]) == ([("train-gpt", True)], "FINISHED")
    assert (journal.folder / "artifacts/gpt/model.safetensors").read_text() == "weights"
    assert (journal.folder / "artifacts/train_gpt.csv").read_text() == CURVE
    points = {record["step"]: record["values"] for record in journal.read()[0] if record["record"] == "metrics"}
    assert points.pop(0) == {"n_parameters": 7}
    assert journal.read()[0][-2]["note"].endswith("are only in the run of the stage that trained the model.")
    assert sorted(points) == [100, 200, 300, 400]
    assert points[200] == {"chars_seen": 1600, "train_nats_per_char": 3.0, "learning_rate": 0.1}
    best = [points[step].get("best_val_nats_per_char") for step in sorted(points)]
    assert best == [3.25, None, 2.75, 2.75]
    publish(params)
    assert len(read_journals()) == 1


@pytest.mark.parametrize(
    ("weights", "status", "is_restored"),
    [
        ("weights", "FINISHED", False),
        ("of edited code", "FINISHED", True),  # and then the edit was undone
        ("weights", "KILLED", True),
    ],
)
def test_a_stage_gets_a_journal_unless_it_has_one_of_the_present_files(alone, params, weights, status, is_restored):
    log_gpt(params, status, weights=weights)
    lock(train_gpt=write_gpt())
    publish(params)
    assert restored() == [("train-gpt", False), ("train-gpt", True)][: 1 + is_restored]


def test_only_what_changed_since_the_baseline_gets_a_journal_but_a_model_trained_again_gets_its_scores(alone, params):
    """If a training makes the same bytes as before, DVC does not run stage evaluate."""
    write_text(Path("reports/metrics.json"), "{}")
    lock(clean=entry("data/clean"), train_gpt=write_gpt(), evaluate=entry("reports/metrics.json"))
    run_git(alone, "init", "-q")
    commit(alone, "dvc.lock")
    publish(params)
    assert restored() == []
    log_gpt(params)
    publish(params)
    assert restored() == [("train-gpt", False), ("evaluate", True)]
    assert (read_journals()[-1].folder / "artifacts/metrics.json").exists()


def test_dvc_lock_is_noted_for_this_experiment_and_not_for_a_later_one_of_its_name(alone, params, monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    lock(train_gpt=write_gpt())
    for parameters in (params, changed(params, "sample", seed=7)):
        publish(parameters)
    first, second = read_journals()
    assert first.start["key"] != second.start["key"]
    for journal in (first, second):
        assert read_lock(journal.folder / NOTES) == read_lock() != {}


def test_in_a_sweep_that_sends_its_results_later_nothing_is_sent_and_the_line_says_so(
    alone, params, monkeypatch, capsys
):
    monkeypatch.setenv(LATER, "1")
    lock(train_gpt=write_gpt())
    publish(params)
    assert capsys.readouterr().out.startswith(
        "MLflow receives experiment repro-uncommitted at the end of the sweep. Res"
    )


@pytest.mark.parametrize("text", [None, "a: [", "stages: 3"])
def test_a_broken_or_missing_lock_file_does_not_fail_an_experiment(alone, params, text, capsys):
    if text:
        write_text(Path("dvc.lock"), text)
    publish(params)
    assert capsys.readouterr().out.startswith("MLflow ")
