"""The journal of a stage, also of one that fails or is killed, and the notes that are added to it later."""

import json
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from tracking.test_experiment import changed

from bukva.compare.groups import stage_seconds, trainings_of
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.params import flatten
from bukva.project.lock import parse_lock, parse_yaml
from bukva.tracking.journal import (
    FILE,
    NOTES,
    JournalWriter,
    journal,
    journal_of,
    journals_root,
    open_journal,
    read_journals,
    save_note,
    start_sync,
)


def the_journal():
    (only,) = read_journals()
    return only


def records():
    return the_journal().read()[0]


def test_a_stage_that_ends_well_has_a_complete_journal_in_the_original_repository(alone, params, tmp_path, monkeypatch):
    (tmp_path / "snapshot/.dvc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "snapshot")
    with journal("clean", params) as log:
        log.metrics({"chars": 5}, step=3)
    start, metrics, seconds, end = records()
    assert the_journal().folder.is_relative_to(alone)
    assert (start["stage"], start["experiment"]) == ("clean", "repro-uncommitted")
    assert start["params"]["model.n_head"] == params.model.n_head
    assert (metrics["step"], metrics["values"]) == (3, {"chars": 5.0})
    assert list(seconds["values"]) == ["seconds"]
    assert (end["record"], end["status"], end["note"]) == ("end", "FINISHED", "")
    assert the_journal().status() == ("FINISHED", end["at"])


def test_a_training_without_a_sender_reports_it_and_a_silent_one_writes_nothing(alone, params, capsys):
    with journal("train-gpt", params, silent=True) as log:
        log.metrics({"chars": 5})
    assert read_journals() == []
    assert capsys.readouterr() == ("", "")
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 2.0})
    assert "Run `bukva sync` to send them" in capsys.readouterr().err
    assert the_journal().status()[0] == "FINISHED"


@pytest.mark.parametrize(
    ("error", "status", "note"),
    [
        (BukvaError("book.txt: byte 7 is not UTF-8."), "FAILED", "book.txt: byte 7 is not UTF-8."),
        (ZeroDivisionError("by zero"), "FAILED", "ZeroDivisionError: by zero"),
        (KeyboardInterrupt(), "KILLED", "Interrupted."),
        (SystemExit(0), "FINISHED", ""),
    ],
)
def test_the_journal_says_how_a_stage_ended_and_the_error_is_raised_again(alone, params, error, status, note):
    with pytest.raises(type(error)), journal("clean", params):
        raise error
    assert (records()[-1]["status"], records()[-1]["note"]) == (status, note)


def test_sigterm_lets_a_stage_save_what_it_has(alone, params):
    saved = []
    with pytest.raises(SystemExit, match="143"), journal("train-gpt", params):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            saved.append("checkpoint")
    assert saved
    assert the_journal().status()[0] == "KILLED"


def test_artifacts_are_links_that_stay_when_the_files_are_replaced_and_the_later_of_one_name_is_kept(alone, params):
    weights, curve = alone / "data/models/gpt/weights", alone / "reports/curve.csv"
    write_text(weights, "old")
    with journal("sample", params) as log:
        log.artifact(alone / "data/models/gpt")
        kept = the_journal().folder / "artifacts"
        assert (kept / "gpt/weights").samefile(weights)
        for text in ("first", "second"):
            write_text(curve, text)
            log.artifact(Path("reports/curve.csv"))
    write_text(weights, "new")
    curve.unlink()
    assert (kept / "gpt/weights").read_text() == "old"
    assert (kept / "curve.csv").read_text() == "second"
    assert [event["path"] for event in records() if event["record"] == "artifact"] == ["gpt", "curve.csv", "curve.csv"]


def test_a_line_is_not_read_before_it_is_complete_nor_a_journal_before_its_first(alone, params):
    log = JournalWriter("clean", params)
    log.text("ё.txt", "ё")
    assert (the_journal().folder / "artifacts/ё.txt").read_text() == "ё"
    (_, text), offset = the_journal().read()
    assert (text["record"], text["path"]) == ("artifact", "ё.txt")
    with (the_journal().folder / FILE).open("ab", buffering=0) as file:
        file.write(b'{"record": "metrics", "at": 1, "step": 0, ')
        assert the_journal().read(offset) == ([], offset)
        file.write('"values": {"ё": 1}}\n'.encode())
    assert the_journal().read(offset)[0][0]["values"] == {"ё": 1}
    log.end("FINISHED")
    write_text(journals_root() / "wide/clean-001" / FILE, '{"record": "sta')
    assert open_journal(journals_root() / "wide/clean-001") is None
    assert len(read_journals()) == 1


