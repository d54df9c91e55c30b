"""Exit status and output of commands."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from bukva.cli.app import app, main
from bukva.cli.console import call
from bukva.core.errors import BukvaError, PeerLostError
from tests.support.imports import ROOT, SHIPPED
from tests.support.repository import commit, run_git

PARAMS = SHIPPED.read_text(encoding="utf-8")
SCORES = {
    "bigram": {"val": {"bits_per_char": 3.9}},
    "gpt": {"val": {"bits_per_char": 2.7}},
    "baselines": {"val": {"uniform": 6.2, "unigram": 4.8, "bigram_exact": 3.8}},
    "best_counted": "bigram_exact",
    "window": {"length": 64, "stride": 32, "unit": "character"},
    "context": {"val": {"short_context": 8, "gain_bits_per_char": 0.123}},
}
FULL = "raw: No space left on device. Existing files are intact. Free some space and run the same command again."
NO_MEMORY = "Out of memory. Use a smaller model, batch_size, block_size or baselines.max_order, or a shorter text."


def commands(group, *words):
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, *words, name)
        else:
            yield *words, name


COMMANDS = list(commands(typer.main.get_command(app)))


def fill(folder):
    """Write the parameters, and the files that they name."""
    for file in ("params.yaml", "data/sample/a.txt", "rules/example.yaml"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(PARAMS if file == "params.yaml" else "", encoding="utf-8")


@pytest.fixture
def bukva(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command in tmp_path and returns its status, output and error output."""

    def give(*arguments):
        monkeypatch.setattr(sys, "argv", ["bukva", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    monkeypatch.chdir(tmp_path)
    return give


# ---- mistakes and faults


@pytest.mark.parametrize(
    "files", [["params.yaml"], ["dvc.yaml"], ["dvc.lock", "reports/scores.json"], ["reports/curves/train_gpt.csv"]]
)
def test_every_command_names_a_file_with_a_merge_conflict(bukva, tmp_path, files):
    fill(tmp_path)
    for file in (*files, "reports/samples.md"):  # the samples of a model may have such lines
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("a: 1\n<<<<<<< HEAD\nb: 1\n=======\nb: 2\n>>>>>>> main\n")
    said = (
        f"{files[0]} has a merge conflict (line 2). Edit it, or keep the version of one side: `git checkout --ours "
        f"{' '.join(files)}` (or --theirs). Then run `make repro`. To undo the merge: `git merge --abort`.\n"
    )
    for command in COMMANDS:
        assert bukva(*command) == (1, "", said)


@pytest.mark.parametrize(
    ("error", "status", "printed"),
    [
        (BukvaError("book.txt: byte 7 is not UTF-8."), 1, "book.txt: byte 7 is not UTF-8."),
        (PeerLostError("the origin is away."), 75, "the origin is away."),
        (OSError(28, "No space left on device", "raw"), 1, FULL),
        (OSError(30, "Read-only file system"), 1, "a file: Read-only file system. Check the permissions of this path."),
        (MemoryError(), 1, NO_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 1, NO_MEMORY),
    ],
)
def test_a_mistake_is_a_sentence_and_a_status(error, status, printed, capsys):
    def fail():
        raise error

    with pytest.raises(SystemExit) as ended:
        call(fail)
    assert (ended.value.code, *capsys.readouterr()) == (status, "", f"{printed}\n")


def test_a_fault_of_the_program_is_shown_without_secrets(monkeypatch, capsys):
    def fail():
        raise ConnectionError("no route to https://host/a.txt?key=СЕКРЕТ with hf_СЕКРЕТ")

    monkeypatch.setenv("HF_TOKEN", "hf_СЕКРЕТ")
    with pytest.raises(SystemExit, match="1"):
        call(fail)
    assert (printed := capsys.readouterr().err).startswith("Traceback (most recent call last):\n")
    assert printed.endswith("ConnectionError: no route to https://host/a.txt with ***\n\n")


def test_a_folder_without_parameters_is_a_sentence_with_the_command_that_helps(bukva, tmp_path, monkeypatch):
    missing, below = f"{tmp_path}: this folder has no params.yaml.", tmp_path / "docs and data"
    for command in COMMANDS:
        assert bukva(*command) == (1, "", f"{missing} Change to the folder of a clone of bukva.\n")
        assert bukva(*command, "--help")[0] == 0
    for folder in (below, tmp_path / ".dvc"):
        folder.mkdir()
    (tmp_path / "dvc.yaml").touch()
    monkeypatch.chdir(below)
    assert bukva("check") == (1, "", f"{missing} Run `git checkout HEAD params.yaml`.\n")


def test_every_command_is_run_by_a_test():
    tests = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py"))
    assert {name for name, *_ in COMMANDS} <= {*re.findall(r'(?:bukva\(|app, \[|"bukva", )"([a-z]+)"', tests)}


# ---- bukva check


def test_check_prints_nothing_for_valid_parameters_and_else_what_is_wrong_or_differs(bukva, tmp_path, monkeypatch):
    fill(tmp_path)
    file = tmp_path / "params.yaml"
    run_git(tmp_path, "init", "-q")
    commit(tmp_path, "params.yaml")
    assert bukva("check") == (0, "", "")
    (tmp_path / "numerics.lock").write_text("pytest==0.1\nno-such-package==2.0\n", encoding="utf-8")
    assert re.fullmatch(
        r"Results can differ from those of others: pytest is [\d.]+, but this commit needs 0.1; "
        r"no-such-package is missing, but this commit needs 2.0. To install: .*\n",
        bukva("check")[1],
    )
    shutil.copy(ROOT / "numerics.lock", tmp_path)
    file.write_text(PARAMS.replace("kind: char", "kind: byte"), encoding="utf-8")
    status, said, _ = bukva("check")
    assert status == 0
    assert re.match(r"params.yaml differs from commit [0-9a-f]{7}: tokenize.kind='byte'\. The next experiment ", said)
    file.write_text(PARAMS.replace("kind: char", "kind: word"), encoding="utf-8")
    said = "params.yaml, tokenize.kind: 'word' is not a valid value. Use 'char', 'byte' or 'bpe'.\nTo return to "
    assert bukva("check") == (1, "", f"{said}the last commit: git checkout HEAD params.yaml && make repro\n")
    file.write_text(PARAMS, encoding="utf-8")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    status, said, _ = bukva("check")
    assert (status, said.partition(".")[0]) == (0, "git does not know your name and email")


NEEDED = "does not exist. DVC needs it even if no stage reads it."


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("path: data/sample", "path: Книги", f"download.path: 'Книги' {NEEDED}"),
        ("path: data/sample", "path: ~/Книги", f"download.path: '~/Книги' {NEEDED} Write your home directory in full"),
        ("path: data/sample", "path: ~nobody-of-this-name/a", f"download.path: '~nobody-of-this-name/a' {NEEDED}"),
        ("path: data/sample", f"path: {'x' * 5000}", "download.path: 'xxx"),
        ("file: rules/example.yaml", "file: rules/mine.yaml", f"clean.file: 'rules/mine.yaml' {NEEDED}"),
    ],
)
def test_check_names_a_path_that_dvc_would_not_find(bukva, tmp_path, old, new, sentence):
    fill(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS.replace(old, new), encoding="utf-8")
    status, _, said = bukva("check")
    assert (status, said.startswith(f"params.yaml, {sentence}")) == (1, True), said


