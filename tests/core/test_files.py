"""Files and folders are written completely or not at all, and the project root is found."""

import errno
import os
from pathlib import Path

import pytest

from bukva.core.files import atomic_file, atomic_folder, dvc_variable, project_root, resolve_path


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path):
    """Return a folder that already has content and is the only entry of its parent folder."""
    path = tmp_path / "out" / "model"
    path.mkdir(parents=True)
    (path / "config.json").write_text("old")
    return path


@pytest.fixture(params=["file", "folder"])
def target(request, folder):
    return folder if request.param == "folder" else folder / "config.json"


def atomic(target):
    return (atomic_folder if target.is_dir() else atomic_file)(target)


def fill(unfinished, content):
    (unfinished / "config.json" if unfinished.is_dir() else unfinished).write_text(content)


def test_what_is_written_replaces_the_former_content_in_one_step_when_the_block_ends(target):
    before = contents(target.parent)
    with atomic(target) as unfinished:
        assert unfinished.name == f".{target.name}.part"
        fill(unfinished, "new")
        written = unfinished.stat().st_ino
        assert {name: text for name, text in contents(target.parent).items() if name in before} == before
    assert set(contents(target.parent).values()) == {"new"}
    assert target.stat().st_ino == written  # renamed, not copied
    assert list(target.parent.iterdir()) == [target]


def test_a_block_that_raises_leaves_the_former_content(target):
    before = contents(target.parent)
    with pytest.raises(KeyboardInterrupt), atomic(target) as unfinished:
        fill(unfinished, "half")
        raise KeyboardInterrupt
    assert contents(target.parent) == before


def test_the_leftover_of_a_killed_process_is_deleted_by_the_next_one(target):
    leftover = target.with_name(f".{target.name}.part")
    if target.is_dir():
        leftover.mkdir()
        (leftover / "weights").write_text("half")
    else:
        leftover.write_text("half of a text that is longer than the next")
    with atomic(target) as unfinished:
        fill(unfinished, "next")
    assert set(contents(target.parent).values()) == {"next"}


def test_the_old_folder_is_restored_after_a_kill_between_the_two_renames(folder, monkeypatch):
    folder.rename(folder.with_name(".model.old"))  # the state after the first rename
    (folder.with_name(".model.part")).mkdir()
    (folder.with_name(".model.part") / "junk").write_text("of a killed run")
    rename = Path.rename

    def interrupted(path, target):
        if Path(target) == folder and path.name.endswith(".part"):
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_folder(folder) as unfinished:
        assert list(unfinished.iterdir()) == []
        assert contents(folder) == {"config.json": "old"}
        (unfinished / "config.json").write_text("new")
    assert contents(folder.parent) == {"model/config.json": "old"}


def test_every_file_is_flushed_before_the_rename(target, monkeypatch):
    before, flushed, fsync = target.stat().st_ino, [], os.fsync

    def watched(descriptor):
        flushed.append((os.fstat(descriptor).st_ino, target.stat().st_ino))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    with atomic(target) as unfinished:
        if unfinished.is_dir():
            (unfinished / "deep").mkdir()
        fill(unfinished / "deep" if unfinished.is_dir() else unfinished, "new")
    written = {path.stat().st_ino for path in (target, *target.rglob("*"))}
    assert {(inode, before) for inode in written} <= set(flushed)
    assert (target.parent.stat().st_ino, target.stat().st_ino) in flushed  # the folder is flushed after the rename


def test_a_disk_that_does_not_flush_keeps_the_former_content(target, monkeypatch):
    before = contents(target.parent)

    def full(_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left") as error, atomic(target) as unfinished:
        fill(unfinished, "new")
    assert error.value.filename == str(target)  # not the temporary name
    assert contents(target.parent) == before


def test_the_project_is_the_original_of_a_temporary_copy_and_not_another_one_that_runs_it(tmp_path, monkeypatch):
    def use(here, root_of_dvc):
        monkeypatch.chdir(here)
        monkeypatch.setenv("DVC_ROOT", str(root_of_dvc))
        monkeypatch.setenv("DVC_EXP_NAME", "wide")
        return project_root(), dvc_variable("DVC_EXP_NAME")

    outer = tmp_path / "outer"
    copies = [folder / ".dvc/tmp/exps" for folder in (outer, outer / "bukva")]
    for top in (outer, copies[0] / "standalone/tmp1", copies[1] / "tmp2"):
        (top / ".git").mkdir(parents=True)
        for name in (".dvc", "bukva/.dvc", "bukva/src/deep"):
            (top / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.delenv("BUKVA_ROOT", raising=False)
    for here in ("bukva", "bukva/src", "bukva/src/deep"):
        for root_of_dvc, name in (("", "wide"), (outer / "bukva", "wide"), (outer, ""), (tmp_path, "")):
            assert use(outer / here, root_of_dvc) == (outer / "bukva", name)
    assert use(copies[0] / "standalone/tmp1", outer) == (outer, "wide")
    assert use(copies[0] / "standalone/tmp1/bukva/src", outer) == (outer / "bukva", "")
    assert use(copies[1] / "tmp2/bukva/src", outer / "bukva") == (outer / "bukva", "wide")
    monkeypatch.setenv("BUKVA_ROOT", str(tmp_path))  # in a trial of a sweep, which DVC runs in a clone
    assert use(outer / "bukva", outer / "bukva") == (tmp_path, "wide")
    assert use(outer / "bukva", outer) == (tmp_path, "")


def test_a_relative_path_is_found_in_the_snapshot_first_and_else_in_the_project(tmp_path, monkeypatch):
    copy, project = tmp_path / "copy", tmp_path / "project"
    copy.mkdir()
    (project / "data").mkdir(parents=True)
    monkeypatch.setenv("BUKVA_ROOT", str(project))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(copy)
    assert resolve_path("data") == project / "data"
    assert resolve_path("no/such") == project / "no" / "such"
    (copy / "data").mkdir()
    assert resolve_path("data").resolve() == copy / "data"
    assert resolve_path("/no/such") == Path("/no/such")
    assert resolve_path(Path("~/books")) == tmp_path / "home" / "books"