def test_a_journal_that_cannot_be_written_does_not_stop_the_stage(alone, params, capsys):
    (alone / ".bukva").write_text("a file where a folder should be")
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 2.0})
        log.artifact(alone / ".bukva")
    assert capsys.readouterr().err.count("\n") == 1


def test_a_killed_process_ended_at_the_last_event_of_its_own_whatever_was_noted_later(alone, params):
    killed = JournalWriter("train-gpt", params)
    assert the_journal().status() == ("RUNNING", None)
    killed.metrics({"val_nats_per_char": 3.0})
    killed._file.write(b'{"record": "metr')
    killed._file.close()  # as the system does for a process that was killed
    last = records()[-1]["at"]
    time.sleep(0.002)
    assert save_note(the_journal(), {"verdict": "better"}, {})
    assert records()[-1]["at"] > last
    assert the_journal().status() == ("KILLED", last)


def test_a_training_whose_outputs_are_only_written_again_is_finished_once(alone, params):
    """DVC was killed before it recorded the outputs, so the next execution restores the last checkpoint."""
    other = changed(params, "sample", seed=7)
    for stage, parameters, restored in (
        ("train-bigram", params, False), ("train-gpt", other, False), ("train-gpt", params, True),
        ("train-gpt", params, False),
    ):  # fmt: skip
        JournalWriter(stage, parameters, restored=restored).end("FINISHED")
    before = read_journals()[-1].status()
    with journal("train-gpt", params) as log:
        log.replace_finished()
    *others, first, second = read_journals()
    assert {each.status()[0] for each in (*others, second)} == {"FINISHED"}
    assert first.status() == ("KILLED", before[1])
    assert first.read()[0][-1]["note"].startswith("DVC ended before it recorded the outputs")


def test_the_time_of_a_training_includes_its_executions_that_were_interrupted(alone, params, monkeypatch):
    now = [0]
    monkeypatch.setattr("bukva.tracking.journal.time.time_ns", lambda: now[0] * 10**9)
    params = changed(params, "download", url="https://host/a.txt?key=1")  # journals have no query
    result = SimpleNamespace(flat_params=flatten(parse_yaml(json.dumps(params.model_dump()))))
    assert stage_seconds(result, "gpt", trainings_of("gpt")) is None
    for seconds, status, restored, expected in (
        (7, "KILLED", False, None),
        (5, "FAILED", False, None),
        (3, "FINISHED", False, 15),
        (100, "FINISHED", False, 100),  # dvc repro -f
        (20, "KILLED", False, 100),
        (30, "FINISHED", False, 50),
        (1, "FINISHED", True, 50),
    ):
        log = JournalWriter("train-gpt", params, restored=restored)
        now[0] += seconds
        log.end(status)
        assert stage_seconds(result, "gpt", trainings_of("gpt")) == expected


# ---- notes


@pytest.fixture
def wide(alone, params, monkeypatch):
    """The journal of an experiment called wide, which has finished."""
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    JournalWriter("clean", params).end("FINISHED")
    return the_journal()


def lock(digest):
    return json.dumps({"schema": "2.0", "stages": {"clean": {"outs": [{"path": "data/clean", "md5": digest}]}}})


def test_a_journal_is_found_by_what_its_experiment_made_and_otherwise_by_the_name(wide, params, monkeypatch):
    made, unknown = parse_lock(lock("abc")), parse_lock(lock("def"))
    assert [journal_of(made, name) for name in ("wide", "renamed", "")] == [wide, None, None]
    assert save_note(wide, {}, {"dvc.lock": lock("abc").encode()})
    assert [journal_of(made, name) for name in ("wide", "renamed", "")] == [wide] * 3
    assert [journal_of(unknown, name) for name in ("wide", "renamed")] == [wide, None]
    monkeypatch.setenv("DVC_EXP_NAME", "renamed")  # a later experiment, which made something else
    JournalWriter("clean", params).end("FINISHED")
    assert journal_of(made, "renamed") == wide


def note_in_another_process(made, number):
    return save_note(made, {f"tag-{number}": str(number)}, {})


def test_processes_that_make_notes_at_the_same_time_lose_none_and_the_stage_stays_finished(wide):
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(note_in_another_process, [wide] * 23, range(23)))
    tags = [event["tags"] for event in wide.read()[0] if event["record"] == "note"]
    assert {name for each in tags for name in each} == {f"tag-{number}" for number in range(23)}
    assert wide.status()[0] == "FINISHED"


def test_notes_that_cannot_be_kept_are_reported_and_stop_nothing(wide, capfd):
    write_text(wide.folder / NOTES, "a file where a folder should be")
    assert not save_note(wide, {"group": "a"}, {"a.md": b"a"})
    assert capfd.readouterr().err.startswith("Tags and files of wide were not saved and will be missing in MLflow (")
    start_sync()  # no process can start
    assert capfd.readouterr() == ("", "")
