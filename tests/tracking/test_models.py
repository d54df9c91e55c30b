"""Trained models in MLflow: complete without the repository, registered with their score, there once."""

import json
import shutil
import subprocess
import sysconfig
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
import torch
from tracking.runs import every, points, stage, sync
from tracking.test_experiment import changed
from tracking.test_sync import evaluate

import bukva
from bukva.core.params import flatten
from bukva.models.folder import save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.text.tokenizers import CharTokenizer
from bukva.tracking.models import _text, move_aliases
from bukva.tracking.record import DISTRIBUTIONS
from bukva.tracking.store import connect
from bukva.tracking.sync import sync as sync_all

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TOKENIZER = CharTokenizer(sorted("\n абвг"))
CONFIG = GPTConfig(len(TOKENIZER), 1, 1, 5, 7, 0.0)


def train(params, val, seed=1):
    """What the stages leave: a model of random weights, and a score of our choice."""
    torch.manual_seed(seed)
    weights = {name: dict(GPT(CONFIG).state_dict()) for name in ("best", "initial")}
    with stage("train-gpt", params) as recorder:
        recorder.curve([{"step": 100, "val_nats_per_char": 2.0}])
        save_model(Path("data/models/gpt"), CONFIG, TOKENIZER, weights, {"torch": "2", "arithmetic": "abc"})
    evaluate(params, {"gpt": {"val": val, "test": val + 0.5, "accuracy": 0.25}})


def logged(store):
    return list(store.client.search_logged_models([store.experiment_id]))


def versions(store):
    found = store.client.search_model_versions("name = 'bukva-gpt'")
    return {str(each.version): each.tags["bukva.val_bits_per_char"] for each in found}


def aliases(store, model="bukva-gpt"):
    return {name: str(version) for name, version in store.client.get_registered_model(model).aliases.items()}


def test_a_model_belongs_to_its_training_and_has_its_scores_on_their_datasets(database, alone, params, monkeypatch):
    splits = [{"name": f"sample/{split}", "digest": "d", "split": split} for split in ("val", "test")]
    splits = [each | {"source": {}, "profile": {}, "text": ""} for each in splits]
    monkeypatch.setattr("bukva.tracking.record.datasets", lambda kind, _: splits if kind == "report" else [])
    train(params, 2.5)
    store = sync()
    [model] = logged(store)
    training = store.client.get_run(model.source_run_id)
    assert training.data.tags["bukva.stage"] == "train-gpt"
    whole = store.client.get_run(training.data.tags["mlflow.parentRunId"])
    for run in (training, whole):
        assert [each.model_id for each in run.outputs.model_outputs] == [model.model_id]
    assert model.tags["bukva.arithmetic"] == "abc"
    assert json.loads(model.params["model.n_layer"]) == params.model.n_layer
    linked = {metric.key: (metric.value, metric.dataset_name, metric.dataset_digest) for metric in model.metrics}
    assert linked == {
        "gpt.val": (2.5, "sample/val", "d"),
        "gpt.test": (3.0, "sample/test", "d"),
        "gpt.accuracy": (0.25, None, None),
    }
    for run in (training, whole):
        assert (run.data.metrics["gpt.val"], run.data.metrics["gpt.accuracy"]) == (2.5, 0.25)
    assert [step for step, *_ in points(store, training, "val_bits_per_char")] == [100]


def test_models_whose_files_were_removed_are_counted_with_the_way_to_make_them_again(database, alone, params):
    train(params, 2.5)
    complete = f"{database} has the results of 2 stage executions."
    assert sync_all() == complete
    shutil.rmtree(alone / "mlruns")
    assert sync_all() == (
        f"{complete}\nModels in MLflow without files: 1. To recreate the files, delete the database and run `bukva "
        "sync`. This also deletes your own edits in MLflow."
    )


def test_models_are_loaded_by_alias_and_by_version(database, alone, params):
    for n, val in ((1, 2.25), (2, 2.5)):
        train(changed(params, "model", n_layer=n), val, seed=n)
    store = sync()
    assert versions(store) == {"1": "2.25", "2": "2.5"}
    assert aliases(store) == {"best": "1", "best-sample": "1"}
    loaded, kept = bukva.load("models:/bukva-gpt/2"), bukva.load(alone / "data/models/gpt")
    assert loaded.generate("а", 7, seed=3) == kept.generate("а", 7, seed=3)
    assert not torch.equal(bukva.load("models:/bukva-gpt@best").model.wte.weight, kept.model.wte.weight)


