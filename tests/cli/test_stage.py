"""Tests of what all stage scripts do before and after their work."""

import gc
import json
import shutil
import sys

import pytest

from bukva.core.params import PARAMS
from stages import stage
from tests.support.imports import SHIPPED

LOCK = {
    "split": {"deps": [], "params": {"params.yaml": {"split": {"train": 0.9}}}, "outs": [{"path": "data/split"}]},
    "train-gpt": {
        "deps": [{"path": "data/split"}],
        "params": {"params.yaml": {"model": {"n_head": 4}}},
        "outs": [{"path": "data/models/gpt"}, {"path": "reports/curves/train_gpt.csv"}],
    },
    # of another run
    "evaluate": {"deps": [], "params": {"params.yaml": {"evaluate": {"short_context": 5}}}, "outs": []},
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs a stage, which changes params.yaml; returns the exit status and the error."""
    shutil.copy(SHIPPED, tmp_path)
    (tmp_path / "dvc.lock").write_text(json.dumps({"stages": LOCK}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["stage"])
    monkeypatch.setattr(stage, "end_with_dvc", lambda: None)

    def change(*words):
        file = tmp_path / PARAMS
        file.write_text(file.read_text(encoding="utf-8").replace(*words), encoding="utf-8")

    def give(name, before=("", ""), during=("", "")):
        monkeypatch.setenv("DVC_STAGE", name)
        shutil.copy(SHIPPED, tmp_path)
        change(*before)
        with pytest.raises(SystemExit) as ended:
            stage.run(lambda: change(*during))
        return ended.value.code, capsys.readouterr().err

    return give


N_HEAD, CHARS = ("n_head: 4", "n_head: 2"), ("n_chars: 300", "n_chars: 5")
SAID = "model.n_head=4, but params.yaml has 2. This happens if a second `dvc exp run` starts in the same checkout"


@pytest.mark.parametrize("name", ["evaluate", "sample", "publish"])
def test_no_stage_records_a_result_with_parameters_that_the_training_did_not_have(run, name):
    assert run(name, before=CHARS) == (0, "")
    status, error = run(name, before=N_HEAD)
    assert status == 1
    assert f"stage train-gpt ran with {SAID}" in error


def test_a_stage_whose_parameters_change_while_it_runs_fails_because_dvc_would_record_the_new_ones(run):
    status, error = run("train-gpt", during=N_HEAD)
    assert status == 1
    assert f"stage train-gpt ran with {SAID}" in error
    assert run("train-gpt", during=CHARS) == (0, "")  # of another stage, which has not run yet
    assert run("train-gpt", before=N_HEAD) == (0, "")


def test_a_stage_collects_garbage_although_dvc_starts_it_without(run):
    gc.disable()
    assert run("evaluate") == (0, "")
    assert gc.isenabled()


@pytest.mark.parametrize(("words", "status", "said"), [([], 130, ""), (["one"], 2, "unexpected extra argument")])
def test_a_stage_ends_with_130_after_ctrl_c_and_with_2_after_a_wrong_command_line(
    monkeypatch, capsys, words, status, said
):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["stage", *words])
    with pytest.raises(SystemExit) as ended:
        stage.run(interrupted)
    printed = capsys.readouterr().err
    assert (ended.value.code, said in printed, "Traceback" in printed) == (status, True, False)
