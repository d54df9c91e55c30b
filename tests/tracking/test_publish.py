"""Stage publish completes MLflow with the stages that DVC restored."""

import json
from pathlib import Path

import pytest
from tracking.runs import cache, stage
from tracking.test_experiment import changed

from bukva.core.files import write_json, write_text
from bukva.project.lock import read_lock
from bukva.tracking.publish import publish
from bukva.tracking.record import CURVE, NOTES, read_runs, seconds_of_models
from bukva.tracking.sync import LATER
from tests.support.repository import commit, run_git

COMMITTED = """\
step,chars_seen,train_nats_per_char,val_nats_per_char,learning_rate
0,0,,3.25,0.1
100,800,2.5,2.75,0.1
"""
WITH_TIMES = "step,val_nats_per_char,at,chars_per_second\n0,3.25,1000,\n100,2.75,2000,7.0\n"


def entry(*outs):
    return {"cmd": "python", "outs": [{"path": out, "md5": cache(Path(out))} for out in outs]}


def lock(**stages):
    content = {"schema": "2.0", "stages": {name.replace("_", "-"): value for name, value in stages.items()}}
    write_text(Path("dvc.lock"), json.dumps(content))  # which is YAML too


def write_gpt(weights="weights"):
    write_text(Path("data/models/gpt/best.safetensors"), weights)
    write_text(Path("reports/curves/train_gpt.csv"), COMMITTED)
    return entry("data/models/gpt", "reports/curves/train_gpt.csv")


def train_gpt(params, status="FINISHED", weights="weights"):
    with stage("train-gpt", params, status) as recorder:
        write_gpt(weights)
        recorder.text(CURVE, WITH_TIMES)


def restored():
    return [(run.stage, run.restored) for run in read_runs()]


def test_the_record_of_a_restored_training_is_made_from_its_files(alone, params):
    lock(train_gpt=write_gpt())
    write_json(Path("data/scores/about.json"), {"models": {"gpt": {"parameters": 7}}})
    publish(params)
    (run,) = read_runs()
    end, _ = run.state()
    assert (restored(), end["status"], run.n_parameters) == ([("train-gpt", True)], "FINISHED", 7)
    assert end["outs"] == read_lock()["train-gpt"].outs
    assert end["why"].startswith("Restored by DVC from its run cache.")
    assert (run.folder / CURVE).read_text() == COMMITTED
    publish(params)
    assert len(read_runs()) == 1


def test_the_record_of_a_training_that_an_earlier_experiment_ran_here_has_its_times(alone, params):
    train_gpt(params)
    train_gpt(params, weights="other")
    lock(train_gpt=write_gpt())
    publish(changed(params, "sample", seed=7))
    assert restored()[2:] == [("train-gpt", True)]
    assert (read_runs()[-1].folder / CURVE).read_text() == WITH_TIMES
    assert len(seconds_of_models("gpt")) == 2


@pytest.mark.parametrize(
    ("weights", "status", "is_restored"),
    [
        ("weights", "FINISHED", False),
        ("of edited code", "FINISHED", True),  # and then the edit was undone
        ("weights", "KILLED", True),
    ],
)
def test_a_stage_gets_a_record_unless_it_has_one_of_the_present_files(alone, params, weights, status, is_restored):
    train_gpt(params, status, weights)
    lock(train_gpt=write_gpt())
    publish(params)
    assert restored() == [("train-gpt", False), ("train-gpt", True)][: 1 + is_restored]


def test_only_what_changed_since_the_baseline_gets_a_record_but_a_model_trained_again_gets_its_scores(alone, params):
    """If a training makes the same bytes as before, DVC does not run stage evaluate."""
    for path in ("reports/metrics.json", "data/clean/a.txt"):
        write_text(Path(path), "{}")
    lock(clean=entry("data/clean"), train_gpt=write_gpt(), evaluate=entry("reports/metrics.json"))
    run_git(alone, "init", "-q")
    commit(alone, "dvc.lock")
    publish(params)
    assert restored() == []
    train_gpt(params)
    publish(params)
    assert restored() == [("train-gpt", False), ("evaluate", True)]
    assert list(read_runs()[-1].state()[0]["outs"]) == ["reports/metrics.json"]


def test_dvc_lock_is_noted_for_this_experiment_and_not_for_a_later_one_of_its_name(alone, params, monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    lock(train_gpt=write_gpt())
    for parameters in (params, changed(params, "sample", seed=7)):
        publish(parameters)
    first, second = read_runs()
    assert first.key != second.key
    for run in (first, second):
        assert read_lock(run.folder / NOTES) == read_lock() != {}


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
