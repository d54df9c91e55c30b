"""The journal of a stage, also of one that fails or is killed."""

import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from bukva.compare.groups import stage_seconds
from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.core.params import flatten
from bukva.tracking.journal import FILE, JournalWriter, journal, journals_root, open_journal, read_journals


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
        (SystemExit(143), "KILLED", "Interrupted."),
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
    paths = [record["path"] for record in records() if record["record"] == "artifact"]
    assert paths == ["gpt", "curve.csv", "curve.csv"]


def test_a_line_is_not_read_before_it_is_complete_nor_a_journal_before_its_first(alone, params):
    log = JournalWriter("clean", params)
    start, offset = the_journal().read()
    with (the_journal().folder / FILE).open("ab") as file:
        file.write(b'{"record": "metrics", "at": 1, "step": 0, ')
        file.flush()
        assert the_journal().read(offset) == ([], offset)
        file.write('"values": {"ё": 1}}\n'.encode())
    assert len(start) == 1
    assert the_journal().read(offset)[0][0]["values"] == {"ё": 1}
    log.end("FINISHED")
    torn = journals_root() / "wide" / "clean-001"
    torn.mkdir(parents=True)
    (torn / FILE).write_text('{"record": "sta')
    assert open_journal(torn) is None
    assert len(read_journals()) == 1


def test_a_journal_that_cannot_be_written_does_not_stop_the_stage(alone, params, capsys):
    (alone / ".bukva").write_text("a file where a folder should be")
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 2.0})
        log.artifact(alone / ".bukva")
    assert capsys.readouterr().err.count("\n") == 1


def test_a_training_whose_outputs_are_only_written_again_is_finished_once(alone, params):
    """DVC was killed before it recorded the outputs, so the next execution restores the last checkpoint."""
    other = params.model_copy(update={"sample": params.sample.model_copy(update={"seed": 7})})
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

    def execute(seconds, status, **more):
        log = JournalWriter("train-gpt", params, **more)
        now[0] += seconds
        log.end(status)

    result = SimpleNamespace(flat_params=flatten(params.model_dump()))
    assert stage_seconds(result, "gpt") is None
    for seconds, status, expected in (
        (7, "KILLED", None),
        (5, "FAILED", None),
        (3, "FINISHED", 15),
        (100, "FINISHED", 100),  # dvc repro -f
        (20, "KILLED", 100),
        (30, "FINISHED", 50),
    ):
        execute(seconds, status)
        assert stage_seconds(result, "gpt") == expected
    execute(1, "FINISHED", restored=True)
    assert stage_seconds(result, "gpt") == 50


def test_the_journal_of_a_killed_process_ends_when_it_was_last_written_and_the_next_one_tidies_it(alone, params):
    killed = JournalWriter("train-gpt", params)
    killed.text("samples.txt", "whole")
    unfinished = killed.folder / "artifacts" / ".samples.txt.part"
    unfinished.write_text("torn")
    JournalWriter("sample", params).end("FINISHED")
    assert unfinished.exists()
    assert read_journals()[0].status() == ("RUNNING", None)
    killed._file.close()  # as the system does for a process that was killed
    os.utime(killed.folder / FILE, (1000, 1000))
    assert read_journals()[0].status() == ("KILLED", 1_000_000)
    JournalWriter("sample", params).end("FINISHED")
    assert not unfinished.exists()
    assert (killed.folder / "artifacts" / "samples.txt").read_text() == "whole"
