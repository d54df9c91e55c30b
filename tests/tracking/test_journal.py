"""The journal of a stage, also of one that fails, is killed or is interrupted."""

import json
import os
import signal
from pathlib import Path

import pytest

from bukva.core.errors import BukvaError
from bukva.core.files import write_text
from bukva.tracking.journal import FILE, Log, journal, journals_root, open_journal, read_journals


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


def test_a_training_without_a_filler_reports_it_and_a_silent_one_writes_nothing(alone, params, capsys):
    with journal("train-gpt", params, silent=True) as log:
        log.metrics({"chars": 5})
    assert read_journals() == []
    assert capsys.readouterr() == ("", "")
    with journal("train-gpt", params) as log:
        log.metrics({"val_nats_per_char": 2.0})
    assert "bukva sync completes it" in capsys.readouterr().err
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
    log = Log("clean", params)
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


def test_an_interrupted_journal_continues_without_repeating_a_point(alone, params):
    with pytest.raises(SystemExit), journal("train-gpt", params, training_id="train-gpt-01") as log:
        log.metrics({"n_parameters": 5})
        log.metrics({"val_nats_per_char": 3.0}, step=10)
        raise SystemExit(143)
    assert the_journal().status()[0] == "KILLED"
    with (the_journal().folder / FILE).open("ab") as file:
        file.write(b'{"record": "metrics", "st')  # as a killed process leaves it
    with journal("train-gpt", params, training_id="train-gpt-01") as log:
        log.metrics({"n_parameters": 5})
        log.metrics({"val_nats_per_char": 3.0}, step=10)
        log.metrics({"val_nats_per_char": 2.0, "chars_per_second": 7.0}, step=20)
    assert the_journal().status()[0] == "FINISHED"
    points = [(record["step"], record["values"]) for record in records() if record["record"] == "metrics"]
    assert points[:3] == [
        (0, {"n_parameters": 5.0}),
        (10, {"val_nats_per_char": 3.0}),
        (20, {"val_nats_per_char": 2.0, "chars_per_second": 7.0}),
    ]
    assert list(points[3][1]) == ["seconds"]


def test_the_seconds_of_an_interrupted_training_are_the_sum_of_its_parts(alone, params):
    interrupted(params)
    file = the_journal().folder / FILE
    start, end = map(json.loads, file.read_text().splitlines())
    hour = start | {"at": 0}, {"record": "metrics", "at": 3_600_000, "step": 1, "values": {"val": 1.0}}
    resumed = {"record": "resumed", "at": 9_000_000, "seconds": 3600.0}, end | {"at": 9_060_000}
    file.write_text("".join(f"{json.dumps(record)}\n" for record in (*hour, *resumed)))
    with journal("train-gpt", params, training_id="train-gpt-01"):
        pass
    seconds = [record["values"]["seconds"] for record in records() if "seconds" in record.get("values", {})]
    assert seconds == [pytest.approx(3660, abs=5)]


def interrupted(params, stage="train-gpt", training_id="train-gpt-01"):
    with pytest.raises(SystemExit), journal(stage, params, training_id=training_id):
        raise SystemExit(143)


def test_the_journal_of_another_training_or_of_a_running_process_is_not_continued(alone, params):
    interrupted(params, training_id="train-gpt-02")
    interrupted(params, stage="train-bigram", training_id="train-bigram-01")
    interrupted(params, training_id="")
    with journal("train-gpt", params, training_id="train-gpt-01"):
        assert len(read_journals()) == 4
        with journal("train-gpt", params, training_id="train-gpt-01", resumes=True):
            assert len(read_journals()) == 5
    with journal("train-gpt", params):
        assert len(read_journals()) == 6


def with_seed(params, seed):
    return params.model_copy(update={"sample": params.sample.model_copy(update={"seed": seed})})


def test_a_failed_training_continues_in_its_own_experiment_and_a_finished_one_from_a_checkpoint(alone, params):
    with pytest.raises(ZeroDivisionError), journal("train-gpt", params, training_id="train-gpt-01"):
        raise ZeroDivisionError
    with journal("train-gpt", with_seed(params, 7), training_id="train-gpt-01"):
        assert len(read_journals()) == 2
    with journal("train-gpt", params, training_id="train-gpt-01"):
        assert len(read_journals()) == 2
    with journal("train-gpt", params, training_id="train-gpt-02"):
        pass
    with journal("train-gpt", params, training_id="train-gpt-02", resumes=True):
        assert len(read_journals()) == 3  # DVC was killed before it recorded the outputs
    with journal("train-gpt", params, training_id="train-gpt-02"):  # dvc repro -f
        assert len(read_journals()) == 4


def test_the_journal_of_a_killed_process_ends_when_it_was_last_written(alone, params):
    killed, living = Log("train-gpt", params), Log("sample", params)
    killed.metrics({"val_nats_per_char": 3.0}, step=10)
    assert killed.folder
    assert killed._file
    killed._file.close()  # as the system does for a process that was killed
    os.utime(killed.folder / FILE, (1000, 1000))
    found = {entry.start["stage"]: entry.status() for entry in read_journals()}
    assert found == {"train-gpt": ("KILLED", 1_000_000), "sample": ("RUNNING", None)}
    living.end("FINISHED")
