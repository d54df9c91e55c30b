"""Test that a clone has the committed bytes, even if git is configured to convert line ends."""

import subprocess

import pytest
from imports import ROOT


@pytest.fixture
def git(tmp_path):
    """Return a function that runs git with conversion of line ends, in a repository with this .gitattributes."""

    def run(*arguments, folder="first"):
        command = ["git", "-c", "core.autocrlf=true", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, cwd=tmp_path / folder, capture_output=True, text=True, check=True).stdout

    (tmp_path / "first").mkdir()
    run("init", "-q", "-b", "main")
    (tmp_path / "first" / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    return run


@pytest.mark.parametrize(
    "name",
    ["Makefile", ".ci/run", ".dvc/config", "dvc.yaml", "dvc.lock", "params.yaml", "numerics.lock", "pyproject.toml",
     "recipes/gpt.yaml", "rules/example.yaml", "src/bukva/__init__.py", "stages/split.py", "reports/split.json"],
)  # fmt: skip
def test_what_dvc_and_shells_read_has_line_feeds_in_every_clone_also_if_it_was_written_otherwise(git, tmp_path, name):
    for content in (b"a\nb\n", b"a\r\nb\r\n"):
        file = tmp_path / "first" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        git("add", "-A")
        git("commit", "--allow-empty", "-qm", "one")
        clone = f"clone{len(content)}"
        git("clone", "-q", "first", clone, folder=".")
        assert (tmp_path / clone / name).read_bytes() == b"a\nb\n"


@pytest.mark.parametrize("name", ["data/sample/a.txt", "books/a.txt", "books/a.md", "a.txt", "code/a.py"])
def test_texts_of_users_keep_their_line_ends(git, tmp_path, name):
    content = b"a\r\nb\nc\r"
    (tmp_path / "first" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "first" / name).write_bytes(content)
    git("add", "-A")
    git("commit", "--allow-empty", "-qm", "one")
    git("clone", "-q", "first", "clone", folder=".")
    assert (tmp_path / "clone" / name).read_bytes() == content


def test_every_file_of_this_repository_has_line_feeds_in_a_clone_that_converts(git, tmp_path):
    git("clone", "-q", str(ROOT), "clone", folder=".")
    listed = git("ls-files", "--eol", folder="clone").splitlines()
    assert len(listed) > 400
    assert not [line for line in listed if line.split()[1] in ("w/crlf", "w/mixed")]
