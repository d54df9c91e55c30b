"""Trained models in MLflow: complete without the repository, registered with their score, there once."""

import json
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
import torch

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel

import bukva
from bukva.base.errors import BukvaError
from bukva.base.files import write_json
from bukva.config.schema import Params
from bukva.models.folder import save_model
from bukva.models.gpt import GPT, GPTConfig
from bukva.tokenizers.char import CharTokenizer
from bukva.tracking.journal import journal
from bukva.tracking.models.package import requirements
from bukva.tracking.models.registry import TEXT, Registry
from bukva.tracking.reading import read_journals
from bukva.tracking.store import Store, connect
from bukva.tracking.sync import View

pytestmark = pytest.mark.filterwarnings("ignore")

TOKENIZER = CharTokenizer(sorted("\n абвг"))
CONFIG = GPTConfig(len(TOKENIZER), 1, 1, 5, 7, 0.0)


def train(folder: Path, params: Params, val: float, seed: int = 1) -> None:
    """What the stages leave: a model of random weights, and a score of our choice."""
    torch.manual_seed(seed)
    weights = {name: dict(GPT(CONFIG).state_dict()) for name in ("best", "initial")}
    save_model(folder / "data/models/gpt", CONFIG, TOKENIZER, weights, {"torch": "2", "arithmetic": "abc"})
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 2.0}, step=100)
        log.model("gpt", folder / "data/models/gpt")
    evaluate(folder, params, val)


def evaluate(folder: Path, params: Params, val: float) -> None:
    scores = {split: val + more for split, more in (("val", 0), ("test", 0.5))}
    write_json(folder / "reports/metrics.json", {"gpt": scores})
    with journal("evaluate", params) as log:
        log.artifact(folder / "reports/metrics.json")


def with_layers(params: Params, n: int) -> Params:
    return params.model_copy(update={"model": params.model.model_copy(update={"n_layer": n})})


def sync() -> Store:
    store = connect()
    assert View(store).update(read_journals()) == []
    return store


def logged(store: Store) -> list["LoggedModel"]:
    return list(store.client.search_logged_models([store.experiment_id]))


def versions(store: Store) -> dict[str, str]:
    """The score of each version."""
    found = store.client.search_model_versions("name = 'bukva-gpt'")
    return {str(each.version): each.tags["bukva.val_bits_per_char"] for each in found}


def aliases(store: Store) -> dict[str, str]:
    return {name: str(version) for name, version in store.client.get_registered_model("bukva-gpt").aliases.items()}


