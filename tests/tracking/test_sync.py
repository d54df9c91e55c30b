"""MLflow gets everything from the records of stages and from DVC's cache, once."""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from tracking.runs import by_name, cache, every, files, finish, points, stage, sync, whole
from tracking.test_experiment import changed, commit_params

from bukva.core.errors import BukvaError
from bukva.core.files import write_json, write_text
from bukva.core.machine import processor
from bukva.core.schema import Params
from bukva.tracking import sync as sync_module
from bukva.tracking.record import FILE, Recorder, read_runs, save_note
from bukva.tracking.store import connect
from bukva.tracking.sync import fill
from tests.support.repository import commit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

WHOLE = "repro-uncommitted"
VAL = "val_nats_per_char"


def curve(losses, **more):
    return [{"step": step, VAL: loss, "at": 1000 * step} | more for step, loss in enumerate(losses, 1)]


def train(params, losses=(3.0, 2.5, 2.0), status="FINISHED", of="train-gpt", **more):
    """Record a training from its first step, whether or not it was resumed."""
    with stage(of, params, status, **more) as recorder:
        recorder.curve(curve(losses))


def evaluate(params, scores):
    with stage("evaluate", params):
        write_json(Path("reports/metrics.json"), scores)


def run_pipeline(params):
    with stage("clean", params):
        write_json(Path("reports/cleaning.json"), {"chars": 5, "rule_set": "notes"})
    with stage("train-gpt", params) as recorder:
        recorder.curve(curve([math.log(2) * bits for bits in (2.9, 2.8, 2.7)], learning_rate=0.1))
        write_text(Path("reports/curves/train_gpt.csv"), "step")
    evaluate(params, {"gpt": {"val": 3.1, "test": 2.9}})


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


def statuses(store):
    return {name: run.info.status for name, run in by_name(store).items()}


def steps(store, run):
    return [step for step, *_ in points(store, run, VAL)]


def trainings(store):
    runs = every(store, "tags.`bukva.stage` = 'train-gpt'")
    return {run.info.run_name: (run.info.status, steps(store, run)) for run in runs}


def test_a_pipeline_is_one_run_with_its_stages_below_it_and_what_they_logged(database, params):
    run_pipeline(params)
    store = sync()
    assert store.client.get_experiment(store.experiment_id).artifact_location == (database.parent / "mlruns").as_uri()
    runs = by_name(store)
    top, training = runs[WHOLE], runs["train-gpt"]
    assert {run.data.tags["bukva.processor"] for run in runs.values()} == {processor()}
    assert {key.partition(".")[0] for key in top.data.params} == set(Params.model_fields)
    assert {key.partition(".")[0] for key in training.data.params} == {"model", "compute", "train_gpt"}
    assert training.data.params["model.n_head"] == str(params.model.n_head)
    assert top.data.metrics.items() >= {"gpt.val": 3.1, "gpt.test": 2.9}.items()
    assert runs["clean"].data.metrics.items() >= {"chars": 5}.items()
    [made] = read_runs(stage="train-gpt")
    end = made.state()[0]
    assert (training.info.start_time, training.info.end_time) == (made.at, end["at"])
    assert points(store, training, "seconds") == [(0, end["seconds"], end["at"])]
    shown = [point for unit in ("nats", "bits") for point in points(store, training, f"val_{unit}_per_char")]
    scale = (math.log(2), 1)
    expected = [(step, factor * (3 - step / 10), 1000 * step) for factor in scale for step in (1, 2, 3)]
    assert shown == [pytest.approx(point) for point in expected]
    assert files(store, training) == [("train_gpt.csv", len("step"))]


