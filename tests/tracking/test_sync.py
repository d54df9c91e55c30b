"""MLflow gets everything from the journals, once."""

import contextlib
import json
import math
import shutil
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock, Timeout
from tracking.runs import short_name
from tracking.test_experiment import commit

if TYPE_CHECKING:
    from mlflow.entities import Run

from bukva.base.files import project_root, write_json, write_text
from bukva.config.schema import Params
from bukva.tracking import entries
from bukva.tracking.journal import journal
from bukva.tracking.reading import read_journals
from bukva.tracking.store import Store, connect
from bukva.tracking.sync import View
from bukva.tracking.writing import Log

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def sync() -> list[str]:
    return View(connect()).update(read_journals())


def run_pipeline(folder: Path, params: Params) -> None:
    with journal("clean", params):
        pass
    with journal("train-gpt", params) as log:
        for step in (100, 200, 300):
            log.metrics({"val_nats_per_char": 3 - step / 1000, "learning_rate": 0.1}, step)
        write_text(folder / "data/models/train_gpt/model.safetensors", "weights")
        log.artifact(folder / "data/models/train_gpt")
    with journal("evaluate", params) as log:
        write_json(folder / "reports/metrics.json", {"gpt": {"val": 3.1, "test": 2.9}})
        log.artifact(folder / "reports/metrics.json")


def by_name(store: Store) -> dict[str, "Run"]:
    """The runs by name, which is unique in a pipeline that ran once."""
    return {short_name(run): run for run in store.runs()}


def contents(store: Store) -> dict[str, object]:
    """Everything that filling twice could double."""
    runs = store.runs()
    assert len(by_name(store)) == len(runs)
    return {
        short_name(run): (
            run.info.status,
            run.info.start_time,
            run.info.end_time,
            run.data.params,
            {name: points(store, run, name) for name in run.data.metrics},
            files(store, run),
        )
        for run in runs
    }


def points(store: Store, run: "Run", name: str) -> list[tuple[int, float, int]]:
    history = store.client.get_metric_history(run.info.run_id, name)
    return [(point.step, point.value, point.timestamp) for point in history]


def files(store: Store, run: "Run", folder: str | None = None) -> list[tuple[str, int]]:
    found = []
    for entry in store.client.list_artifacts(run.info.run_id, folder):
        found += files(store, run, entry.path) if entry.is_dir else [(entry.path, entry.file_size)]
    return found


