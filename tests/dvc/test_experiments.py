"""dvc exp run, its temporary copies and its queue; and MLflow over all of them."""

import re

import pytest

pytestmark = pytest.mark.slow

TRAINED = ["train-gpt", "evaluate", "sample", "publish"]
DATA = ["download", "clean", "tokenize", "split"]


def experiments(project):
    """name -> {stage: run} and the top-level run under None."""
    runs = project.mlflow()
    top = {run["id"]: run["tags"]["bukva.experiment"] for run in runs if not run["parent"]}
    assert len(set(top.values())) == len(top), "an experiment has two top-level runs"
    found = {name: {None: next(run for run in runs if run["id"] == id_)} for id_, name in top.items()}
    for run in runs:
        if run["parent"]:
            found[top[run["parent"]]].setdefault(run["tags"]["bukva.stage"], []).append(run)
    return found


def test_one_run_of_the_pipeline_is_one_run_with_its_stages_below(project):
    found = experiments(project)
    assert len(found) == 1
    (name, runs), = found.items()  # fmt: skip
    assert re.fullmatch(r"repro-[0-9a-f]{7}", name)
    top = runs.pop(None)
    assert set(runs) >= {*DATA, "train-bigram", "train-gpt", "evaluate", "sample"}
    assert all(len(executions) == 1 for executions in runs.values())
    assert top["status"] == "FINISHED"
    assert top["params"]["model.n_embd"] == "8"
    assert top["params"]["download.corpus"] == "sample"
    assert {"gpt.test.bits_per_char", "bigram.test.bits_per_char"} <= set(top["metrics"])
    for stage in ("train-bigram", "train-gpt"):
        (run,) = runs[stage]
        assert (run["name"], run["status"], run["tags"]["bukva.kind"]) == (stage, "FINISHED", "training")
        for metric in (
            "train_nats_per_char",
            "val_nats_per_char",
            "best_val_nats_per_char",
            "chars_per_second",
            "seconds",
        ):
            assert metric in run["metrics"], metric
        assert run["points"]["val_nats_per_char"] == 3
        assert any(artifact.endswith("best.safetensors") for artifact in run["artifacts"])
        assert any(artifact.endswith(".csv") for artifact in run["artifacts"])
    assert not [key for key in runs["train-bigram"][0]["params"] if key.startswith("model.")]
    assert any(artifact.endswith("samples.md") for artifact in runs["sample"][0]["artifacts"])
    assert all(runs[stage][0]["tags"]["bukva.kind"] == "data" for stage in DATA)


def test_filling_mlflow_again_doubles_nothing(project):
    before = project.mlflow()
    project.run("python", "-m", "bukva.tracking", "sync", PYTHONPATH="src")
    assert project.mlflow() == before
    (project.folder / "mlflow.db").rename(project.folder.parent / "lost.db")
    project.run("python", "-m", "bukva.tracking", "sync", PYTHONPATH="src")
    again = project.mlflow()
    assert len(again) == len(before)
    assert sorted(str(run["points"]) for run in again) == sorted(str(run["points"]) for run in before)


def test_one_more_head_trains_and_scores_again_and_nothing_else(fresh):
    printed = fresh.run("dvc", "exp", "run", "-n", "two-heads", "-S", "model.n_head=2")
    assert fresh.ran(printed) == TRAINED
    runs = experiments(fresh)["two-heads"]
    assert set(runs) - {None, "publish"} == {"train-gpt", "evaluate", "sample"}
    assert runs[None]["params"]["model.n_head"] == "2"
    shown = fresh.run("dvc", "exp", "show", "--csv")
    assert "two-heads" in shown
    assert "gpt.test.bits_per_char" in shown


def test_what_dvc_restores_has_its_entry_marked_as_restored(fresh):
    fresh.run("dvc", "exp", "run", "-n", "first-time", "-S", "model.n_head=4")
    fresh.clean()
    printed = fresh.run("dvc", "exp", "run", "-n", "second-time", "-S", "model.n_head=4", "-S", "sample.seed=7")
    assert "train-gpt" not in fresh.ran(printed)
    assert "'train-gpt' is cached" in printed
    runs = experiments(fresh)["second-time"]
    (restored,) = runs["train-gpt"]
    assert restored["tags"]["bukva.restored"] == "true"
    assert restored["points"]["val_nats_per_char"] == 3
    assert any(artifact.endswith("best.safetensors") for artifact in restored["artifacts"])
    assert "bukva.restored" not in runs["sample"][0]["tags"]


def test_a_queued_experiment_runs_the_code_of_its_snapshot_and_reports_to_the_same_store(fresh):
    fresh.edit("src/bukva/generation/samples.py", "# Samples", "# Samples of the snapshot")
    fresh.run("dvc", "exp", "run", "--queue", "-n", "snapshot", "-S", "sample.seed=5")
    fresh.run("git", "checkout", "-q", "src")
    fresh.run("dvc", "exp", "run", "--queue", "-n", "grid", "-S", "sample.seed=5,6")
    fresh.run("dvc", "exp", "run", "--run-all", "-j", "2")
    assert "# Samples of the snapshot" in fresh.of_experiment("snapshot", "reports/samples.md")
    assert "snapshot" not in fresh.of_experiment("grid-1", "reports/samples.md")
    found = experiments(fresh)
    assert {"snapshot", "grid-1", "grid-2"} <= set(found)
    for name in ("snapshot", "grid-1", "grid-2"):
        (run,) = found[name]["sample"]
        assert run["status"] == "FINISHED"
        assert any(artifact.endswith("samples.md") for artifact in run["artifacts"])
        assert run["where"] == (fresh.folder / "mlruns").as_uri()


def test_a_stage_that_fails_is_failed_in_mlflow(fresh):
    fresh.set({"model": {"block_size": 1000}, "train_gpt": {"seed": 99}})
    fresh.run("dvc", "repro", ok=False)
    failed = [run for run in fresh.mlflow() if run["status"] == "FAILED"]
    assert {run["tags"].get("bukva.stage") for run in failed} == {None, "train-gpt"}


def test_a_broken_mlflow_stops_nothing(fresh):
    fresh.set({"train_gpt": {"seed": 98}})
    ran = fresh.repro(MLFLOW_TRACKING_URI="http://127.0.0.1:9", MLFLOW_HTTP_REQUEST_MAX_RETRIES="0")
    assert ran == TRAINED
    fresh.run("python", "-m", "bukva.tracking", "sync", PYTHONPATH="src")
    assert any(run["params"].get("train_gpt.seed") == "98" for run in fresh.mlflow())