def test_a_running_training_is_followed_and_the_experiment_has_the_losses_of_its_gpt_and_samples(database, params):
    for of in ("train-bigram", "train-gpt"):
        shown = ["run", "experiment"] if of == "train-gpt" else ["run"]
        with stage(of, params, n_parameters=7) as recorder:
            for n in (1, 2, 3):
                losses = (3.0, float("inf"), float("nan"))[:n]
                recorder.curve(curve(losses, train_nats_per_char=2.0, chars_per_second=7.0, learning_rate=0.1))
                recorder.text("samples.txt", "а" * n)
                store = sync()
                runs = {"run": by_name(store)[of], "experiment": whole(store)}
                for name in ("val_bits_per_char", "train_bits_per_char", VAL, "chars_per_second", "learning_rate"):
                    having = shown if name != "learning_rate" else ["run"]
                    found = {key: [step for step, *_ in points(store, run, name)] for key, run in runs.items()}
                    assert found == {key: [1, 2, 3][:n] if key in having else [] for key in runs}
                assert [key for key, run in runs.items() if files(store, run) == [("samples.txt", 2 * n)]] == shown
                assert [key for key, run in runs.items() if run.data.tags.get("bukva.n_parameters") == "7"] == shown
                assert {run.info.status for run in runs.values()} == {"RUNNING"}
    assert set(statuses(sync()).values()) == {"FINISHED"}
    with stage("sample", params):
        write_text(Path("reports/samples.md"), "trained")
    assert files(sync(), whole(store)) == [("samples.md", len("trained")), ("samples.txt", 6)]


def without_answer(call):
    """MLflow carries out a request, but its answer is lost."""

    def lose(*arguments, **options):
        call(*arguments, **options)
        raise MlflowException("no answer")

    return lose


