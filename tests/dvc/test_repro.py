"""dvc repro: what runs, what is reported, what DVC shows. That it makes the same bytes is tested in tests/chaos."""

import json
import shutil

import pytest

from chaos.project import Project

pytestmark = pytest.mark.slow

STAGES = ["download", "clean", "tokenize", "split", "train-bigram", "train-gpt", "evaluate", "sample", "publish"]


def test_the_first_run_runs_every_stage(template):
    assert template.stages_run(template.first_repro) == STAGES
    for name in (
        "metrics.json",
        "scores.json",
        "cleaning.json",
        "split.json",
        "samples.md",
        "corpus.md",
        "corpus.png",
        "split.png",
        "losses.png",
        "comparison.png",
        "curves/train_gpt.csv",
    ):
        assert (template.folder / "reports" / name).stat().st_size, name
    metrics = json.loads(template.read("reports/metrics.json"))
    assert list(metrics) == ["gpt", "bigram", "counted"]
    assert all(list(bits) == ["val", "test"] and 2 < bits["test"] < 7 for bits in metrics.values())


def test_the_second_run_runs_nothing(project):
    assert "up to date" in project.run("dvc", "status")
    assert project.repro() == []


@pytest.fixture(scope="module")
def cloned(template, tmp_path_factory) -> Project:
    """A clone without DVC's cache, in which `dvc repro` has made the results that the committed dvc.lock has."""
    clone = Project(tmp_path_factory.mktemp("clone") / "bukva")
    clone.folder.parent.mkdir(exist_ok=True)
    template.run("git", "clone", "-q", ".", str(clone.folder))
    printed = clone.run("dvc", "repro")
    assert clone.stages_run(printed) == STAGES[:-1]
    assert "Stage 'publish' didn't change, skipping" in printed
    return clone


def test_mlflow_has_all_of_a_first_run_whose_results_are_those_of_the_commit(template, cloned):
    assert shown(cloned) == shown(template)
    assert cloned.versions() == template.versions() == [("bukva-bigram", 1), ("bukva-gpt", 1)]
    assert cloned.run("git", "status", "--porcelain") == ""


def shown(project: Project) -> dict[str, object]:
    """What the runs of MLflow have, by stage; "" is the whole experiment."""
    return {
        run["tags"].get("bukva.stage", ""): (
            run["status"], len(run["models"]), run["points"], run["artifacts"], sorted(run["tags"]), run["params"]
        )
        for run in project.mlflow()
    }  # fmt: skip


def test_byte_code_beside_the_source_changes_nothing(project):
    project.run("python", "-m", "compileall", "-q", "src", "stages")
    assert list(project.folder.glob("src/bukva/models/__pycache__/*.pyc"))
    assert "up to date" in project.run("dvc", "status")


def test_a_stage_writes_no_byte_code_which_a_full_disk_would_leave_torn(project):
    for folder in project.folder.rglob("__pycache__"):
        shutil.rmtree(folder)
    project.repro("-f", "-s", "split")
    names = [file.name.partition(".")[0] for file in project.folder.rglob("*.pyc")]
    assert names == ["__init__"]  # of stages, which Python compiles before it can read the setting in it


def test_a_mistake_anywhere_stops_the_first_stage_with_a_sentence_and_a_way_back(project):
    project.set(
        {
            "download": {"sha256": "0" * 64},  # so that download runs first
            "clean": {"rules": "modern"},
            "split": {"val": 0.5},
            "model": {"n_head": 3},
            "train_gpt": {"learning_rate": "fast"},
            "sample": {"top_kk": 3},
        }
    )
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed) == ["download"]
    for sentence in (
        "clean.rules: 'modern' is unknown; use 'auto', 'literary', 'notes', 'none' or 'file'",
        "sum to",
        "model.n_head: 3 does not divide n_embd 8; use 1, 2, 4 or 8",
        "train_gpt.learning_rate: 'fast' (str) is invalid;",
        "sample.top_kk: unknown key with value 3; did you mean top_k?",
    ):
        assert sentence in printed
    assert "exited with 1" in printed
    assert "Traceback" not in printed
    way_back = next(line for line in printed.splitlines() if line.startswith("To go back: "))
    project.run("sh", "-c", way_back.removeprefix("To go back: "))
    assert "up to date" in project.run("dvc", "status")


def test_a_block_longer_than_a_split_is_reported_by_the_first_stage_that_runs(project):
    project.set({"model": {"block_size": 1000}, "split": {"train": 0.8, "val": 0.1, "test": 0.1}})
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed)[-1] == "split"
    assert "model.block_size: a window of 1000 characters" in printed


def test_an_exponent_is_a_number_to_dvc_and_to_the_stages(project):
    lines = project.read("params.yaml").split("\n")
    at = max(i for i, line in enumerate(lines) if line.startswith("  learning_rate:"))
    lines[at] = "  learning_rate: 1e-3"
    (project.folder / "params.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert project.repro("train-gpt") == ["train-gpt"]
    header, _, last = project.read("reports/curves/train_gpt.csv").strip().split("\n")[:3]
    assert float(last.split(",")[header.split(",").index("learning_rate")]) <= 1e-3


def test_a_text_that_the_rules_remove_is_reported_before_anything_is_lost(project):
    project.set({"clean": {"rules": "notes"}})  # auto would keep it
    for index in range(3):
        (project.folder / f"data/sample/prose/skazki/{index}.txt").write_text("only Latin letters here\n")
    printed = project.run("dvc", "repro", ok=False)
    assert project.stages_run(printed) == ["download", "clean"]
    assert "params.yaml, clean.rules: 'notes'" in printed
    assert "foreign 72 characters" in printed
    assert not (project.folder / "data/clean").exists()


def test_the_plots_are_the_losses_of_both_models_and_the_scores_without_pictures(project):
    project.run("dvc", "plots", "show", "-o", "plots")
    page = project.read("plots/index.html")
    for part in ("train_nats_per_char", "val_nats_per_char", "Bits per character on val, fewer are better"):
        assert part in page
    assert all(f"Loss of the {model}, bits per character" in page for model in ("GPT", "bigram"))
    assert "<img" not in page


def test_differences_of_parameters_and_scores_are_shown(project):
    project.set({"train_gpt": {"seed": 5}})
    metrics = json.loads(project.read("reports/metrics.json"))
    metrics["gpt"]["test"] += 1
    (project.folder / "reports/metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    assert "train_gpt.seed" in project.run("dvc", "params", "diff")
    assert "gpt.test" in project.run("dvc", "metrics", "diff")
