"""One small project, from its first `dvc repro` to a second clone: what a user of DVC does, in this order.

Each test goes on where the one before it ended, and asserts what its step leaves in git, in DVC's cache and in MLflow.
That no kind of kill loses anything is counted by `make chaos`.
"""

import json
import re

import pytest
import requests
from lxml import html

from bukva.project.stages import stages
from tests.support.project import SAVE_OFTEN, Project
from tests.support.running import wait_until, wait_until_empty

pytestmark = pytest.mark.slow

STAGES = list(stages())
TRAINED = STAGES[STAGES.index("train-gpt") :]
LONGER = "-S", "train_gpt.n_steps=2000", "-S", "train_gpt.eval_every=500"
ADD_REMOTE = "dvc", "remote", "add", "--local", "-d", "team"  # `dvc exp apply` removes one from .dvc/config
STEPS, LONG = [0, 10, 20], [0, 500, 1000, 1500, 2000]  # at which a training scores val, and one that is LONGER


@pytest.fixture(scope="module")
def project(told) -> Project:
    return told[0]


@pytest.fixture(scope="module")
def clone(project, tmp_path_factory) -> Project:
    """A clone of what the project has sent to its origin and its remote, without its caches."""
    root, made = project.folder.parent, Project(tmp_path_factory.mktemp("clone") / "bukva")
    project.run("git", "clone", "-q", str(root / "origin.git"), str(made.folder))
    made.run(*ADD_REMOTE, str(root / "remote"))
    return made


def runs_of(project: Project, experiment: str) -> dict[str, dict]:
    """stage -> its one run in MLflow; "" is the run of the whole experiment."""
    runs = project.mlflow()
    (top,) = (run for run in runs if not run["parent"] and run["tags"]["bukva.experiment"] == experiment)
    below = [run for run in runs if run["parent"] == top["id"]]
    found = {run["tags"]["bukva.stage"]: run for run in below}
    assert len(found) == len(below), "a stage has two runs"
    return {"": top, **found}


# ---- the pipeline


def test_the_first_repro_runs_every_stage_and_writes_every_report(told):
    project, printed = told
    assert project.stages_run(printed) == STAGES
    outputs = [project.folder / out for stage in stages().values() for out in stage.outs]
    assert all(any(out.iterdir()) if out.is_dir() else out.stat().st_size for out in outputs)
    metrics = json.loads(project.read("reports/metrics.json"))
    assert list(metrics) == ["gpt", "bigram", "counted"]
    assert all(list(scores)[:2] == ["val", "test"] and 2 < scores["test"] < 7 for scores in metrics.values())
    assert all(0 < metrics[model]["accuracy"] < 1 for model in ("gpt", "bigram"))
    compiled = [file.name.partition(".")[0] for file in project.folder.rglob("*.pyc")]
    assert compiled == ["__init__"]  # a full disk would leave the others torn; this one is read before the setting


def test_mlflow_then_has_one_run_with_its_stages_below_it_and_both_models(project):
    (name,) = {run["tags"]["bukva.experiment"] for run in project.mlflow()}
    assert re.fullmatch(r"repro-[0-9a-f]{7}", name)
    runs = runs_of(project, name)
    assert (runs[""]["name"], runs["train-gpt"]["name"]) == ("baseline", "baseline/train-gpt")
    assert int(runs[""]["tags"]["bukva.n_parameters"]) > 0
    assert set(runs) == {"", *STAGES[:-1]}
    assert {run["status"] for run in runs.values()} == {"FINISHED"}
    assert {f"{model}.{split}" for model in ("gpt", "bigram", "counted") for split in ("val", "test")} <= set(
        runs[""]["metrics"]
    )
    for stage in ("train-bigram", "train-gpt"):
        assert {"train_nats_per_char", "best_val_nats_per_char", "chars_per_second"} <= set(runs[stage]["metrics"])
        assert runs[stage]["steps"] == STEPS
        assert len(runs[stage]["models"]) == 1
        assert list(runs[stage]["artifacts"].rglob("*.csv"))
    assert list(runs["sample"]["artifacts"].rglob("samples.md"))
    assert project.versions() == [("bukva-bigram", 1), ("bukva-gpt", 1)]


def test_nothing_runs_again_for_byte_code(project):
    """Whether an edit reruns a stage: tests/project/test_dvc_yaml.py."""
    project.run("python", "-m", "compileall", "-q", "src", "stages")
    assert project.repro() == []


