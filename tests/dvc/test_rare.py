"""What DVC does in rarer cases than those of the story; each of them was wrong once."""

import os
import signal

import pytest

from bukva.project.stages import stages
from tests.support.project import Project
from tests.support.running import wait_until

pytestmark = pytest.mark.nightly

TRAIN = "-m", "stages.train_gpt"


@pytest.fixture(scope="module")
def copied(template, tmp_path_factory) -> Project:
    return template.copy_to(tmp_path_factory.mktemp("project") / "bukva")


@pytest.fixture
def project(copied) -> Project:
    copied.reset()
    return copied


def test_a_block_longer_than_a_split_is_reported_by_the_first_stage_that_runs(project):
    project.set({"model": {"block_size": 1000}, "split": {"train": 0.8, "val": 0.1, "test": 0.1}})
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed)[-1] == "split"
    assert "model.block_size: a window of 1000 ids" in printed


def test_what_a_clone_has_computed_of_another_text_is_restored(project, tmp_path):
    """The clone lacks the text of the committed dvc.lock, to which DVC goes back before every queued experiment."""
    project.run("git", "clone", "-q", ".", str(tmp_path / "clone"))
    clone, settings = Project(tmp_path / "clone"), ("-S", "clean.rules=none")
    first = clone.run("dvc", "exp", "run", *settings, "train-bigram")
    assert clone.stages_run(first) == [*list(stages())[:4], "train-bigram"]
    clone.run("git", "checkout", "-q", ".")
    again = clone.run("dvc", "exp", "run", *settings, "-S", "train_gpt.seed=7", "train-bigram")
    assert clone.stages_run(again) == []
    assert "'train-bigram' is cached" in again


@pytest.mark.parametrize(("name", "exit_code"), [("SIGKILL", 1), ("SIGTERM", 143)])
def test_when_one_of_two_processes_ends_both_end_with_a_sentence(project, name, exit_code):
    project.set({"train_gpt": {"processes": 2, "n_steps": 100_000, "eval_every": 100_000, "seed": exit_code}})
    running = project.start("python", *TRAIN, PYTHONPATH="src")
    assert running.reaches(lambda: " 0/" in running.printed), running.printed
    launcher, *_, last = project.stage_processes()
    os.kill((last if name == "SIGKILL" else launcher).pid, getattr(signal, name))
    assert running.wait() == exit_code, running.printed
    wait_until(lambda: not project.stage_processes())
    assert "Traceback" not in running.printed
    if name == "SIGKILL":
        assert "of 2 was killed by SIGKILL. The other processes were stopped" in running.printed


def tops(project: Project) -> list[dict]:
    """The runs of whole experiments of the last commit in MLflow."""
    head = project.run("git", "rev-parse", "HEAD").strip()
    return [run for run in project.mlflow() if not run["parent"] and run["tags"]["bukva.commit"] == head]


def test_uncommitted_code_has_its_own_run_in_mlflow_which_names_the_changed_folder(template, tmp_path):
    project = template.copy_to(tmp_path / "bukva")
    project.run("dvc", "repro", "-f", "-s", "train-gpt", "evaluate", "publish")
    (clean,) = tops(project)
    head = project.run("git", "rev-parse", "HEAD").strip()
    assert clean["name"] == f"baseline@{head[:7]}"  # the commit before it also has a baseline
    project.edit("src/bukva/models/gpt.py", "(module.weight, std=0.02)", "(module.weight, std=0.03)")
    printed = project.run("dvc", "repro")
    assert "differs from commit" in printed
    edited, again = sorted(tops(project), key=lambda run: run["name"] == clean["name"])
    assert again == clean
    assert edited["name"].endswith(": edited models")
    assert edited["steps"] == clean["steps"] == [0, 10, 20]
    assert edited["metrics"]["gpt.val"] != clean["metrics"]["gpt.val"]
    tags = edited["tags"]
    assert tags["bukva.edited"] == "src/bukva/models"
    assert "`src/bukva/models`" in tags["mlflow.note.content"]
    assert "mlflow.source.git.commit" not in tags
    assert [name for name, _ in project.versions()].count("bukva-gpt") == 3  # one of an earlier commit
    project.run("dvc", "exp", "run", "--temp", "-n", "beside", "-S", "train_gpt.seed=7")
    (beside,) = (run for run in tops(project) if run["tags"]["bukva.experiment"] == "beside")
    assert beside["name"] == "beside: gpt.seed=7, edited models"
    assert "in `train_gpt.seed=7`, `src/bukva/models`." in beside["tags"]["mlflow.note.content"]