def test_a_pipeline_is_one_run_with_its_stages_below_it(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    assert sync() == []
    runs = by_name(connect())
    whole = runs.pop("repro-uncommitted")
    assert set(runs) == {"clean", "train-gpt", "evaluate"}
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {whole.info.run_id}
    assert {name: run.data.tags["bukva.kind"] for name, run in runs.items()} == {
        "clean": "data",
        "train-gpt": "training",
        "evaluate": "report",
    }
    assert {run.info.status for run in (whole, *runs.values())} == {"FINISHED"}


def test_each_stage_shows_its_parameters_and_the_experiment_all(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    runs = by_name(connect())
    assert (
        runs["clean"].data.params.items()
        >= {"clean.rules": params.clean.rules, "clean.file": params.clean.file}.items()
    )
    assert runs["train-gpt"].data.params["model.n_head"] == str(params.model.n_head)
    assert {key.partition(".")[0] for key in runs["train-gpt"].data.params} == {"model", "compute", "train_gpt"}
    assert {key.partition(".")[0] for key in runs["repro-uncommitted"].data.params} == set(Params.model_fields)


def test_the_experiment_shows_the_scores_too(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    runs = by_name(connect())
    assert runs["repro-uncommitted"].data.metrics == {"gpt.val": 3.1, "gpt.test": 2.9}
    assert runs["evaluate"].data.metrics["gpt.test"] == 2.9


def test_times_are_those_of_the_journal(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    store = connect()
    (entry,) = (entry for entry in read_journals() if entry.start["stage"] == "train-gpt")
    records, _ = entry.read()
    run = by_name(store)["train-gpt"]
    assert (run.info.start_time, run.info.end_time) == (records[0]["at"], records[-1]["at"])
    assert points(store, run, "val_nats_per_char") == [
        (record["step"], record["values"]["val_nats_per_char"], record["at"]) for record in records[1:4]
    ]


def test_losses_are_shown_in_bits_beside_nats(database: Path, params: Params) -> None:
    log = Log("train-gpt", params)
    log.metrics({f"{name}_nats_per_char": math.log(2) for name in ("train", "val", "best_val")} | {"nats": 1.0}, 100)
    log.end("FINISHED")
    sync()
    metrics = by_name(connect())["train-gpt"].data.metrics
    assert {name: value for name, value in metrics.items() if "bits" in name} == {
        "train_bits_per_char": 1.0,
        "val_bits_per_char": 1.0,
        "best_val_bits_per_char": 1.0,
    }
    assert metrics["val_nats_per_char"] == math.log(2)


def test_a_run_that_an_older_version_filled_is_filled_again(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    store = connect()
    first = contents(store)
    run = by_name(store)["train-gpt"].info.run_id
    store.client.delete_tag(run, "bukva.version")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        for table in ("metrics", "latest_metrics"):
            connection.execute(f"DELETE FROM {table} WHERE key LIKE '%bits_per_char' AND run_uuid = ?", [run])
        connection.commit()
    assert contents(store) != first
    sync()
    assert contents(store) == first


def test_a_second_sync_doubles_nothing(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    first = contents(connect())
    sync()
    assert contents(connect()) == first


def test_an_interrupted_sync_is_repeated_without_doubling(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    store = connect()
    first = contents(store)
    for name, run in by_name(store).items():
        if name != "repro-uncommitted":
            store.client.delete_tag(run.info.run_id, "bukva.synced")
    sync()
    assert contents(store) == first


def test_another_store_gets_the_same(
    database: Path, empty_database: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pipeline(database.parent, params)
    sync()
    first = contents(connect())
    shutil.copy(empty_database, database.parent / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    monkeypatch.chdir("/")
    sync()
    assert contents(connect()) == first


def test_a_journal_that_grows_is_followed(database: Path, params: Params) -> None:
    log = Log("train-gpt", params)
    store = connect()
    view = View(store)
    for step in (1, 2, 3):
        log.metrics({"val_nats_per_char": 1 / step}, step)
        log.text("samples.txt", "а" * step)
        view.update(read_journals())
        run = by_name(store)["train-gpt"]
        assert files(store, run) == [("samples.txt", 2 * step)]
        assert [point[0] for point in points(store, run, "val_nats_per_char")] == list(range(1, step + 1))
        assert {run.info.status for run in store.runs()} == {"RUNNING"}
    log.end("FINISHED")
    view.update(read_journals())
    assert {run.info.status for run in store.runs()} == {"FINISHED"}


def test_a_file_that_was_replaced_meanwhile_is_sent_once() -> None:
    records = [{"record": "artifact", "path": name} for name in ("samples.txt", "curve.csv", "samples.txt")]
    assert entries.artifacts(records) == ["samples.txt", "curve.csv"]


def test_only_one_process_at_a_time_writes_what_mlflow_must_not_have_twice(
    database: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow looks which parameters and points are missing, then inserts them: a second writer would collide."""
    from mlflow import MlflowClient

    unlocked = []

    def log_batch(client: "MlflowClient", run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        if metrics or params:
            with contextlib.suppress(Timeout), FileLock(project_root() / ".bukva" / "mlflow.lock", timeout=0):
                unlocked.append([*metrics, *params])
        send(client, run_id, metrics, params, tags)

    send = MlflowClient.log_batch
    monkeypatch.setattr(MlflowClient, "log_batch", log_batch)
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 3.0}, 1)
    sync()
    (run,) = (run for run in connect().runs() if short_name(run) == "train-gpt")
    assert run.data.params
    assert run.data.metrics["val_nats_per_char"] == 3.0
    assert unlocked == []


def test_what_the_store_has_is_not_sent_again(database: Path, params: Params) -> None:
    log = Log("train-gpt", params)
    write_text(database.parent / "curve.csv", "step\n")
    log.artifact(database.parent / "curve.csv")
    sync()
    for sent in (database.parent / "mlruns").rglob("curve.csv"):
        sent.unlink()
    log.metrics({"val_nats_per_char": 3.0}, 1)
    log.end("FINISHED")
    sync()
    store = connect()
    run = by_name(store)["train-gpt"]
    assert len(points(store, run, "val_nats_per_char")) == 1
    assert files(store, run) == []


def test_an_experiment_is_running_while_one_of_its_stages_is(database: Path, params: Params) -> None:
    running = Log("train-gpt", params)
    Log("clean", params).end("FINISHED")
    sync()
    assert by_name(connect())["repro-uncommitted"].info.status == "RUNNING"
    running.end("FINISHED")
    sync()
    assert by_name(connect())["repro-uncommitted"].info.status == "FINISHED"


def test_an_experiment_ends_as_its_last_stage_did(database: Path, params: Params) -> None:
    store = connect()
    for status in ("FAILED", "KILLED", "FINISHED"):
        Log("clean", params).end(status)
        sync()
        assert by_name(store)["repro-uncommitted"].info.status == status
        time.sleep(0.002)  # MLflow counts milliseconds


def test_the_description_of_a_training_says_why_it_has_two_scores_of_val(database: Path, params: Params) -> None:
    for number, end in enumerate([("FINISHED", ""), ("FAILED", "The loss is NaN.")]):
        Log("train-gpt", params).end(*end)
        sync()
        own = [run.data.tags["mlflow.note.content"] for run in connect().runs() if "bukva.stage" in run.data.tags]
        assert len(own) == number + 1
        assert all("`gpt.val`" in text and "as one stream" in text for text in own)
    assert sum(text.startswith("The loss is NaN.") for text in own) == 1


def test_why_a_stage_failed_is_its_description(database: Path, params: Params) -> None:
    Log("clean", params).end("FAILED", "book.txt: byte 7 is not UTF-8.")
    sync()
    assert by_name(connect())["clean"].data.tags["mlflow.note.content"] == "book.txt: byte 7 is not UTF-8."


def test_another_machine_may_create_the_experiment_first(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    experiment, find = connect().experiment_id, MlflowClient.get_experiment_by_name
    answers = iter([None, None])  # before the other machine was done, here without and with the lock
    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", lambda self, name: next(answers, find(self, name)))
    assert connect().experiment_id == experiment


def test_splits_are_the_datasets_of_the_runs_that_read_them(database: Path, alone: Path, params: Params) -> None:
    digest = "0123456789abcdef0123456789abcdef.dir"
    outs = [{"path": "data/split", "md5": digest}]
    write_json(alone / "dvc.lock", {"schema": "2.0", "stages": {"split": {"outs": outs}}})  # JSON is YAML, too
    sizes = {"train": 1009, "val": 101, "test": 103}
    write_json(alone / "reports/split.json", {split: {"chars": chars} for split, chars in sizes.items()})
    run_pipeline(alone, params)
    for _ in range(2):
        assert sync() == []
        store = connect()
        found = {
            name: sorted(
                (
                    each.dataset.name,
                    each.dataset.digest,
                    json.loads(each.dataset.profile)["characters"],
                    each.tags[0].value,
                )
                for each in store.client.get_run(run.info.run_id).inputs.dataset_inputs
            )
            for name, run in by_name(store).items()
        }
        train, val, test = (
            (f"sample/{split}", digest, sizes[split], use)
            for split, use in (("train", "training"), ("val", "validation"), ("test", "test"))
        )
        whole = next(name for name in found if name.startswith("repro-"))
        assert found == {
            "clean": [], "train-gpt": [train, val], "evaluate": [test, train, val], whole: [test, train, val]
        }  # fmt: skip


def test_another_machine_may_create_a_dataset_first(
    database: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.exceptions import MlflowException

    split = {"name": "sample/train", "digest": "d", "split": "train", "source": {}, "profile": {}}
    monkeypatch.setattr("bukva.tracking.writing.datasets", lambda *_: [split])
    Log("train-gpt", params).end("FINISHED")
    store = connect()
    first, calls = type(store.client).log_inputs, []

    def late(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise MlflowException("UNIQUE constraint failed: datasets.experiment_id, datasets.name, datasets.digest")
        first(*arguments)

    monkeypatch.setattr(type(store.client), "log_inputs", late)
    assert View(store).update(read_journals()) == []
    assert [len(run.inputs.dataset_inputs) for run in store.runs()] == [1, 1]


def test_a_training_that_another_experiment_continues_is_shown_there_and_once(
    database: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(database.parent)
    monkeypatch.setenv("DVC_EXP_NAME", "first")
    with pytest.raises(SystemExit), journal("train-gpt", params, training_id="train-gpt-01") as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
        assert sync() == []
        raise SystemExit(143)  # and no follower is left
    before = by_name(connect())
    assert before["train-gpt"].info.status == before["first"].info.status == "RUNNING"
    assert before["train-gpt"].info.run_name == "first: train-gpt"
    monkeypatch.setenv("DVC_EXP_NAME", "second")
    other = params.model_copy(update={"sample": params.sample.model_copy(update={"seed": 7})})
    with journal("train-gpt", other, training_id="train-gpt-01") as log:
        log.metrics({"val_nats_per_char": 3.0}, 100)
        log.metrics({"val_nats_per_char": 2.0}, 200)
    with journal("sample", other):
        pass
    assert sync() == []
    store = connect()
    after = by_name(store)
    assert after["train-gpt"].info.run_id == before["train-gpt"].info.run_id
    assert after["train-gpt"].info.status == after["second"].info.status == "FINISHED"
    assert after["train-gpt"].data.tags["mlflow.parentRunId"] == after["second"].info.run_id
    assert after["train-gpt"].data.tags["bukva.experiment"] == "second"
    assert after["train-gpt"].info.run_name == "sample.seed=7 (second): train-gpt"
    assert after["second"].info.run_name == "sample.seed=7 (second)"
    assert [step for step, _, _ in points(store, after["train-gpt"], "val_nats_per_char")] == [100, 200]
    assert after["second"].data.params["sample.seed"] == "7"
    assert after["first"].info.status == "KILLED"
    assert len(after) == 4
    now = contents(store)
    assert sync() == []
    assert contents(connect()) == now


def test_a_run_whose_process_is_gone_is_killed(database: Path, params: Params) -> None:
    log = Log("train-gpt", params)
    sync()
    assert by_name(connect())["train-gpt"].info.status == "RUNNING"
    del log  # closes the file and with it the lock, as the end of the process does
    sync()
    assert {run.info.status for run in connect().runs()} == {"KILLED"}


def test_a_name_used_again_with_other_parameters_is_another_run(
    database: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    for n_head in (1, 2):
        model = params.model.model_copy(update={"n_head": n_head})
        Log("clean", params.model_copy(update={"model": model})).end("FINISHED")
    sync()
    whole = [run for run in connect().runs() if run.info.run_name == "wide"]
    assert sorted(run.data.params["model.n_head"] for run in whole) == ["1", "2"]


def test_a_stage_that_was_deleted_in_mlflow_stays_deleted(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    store = connect()
    store.client.delete_run(by_name(store)["clean"].info.run_id)
    assert sync() == []
    assert len(store.runs()) == 4


def test_an_experiment_that_was_deleted_in_mlflow_stays_deleted(database: Path, params: Params) -> None:
    log = Log("train-gpt", params)
    sync()
    store = connect()
    store.client.delete_run(by_name(store)["repro-uncommitted"].info.run_id)
    log.end("FINISHED")
    Log("sample", params).end("FINISHED")
    assert sync() == []
    assert {name: run.info.status for name, run in by_name(store).items()} == {
        "repro-uncommitted": "RUNNING",
        "train-gpt": "RUNNING",
    }


def test_runs_of_other_people_do_not_change(database: Path, params: Params) -> None:
    store = connect()
    foreign = store.client.create_run(store.experiment_id, run_name="mine")
    run_pipeline(database.parent, params)
    sync()
    assert len(store.runs()) == 4
    assert store.client.get_run(foreign.info.run_id).info.status == "RUNNING"


def test_a_journal_that_cannot_be_shown_does_not_stop_the_others(database: Path, params: Params) -> None:
    odd = Log("clean", params)
    odd.metrics({"no such name!": 1})
    odd.end("FINISHED")
    write_text(database.parent / "metrics.json", "{")
    torn = Log("evaluate", params)
    torn.artifact(database.parent / "metrics.json")
    torn.end("FINISHED")
    Log("split", params).end("FINISHED")
    sentences = sync()
    assert ["clean-001" in sentences[0], "evaluate-001" in sentences[1]] == [True, True]
    assert by_name(connect())["split"].info.status == "FINISHED"


def test_an_experiment_without_its_end_gets_it_later(database: Path, params: Params) -> None:
    run_pipeline(database.parent, params)
    sync()
    store = connect()
    store.client.update_run(by_name(store)["repro-uncommitted"].info.run_id, "RUNNING")
    first = by_name(store)["evaluate"].info.end_time
    sync()
    whole = by_name(store)["repro-uncommitted"].info
    assert (whole.status, whole.end_time) == ("FINISHED", first)


def test_two_trainings_never_share_a_colour(database: Path, params: Params) -> None:
    for stage in ("train-bigram", "train-gpt"):
        Log(stage, params).end("FINISHED")
    sync()
    runs = by_name(connect())
    colors = {runs[stage].data.tags["mlflow.runColor"] for stage in ("train-bigram", "train-gpt")}
    assert len(colors) == 2


def test_losses_that_are_infinite_or_nan_arrive(database: Path, params: Params) -> None:
    log = Log("train-gpt", params)
    for step, value in enumerate((float("nan"), float("inf"))):
        log.metrics({"val_nats_per_char": value}, step)
    log.end("FINISHED")
    sync()
    store = connect()
    for unit in ("nats", "bits"):
        assert len(points(store, by_name(store)["train-gpt"], f"val_{unit}_per_char")) == 2