def test_mistakes_stop_the_first_stage_with_a_sentence_each_and_a_way_back(project):
    mistakes = {"clean": {"rules": "modern"}, "model": {"n_head": 3}, "sample": {"top_kk": 3}}
    project.set(mistakes | {"download": {"sha256": "0" * 64}})  # so that download runs first
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed) == ["download"]
    for section, values in mistakes.items():
        assert f"params.yaml, {section}.{next(iter(values))}: " in printed
    assert "exited with 1" in printed
    assert "Traceback" not in printed
    way_back = next(line for line in printed.splitlines() if line.startswith("To return to the last commit: "))
    project.run("sh", "-c", way_back.removeprefix("To return to the last commit: "))
    assert "up to date" in project.run("dvc", "status")


def test_a_stage_that_fails_is_failed_in_mlflow_and_says_why(project):
    project.set({"model": {"block_size": 1000}})
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed) == ["train-gpt"]
    assert "model.block_size: a window of 1000 ids" in printed
    failed = [run for run in project.mlflow() if run["status"] == "FAILED"]
    assert {run["tags"].get("bukva.stage") for run in failed} == {None, "train-gpt"}
    project.reset()


# ---- experiments


def test_an_experiment_trains_and_scores_while_mlflow_is_away_and_is_there_after_sync(project):
    """Its learning rate is written as YAML does not read it and as DVC does: 1e-3."""
    away = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    settings = "-S", "model.n_head=2", "-S", "train_gpt.learning_rate=1e-3"
    printed = project.run("dvc", "exp", "run", "-n", "two-heads", *settings, **away)
    assert project.stages_run(printed) == TRAINED
    assert re.search(r"\nparams.yaml differs from commit [0-9a-f]{7}: model.n_head=2, train_gpt.learning_rate", printed)
    header, _, last = project.read("reports/curves/train_gpt.csv").splitlines()[:3]
    assert 0 < float(last.split(",")[header.split(",").index("learning_rate")]) <= 1e-3
    project.run("git", "add", "-A")  # dvc.lock may be staged: core.autostage
    project.run("sh", "-c", printed.partition("To return to the last commit: ")[2].splitlines()[0])
    assert project.run("git", "status", "--porcelain") == ""
    assert "up to date" in project.run("dvc", "status")
    project.sync()
    runs = runs_of(project, "two-heads")
    assert runs[""]["name"] == "two-heads: n_head=2, gpt.learning_rate=0.001"
    assert runs["train-gpt"]["steps"] == STEPS
    scores = json.loads(project.read_from_experiment("two-heads", "reports/metrics.json"))
    assert runs[""]["metrics"]["gpt.test"] == pytest.approx(scores["gpt"]["test"])


@pytest.mark.nightly
def test_a_training_killed_in_the_queue_goes_on_in_its_snapshot_to_the_bytes_of_an_uninterrupted_one(project):
    """The queue runs code whose edit is undone before the queue starts, and sends results to the project's MLflow."""
    project.edit("src/bukva/evaluation/samples.py", "# Samples", "# Samples of the snapshot")
    for name in ("killed", "long"):
        project.run("dvc", "exp", "run", "--queue", "-n", name, *LONGER)
    project.reset()
    project.start("dvc", "queue", "start", **SAVE_OFTEN).wait()  # its worker outlives it
    wait_until(project.has_checkpoint)
    assert project.kill()
    refs = "git", "for-each-ref", "--format=%(refname)", "refs/exps"
    assert not wait_until_empty(lambda: "/long\n" not in project.run(*refs), 300)
    project.wait_for_queue()
    assert "Resumed at step" in project.run("dvc", "queue", "logs", "long")
    project.run("dvc", "exp", "apply", "long")
    resumed = project.outputs()
    assert "# Samples of the snapshot" in project.read("reports/samples.md")
    project.run("dvc", "repro", "-f", "-s", "train-gpt")
    assert project.outputs() == resumed
    project.reset()
    sampled = runs_of(project, "long")["sample"]
    assert sampled["status"] == "FINISHED"
    assert sampled["artifacts"].is_relative_to(project.folder / "mlruns")
    trainings = [run["steps"] for run in project.gpt_runs("FINISHED")]
    assert trainings.count(LONG) == 2  # the resumed one, once; and the uninterrupted one
    wait_until(lambda: not project.leftovers())


# ---- what one reads then


