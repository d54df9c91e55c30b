"""MLflow gets everything from the journals, once."""

import json
import math
import shutil

import pytest
from tracking.runs import by_name, files, points, sync
from tracking.test_experiment import commit

from bukva.core.errors import BukvaError
from bukva.core.files import write_json, write_text
from bukva.core.machine import processor
from bukva.core.schema import Params
from bukva.tracking import sync as sync_module
from bukva.tracking.journal import JournalWriter, journal, journals_root, read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import send_journals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

WHOLE = "repro-uncommitted"
VAL = "val_nats_per_char"


def run_pipeline(folder, params):
    with journal("clean", params):
        pass
    with journal("train-gpt", params) as log:
        for step in (100, 200, 300):
            log.metrics({VAL: math.log(2) * (3 - step / 1000), "learning_rate": 0.1}, step)
        write_text(folder / "data/models/train_gpt/model.safetensors", "weights")
        log.artifact(folder / "data/models/train_gpt")
    evaluate(folder, params, {"gpt": {"val": 3.1, "test": 2.9}})


def evaluate(folder, params, scores):
    with journal("evaluate", params) as log:
        write_json(folder / "reports/metrics.json", scores)
        log.artifact(folder / "reports/metrics.json")


def train(params, losses=(3.0, 2.5, 2.0), status="FINISHED"):
    """A journal of a training from its first step, whether or not it was resumed."""
    log = JournalWriter("train-gpt", params)
    for step, loss in enumerate(losses, 1):
        log.metrics({VAL: loss}, step)
    log.end(status)


def contents(store):
    """Everything that filling twice could double."""
    return {
        name: (
            run.info.status,
            run.info.start_time,
            run.info.end_time,
            run.data.params,
            {metric: points(store, run, metric) for metric in run.data.metrics},
            files(store, run),
        )
        for name, run in by_name(store).items()
    }


def steps(store, run):
    return [step for step, *_ in points(store, run, VAL)]


def trainings(store):
    """Name, status and steps of each execution of train-gpt."""
    runs = [run for run in store.runs() if run.data.tags.get("bukva.stage") == "train-gpt"]
    return {run.info.run_name: (run.info.status, steps(store, run)) for run in runs}


def whole(store):
    """The run of the only experiment."""
    [run] = [run for run in store.runs() if "bukva.stage" not in run.data.tags]
    return run


def test_a_pipeline_is_one_run_with_its_stages_below_it_and_what_they_logged(database, params):
    run_pipeline(database.parent, params)
    assert sync() == []
    store = connect()
    assert store.client.get_experiment(store.experiment_id).artifact_location == (database.parent / "mlruns").as_uri()
    stages = by_name(store)
    top = stages.pop(WHOLE)
    assert {name: run.data.tags["bukva.kind"] for name, run in stages.items()} == {
        "clean": "data", "train-gpt": "training", "evaluate": "report"
    }  # fmt: skip
    assert {run.data.tags["mlflow.parentRunId"] for run in stages.values()} == {top.info.run_id}
    assert {run.data.tags["bukva.processor"] for run in (top, *stages.values())} == {processor()}
    assert {run.info.status for run in (top, *stages.values())} == {"FINISHED"}
    assert {key.partition(".")[0] for key in top.data.params} == set(Params.model_fields)
    assert {key.partition(".")[0] for key in stages["train-gpt"].data.params} == {"model", "compute", "train_gpt"}
    assert stages["train-gpt"].data.params["model.n_head"] == str(params.model.n_head)
    assert top.data.metrics.items() >= {"gpt.val": 3.1, "gpt.test": 2.9}.items()
    (entry,) = (entry for entry in read_journals() if entry.start["stage"] == "train-gpt")
    records, run = entry.read()[0], stages["train-gpt"]
    assert (run.info.start_time, run.info.end_time) == (records[0]["at"], records[-1]["at"])
    assert points(store, run, VAL) == [(each["step"], each["values"][VAL], each["at"]) for each in records[1:4]]
    bits = [value for _, value, _ in points(store, run, "val_bits_per_char")]
    assert bits == pytest.approx([2.9, 2.8, 2.7])
    assert files(store, run) == [("train_gpt/model.safetensors", len("weights"))]


