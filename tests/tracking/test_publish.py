"""Stage publish completes MLflow with the stages that DVC restored."""

import json
import subprocess
from pathlib import Path

import pytest

from bukva.core.files import write_text
from bukva.tracking.journal import NOTES, JournalWriter, read_journals
from bukva.tracking.publish import publish

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


def commit():
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "dvc.lock"], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", *arguments], check=True)


def journals(stage):
    return [found for found in read_journals() if found.start["stage"] == stage]


def write_gpt(weights="weights"):
    write_text(Path("data/models/train_gpt/model.safetensors"), weights)
    write_text(Path("reports/curves/train_gpt.csv"), CURVE)
    return entry("data/models/train_gpt", "reports/curves/train_gpt.csv", digest=weights)


def test_the_journal_of_a_restored_training_is_written_from_its_files(alone, params):
    lock(train_gpt=write_gpt())
    publish(params)
    (journal,) = journals("train-gpt")
    assert journal.start["restored"]
    assert journal.status()[0] == "FINISHED"
    assert (journal.folder / "artifacts/train_gpt/model.safetensors").read_text() == "weights"
    assert (journal.folder / "artifacts/train_gpt.csv").read_text() == CURVE
    points = {record["step"]: record["values"] for record in journal.read()[0] if record["record"] == "metrics"}
    assert sorted(points) == [100, 200, 300, 400]
    assert points[200] == {"chars_seen": 1600, "train_nats_per_char": 3.0, "learning_rate": 0.1}
    best = [points[step].get("best_val_nats_per_char") for step in sorted(points)]
    assert best == [3.25, None, 2.75, 2.75]
    publish(params)
    assert len(journals("train-gpt")) == 1


@pytest.mark.parametrize(
    ("weights", "status", "restored"),
    [
        ("weights", "FINISHED", [False]),
        ("of edited code", "FINISHED", [False, True]),  # and then the edit was undone
        ("weights", "KILLED", [False, True]),
    ],
)
def test_a_stage_gets_a_journal_unless_it_has_one_of_the_present_files(alone, params, weights, status, restored):
    log = JournalWriter("train-gpt", params)
    for out in write_gpt(weights)["outs"]:
        log.artifact(Path(out["path"]))
    log.end(status)
    lock(train_gpt=write_gpt())
    publish(params)
    assert [journal.start["restored"] for journal in journals("train-gpt")] == restored


def test_a_stage_that_did_not_change_since_the_baseline_gets_none(alone, params):
    lock(clean=entry("data/clean"), train_gpt=entry("data/models/train_gpt"))
    commit()
    lock(clean=entry("data/clean"), train_gpt=write_gpt())
    publish(params)
    assert [found.start["stage"] for found in read_journals()] == ["train-gpt"]


def test_a_model_that_was_trained_again_gets_the_scores_that_it_has(alone, params):
    """The training made the same bytes as before, so that DVC did not run stage evaluate."""
    write_text(Path("reports/metrics.json"), "{}")
    lock(train_gpt=write_gpt(), evaluate=entry("reports/metrics.json"))
    commit()
    publish(params)
    assert journals("evaluate") == []
    log = JournalWriter("train-gpt", params)
    log.artifact(Path("data/models/train_gpt"))
    log.end("FINISHED")
    publish(params)
    (journal,) = journals("evaluate")
    assert journal.start["restored"]
    assert (journal.folder / "artifacts/metrics.json").exists()


def test_dvc_lock_is_noted_for_this_experiment_and_not_for_a_later_one_of_its_name(alone, params, monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    other = params.model_copy(update={"sample": params.sample.model_copy(update={"seed": 7})})
    lock(train_gpt=write_gpt())
    for parameters in (params, other):
        publish(parameters)
    first, second = read_journals()
    assert first.key != second.key
    for journal in (first, second):
        assert (journal.folder / NOTES / "dvc.lock").read_bytes() == Path("dvc.lock").read_bytes()


@pytest.mark.parametrize("text", [None, "a: [", "stages: 3"])
def test_a_broken_or_missing_lock_file_does_not_fail_an_experiment(alone, params, text, capsys):
    if text:
        write_text(Path("dvc.lock"), text)
    publish(params)
    assert capsys.readouterr().out.startswith("MLflow ")