SPECIAL = "is a pipe, a socket or a device. Remove it"
LINK = "is a link to a folder, whose files DVC does not see. Replace it with a copy of the folder"


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("c.txt", os.mkfifo, SPECIAL),
        ("c.txt", lambda path: path.symlink_to("/dev/zero"), SPECIAL),
        (".c", lambda path: path.symlink_to("nowhere"), "is a broken link. Remove it"),
        ("c.txt", lambda path: path.symlink_to("c.txt"), "is a broken link. Remove it"),
        ("c", lambda path: path.symlink_to(".."), LINK),
        ("\udce0.txt", Path.touch, "the file name is not UTF-8. Rename the file"),
        (".dvcignore", Path.touch, "DVC does not allow this file in a folder that it reads. Remove it"),
    ],
    ids=range(7),
)
def test_check_names_what_dvc_cannot_read_in_the_folder_of_texts(bukva, tmp_path, name, make, why):
    fill(tmp_path)
    books = tmp_path / "data" / "sample"
    for folder in ("b", ".git"):
        (books / folder).mkdir()
    (books / "a.txt").unlink()
    (books / "a.txt").symlink_to(tmp_path / "params.yaml")
    (books / ".git" / "ignored by DVC").symlink_to("nowhere")
    assert bukva("check")[0] == 0
    make(books / "b" / name)
    status, _, said = bukva("check")
    assert (status, said) == (1, f"data/sample/b/{ascii(name)[1:-1]}: {why}.\n")


@pytest.mark.parametrize(("folder", "odd"), [("a b'c\"&%20[1];@", ""), ("мой", "й м о"), ("a?b", "?"), ("a#ü", "# ü")])
def test_check_says_that_dvc_cannot_run_snapshots_in_a_path(bukva, tmp_path, monkeypatch, folder, odd):
    root = tmp_path / folder
    root.mkdir()
    fill(root)
    monkeypatch.chdir(root)
    said = (
        f"{root}: DVC's queue and `dvc exp run --temp` fail in a path with {odd}. Rename or move the folder, or run "
        "experiments without --queue and --temp.\n"
    )
    assert bukva("check") == (0, said if odd else "", "")


@pytest.mark.parametrize("command", ["ui --port 70000", "play --port -1", "seeds 99999999999999"])
def test_a_number_out_of_range_is_a_mistake_in_the_command_line(bukva, tmp_path, command):
    fill(tmp_path)
    status, _, printed = bukva(*command.split())
    assert (status, "Error: Invalid value for" in printed) == (2, True), printed


# ---- other commands


def test_a_look_at_the_scores_on_test_is_counted(bukva, tmp_path):
    (tmp_path / "params.yaml").touch()
    about = tmp_path / "data" / "scores" / "about.json"
    for file, content in (("reports/scores.json", SCORES), ("data/scores/about.json", {"text": {"val": "1"}})):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(json.dumps(content))
    assert bukva("scores", "--test")[2] == (
        "data/scores has no scores on test. Set `split.test` above 0 and run `dvc repro evaluate`.\n"
    )
    about.write_text(json.dumps({"text": {"val": "1", "test": "2"}}))
    for times in ("once", "2 times"):
        _, said, counted = bukva("scores", "--all", "--test")
        assert "1.100 bits better than the best model that only counts (bigram, counted)" in said
        assert "improves the GPT by 0.123 bits" in said
        assert counted == f"Scores on this test text have now been shown {times}.\n"
