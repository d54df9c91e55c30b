"""dvc repro: runs what changed, restores what it knows, the same bytes every time."""

import json
import shutil

import pytest

pytestmark = pytest.mark.slow

STAGES = ["download", "clean", "tokenize", "split", "train-bigram", "train-gpt", "evaluate", "sample", "publish"]


def test_the_first_run_runs_everything_and_leaves_nothing_to_do(project):
    assert project.ran(project.first) == STAGES
    assert "up to date" in project.run("dvc", "status")
    assert project.repro() == []
    for name in (
        "metrics.json",
        "cleaning.json",
        "split.json",
        "samples.md",
        "losses.png",
        "curves/train_gpt.csv",
        "attention/attention.json",
        "attention/weights_trained.png",
    ):
        assert (project.folder / "reports" / name).stat().st_size, name
    metrics = json.loads(project.read("reports/metrics.json"))
    assert 2 < metrics["gpt"]["test"]["bits_per_char"] < 7


def test_forced_again_it_writes_the_same_bytes(fresh):
    before = fresh.read("dvc.lock")
    assert fresh.repro("-f") == STAGES
    assert fresh.read("dvc.lock") == before
    assert fresh.run("git", "status", "--porcelain") == ""


def test_byte_code_beside_the_source_changes_nothing(fresh):
    fresh.run("python", "-m", "compileall", "-q", "src", "stages")
    assert list(fresh.folder.glob("src/bukva/models/__pycache__/*.pyc"))
    assert "up to date" in fresh.run("dvc", "status")


def test_a_stage_writes_no_byte_code_which_a_full_disk_would_leave_torn(fresh):
    for folder in fresh.folder.rglob("__pycache__"):
        shutil.rmtree(folder)
    fresh.repro("-f", "-s", "train-bigram")
    assert [file.name.partition(".")[0] for file in fresh.folder.rglob("*.pyc")] == [
        "__init__"
    ]  # read before it is told


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("src/bukva/report/style.py", "9.0, 120", "9.0, 121", ["evaluate"]),
        ("src/bukva/generation/samples.py", "# Samples", "# The samples", ["sample"]),
        ("src/bukva/generation/sampling.py", '"""Sampling:', '"""Sampling  :', ["evaluate", "sample"]),
        ("src/bukva/tracking/journal.py", '"""What a', '"""What  a', []),
        ("data/sample/prose/skazki/1.txt", "а", "о", STAGES),
    ],
)
def test_an_edit_reruns_what_it_can_change(fresh, file, old, new, expected):
    fresh.edit(file, old, new)
    ran = fresh.repro()
    assert [stage for stage in ran if stage != "publish"] == [stage for stage in expected if stage != "publish"]


@pytest.mark.parametrize(
    ("section", "key", "bad", "said"),
    [
        ("model", "n_head", 3, "model.n_head: 3 does not divide n_embd 8; 1, 2, 4, 8 would"),
        ("sample", "top_kk", 3, "sample.top_kk: unknown key with value 3; did you mean top_k?"),
        ("split", "val", 0.5, "sum to"),
        ("clean", "rules", "modern", "clean.rules: 'modern' is not known; 'notes' or 'none' would do"),
        ("train_gpt", "learning_rate", "fast", "train_gpt.learning_rate: 'fast' (str) will not do"),
    ],
)
def test_a_mistake_anywhere_stops_the_first_stage_with_a_sentence_and_a_way_back(fresh, section, key, bad, said):
    fresh.set({section: {key: bad}, "download": {"sha256": "0" * 64}})  # so that download is what runs first
    printed = fresh.run("dvc", "repro", ok=False)
    assert fresh.ran(printed) == ["download"]
    assert said in printed
    assert "exited with 1" in printed
    assert "Traceback" not in printed
    way_back = next(line for line in printed.splitlines() if line.startswith("To go back: "))
    fresh.run("sh", "-c", way_back.removeprefix("To go back: "))
    assert "up to date" in fresh.run("dvc", "status")
    assert fresh.repro() == []


def test_a_block_longer_than_a_split_is_told_by_whoever_runs_first(fresh):
    fresh.set({"model": {"block_size": 1000}})
    printed = fresh.run("dvc", "repro", ok=False)
    assert fresh.ran(printed) == ["train-gpt"]
    assert "model.block_size: 1000 characters of context and the next do not fit val" in printed
    fresh.clean()
    fresh.set({"model": {"block_size": 1000}, "split": {"train": 0.8, "val": 0.1, "test": 0.1}})
    printed = fresh.run("dvc", "repro", ok=False)
    assert fresh.ran(printed)[-1] == "split"


@pytest.mark.parametrize("text", ["1e-3", "3e-05"])
def test_exponents_are_numbers_to_dvc_and_to_the_stages(fresh, text):
    lines = fresh.read("params.yaml").split("\n")
    at = max(i for i, line in enumerate(lines) if line.startswith("  learning_rate:"))
    lines[at] = f"  learning_rate: {text}"
    (fresh.folder / "params.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert fresh.repro() == ["train-gpt", "evaluate", "sample", "publish"]
    last = fresh.read("reports/curves/train_gpt.csv").split("\n")[2].split(",")
    assert float(last[4]) <= float(text)


def test_a_text_that_rules_eat_is_told_before_anything_is_lost(fresh):
    for index in range(3):
        (fresh.folder / f"data/sample/prose/skazki/{index}.txt").write_text("only Latin letters here\n")
    printed = fresh.run("dvc", "repro", ok=False)
    assert "clean.rules: 'notes' leaves nothing of the text" in printed
    assert "foreign 72 characters" in printed
    assert not (fresh.folder / "data/clean").exists()


def test_plots_and_differences_are_shown(fresh):
    fresh.repro("-f", "evaluate")
    fresh.run("dvc", "plots", "show", "-o", "plots")
    page = fresh.read("plots/index.html")
    assert "Loss by step, nats per character" in page
    for curve in ("bigram, train", "bigram, val", "GPT, train", "GPT, val"):
        assert curve in page
    fresh.set({"train_gpt": {"seed": 5}})
    fresh.repro()
    assert "train_gpt.seed" in fresh.run("dvc", "params", "diff")
    assert "gpt.test.bits_per_char" in fresh.run("dvc", "metrics", "diff")