def test_a_model_belongs_to_its_training_and_has_its_scores_on_their_datasets(
    database: Path, alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = [{"name": f"sample/{split}", "digest": "d", "split": split} for split in ("val", "test")]
    splits = [each | {"source": {}, "profile": {}} for each in splits]
    monkeypatch.setattr("bukva.tracking.writing.datasets", lambda kind, _: splits if kind == "report" else [])
    train(alone, params, 2.5)
    store = sync()
    [model] = logged(store)
    training = store.client.get_run(model.source_run_id)
    assert training.data.tags["bukva.stage"] == "train-gpt"
    assert [each.model_id for each in training.outputs.model_outputs] == [model.model_id]
    assert model.tags["bukva.arithmetic"] == "abc"
    assert json.loads(model.params["model.n_layer"]) == params.model.n_layer
    linked = {metric.key: (metric.value, metric.dataset_name, metric.dataset_digest) for metric in model.metrics}
    assert linked == {
        "gpt.val": (2.5, "sample/val", "d"),
        "gpt.test": (3.0, "sample/test", "d"),
    }
    assert training.data.metrics["gpt.val"] == 2.5
    curve = store.client.get_metric_history(training.info.run_id, "val_bits_per_char")
    assert [point.step for point in curve] == [100]


def test_best_is_the_lowest_on_val(database: Path, alone: Path, params: Params) -> None:
    for n, val in ((1, 2.5), (2, 2.3), (3, 2.4)):
        train(alone, with_layers(params, n), val, seed=n)
    store = sync()
    assert list(versions(store).values()).count("2.3") == 1
    assert len(versions(store)) == 3
    assert versions(store)[aliases(store)["best"]] == "2.3"
    assert aliases(store)["best-sample"] == aliases(store)["best"]


def test_scores_on_another_text_are_not_compared(database: Path, alone: Path, params: Params) -> None:
    train(alone, params, 1.5)
    other = params.model_copy(update={"download": params.download.model_copy(update={"corpus": "rus.lit"})})
    train(alone, other, 2.5, seed=2)
    store = sync()
    assert versions(store)[aliases(store)["best"]] == "2.5"
    assert versions(store)[aliases(store)["best-rus-lit"]] == "2.5"
    assert versions(store)[aliases(store)["best-sample"]] == "1.5"


def test_a_model_that_is_scored_again_keeps_its_version_with_the_new_score(
    database: Path, alone: Path, params: Params
) -> None:
    train(alone, params, 2.5)
    sync()
    evaluate(alone, params, 2.25)
    store = sync()
    assert versions(store) == {"1": "2.25"}
    [version] = store.client.search_model_versions("name = 'bukva-gpt'")
    assert "2.250 bits per character on val of sample" in version.description


def test_a_model_without_a_score_is_not_registered(database: Path, alone: Path, params: Params) -> None:
    train(alone, params, 2.5)
    for journal_ in read_journals():
        if journal_.start["stage"] == "evaluate":
            (journal_.folder / "journal.jsonl").unlink()
    store = sync()
    assert len(logged(store)) == 1
    assert versions(store) == {}


@pytest.mark.parametrize(
    "call",
    ["log_outputs", "log_model_artifacts", "finalize_logged_model", "create_registered_model", "create_model_version",
     "set_registered_model_alias"],
)  # fmt: skip
def test_a_sync_that_is_stopped_at_any_call_is_completed_without_doubling(
    database: Path, alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    train(alone, params, 2.5)
    store = connect()
    with monkeypatch.context() as stopped, pytest.raises(KeyboardInterrupt):
        stopped.setattr(type(store.client), call, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        View(store).update(read_journals())
    store = sync()
    [model] = logged(store)
    assert model.status.name == "READY"
    assert len(store.client.get_run(model.source_run_id).outputs.model_outputs) == 1
    assert json.loads(model.tags["mlflow.modelVersions"]) == [{"name": "bukva-gpt", "version": 1}]
    assert versions(store) == {"1": "2.5"}
    assert aliases(store)["best"] == "1"


def test_another_machine_that_registers_a_better_one_meanwhile_gets_the_alias(
    database: Path, alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(alone, params, 2.5)
    train(alone, with_layers(params, 2), 2.3, seed=2)
    store, seen = sync(), Registry._versions
    calls = []

    def late(self: Registry, name: str) -> object:
        """The first look comes before the other machine registers."""
        calls.append(name)
        return [each for each in seen(self, name) if len(calls) > 1 or each.tags["bukva.val_bits_per_char"] == "2.5"]

    worse = next(
        each for each in seen(Registry(store.client), "bukva-gpt") if each.tags["bukva.val_bits_per_char"] == "2.5"
    )
    monkeypatch.setattr(Registry, "_versions", late)
    Registry(store.client)._point_to_best("bukva-gpt", worse.tags[TEXT], "sample")
    assert versions(store)[aliases(store)["best"]] == "2.3"


def test_another_machine_may_create_the_alias_first(
    database: Path, alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    train(alone, params, 2.5)
    first, calls = MlflowClient.set_registered_model_alias, []

    def late(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise MlflowException("duplicate key value violates unique constraint registered_model_alias_pk")
        first(*arguments)

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", late)
    assert aliases(sync()) == {"best": "1", "best-sample": "1"}


PROGRAM = """
import sys, mlflow.pyfunc, pandas as pd
model = mlflow.pyfunc.load_model("models:/bukva-gpt@best")
print(model.predict(pd.DataFrame({"prompt": ["аб"]}), params={"n_chars": 5}).to_json(orient="records"))
print(next(module.__file__ for name, module in sys.modules.items() if name == "bukva"))
"""


@pytest.mark.slow
def test_a_model_writes_outside_the_repository_with_the_code_it_carries(
    database: Path, alone: Path, params: Params, tmp_path: Path
) -> None:
    train(alone, params, 2.5)
    sync()
    away = tmp_path / "elsewhere"
    away.mkdir()
    environment = {
        "MLFLOW_TRACKING_URI": f"sqlite:///{database}",
        "HOME": str(away),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    python = str(Path(sysconfig.get_path("scripts")) / "python")  # sys.executable is no program here
    done = subprocess.run(
        [python, "-W", "ignore", "-c", PROGRAM], cwd=away, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [answer], code = json.loads(done.stdout.splitlines()[0]), done.stdout.splitlines()[1]
    assert len(answer["continuation"]) == 5
    assert str(Path(__file__).parents[2]) not in code


def test_nothing_in_a_model_is_a_pickle(database: Path, alone: Path, params: Params) -> None:
    train(alone, params, 2.5)
    [model] = logged(sync())
    folder = Path(unquote(model.artifact_location.removeprefix("file://")))
    names = {file.name for file in folder.rglob("*") if file.is_file()}
    assert {"MLmodel", "best.safetensors", "config.json", "vocab.json", "pyfunc.py"} <= names
    assert not [name for name in names if Path(name).suffix in (".pkl", ".pickle", ".pt", ".bin", ".pyc")]
    assert "initial.safetensors" not in names
    wanted = set((folder / "requirements.txt").read_text(encoding="utf-8").split())
    assert wanted == set(requirements())
    assert all("==" in line and "+" not in line for line in wanted)


def test_a_registered_model_is_loaded_by_alias_and_by_version(database: Path, alone: Path, params: Params) -> None:
    for n, val in ((1, 2.5), (2, 2.3)):
        train(alone, with_layers(params, n), val, seed=n)
    store = sync()
    best = bukva.load("models:/bukva-gpt@best")
    assert best.generate("а", 7, seed=3) == bukva.load(alone / "data/models/gpt").generate("а", 7, seed=3)
    [other] = [number for number, score in versions(store).items() if score == "2.5"]
    first = bukva.load(f"models:/bukva-gpt/{other}")
    assert not torch.equal(first.model.wte.weight, best.model.wte.weight)


@pytest.mark.parametrize("name", ["bukva-gtp@best", "bukva-gpt@beste", "bukva-gpt/7"])
def test_a_model_that_is_not_registered_is_a_sentence_with_those_that_are(
    database: Path, alone: Path, params: Params, name: str
) -> None:
    with pytest.raises(BukvaError, match=rf"no models:/{name} is registered; it has no model yet\.$"):
        bukva.load(f"models:/{name}")
    train(alone, params, 2.5)
    sync()
    with pytest.raises(BukvaError, match=rf"no models:/{name} is registered; it has bukva-gpt \(see its page Models\)"):
        bukva.load(f"models:/{name}")


def test_where_no_mlflow_is_none_is_created(alone: Path) -> None:
    with pytest.raises(BukvaError, match=r"mlflow\.db: no MLflow is here; go to the folder of the project, or set MLF"):
        bukva.load("models:/bukva-gpt@best")
    assert not list(alone.glob("*.db"))


def test_a_name_that_mlflow_does_not_have_is_a_sentence() -> None:
    with pytest.raises(BukvaError, match="models:/bukva-gpt: not the name of a registered model; use models:/NAME@"):
        bukva.load("models:/bukva-gpt")