def test_the_verdict_on_an_experiment_is_the_same_in_the_terminal_and_on_the_report(project):
    project.run("dvc", "exp", "apply", "two-heads")
    said = project.bukva("compare", "HEAD", "workspace")
    assert re.search(r"model workspace.* (than model HEAD|do not differ significantly)", said)
    project.bukva("report")
    page = html.parse(str(project.folder / "reports/index.html")).getroot()
    sentences = page.xpath("//h3[starts-with(text(), 'Against')]/following-sibling::*//p[not(@class)]/text()")
    assert sentences
    assert all(sentence in said for sentence in sentences)
    bits = json.loads(project.read("reports/scores.json"))["gpt"]["val"]["bits_per_char"]
    assert page.xpath("//h1")[0].text == f"The last run: {bits:.3f} bits per character on val"
    board = json.loads(project.bukva("experiments", "--json"))
    shown = html.parse(str(project.folder / "reports/experiments.html")).getroot()
    rows = [[cell.text_content() for cell in row.xpath("th|td")] for row in shown.xpath("//table//tr")]
    assert [row[:2] for row in rows[1:]] == [[row["experiments"][0], f"{row['val'][0]:.3f}"] for row in board["rows"]]
    project.reset()


def test_the_playground_writes_what_the_stage_wrote(project):
    answers = json.loads(project.read("data/samples.json"))["answers"]
    (wanted,) = (
        one for one in answers
        if (one["model"], one["state"], one["prompt"], one["temperature"]) == ("GPT", "trained", 0, 0.8)
    )  # fmt: skip
    content = {"model": "workspace/gpt", "text": wanted["read"]}
    with project.playing() as address:
        page = html.fromstring(requests.get(f"{address}/play", timeout=60).text)
        _, *pieces = requests.post(f"{address}/play/write", json=content, timeout=60).text.splitlines()
    keys = page.xpath("(//select)[1]//option/@value")
    assert keys[:2] == ["workspace/gpt", "workspace/bigram"]
    assert set(keys[2:]) - {"long/gpt"} == {"two-heads/gpt"}  # it has the same bigram as the workspace
    assert "".join(json.loads(piece)[0] for piece in pieces) == wanted["written"]


# ---- a second clone


def test_results_are_sent_once_to_a_remote_and_to_an_origin(project):
    root = project.folder.parent
    assert project.bukva("push", ok=False).startswith("DVC: config file error: no remote specified ")
    project.run("git", "init", "-q", "-b", "main", "--bare", str(root / "origin.git"))
    project.run("git", "remote", "add", "origin", str(root / "origin.git"))
    project.run(*ADD_REMOTE, str(root / "remote"))
    project.run("git", "push", "-q", "origin", "main")
    assert "push: sent 0 new objects" not in project.bukva("push")
    assert "push: sent 0 new objects" in project.bukva("push")
    project.run("dvc", "exp", "push", "origin", "two-heads")


def test_a_clone_restores_the_commit_and_an_experiment_without_training(project, clone):
    clone.run("dvc", "pull", "--run-cache")
    assert clone.repro() == []
    assert clone.outputs().items() <= project.outputs().items()  # which has pages beside them
    clone.run("dvc", "exp", "pull", "origin", "two-heads")
    clone.run("dvc", "exp", "apply", "two-heads")
    clone.run("dvc", "pull")
    assert clone.repro() == []
    clone.run("git", "checkout", "-q", ".")


def test_mlflow_has_all_of_a_run_in_which_dvc_skips_stage_publish_after_the_scores(clone):
    """As in a fresh clone that makes again what its commit has."""
    clone.run("dvc", "repro", "-f", "-s", "train-gpt", "evaluate")
    clone.bukva("scores")  # as make repro
    (name,) = {run["tags"]["bukva.experiment"] for run in clone.mlflow()}
    runs = runs_of(clone, name)
    assert runs["train-gpt"]["steps"] == STEPS
    scores = json.loads(clone.read("reports/metrics.json"))
    assert runs[""]["metrics"]["gpt.test"] == pytest.approx(scores["gpt"]["test"])


def test_a_clone_that_wants_the_same_experiment_restores_it_and_shows_it_in_mlflow(clone):
    settings = "-S", "model.n_head=2", "-S", "train_gpt.learning_rate=1e-3"
    printed = clone.run("dvc", "exp", "run", "--pull", "-n", "mine", *settings)
    assert clone.stages_run(printed) == ["publish"]
    clone.sync()
    runs = runs_of(clone, "mine")
    assert runs["train-gpt"]["tags"]["bukva.restored"] == "true"
    assert runs["train-gpt"]["steps"] == STEPS
    assert len(runs["train-gpt"]["models"]) == 1
    scores = json.loads(clone.read("reports/metrics.json"))
    assert runs[""]["metrics"]["gpt.test"] == pytest.approx(scores["gpt"]["test"])
