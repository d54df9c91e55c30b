"""Files and folders are complete or absent, and the project is found."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bukva.base.files import (
    atomic_file,
    atomic_folder,
    project_root,
    read_json,
    resolve,
    sha256,
    write_json,
    write_text,
)

SRC = Path(__file__).parents[2] / "src"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def file(tmp_path):
    """A file with former content, alone in its folder."""
    path = tmp_path / "out" / "scores.json"
    write_text(path, "old")
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder with former content, alone in its folder."""
    path = tmp_path / "out" / "model"
    (path / "deep").mkdir(parents=True)
    (path / "config.json").write_text("old")
    (path / "deep" / "weights").write_text("old")
    return path


OLD = {"config.json": "old", "deep/weights": "old"}


# ---- one file


def test_a_file_appears_with_the_folders_above_it(tmp_path):
    path = tmp_path / "a" / "b" / "c.txt"
    with atomic_file(path) as unfinished:
        unfinished.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(path.parent) == ["c.txt"]


def test_a_file_is_replaced_when_the_block_ends(file):
    with atomic_file(file) as unfinished:
        unfinished.write_text("new")
        written = unfinished.stat().st_ino
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert file.stat().st_ino == written  # renamed, not copied: one step
    assert names(file.parent) == ["scores.json"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_raises_leaves_the_old_file(file, error):
    with pytest.raises(error), atomic_file(file) as unfinished:
        unfinished.write_text("half")
        raise error
    assert file.read_text() == "old"
    assert names(file.parent) == ["scores.json"]


def test_a_block_that_writes_nothing_raises_and_leaves_the_old_file(file):
    with pytest.raises(FileNotFoundError), atomic_file(file):
        pass
    assert file.read_text() == "old"


def test_the_leftover_of_a_killed_run_is_overwritten(file):
    with atomic_file(file) as unfinished:
        unfinished.write_text("old")
    unfinished.write_text("a leftover, longer than the new content")
    write_text(file, "new")
    assert file.read_text() == "new"
    assert names(file.parent) == ["scores.json"]


# ---- one folder


def test_a_folder_appears_with_the_folders_above_it(tmp_path):
    path = tmp_path / "a" / "b"
    with atomic_folder(path) as unfinished:
        (unfinished / "c.txt").write_text("new")
        assert not path.exists()
    assert contents(path) == {"c.txt": "new"}
    assert names(path.parent) == ["b"]


def test_a_folder_is_replaced_as_a_whole(folder):
    with atomic_folder(folder) as unfinished:
        (unfinished / "other.json").write_text("new")
        written = unfinished.stat().st_ino
        assert contents(folder) == OLD
    assert contents(folder) == {"other.json": "new"}
    assert folder.stat().st_ino == written  # renamed, not copied
    assert names(folder.parent) == ["model"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_raises_leaves_the_old_folder(folder, error):
    with pytest.raises(error), atomic_folder(folder) as unfinished:
        (unfinished / "config.json").write_text("half")
        raise error
    assert contents(folder) == OLD
    assert names(folder.parent) == ["model"]


def test_leftovers_of_a_killed_run_are_deleted(folder):
    with atomic_folder(folder) as unfinished:
        pass
    for leftover in (unfinished, unfinished.with_suffix(".old")):
        leftover.mkdir()
        (leftover / "junk").write_text("of a killed run")
    with atomic_folder(folder) as unfinished:
        assert list(unfinished.iterdir()) == []
        assert names(folder.parent) == [unfinished.name, "model"]
        (unfinished / "config.json").write_text("new")
    assert contents(folder) == {"config.json": "new"}
    assert names(folder.parent) == ["model"]


def test_the_old_folder_is_restored_after_a_kill_between_the_two_renames(folder):
    folder.rename(folder.with_name(".model.old"))  # the state after the first rename
    with pytest.raises(ZeroDivisionError), atomic_folder(folder):
        raise ZeroDivisionError
    assert contents(folder) == OLD
    assert names(folder.parent) == ["model"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_full_disk_is_reported_with_the_final_name_and_keeps_the_old_content(kind, request):
    """In a process that may write no more than 1,000 bytes into a file."""
    target = request.getfixturevalue(kind)
    before = contents(target.parent)
    program = (
        "import resource, sys; from pathlib import Path; from bukva.stage import cli; from bukva.base.files import *\n"
        "def main():\n"
        f" target = Path({str(target)!r})\n"
        " resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        " with (atomic_folder if target.is_dir() else atomic_file)(target) as unfinished:\n"
        "  (unfinished / 'new' if target.is_dir() else unfinished).write_bytes(bytes(1001))\n"
        "cli.run(main)"
    )
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(SRC)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{target}: File too large; ")
    assert done.stderr.count("\n") == 1
    assert contents(target.parent) == before


def test_the_old_folder_is_restored_when_the_second_rename_fails(folder, monkeypatch):
    rename = Path.rename

    def interrupted(path, target):
        if Path(target) == folder and path.name.endswith(".part"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(folder) as unfinished:
        (unfinished / "config.json").write_text("new")
    assert contents(folder) == OLD
    assert names(folder.parent) == ["model"]


# ---- flushes and kills


def fill(target, content):
    """Write through atomic_file or atomic_folder, as `target` requires."""
    if target.is_dir():
        with atomic_folder(target) as unfinished:
            (unfinished / "config.json").write_text(content)
    else:
        write_text(target, content)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_content_is_flushed_to_the_disk_before_the_rename(kind, request, monkeypatch):
    target = request.getfixturevalue(kind)
    before = {path: path.stat().st_ino for path in (target, *target.rglob("*"))}

    def full(_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        fill(target, "new")
    assert {path: path.stat().st_ino for path in before} == before
    assert names(target.parent) == [target.name]


def test_every_file_of_a_folder_is_flushed(folder, monkeypatch):
    flushed, fsync = [], os.fsync

    def watched(descriptor):
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    with atomic_folder(folder) as unfinished:
        (unfinished / "deep").mkdir()
        (unfinished / "deep" / "weights").write_text("new")
    entries = [folder.parent, folder, folder / "deep", folder / "deep" / "weights"]
    assert set(flushed) == {entry.stat().st_ino for entry in entries}


KILLED = """
import sys
from pathlib import Path
from bukva.base.files import atomic_file, atomic_folder
target = Path(sys.argv[1])
with (atomic_folder if target.is_dir() else atomic_file)(target) as unfinished:
    file = unfinished / "config.json" if unfinished.is_dir() else unfinished
    file.write_text("half of the new one, longer than the next")
    print("writing", flush=True)
    sys.stdin.read()  # until the kill
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_process_leaves_the_old_content_and_the_next_one_deletes_the_leftover(kind, request):
    target = request.getfixturevalue(kind)
    before = contents(target.parent)
    command = [sys.executable, "-c", KILLED, str(target)]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(SRC)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "writing\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    after = contents(target.parent)
    assert {name: after[name] for name in before} == before
    assert names(target.parent) != [target.name]  # the leftover does not have the final name
    fill(target, "new")
    assert names(target.parent) == [target.name]
    assert set(contents(target.parent).values()) == {"new"}


# ---- content


def test_text_keeps_its_line_ends(tmp_path):
    write_text(tmp_path / "a.txt", "Ёж\r\nё\rж\n")
    assert (tmp_path / "a.txt").read_bytes() == "Ёж\r\nё\rж\n".encode()


def test_json_is_readable_and_easy_to_diff(tmp_path):
    write_json(tmp_path / "a.json", {"я": ["Ёж", 1], "а": 0.5})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == ('{\n  "я": [\n    "Ёж",\n    1\n  ],\n  "а": 0.5\n}\n')


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=30)
@given(value=values)
def test_json_survives_a_round_trip(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "value.json"
    write_json(path, value)
    assert read_json(path) == value


def test_a_digest_is_the_one_that_sha256sum_prints(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


# ---- the folder of the project


def test_dvc_root_names_the_project(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / "copy" / ".dvc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "copy")
    assert project_root() == tmp_path.resolve()


@pytest.mark.parametrize("here", [".", "src", "src/deep"])
@pytest.mark.parametrize("unset", [True, False])
def test_without_dvc_root_the_project_is_the_nearest_folder_above_with_dvc(tmp_path, monkeypatch, here, unset):
    if unset:
        monkeypatch.delenv("DVC_ROOT", raising=False)
    else:
        monkeypatch.setenv("DVC_ROOT", "")
    project = tmp_path / "outer" / "project"
    (project / ".dvc").mkdir(parents=True)
    (tmp_path / ".dvc").mkdir()
    (project / "src" / "deep").mkdir(parents=True)
    (project / "src" / ".dvc").write_text("no folder")
    monkeypatch.chdir(project / here)
    assert project_root() == project.resolve()


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """A copy that DVC runs in, which is the current folder, and its project; returns both."""
    copy, project = tmp_path / "copy", tmp_path / "project"
    copy.mkdir()
    (project / "data").mkdir(parents=True)
    monkeypatch.setenv("DVC_ROOT", str(project))
    monkeypatch.chdir(copy)
    return copy, project


def test_a_relative_path_is_found_in_the_project(snapshot):
    _, project = snapshot
    assert resolve("data") == project / "data"
    assert resolve("no/such") == project / "no" / "such"


def test_a_relative_path_is_found_in_the_snapshot_first(snapshot):
    copy, _ = snapshot
    (copy / "data").mkdir()
    assert resolve("data").resolve() == copy / "data"


def test_an_absolute_path_and_one_below_home_are_unchanged(snapshot, monkeypatch):
    copy, _ = snapshot
    monkeypatch.setenv("HOME", str(copy / "home"))
    assert resolve("/no/such") == Path("/no/such")
    assert resolve(Path("~/books")) == copy / "home" / "books"
