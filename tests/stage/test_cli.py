"""How commands end, and what they print."""

import json
import os
import re
import subprocess
import sys

import pytest
from imports import ROOT

from bukva.config.messages import RETURN

SCORES = {
    "bigram": {split: {"bits_per_char": 3.9} for split in ("train", "val", "test")},
    "gpt": {split: {"bits_per_char": 2.7} for split in ("train", "val", "test")},
    "baselines": {split: {"uniform": 6.2, "unigram": 4.8, "bigram_exact": 3.8} for split in ("train", "val", "test")},
    "best_counted": "bigram_exact",
    "window": {"length": 64, "stride": 32, "unit": "character"},
    "context": {"val": {"short_context": 8, "gain_bits_per_char": 0.123}},
}


def run(*command, cwd=ROOT):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True)


def write_scores(folder):
    (folder / "reports").mkdir()
    (folder / "reports" / "scores.json").write_text(json.dumps(SCORES))
    (folder / "dvc.lock").write_text("a")
    (folder / "params.yaml").touch()  # makes the folder a project


def commit(folder, file):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", file], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *command], cwd=folder, check=True)


@pytest.mark.parametrize(
    ("error", "status", "printed"),
    [
        ("BukvaError('book.txt: byte 7 is not UTF-8.')", 1, "book.txt: byte 7 is not UTF-8.\n"),
        ("KeyboardInterrupt()", 130, ""),
        ("SystemExit(143)", 143, ""),
        (
            "OSError(28, 'No space left on device', 'raw')",
            1,
            "raw: No space left on device; existing files are intact: free some space and give the same command "
            "again.\n",
        ),
        (
            "OSError(30, 'Read-only file system')",
            1,
            "a file: Read-only file system; check the permissions of this path.\n",
        ),
        (
            "MemoryError()",
            1,
            "This machine has too little memory; use a smaller model, batch_size or block_size.\n",
        ),
        (
            "RuntimeError('[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can\\'t allocate memory: you tried')",
            1,
            "This machine has too little memory; use a smaller model, batch_size or block_size.\n",
        ),
    ],
)
def test_a_mistake_prints_a_sentence_and_a_signal_sets_the_exit_status(error, status, printed):
    done = run(
        "-c",
        "from bukva.stage import cli; from bukva.base.errors import BukvaError\n"
        f"def main():\n raise {error}\ncli.run(main)",
    )
    assert done.returncode == status
    assert done.stderr.endswith(printed)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "error", ["ZeroDivisionError('by zero')", "FileNotFoundError(2, 'No such file', 'a')", "RuntimeError('of shapes')"]
)
def test_a_fault_of_the_program_keeps_its_traceback(error):
    done = run("-c", f"from bukva.stage import cli\ndef main():\n raise {error}\ncli.run(main)")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert error.split("(")[0] in done.stderr


def test_a_missing_argument_is_reported():
    done = run("-m", "stages.split", "one")
    assert done.returncode == 2
    assert "Missing argument" in done.stderr


def test_check_prints_nothing_for_valid_parameters_and_a_sentence_for_invalid_ones(tmp_path):
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    done = run("-m", "bukva", "check", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (tmp_path / "params.yaml").write_text(text.replace("kind: char", "kind: word"), encoding="utf-8")
    done = run("-m", "bukva", "check", cwd=tmp_path)
    assert done.returncode == 1
    sentence, _, way_back = done.stderr.partition("\n")
    assert sentence == "params.yaml, tokenize.kind: 'word' is unknown; use 'char', 'byte' or 'bpe'."
    assert way_back.startswith("To go back: ")


def test_check_says_where_params_yaml_differs_from_the_last_commit(tmp_path):
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    commit(tmp_path, "params.yaml")
    assert run("-m", "bukva", "check", cwd=tmp_path).stdout == ""
    (tmp_path / "params.yaml").write_text(text.replace("kind: char", "kind: byte"), encoding="utf-8")
    done = run("-m", "bukva", "check", cwd=tmp_path)
    assert done.returncode == 0
    assert re.fullmatch(
        r"params.yaml differs from [0-9a-f]{7}: tokenize.kind='byte'; the next experiment starts from here. "
        rf"Return: {re.escape(RETURN)}\n",
        done.stdout,
    )


def test_scores_are_a_table_a_verdict_and_the_next_command(tmp_path):
    write_scores(tmp_path)
    done = run("-m", "bukva", "scores", cwd=tmp_path)
    assert "GPT, learned" in done.stdout
    assert "test" not in done.stdout
    assert "1.100 bits better than the best model that only counts (bigram, counted)" in done.stdout
    assert "bukva ui" in done.stdout
    assert "git commit" not in done.stdout  # no repository, so nothing that could differ


def test_all_scores_are_shown_if_one_asks_and_a_look_at_test_is_counted(tmp_path):
    write_scores(tmp_path)
    about = tmp_path / "data" / "scores" / "about.json"
    about.parent.mkdir(parents=True)
    about.write_text(json.dumps({"text": {"val": "1"}}))
    done = run("-m", "bukva", "scores", "--test", cwd=tmp_path)
    assert done.stderr == "data/scores: has no scores on test; run `dvc repro evaluate`, with split.test above 0.\n"
    about.write_text(json.dumps({"text": {"val": "1", "test": "2"}}))
    for looks in (1, 2):
        done = run("-m", "bukva", "scores", "--all", "--test", cwd=tmp_path)
        assert all(text in done.stdout for text in ("by frequency", "train", "val", "test", "is worth 0.123 bits"))
        assert done.stderr == f"Looks at scores on this test text so far: {looks}\n"


def test_scores_that_no_run_has_written_are_one_sentence(tmp_path):
    (tmp_path / "dvc.yaml").touch()
    done = run("-m", "bukva", "scores", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "reports/scores.json: is missing, because no run has written it; run `make repro`.\n"


@pytest.mark.parametrize("arguments", [["check"], ["compare", "HEAD", "HEAD"], ["sweep", "status"]])
def test_outside_a_project_a_command_says_so_and_names_the_project_above(arguments, tmp_path):
    done = run("-m", "bukva", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"{tmp_path}: no project of bukva is in this folder (no params.yaml); go to the folder of a clone of bukva.\n"
    )
    (tmp_path / "params.yaml").touch()
    (tmp_path / "books").mkdir()
    done = run("-m", "bukva", *arguments, cwd=tmp_path / "books")
    assert done.stderr.endswith(f"; go to its project: cd {tmp_path}\n")


def test_help_is_there_in_any_folder(tmp_path):
    done = run("-m", "bukva", "compare", "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_lock_file_that_differs_from_the_last_commit_is_reported(tmp_path):
    write_scores(tmp_path)
    commit(tmp_path, "dvc.lock")
    assert "git commit" not in run("-m", "bukva", "scores", cwd=tmp_path).stdout
    (tmp_path / "dvc.lock").write_text("b")
    printed = run("-m", "bukva", "scores", cwd=tmp_path).stdout
    assert 'git commit -am "Baseline on this machine"' in printed.splitlines()[-1]
