"""Notes on a whole experiment, tags and files, reach its run in MLflow once."""

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bukva.core.files import write_text
from bukva.project.lock import parse_lock
from bukva.tracking.journal import NOTES, JournalWriter, journal_of, read_journals, save_note, start_sync
from bukva.tracking.store import connect
from bukva.tracking.sync import send_journals

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def wide(alone, params, monkeypatch):
    """The journal of an experiment called wide, which has finished."""
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    JournalWriter("clean", params).end("FINISHED")
    [made] = read_journals("wide")
    return made


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


@pytest.mark.slow
def test_tags_and_files_of_a_whole_experiment_are_sent_once_and_a_new_version_replaces_the_former(
    wide, database, monkeypatch
):
    store = connect()

    def shown():
        assert send_journals(store, read_journals()) == []
        [run] = [run for run in store.runs() if run.info.run_name == "wide"]
        paths = [item.path for item in store.client.list_artifacts(run.info.run_id)]
        files = [Path(store.client.download_artifacts(run.info.run_id, path)) for path in paths]
        return run.data.tags.get("verdict"), {file.name: file.read_text(encoding="utf-8") for file in files}

    assert shown() == (None, {})
    for text in ("первая", "вторая"):
        assert save_note(wide, {"verdict": text}, {"a.md": text.encode()})
        assert shown() == (text, {"a.md": text})
    monkeypatch.setattr(type(store.client), "log_artifacts", lambda *_: pytest.fail("sent again"))
    assert shown() == ("вторая", {"a.md": "вторая"})
    assert {run.data.tags.get("verdict") for run in store.runs()} == {"вторая", None}  # stages get none