def test_filling_twice_or_after_an_interruption_or_into_another_store_gives_the_same(
    database, empty_database, params, monkeypatch
):
    run_pipeline(params)
    store = sync()
    first, runs = contents(store), by_name(store)
    assert contents(sync()) == first
    for name, run in runs.items():  # stopped before it noted how far it came
        if name != WHOLE:
            store.client.delete_tag(run.info.run_id, "bukva.filled")
    store.client.update_run(runs[WHOLE].info.run_id, "RUNNING")
    assert contents(sync()) == first
    shutil.copy(empty_database, database.parent / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    monkeypatch.chdir("/")
    for name in ("create_run", "log_batch", "log_artifact", "set_terminated"):
        with monkeypatch.context() as patch:
            patch.setattr(MlflowClient, name, without_answer(getattr(MlflowClient, name)))
            assert len(fill(connect(), read_runs())) == 3
    assert contents(sync()) == first
    monkeypatch.setattr(sync_module, "_fill", lambda *_: pytest.fail("sent again"))
    sync()


def test_half_a_file_of_a_killed_training_is_removed_and_one_of_a_running_training_is_not(database, params):
    killed, running = (Recorder("train-gpt", params) for _ in range(2))
    killed._file.close()
    for recorder in (killed, running):
        write_text(recorder.run.folder / ".samples.txt.part", "half")
    sync()
    assert [path.parent for path in database.parent.rglob(".*.part")] == [running.run.folder]


def test_an_output_is_sent_when_dvc_has_stored_it_and_counted_when_dvc_has_removed_it(database, params):
    recorder = Recorder("clean", params)
    write_text(Path("reports/corpus.md"), "works")
    recorder.end("FINISHED")  # DVC stores it later
    assert sync_module.sync() == (
        f"{database} has the results of 1 stage execution.\n"
        "Stage executions with outputs that are not in DVC's cache: 1."
    )
    cache(Path("reports/corpus.md"))
    assert sync_module.sync() == f"{database} has the results of 1 stage execution."
    store = connect()
    assert files(store, by_name(store)["clean"]) == [("corpus.md", len("works"))]
    shutil.rmtree(".dvc/cache/files")
    assert "not in DVC's cache: 1." in sync_module.sync()
    assert files(store, by_name(store)["clean"]) == [("corpus.md", len("works"))]


def test_tags_and_files_of_a_whole_experiment_are_sent_and_a_new_version_replaces_the_former(database, params):
    finish("clean", params)
    for text in ("первая", "вторая"):
        assert save_note(read_runs()[0], {"verdict": text}, {"with/a.md": text.encode()})
        store = sync()
        runs = by_name(store)
        assert {name: run.data.tags.get("verdict") for name, run in runs.items()} == {WHOLE: text, "clean": None}
        [(path, _)] = files(store, runs[WHOLE])
        sent = Path(store.client.download_artifacts(runs[WHOLE].info.run_id, path))
        assert (sent.name, sent.read_text(encoding="utf-8")) == ("a.md", text)


def test_splits_are_the_datasets_of_the_runs_that_read_them(database, alone, params):
    digest = "0123456789abcdef0123456789abcdef.dir"
    outs = [{"path": "data/split", "md5": digest}]
    write_json(alone / "dvc.lock", {"schema": "2.0", "stages": {"split": {"outs": outs}}})  # JSON is YAML, too
    sizes = {"train": 1009, "val": 101, "test": 103}
    write_json(alone / "reports/split.json", {split: {"chars": chars} for split, chars in sizes.items()})
    run_pipeline(params)
    for _ in range(2):
        found = {
            name: {
                (each.dataset.name, each.dataset.digest, json.loads(each.dataset.profile)["characters"], tag.value)
                for each in run.inputs.dataset_inputs
                for tag in each.tags
            }
            for name, run in by_name(sync()).items()
        }
    uses = {"train": "training", "val": "validation", "test": "test"}
    train, val, test = ((f"sample/{split}", digest, sizes[split], use) for split, use in uses.items())
    both, all_three = {train, val}, {train, val, test}
    assert found == {"clean": set(), "train-gpt": both, "evaluate": all_three, WHOLE: all_three}


# ---- trainings that are interrupted, resumed or executed again


def test_each_execution_has_a_run_and_the_whole_experiment_has_each_point_once_as_it_first_came(database, params):
    train(params, (3.0, 2.5), "KILLED")
    train(params, (3.0, 2.75, 2.0))  # a GPU may round otherwise
    for _ in range(2):
        store = sync()
        assert trainings(store) == {
            f"{WHOLE}/train-gpt": ("KILLED", [1, 2]), f"{WHOLE}/train-gpt 2": ("FINISHED", [1, 2, 3])
        }  # fmt: skip
        assert whole(store).info.status == "FINISHED"
        assert [point[:2] for point in points(store, whole(store), VAL)] == [(1, 3.0), (2, 2.5), (3, 2.0)]
        for run in every(store, "tags.`bukva.stage` = 'train-gpt'"):  # sent again, in the order of the records
            store.client.delete_tag(run.info.run_id, "bukva.filled")


def test_a_copy_of_the_project_that_knows_less_of_a_training_does_not_decide_how_it_ended(database, params):
    train(params)
    [made] = read_runs()
    whole_record = (made.folder / FILE).read_bytes()
    start = whole_record.splitlines(keepends=True)[0]  # as in a copy that was made during the training
    for record, status in ((start, "KILLED"), (whole_record, "FINISHED"), (start, "FINISHED")):
        (made.folder / FILE).write_bytes(record)
        assert set(statuses(sync()).values()) == {status}


# ---- experiments with one name


NUMERICS = {"torch": "2.13.0", "numpy": "2", "processor": "Intel AVX2", "precision": "bfloat16", "threads": "2"}


def run_on(machine, monkeypatch, params, numerics, losses, restored=(), bigram=None):
    """Run a pipeline in a clone. The losses of its GPT are also its scores. DVC restores the stages `restored`."""
    if not machine.exists():
        shutil.copytree(".dvc", machine / ".dvc")
    monkeypatch.setenv("BUKVA_ROOT", str(machine))
    monkeypatch.chdir(machine)
    model = Path("data/models/gpt/numerics.json")

    def run(name, **more):
        with stage(name, params, **more) as recorder:
            if name == "train-gpt":
                recorder.curve(curve(losses))
                shutil.rmtree(model.parent, ignore_errors=True)  # these trainings leave no model

    for name, facts in (("clean", {}), ("train-bigram", bigram or numerics), ("train-gpt", numerics)):
        if name not in restored:
            run(name, numerics=facts)
        if name == "train-bigram":
            sync()
    write_json(model, {**numerics, "losses": "compiled"})
    evaluate(params, {"gpt": {"val": losses[-1]}})
    for name in restored:  # at the end, by stage publish
        run(name, restored=True)
    return sync()


def described(store):
    """Score, losses and stages of the runs of experiments by name."""
    stages = every(store, "tags.`bukva.stage` != ''")
    return {
        top.info.run_name: (
            top.data.metrics["gpt.val"],
            [value for _, value, _ in points(store, top, VAL)],
            sorted(run.info.run_name for run in stages if run.data.tags["mlflow.parentRunId"] == top.info.run_id),
        )
        for top in every(store, "tags.`bukva.stage` IS NULL")
    }


def stages_of(name, number=""):
    return [f"{name}/{stage}{number}" for stage in ("clean", "evaluate", "train-bigram", "train-gpt")]


def test_another_training_is_another_run_named_by_its_numerics_and_a_restored_one_is_not(
    database, params, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    other, name = {**NUMERICS, "precision": "float32", "threads": "1"}, "wide: precision=float32, threads=1"
    first, second, clone = (tmp_path / machine for machine in ("first", "second", "clone"))
    run_on(first, monkeypatch, params, NUMERICS, (3.0, 2.5))
    run_on(second, monkeypatch, params, other, (3.25, 2.75))
    run_on(clone, monkeypatch, params, other, (3.25, 2.75), restored=("clean", "train-bigram", "train-gpt"))
    for machine in (clone, second, first):
        monkeypatch.setenv("BUKVA_ROOT", str(machine))
        assert described(sync()) == {
            "wide": (2.5, [3.0, 2.5], stages_of("wide")),
            name: (2.75, [3.25, 2.75], sorted(stages_of("wide", " 2") + stages_of("wide", " 3"))),
        }
    # in one checkout, and a model of another machine is restored after the bigram was trained here
    run_on(first, monkeypatch, params, other, (3.25, 2.75))
    again = [each for number in (" 2", " 3", " 4") for each in stages_of("wide", number)]
    assert described(sync())[name] == (2.75, [3.25, 2.75], sorted(again))
    monkeypatch.setenv("DVC_EXP_NAME", "narrow")
    store = run_on(first, monkeypatch, params, NUMERICS, (3.0, 2.5), restored=["train-gpt"], bigram=other)
    assert described(store)["narrow"] == (2.5, [3.0, 2.5], stages_of("narrow"))
    assert len(described(store)) == 3


def test_experiments_of_one_name_are_shown_with_the_commits_from_which_they_started(database, params, monkeypatch):
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    wider = changed(params, "model", n_head=8)
    commits = [commit_params(database.parent)]
    for name in ("wide", "wide-2", "wide"):
        monkeypatch.setenv("DVC_EXP_NAME", name)
        finish("clean", wider)
        store = sync()
        (database.parent / "notes").write_text(name)
        commits.append(commit(database.parent, "notes"))
    first, _, last = (text[:7] for text in commits[:3])
    runs = [
        f"wide@{first}/clean", f"wide@{first}: n_head=8", "wide-2/clean", "wide-2: n_head=8",
        f"wide@{last}/clean", f"wide@{last}: n_head=8",
    ]  # fmt: skip
    assert sorted(run.info.run_name for run in every(store)) == sorted(runs)
    [run] = [run for run in every(store) if run.info.run_name == f"wide@{first}: n_head=8"]
    store.client.update_run(run.info.run_id, name="mine")
    finish("clean", wider)
    assert {run.info.run_name for run in every(sync())} >= {"mine", *runs[2:], f"wide@{commits[3][:7]}: n_head=8"}


# ---- descriptions, deletions and errors


def test_an_experiment_is_described_by_its_changes_its_score_and_how_it_was_made(database, params, monkeypatch):
    head = commit_params(database.parent)
    monkeypatch.setenv("DVC_EXP_NAME", "first")
    params = changed(params, "model", n_head=8)
    finish("train-bigram", params, restored=True)
    finish("train-gpt", params)

    def description():
        return whole(sync()).data.tags["mlflow.note.content"].split("  \n")

    begun = [f"Differs from commit `{head[:7]}` in `model.n_head=8`."]
    made = ["Trained: train-gpt.", "Restored by DVC from its run cache: train-bigram."]
    assert description() == begun + made
    for val in (2.5, 2.25):
        evaluate(params, {"gpt": {"val": val}, "bigram": {"val": 3.5}})
        score = f"Scores on val, bits per character: GPT **{val:.3f}**, bigram **3.500**."
        assert description() == [*begun, score, *made]
    store = connect()
    store.client.set_tag(whole(store).info.run_id, "mlflow.note.content", "mine")
    finish("sample", params)
    assert description() == ["mine"]


def test_what_was_deleted_in_mlflow_stays_deleted_and_runs_of_other_people_do_not_change(database, params):
    store = connect()
    foreign = store.client.create_run(store.experiment_id, run_name="mine")
    finish("clean", params)
    running = Recorder("train-gpt", params)
    sync()
    runs = by_name(store)
    store.client.delete_run(runs["clean"].info.run_id)
    assert sync_module.sync() == (
        f"{database} has the results of 2 stage executions, except for 1 that was deleted there. To restore a run, run "
        "`mlflow runs restore --run-id ID`."
    )
    store.client.delete_run(runs[WHOLE].info.run_id)
    running.end("FINISHED")
    finish("sample", params)
    sync()
    assert {run.info.run_id: run.info.status for run in store.runs().values()} == {
        runs["clean"].info.run_id: "FINISHED", runs[WHOLE].info.run_id: "RUNNING",
        runs["train-gpt"].info.run_id: "RUNNING",
    }  # fmt: skip
    assert store.client.get_run(foreign.info.run_id).info.status == "RUNNING"
    assert "has the results of 3 stage executions, except for 3 that were deleted there. " in sync_module.sync()


def test_a_run_that_mlflow_gc_has_removed_is_made_again_with_all_that_it_had(database, params):
    run_pipeline(params)
    store = sync()
    first = contents(store)
    store.client.delete_run(whole(store).info.run_id)
    uri = f"sqlite:///{database}"
    command = [Path(sys.prefix) / "bin/mlflow", "gc", "--tracking-uri", uri, "--backend-store-uri", uri]
    subprocess.run(command, check=True, capture_output=True)
    assert WHOLE not in by_name(store)
    assert "deleted" not in sync_module.sync()
    assert contents(connect()) == first
    assert {run.data.tags.get("mlflow.parentRunId") for run in every(store)} == {None, whole(store).info.run_id}


def test_the_variables_of_mlflow_choose_its_experiment_and_a_deleted_one_is_named(database, params, monkeypatch):
    finish("clean", params)
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
    assert (connect().experiment_id, len(every(connect()))) == ("2", 2)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "2")
    assert connect().experiment_id == "2"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "4321")
    with pytest.raises(BukvaError, match=r"mlflow\.db: .*No Experiment with id=4321 exists"):
        sync_module.sync()