def test_the_run_of_an_experiment_has_the_losses_of_both_models_while_they_are_trained_and_samples(database, params):
    store = connect()
    for stage, loss in (("train-bigram", 3.0), ("train-gpt", 2.0)):
        log = JournalWriter(stage, params)
        for step in (100, 200):
            more = {"chars_per_second": 7.0, "learning_rate": 0.1}
            log.metrics({VAL: loss, "train_nats_per_char": loss} | more, step)
            log.text("samples.txt", stage)
            assert send_journals(store, read_journals()) == []
            run, top = by_name(store)[stage], by_name(store)[WHOLE]
            prefix, others = ("bigram.", ()) if stage == "train-bigram" else ("", (VAL, "chars_per_second"))
            for name in ("val_bits_per_char", "train_bits_per_char", *others):
                assert points(store, top, f"{prefix}{name}") == points(store, run, name)
            assert len(points(store, top, f"{prefix}val_bits_per_char")) == step / 100
            assert not [name for name in top.data.metrics if name.endswith("learning_rate")]
        log.end("FINISHED")
    with journal("sample", params) as log:
        log.text("samples.md", "trained")
    assert sync() == []
    assert files(store, whole(store)) == [("samples.md", len("trained")), ("samples.txt", len("train-gpt"))]


def test_filling_twice_or_after_an_interruption_or_into_another_store_gives_the_same(
    database, empty_database, params, monkeypatch
):
    run_pipeline(database.parent, params)
    sync()
    store = connect()
    first, runs = contents(store), by_name(store)
    assert sync() == []
    assert contents(store) == first
    for name, run in runs.items():  # stopped before it noted how far it came
        if name != WHOLE:
            store.client.delete_tag(run.info.run_id, "bukva.synced")
    store.client.update_run(runs[WHOLE].info.run_id, "RUNNING")
    sync()
    assert contents(store) == first
    shutil.copy(empty_database, database.parent / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    monkeypatch.chdir("/")
    sync()
    assert contents(connect()) == first


def test_several_machines_fill_one_store_and_each_stage_is_there_once(database, params, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    monkeypatch.setenv("DVC_EXP_NAME", "sweep")
    machines = [tmp_path / name for name in ("one", "two")]
    ids = []
    for machine, stage in zip(machines, ("train-bigram", "train-gpt"), strict=True):
        (machine / ".dvc").mkdir(parents=True)
        monkeypatch.setenv("DVC_ROOT", str(machine))
        with journal(stage, params) as log:
            log.metrics({VAL: 3.0}, 100)
        ids += [entry.id for entry in read_journals()]
    for machine in machines * 2:
        monkeypatch.setenv("DVC_ROOT", str(machine))
        assert sync() == []
    runs = by_name(connect())
    assert set(runs) == {"sweep", "train-bigram", "train-gpt"}
    assert {runs[stage].data.tags["bukva.journal"] for stage in ("train-bigram", "train-gpt")} == set(ids)
    assert {run.info.status for run in runs.values()} == {"FINISHED"}


def test_a_journal_that_grows_is_followed_and_nothing_is_sent_again(database, params):
    log, store = JournalWriter("train-gpt", params), connect()
    losses = [3.0, float("inf"), float("nan")]
    for step, loss in enumerate(losses, 1):
        log.metrics({VAL: loss}, step)
        log.text("samples.txt", "а" * step)
        send_journals(store, read_journals())
        run = by_name(store)["train-gpt"]
        assert files(store, run) == [("samples.txt", 2 * step)]
        for unit in ("nats", "bits"):
            assert [point[0] for point in points(store, run, f"val_{unit}_per_char")] == list(range(1, step + 1))
        assert {run.info.status for run in store.runs()} == {"RUNNING"}
    for sent in (database.parent / "mlruns").rglob("samples.txt"):
        sent.unlink()
    log.end("FINISHED")
    sync()
    assert {run.info.status for run in store.runs()} == {"FINISHED"}
    assert files(store, by_name(store)["train-gpt"]) == []


def test_splits_are_the_datasets_of_the_runs_that_read_them(database, alone, params):
    digest = "0123456789abcdef0123456789abcdef.dir"
    outs = [{"path": "data/split", "md5": digest}]
    write_json(alone / "dvc.lock", {"schema": "2.0", "stages": {"split": {"outs": outs}}})  # JSON is YAML, too
    sizes = {"train": 1009, "val": 101, "test": 103}
    write_json(alone / "reports/split.json", {split: {"chars": chars} for split, chars in sizes.items()})
    run_pipeline(alone, params)
    for _ in range(2):
        assert sync() == []
    found = {
        name: {
            (each.dataset.name, each.dataset.digest, json.loads(each.dataset.profile)["characters"], each.tags[0].value)
            for each in run.inputs.dataset_inputs
        }
        for name, run in by_name(connect()).items()
    }
    uses = {"train": "training", "val": "validation", "test": "test"}
    train, val, test = ((f"sample/{split}", digest, sizes[split], use) for split, use in uses.items())
    every = {train, val, test}
    assert found == {"clean": set(), "train-gpt": {train, val}, "evaluate": every, WHOLE: every}


# ---- trainings that are interrupted, resumed or executed again


def test_a_resumed_training_has_a_run_with_the_whole_curve_and_the_killed_one_does_not_count(database, params):
    train(params, (3.0, 2.5), "KILLED")
    train(params)
    store = connect()
    for _ in range(2):
        assert sync() == []
        assert trainings(store) == {
            f"{WHOLE}/train-gpt": ("KILLED", [1, 2]), f"{WHOLE}/train-gpt 2": ("FINISHED", [1, 2, 3])
        }  # fmt: skip
        assert whole(store).info.status == "FINISHED"
        assert steps(store, whole(store)) == [1, 2, 3]
        for run in store.runs():  # sent again, in the order of the journals
            if "bukva.stage" in run.data.tags:
                store.client.delete_tag(run.info.run_id, "bukva.synced")


def test_a_training_whose_outputs_are_written_again_is_finished_once(database, params):
    train(params)
    assert sync() == []
    with journal("train-gpt", params) as log:
        log.replace_finished()
    assert sync() == []
    assert [status for status, _ in trainings(connect()).values()] == ["FINISHED", "KILLED"]  # the newest first
    assert whole(connect()).info.status == "FINISHED"


def test_a_training_that_another_experiment_resumes_is_whole_there_and_killed_where_it_began(
    database, params, monkeypatch
):
    commit(database.parent)
    monkeypatch.setenv("DVC_EXP_NAME", "first")
    train(params, (3.0, 2.5), "KILLED")
    monkeypatch.setenv("DVC_EXP_NAME", "second")
    train(params.model_copy(update={"sample": params.sample.model_copy(update={"seed": 7})}))
    assert sync() == []
    assert trainings(connect()) == {
        "first/train-gpt": ("KILLED", [1, 2]), "second/train-gpt": ("FINISHED", [1, 2, 3])
    }  # fmt: skip
    tops = [run for run in connect().runs() if "bukva.stage" not in run.data.tags]
    assert {run.data.tags["bukva.experiment"]: run.info.status for run in tops} == {
        "first": "KILLED", "second": "FINISHED"
    }  # fmt: skip


def test_a_project_that_was_copied_during_a_training_does_not_decide_how_that_ended(
    database, params, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    original, copy = database.parent, tmp_path / "copy"
    log = JournalWriter("train-gpt", params)
    log.metrics({VAL: 3.0}, 1)
    (copy / ".dvc").mkdir(parents=True)
    shutil.copytree(original / ".bukva", copy / ".bukva")
    assert sync() == []
    monkeypatch.setenv("DVC_ROOT", str(copy))
    train(params)  # resumed from a checkpoint, which was copied too
    assert sync() == []
    store, first, resumed = connect(), f"{WHOLE}/train-gpt", {f"{WHOLE}/train-gpt 2": ("FINISHED", [1, 2, 3])}
    assert trainings(store) == {first: ("KILLED", [1])} | resumed
    monkeypatch.setenv("DVC_ROOT", str(original))
    log.metrics({VAL: 2.5}, 2)
    log.end("FINISHED")
    for root in (original, copy, original):
        monkeypatch.setenv("DVC_ROOT", str(root))
        assert sync() == []
        assert trainings(store) == {first: ("FINISHED", [1, 2])} | resumed
    assert steps(store, whole(store)) == [1, 2, 3]


def test_a_stage_that_is_executed_again_has_a_run_of_its_own_and_repeats_no_point_of_its_experiment(database, params):
    for loss in (3.0, 3.0, 2.5, 3.0):  # a GPU may round otherwise
        train(params, [loss])
        assert sync() == []
    store = connect()
    names = {f"{WHOLE}/train-gpt{number}" for number in ("", " 2", " 3", " 4")}
    assert {run.info.run_name for run in store.runs()} == {WHOLE, *names}
    assert [value for _, value, _ in points(store, whole(store), VAL)] == [3.0]


# ---- descriptions, deletions and errors


def test_an_experiment_is_described_by_its_changes_its_score_and_how_it_was_made(database, params, monkeypatch):
    head = commit(database.parent)
    monkeypatch.setenv("DVC_EXP_NAME", "first")
    changed = params.model_copy(update={"model": params.model.model_copy(update={"n_head": 8})})
    JournalWriter("train-bigram", changed, restored=True).end("FINISHED")
    JournalWriter("train-gpt", changed).end("FINISHED")
    assert sync() == []
    store = connect()

    def description():
        return whole(store).data.tags["mlflow.note.content"].split("  \n")

    begun = [f"Differs from commit `{head[:7]}` in `model.n_head=8`."]
    made = ["Trained: train-gpt.", "Restored by DVC from its run cache: train-bigram."]
    assert description() == begun + made
    for val in (2.5, 2.25):
        evaluate(database.parent, changed, {"gpt": {"val": val}, "bigram": {"val": 3.5}})
        assert sync() == []
        score = f"Scores on val, bits per character: GPT **{val:.3f}**, bigram **3.500**."
        assert description() == [*begun, score, *made]
    store.client.set_tag(whole(store).info.run_id, "mlflow.note.content", "mine")
    JournalWriter("sample", changed).end("FINISHED")
    assert sync() == []
    assert description() == ["mine"]


def test_what_was_deleted_in_mlflow_stays_deleted_and_runs_of_other_people_do_not_change(database, params):
    store = connect()
    foreign = store.client.create_run(store.experiment_id, run_name="mine")
    JournalWriter("clean", params).end("FINISHED")
    running = JournalWriter("train-gpt", params)
    sync()
    store.client.delete_run(by_name(store)["clean"].info.run_id)
    assert sync() == []
    assert len(store.runs()) == 3
    assert sync_module.sync() == (
        f"{database} has the results of 2 stage executions, except for 1 that was deleted there. To restore a run, run "
        "`mlflow runs restore --run-id ID`."
    )
    store.client.delete_run(by_name(store)[WHOLE].info.run_id)
    running.end("FINISHED")
    JournalWriter("sample", params).end("FINISHED")
    assert sync() == []
    assert {name: run.info.status for name, run in by_name(store).items()} == {
        "clean": "FINISHED", WHOLE: "RUNNING", "train-gpt": "RUNNING"
    }  # fmt: skip
    assert store.client.get_run(foreign.info.run_id).info.status == "RUNNING"
    assert "has the results of 3 stage executions, except for 3 that were deleted there. " in sync_module.sync()


def test_the_variables_of_mlflow_choose_its_experiment_and_a_deleted_one_is_named(database, params, monkeypatch):
    JournalWriter("clean", params).end("FINISHED")
    store = connect()
    store.client.delete_experiment(store.experiment_id)
    with pytest.raises(BukvaError) as error:
        sync_module.sync()
    assert str(error.value) == (
        f"{database}: the MLflow experiment bukva was deleted and cannot receive results. To restore it, run "
        "`mlflow experiments restore --experiment-id 1`. To use another experiment, run "
        "`export MLFLOW_EXPERIMENT_NAME=NAME`."
    )
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "мой второй")
    assert sync_module.sync() == f"{database} has the results of 1 stage execution."
    assert (connect().experiment_id, len(connect().runs())) == ("2", 2)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "2")
    assert connect().experiment_id == "2"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "another")
    with pytest.raises(BukvaError, match="is the MLflow experiment мой второй, but MLFLOW_EXPERIMENT_NAME is another"):
        connect()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "4321")
    with pytest.raises(BukvaError, match=r"MLFLOW_EXPERIMENT_ID is 4321: .*mlflow\.db: .*4321"):
        connect()


def test_a_journal_that_cannot_be_shown_does_not_stop_the_others(database, params):
    odd = JournalWriter("clean", params)
    odd.metrics({"no such name!": 1})
    odd.end("FINISHED")
    write_text(database.parent / "metrics.json", "{")
    torn = JournalWriter("evaluate", params)
    torn.artifact(database.parent / "metrics.json")
    torn.end("FINISHED")
    JournalWriter("split", params).end("FINISHED")
    start = {"record": "start", "at": 1, "id": "a", "key": "a", "kind": "data", "stage": "clean", "experiment": "old"}
    write_text(journals_root() / "old/clean-001/journal.jsonl", json.dumps(start) + "\n")  # lacks what is kept now
    sentences = sync()
    assert [name in each for name, each in zip(("old", "/clean-", "/evaluate-"), sentences, strict=True)] == [True] * 3
    assert by_name(connect())["split"].info.status == "FINISHED"


def test_a_checkout_in_which_nothing_has_run_has_nothing_to_send_and_makes_no_database(project):
    assert sync_module.sync() == (
        "There is nothing to send, because no stage has run in this checkout. Run `make repro`."
    )
    assert not (project / "mlflow.db").exists()
