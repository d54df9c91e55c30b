"""dvc exp run, its temporary copies and its queue; and MLflow over all of them."""

import json
import re
from dataclasses import dataclass

import pytest
from browser import SCHEMES, WIDTHS, check, chromium, needs_chromium, opened
from lxml import html
from playwright.sync_api import expect

from chaos.project import Project

pytestmark = pytest.mark.slow

TRAINED = ["train-gpt", "evaluate", "sample", "publish"]
DATA = ["download", "clean", "tokenize", "split"]
TRAINING_METRICS = (
    "train_nats_per_char",
    "val_nats_per_char",
    "best_val_nats_per_char",
    "chars_per_second",
    "seconds",
)


@dataclass(frozen=True)
class Experiments:
    """What the experiments of this module printed, and their runs in MLflow (experiments)."""

    two_heads: str
    again: str
    returned: str  # what differs from the commit after the way back that two_heads printed
    runs: dict


@pytest.fixture(scope="module")
def done(copied) -> Experiments:
    """Two experiments one after the other, and two in the queue, before and after the code is edited back."""
    copied.reset()
    two_heads = copied.run("dvc", "exp", "run", "-n", "two-heads", "-S", "model.n_head=2")
    copied.run("git", "add", "-A")  # dvc.lock may be staged: core.autostage
    copied.run("sh", "-c", two_heads.partition("Return: ")[2].splitlines()[0])
    returned = copied.run("git", "status", "--porcelain") + copied.run("dvc", "status")
    again = copied.run("dvc", "exp", "run", "-n", "again", "-S", "model.n_head=2", "-S", "sample.seed=7")
    copied.reset()
    copied.edit("src/bukva/generation/samples.py", "# Samples", "# Samples of the snapshot")
    copied.run("dvc", "exp", "run", "--queue", "-n", "snapshot", "-S", "sample.seed=5")
    copied.run("git", "checkout", "-q", "src")
    copied.run("dvc", "exp", "run", "--queue", "-n", "after", "-S", "sample.seed=5")
    copied.run("dvc", "exp", "run", "--run-all", "-j", "2")
    return Experiments(two_heads, again, returned, experiments(copied))


def experiments(project):
    """name -> {stage: runs}, and the top-level run under None."""
    runs = project.mlflow()
    top = {run["id"]: run["tags"]["bukva.experiment"] for run in runs if not run["parent"]}
    assert len(set(top.values())) == len(top), "an experiment has two top-level runs"
    found = {name: {None: next(run for run in runs if run["id"] == id_)} for id_, name in top.items()}
    for run in runs:
        if run["parent"]:
            found[top[run["parent"]]].setdefault(run["tags"]["bukva.stage"], []).append(run)
    return found


def test_one_run_of_the_pipeline_is_one_run_with_its_stages_below(template):
    found = experiments(template)
    assert len(found) == 1
    (name, runs), = found.items()  # fmt: skip
    assert re.fullmatch(r"repro-[0-9a-f]{7}", name)
    top = runs.pop(None)
    assert set(runs) >= {*DATA, "train-bigram", "train-gpt", "evaluate", "sample"}
    assert all(len(executions) == 1 for executions in runs.values())
    assert top["status"] == "FINISHED"
    assert top["params"]["model.n_embd"] == "8"
    assert top["params"]["download.corpus"] == "sample"
    assert {f"{model}.{split}" for model in ("gpt", "bigram", "counted") for split in ("val", "test")} <= set(
        top["metrics"]
    )
    for stage in ("train-bigram", "train-gpt"):
        (run,) = runs[stage]
        assert (run["name"], run["status"], run["tags"]["bukva.kind"]) == (f"{name}: {stage}", "FINISHED", "training")
        assert set(TRAINING_METRICS) <= set(run["metrics"])
        assert run["points"]["val_nats_per_char"] == 3
        assert len(run["models"]) == 1
        assert any(artifact.endswith(".csv") for artifact in run["artifacts"])
    assert not [key for key in runs["train-bigram"][0]["params"] if key.startswith("model.")]
    assert any(artifact.endswith("samples.md") for artifact in runs["sample"][0]["artifacts"])
    assert all(runs[stage][0]["tags"]["bukva.kind"] == "data" for stage in DATA)


def test_mlflow_filled_from_the_journals_is_the_same(template, project):
    project.sync()  # a copy has no database
    again, before = project.mlflow(), template.mlflow()
    for key in ("name", "status", "points", "params"):
        assert sorted(str(run[key]) for run in again) == sorted(str(run[key]) for run in before), key


def test_one_more_head_trains_and_scores_again_and_nothing_else(project, done):
    assert project.stages_run(done.two_heads) == TRAINED
    runs = done.runs["two-heads"]
    assert set(runs) - {None, "publish"} == {"train-gpt", "evaluate", "sample"}
    assert runs[None]["params"]["model.n_head"] == "2"
    shown = project.run("dvc", "exp", "show", "--csv")
    assert "two-heads" in shown
    assert "gpt.test" in shown


def test_an_experiment_says_what_it_leaves_and_how_to_return(project, done):
    assert re.search(r"\nparams.yaml differs from [0-9a-f]{7}: model.n_head=2; the next experiment", done.two_heads)
    assert done.returned == "Data and pipelines are up to date.\n"


def test_what_dvc_restores_has_its_run_marked_as_restored(project, done):
    assert "train-gpt" not in project.stages_run(done.again)
    assert "'train-gpt' is cached" in done.again
    runs = done.runs["again"]
    (restored,) = runs["train-gpt"]
    assert restored["tags"]["bukva.restored"] == "true"
    assert restored["points"]["val_nats_per_char"] == 3
    assert len(restored["models"]) == 1
    assert "bukva.restored" not in runs["sample"][0]["tags"]