def test_a_run_that_mlflow_refuses_does_not_stop_the_others(database, params):
    for name, path, content in (("clean", "cleaning.json", '{"no such name!": 1}'), ("evaluate", "metrics.json", "{")):
        with stage(name, params):
            write_text(Path("reports", path), content)
    finish("split", params)
    sentences = fill(connect(), read_runs())
    assert [name in each for name, each in zip(("/clean-", "/evaluate-"), sentences, strict=True)] == [True] * 2
    assert statuses(connect())["split"] == "FINISHED"


def test_a_store_that_is_down_is_asked_once(database, params, monkeypatch):
    asked = []

    def fail(*arguments):
        asked.append(arguments)
        raise MlflowException("no answer")

    for name in ("clean", "split", "tokenize"):
        finish(name, params)
    store = connect()
    monkeypatch.setattr(MlflowClient, "create_run", fail)
    monkeypatch.setattr(MlflowClient, "get_experiment", fail)
    with pytest.raises(MlflowException, match="no answer"):
        fill(store, read_runs())
    assert len(asked) == 2


def test_names_are_as_short_as_databases_need(database, params, monkeypatch):
    commit_params(database.parent)
    monkeypatch.setenv("DVC_EXP_NAME", "n" * 240)
    finish("clean", changed(params, "download", text_column="c" * 200))
    assert {len(run.info.run_name) for run in every(sync())} == {246, 250}


def test_a_checkout_in_which_nothing_has_run_has_nothing_to_send_and_makes_no_database(project):
    assert sync_module.sync() == (
        "There is nothing to send, because no stage has run in this checkout. Run `make repro`."
    )
    assert not (project / "mlflow.db").exists()
