"""The record of a stage, also of one that fails or is killed, and the notes that are added to it later."""

import hashlib
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tracking.runs import finish, stage
from tracking.test_experiment import changed

from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.project.cache import digests
from bukva.project.curves import read_curve
from bukva.project.lock import StageRecord
from bukva.tracking.record import (
    CURVE,
    FILE,
    NOTES,
    Recorder,
    code_archive,
    dvc_digest,
    open_run,
    read_runs,
    recorded,
    run_of,
    runs_root,
    save_note,
    seconds_of_models,
    start_sync,
)

POINT = {"step": 1, "val_nats_per_char": 2.0}


def the_run():
    (only,) = read_runs()
    return only


def end():
    return the_run().state()[0]


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def test_a_stage_that_ends_well_has_a_record_in_the_original_repository(alone, params, tmp_path, monkeypatch):
    (tmp_path / "snapshot/.dvc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "snapshot")
    write_text(Path("reports/cleaning.json"), "{}")
    with recorded("clean", params):
        assert end() == {"status": "RUNNING", "why": "", "at": None, "seconds": None, "outs": {}}
    run, ended = the_run(), end()
    assert run.folder.is_relative_to(alone)
    assert (run.stage, run.kind, run.experiment, run.restored) == ("clean", "data", "repro-uncommitted", False)
    assert run.params["model.n_head"] == params.model.n_head
    expected = {"status": "FINISHED", "why": "", "outs": {"reports/cleaning.json": md5("{}")}}
    assert ended.items() >= expected.items()
    assert 0 <= ended["seconds"] <= (ended["at"] - run.at + 2) / 1000


def test_outputs_have_the_digests_that_dvc_gives_them(alone):
    for name in ("ё", "a-b/c", "a/c", "a/b/c", ".hidden"):
        write_text(Path("folder", name), name)
    names = ["folder", "folder/ё"]
    assert {name: dvc_digest(Path(name)) for name in names} == digests(names)


def test_the_record_of_a_training_has_its_curve_and_the_code_once(alone, params):
    for number in (1, 2):
        with recorded("train-gpt", params, n_parameters=7) as recorder:
            recorder.curve([POINT | {"val_nats_per_char": 3.0, "train_nats_per_char": None}])
            recorder.curve([POINT, {"step": 2, "val_nats_per_char": 2.5, "train_nats_per_char": 1.5}])
        run = read_runs()[-1]
        points = read_curve((run.folder / CURVE).read_text())
        assert points == [
            POINT | {"best_val_nats_per_char": 2.0},
            {"step": 2, "val_nats_per_char": 2.5, "train_nats_per_char": 1.5, "best_val_nats_per_char": 2.0},
        ]
        assert run.n_parameters == 7
        assert [*code_archive("a").parent.iterdir()] == [code_archive(run.code)]
        assert len(read_runs()) == number


def test_a_training_without_a_sender_reports_it_and_a_silent_one_writes_nothing(alone, params, capsys):
    with recorded("train-gpt", params, silent=True) as recorder:
        recorder.curve([POINT])
    assert read_runs() == []
    assert capsys.readouterr() == ("", "")
    with recorded("train-gpt", params) as recorder:
        recorder.curve([POINT])
    assert "Run `bukva sync` to send them" in capsys.readouterr().err
    assert end()["status"] == "FINISHED"


def wrapped():
    """An error of a library, and its cause."""
    error = RuntimeError("call failed: refused, call ...\nTraceback")
    error.__context__ = ConnectionRefusedError("[Errno 111] https://me:secret@host refuses\nnobody there")
    return error


@pytest.mark.parametrize(
    ("error", "status", "why"),
    [
        (BukvaError("book.txt: byte 7 is not UTF-8."), "FAILED", "book.txt: byte 7 is not UTF-8."),
        (ZeroDivisionError("by zero"), "FAILED", "ZeroDivisionError: by zero"),
        (wrapped(), "FAILED", "ConnectionRefusedError: [Errno 111] https://***@host refuses"),
        (ValueError("page " * 1000), "FAILED", f"ValueError: {'page ' * 1000}"[:1000]),
        (KeyboardInterrupt(), "KILLED", "Interrupted."),
        (SystemExit(0), "FINISHED", ""),
    ],
    ids=["expected", "bug", "of a library", "long", "Ctrl-C", "exit"],
)
def test_the_record_says_how_a_stage_ended_and_the_error_is_raised_again(alone, params, error, status, why):
    write_text(Path("reports/cleaning.json"), "{}")
    with pytest.raises(type(error)), recorded("clean", params):
        raise error
    assert (end()["status"], end()["why"], bool(end()["outs"])) == (status, why, status == "FINISHED")


def test_sigterm_lets_a_stage_save_what_it_has(alone, params):
    saved = []
    with pytest.raises(SystemExit, match="143"), recorded("train-gpt", params):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            saved.append("checkpoint")
    assert saved
    assert end()["status"] == "KILLED"


def test_incomplete_lines_and_records_of_other_versions_are_no_runs(alone, params):
    finish("clean", params)
    with (the_run().folder / FILE).open("ab") as file:
        file.write('{"event": "note", "tags": {"ё'.encode())
    assert the_run().state()[1] == []
    for name, start in (("torn", '{"event": "start", "id'), ("old", '{"event": "start", "id": "a"}\n')):
        write_text(runs_root() / "wide" / f"clean-{name}" / FILE, start)
        assert open_run(runs_root() / "wide" / f"clean-{name}") is None
    assert len(read_runs()) == 1


def test_a_record_that_cannot_be_written_does_not_stop_the_stage(alone, params, capsys):
    (alone / ".bukva").write_text("a file where a folder should be")
    with recorded("train-gpt", params) as recorder:
        recorder.curve([POINT])
        recorder.text("samples.txt", "")
    assert capsys.readouterr().err.count("\n") == 1


def test_a_killed_process_ended_with_the_last_point_of_its_curve_whatever_was_noted_later(alone, params):
    killed = Recorder("train-gpt", params)
    killed.curve([POINT])
    assert end()["status"] == "RUNNING"
    killed._file.close()  # as the system does for a process that was killed
    last = int((the_run().folder / CURVE).stat().st_mtime * 1000)
    time.sleep(0.002)
    assert save_note(the_run(), {"verdict": "better"}, {})
    assert end() == {"status": "KILLED", "why": "", "at": max(last, the_run().at), "seconds": None, "outs": {}}
    assert [note["tags"] for note in the_run().state()[1]] == [{"verdict": "better"}]


def test_the_time_of_a_training_includes_the_time_before_its_interruptions(alone, params, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bukva.tracking.record.time.monotonic", lambda: now[0])
    assert seconds_of_models("gpt") == {}
    weights = Path("data/models/gpt/best.safetensors")
    for seconds, before, status, restored, expected in (
        (7, 0, "KILLED", False, {}),
        (3, 5, "FINISHED", False, {"one": 8}),  # resumed from a checkpoint after 5 seconds
        (20, 0, "FAILED", False, {"one": 8}),
        (1, 0, "FINISHED", True, {"one": 8}),
        (100, 0, "FINISHED", False, {"one": 100}),  # dvc repro -f
    ):
        write_text(weights, "one")
        with stage("train-gpt", params, status, restored=restored) as recorder:
            recorder.seconds_before = before
            now[0] += seconds
        assert seconds_of_models("gpt") == {dvc_digest(weights.parent): value for value in expected.values()}
    with stage("train-gpt", changed(params, "download", url="https://host/a.txt?key=1")):
        write_text(weights, "two")
        now[0] += 11
    assert sorted(seconds_of_models("gpt").values()) == [11, 100]


# ---- notes


@pytest.fixture
def wide(alone, params, monkeypatch):
    """The run of an experiment called wide, which has finished."""
    return finish_clean(params, monkeypatch, "wide", "wide")


def finish_clean(params, monkeypatch, name, text):
    monkeypatch.setenv("DVC_EXP_NAME", name)
    write_text(Path("reports/cleaning.json"), text)
    finish("clean", params)
    return read_runs()[-1]


def test_a_run_is_found_by_what_it_made_and_otherwise_by_the_name(wide, params, monkeypatch):
    def found(text, name):
        outs = {"data/clean": "abc", "reports/cleaning.json": md5(text)}
        return run_of({"clean": StageRecord({}, {}, outs)}, name)

    assert [found("wide", name) for name in ("wide", "renamed", "")] == [wide] * 3
    assert [found("unknown", name) for name in ("wide", "renamed")] == [wide, None]
    finish_clean(params, monkeypatch, "renamed", "other")  # a later experiment
    assert found("wide", "renamed") == wide
    again = finish_clean(params, monkeypatch, "again", "wide")
    assert [found("wide", name) for name in ("wide", "again", "")] == [wide, again, again]


def note_in_another_process(made, number):
    return save_note(made, {f"tag-{number}": str(number)}, {})


def test_processes_that_make_notes_at_the_same_time_lose_none_and_the_stage_stays_finished(wide):
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(note_in_another_process, [wide] * 23, range(23)))
    end, notes = wide.state()
    assert {name for note in notes for name in note["tags"]} == {f"tag-{number}" for number in range(23)}
    assert end["status"] == "FINISHED"


def test_notes_that_cannot_be_kept_are_reported_and_stop_nothing(wide, capfd):
    write_text(wide.folder / NOTES, "a file where a folder should be")
    assert not save_note(wide, {"group": "a"}, {"a.md": b"a"})
    assert capfd.readouterr().err.startswith("Tags and files of wide were not saved and will be missing in MLflow (")
    start_sync()  # no process can start
    assert capfd.readouterr() == ("", "")