def test_a_queued_experiment_runs_the_code_of_its_snapshot(project, done):
    assert "# Samples of the snapshot" in project.read_from_experiment("snapshot", "reports/samples.md")
    assert "snapshot" not in project.read_from_experiment("after", "reports/samples.md")


@pytest.mark.parametrize("name", ["snapshot", "after"])
def test_a_queued_experiment_reports_to_the_store_of_the_project(project, done, name):
    (run,) = done.runs[name]["sample"]
    assert run["status"] == "FINISHED"
    assert any(artifact.endswith("samples.md") for artifact in run["artifacts"])
    assert run["where"] == (project.folder / "mlruns").as_uri()


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("two-heads", "model.n_head", ("1", "2")),
        ("after", "sample.seed", ("1337", "5")),
    ],  # in the checkout, in a snapshot
)
def test_the_description_of_an_experiment_says_what_it_is_worth(project, done, name, key, values):
    description = done.runs[name][None]["tags"]["mlflow.note.content"]
    metrics = json.loads(project.read_from_experiment(name, "reports/scores.json"))
    scores = " | ".join(f"{metrics['gpt'][split]['bits_per_char']:.3f}" for split in ("train", "val", "test"))
    assert f"| GPT, learned | {scores} |" in description
    assert f"`dvc exp apply {name}`" in description
    before, after = values
    assert f"| `{key}` | `{before}` | `{after}` |" in description
    verdict = "are identical" if name == "after" else "than model baseline|cannot be told apart"
    assert re.search(f"On this val text, model experiment.*({verdict})", description)
    samples = project.read_from_experiment(name, "reports/samples.md")
    sample = description.partition("### Sample")[2].partition("<!--")[0].strip()
    assert sample.replace("\n    ", "\n") in samples.replace("│", "").replace("\n    ", "\n")
    assert re.search(r"\| GPT \| [\d,]+ \| 20 \| 2,560 \| \d+ \|", description.partition("### Cost")[2])


def test_runs_are_named_by_what_their_experiment_changed(done):
    changes = {"two-heads": "n_head=2", "again": "n_head=2, sample.seed=7", "snapshot": "sample.seed=5"}
    for name, change in changes.items():
        stages = done.runs[name]
        label = f"{change} ({name})"
        assert stages[None]["name"] == label
        found = {(stage, run["name"]) for stage, runs in stages.items() if stage for run in runs}
        assert found == {(stage, f"{label}: {stage}") for stage in stages if stage}


def test_the_page_of_all_experiments_shows_their_scores_and_what_they_changed(project, done):
    project.run("python", "-m", "bukva", "report", PYTHONPATH="src")
    page = html.parse(str(project.folder / "reports/experiments.html")).getroot()
    header, *rows = [[cell.text_content() for cell in row.xpath("th|td")] for row in page.xpath("//table//tr")]
    assert header[:4] == ["experiment", "val", "against the baseline", "changed"]
    board = json.loads(project.run("python", "-m", "bukva", "experiments", "--json", PYTHONPATH="src"))
    assert [row[0] for row in rows] == [row["experiments"][0] for row in board["rows"]]
    assert [row[1] for row in rows] == [f"{row['val'][0]:.3f}" for row in board["rows"]]
    assert any(row[3].startswith("model.n_head=2") for row in rows)
    specs = json.loads(page.get_element_by_id("specs").text)
    assert set(specs) == {"scores", "curves", "coordinates"}
    axes = {row["axis"] for rows in specs["coordinates"][""]["datasets"].values() for row in rows}
    assert axes >= {"model.n_head", "val"}
    assert not page.xpath("//table//a")  # only a server has the report of each
    assert page.xpath("//nav//a[@href='index.html']")
    first = html.parse(str(project.folder / "reports/index.html")).getroot()
    assert first.xpath("//nav//a[@href='experiments.html']")


@needs_chromium
def test_that_page_is_for_everybody_on_every_screen(project, done):
    project.run("python", "-m", "bukva", "report", PYTHONPATH="src")
    with chromium() as browser:
        for width in WIDTHS:
            for scheme in SCHEMES:
                with opened(browser, f"file://{project.folder / 'reports/experiments.html'}", width, scheme) as page:
                    expect(page.locator("[data-chart] svg")).to_have_count(3)
                    check(page)


def test_what_a_clone_has_computed_of_another_text_is_restored(project, tmp_path):
    """The clone lacks the text of the committed dvc.lock, to which DVC goes back before every queued experiment."""
    project.run("git", "clone", "-q", ".", str(tmp_path / "clone"))
    clone, settings = Project(tmp_path / "clone"), ("-S", "clean.rules=none")
    first = clone.run("dvc", "exp", "run", *settings, "train-bigram")
    assert clone.stages_run(first) == [*DATA, "train-bigram"]
    clone.run("git", "checkout", "-q", ".")
    again = clone.run("dvc", "exp", "run", *settings, "-S", "train_gpt.seed=7", "train-bigram")
    assert clone.stages_run(again) == []
    assert "'train-bigram' is cached" in again


def test_a_stage_that_fails_is_failed_in_mlflow(project):
    project.set({"model": {"block_size": 1000}, "train_gpt": {"seed": 99}})
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed) == ["train-gpt"]
    assert "model.block_size: a window of 1000 characters" in printed
    failed = [run for run in project.mlflow() if run["status"] == "FAILED"]
    assert {run["tags"].get("bukva.stage") for run in failed} == {None, "train-gpt"}


def test_a_broken_mlflow_stops_nothing(project):
    project.set({"train_gpt": {"seed": 98}})
    broken = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    assert project.repro("train-gpt", **broken) == ["train-gpt"]
    project.sync()
    assert any(run["params"].get("train_gpt.seed") == "98" for run in project.mlflow())
