"""Test that a clone has the committed bytes, even if git is configured to convert line ends."""

import subprocess

import pytest

from tests.support.imports import ROOT

OURS = (
    "Makefile", ".ci/run", ".dvc/config", "dvc.yaml", "dvc.lock", "params.yaml", "numerics.lock", "pyproject.toml",
    "recipes/gpt.yaml", "rules/example.yaml", "src/bukva/__init__.py", "stages/split.py", "reports/split.json",
)  # fmt: skip
THEIRS = "data/sample/a.txt", "books/a.txt", "books/a.md", "a.txt", "code/a.py"


@pytest.fixture
def git(tmp_path):
    """Return a function that runs git with conversion of line ends."""

    def run(*arguments, folder="."):
        command = ["git", "-c", "core.autocrlf=true", *arguments]
        return subprocess.run(command, cwd=tmp_path / folder, capture_output=True, text=True, check=True).stdout

    return run


@pytest.mark.parametrize(
    ("names", "written", "cloned"),
    [(OURS, b"a\r\nb\r\n", b"a\nb\n"), (THEIRS, b"a\r\nb\nc\r", b"a\r\nb\nc\r")],
    ids=["ours", "theirs"],
)
def test_what_dvc_and_shells_read_has_line_feeds_in_every_clone_and_texts_of_users_keep_theirs(
    git, tmp_path, names, written, cloned
):
    git("init", "-q", "-b", "main", "first")
    (tmp_path / "first" / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    for name in names:
        (tmp_path / "first" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "first" / name).write_bytes(written)
    git("add", "-A", folder="first")
    git("commit", "-qm", "one", folder="first")
    git("clone", "-q", "first", "clone")
    assert {name: (tmp_path / "clone" / name).read_bytes() for name in names} == dict.fromkeys(names, cloned)


def test_every_file_of_this_repository_has_line_feeds_in_a_clone_that_converts(git, tmp_path):
    git("clone", "-q", str(ROOT), "clone")
    listed = git("ls-files", "--eol", folder="clone").splitlines()
    assert len(listed) > 200
    assert not [line for line in listed if line.split()[1] in ("w/crlf", "w/mixed")]