def test_best_versions_of_all_models_are_of_the_newest_text_on_which_all_were_scored(database):
    store = connect()

    def register(model, text, corpus, score):
        tags = {"bukva.text": text, "bukva.corpus": corpus, "bukva.val_bits_per_char": repr(score)}
        store.client.create_model_version(model, database.as_uri(), tags=tags)
        move_aliases(store.client, corpus)

    gpt, bigram = "bukva-gpt", "bukva-bigram"
    for model in (gpt, bigram):
        store.client.create_registered_model(model)
    store.client.create_model_version(gpt, database.as_uri())  # of a user
    for model, score in ((bigram, 3.5), (gpt, 2.5), (gpt, 2.25)):
        register(model, "Russian", "rus.lit", score)
    assert aliases(store, gpt) == {"best": "3", "best-rus-lit": "3"}
    register(bigram, "English", "url", 1.5)
    assert aliases(store, bigram) == {"best": "1", "best-rus-lit": "1", "best-url": "2"}
    register(gpt, "English", "url", 1.0)
    assert aliases(store, gpt) == {"best": "4", "best-rus-lit": "3", "best-url": "4"}
    assert aliases(store, bigram)["best"] == "2"
    register(gpt, "Russian", "rus.lit", 2.75)
    assert aliases(store, gpt) == {"best": "3", "best-rus-lit": "3", "best-url": "4"}
    assert aliases(store, bigram)["best"] == "1"


def test_a_sync_that_is_stopped_at_any_call_is_completed_without_doubling(database, alone, params, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    train(params, 2.5)
    for call in (
        "log_outputs",
        "log_model_artifacts",
        "finalize_logged_model",
        "create_registered_model",
        "create_model_version",
        "set_registered_model_alias",
    ):
        with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
            stopped.setattr(f"mlflow.MlflowClient.{call}", stop)
            sync()
    store = sync()
    [model] = logged(store)
    assert model.status.name == "READY"
    outputs = [store.client.get_run(run.info.run_id).outputs.model_outputs for run in every(store)]
    assert sorted(map(len, outputs)) == [0, 1, 1]  # stage evaluate, its training, the experiment
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": "bukva-gpt", "version": 1}]
    assert versions(store) == {"1": "2.5"}
    assert aliases(store)["best"] == "1"
    evaluate(params, {"gpt": {"val": 2.25}})  # by other code
    for run in store.runs().values():
        store.client.set_tag(run.info.run_id, "bukva.filled", "[]")
    monkeypatch.setattr("mlflow.MlflowClient.log_model_artifacts", stop)
    assert versions(sync()) == {"1": "2.25"}


def test_a_text_is_its_cleaned_content_and_its_split_wherever_it_came_from(params):
    flat = flatten(params.model_dump())

    def text(cleaned, **changed):
        params = flat | {key.replace("_", ".", 1): value for key, value in changed.items()}
        return _text(SimpleNamespace(datasets=[{"text": cleaned}], params=params))

    same = text("abc")
    assert text("abc", download_corpus="local", model_n_head=8) == same
    assert same not in (text("abd"), text("abc", split_val=0.1))


PROGRAM = """
import sys, mlflow.pyfunc, pandas as pd
model = mlflow.pyfunc.load_model("models:/bukva-gpt@best")
print(model.predict(pd.DataFrame({"prompt": ["аб"]}), params={"n_chars": 5}).to_json(orient="records"))
print(next(module.__file__ for name, module in sys.modules.items() if name == "bukva"))
"""


def test_a_model_is_no_pickle_and_writes_outside_the_repository_with_the_code_it_carries(
    database, alone, params, tmp_path
):
    train(params, 2.5)
    [model] = logged(sync())
    folder = Path(unquote(model.artifact_location.removeprefix("file://")))
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    assert {"MLmodel", "best.safetensors", "config.json", "vocab.json", "pyfunc.py"} <= names
    assert not [name for name in names if Path(name).suffix in (".pkl", ".pickle", ".pt", ".bin", ".pyc")]
    assert "initial.safetensors" not in names
    wanted = set((folder / "requirements.txt").read_text(encoding="utf-8").split())
    assert wanted == {f"{name}=={version(name).partition('+')[0]}" for name in DISTRIBUTIONS}
    away = tmp_path / "elsewhere"
    away.mkdir()
    environment = {
        "MLFLOW_TRACKING_URI": f"sqlite:///{database}",
        "HOME": str(away),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    python = str(Path(sysconfig.get_path("scripts")) / "python")  # sys.executable is no program here
    command = [python, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, cwd=away, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [answer], code = json.loads(done.stdout.splitlines()[0]), done.stdout.splitlines()[1]
    assert len(answer["continuation"]) == 5
    assert str(Path(__file__).parents[2]) not in code
