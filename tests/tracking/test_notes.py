"""Notes on a whole experiment, tags and files, reach its run in MLflow once."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bukva.core.files import read_json, write_text
from bukva.tracking.journal import ARTIFACTS, TAGS, JournalWriter, journals_root, read_journals, save_note, start_sync
from bukva.tracking.store import connect
from bukva.tracking.sync import send_journals

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture
def wide(alone, params, monkeypatch):
    """The name of a finished experiment; returns it."""
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    JournalWriter("clean", params).end("FINISHED")
    return "wide"


def kept_tags():
    return read_json(read_journals("wide")[-1].notes / TAGS)


def test_notes_add_up_for_an_experiment_that_has_a_journal(wide):
    assert not save_note("workspace", {"group": "a"}, {})
    assert not save_note(wide, {"group": "a"}, {}, "0123456789abcdef")
    assert [folder.name for folder in journals_root().iterdir()] == [wide]
    for _ in range(2):
        assert save_note(wide, {"group": "a", "rank": "1"}, {"a.md": b"a"})
        assert save_note(wide, {"rank": "2"}, {})
    assert kept_tags() == {"group": "a", "rank": "2"}
    assert [file.name for file in (read_journals(wide)[-1].notes / ARTIFACTS).iterdir()] == ["a.md"]


def note_in_another_process(number):
    return save_note("wide", {f"tag-{number}": str(number)}, {})


def test_processes_that_make_notes_at_the_same_time_lose_none(wide):
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(note_in_another_process, range(23)))
    assert kept_tags() == {f"tag-{number}": str(number) for number in range(23)}


def test_notes_that_cannot_be_kept_are_reported_and_stop_nothing(wide, capfd):
    write_text(read_journals(wide)[-1].notes, "a file where a folder should be")
    assert not save_note(wide, {"group": "a"}, {})
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
        [run] = [run for run in store.runs() if run.info.run_name == wide]
        paths = [item.path for item in store.client.list_artifacts(run.info.run_id)]
        files = [Path(store.client.download_artifacts(run.info.run_id, path)) for path in paths]
        return run.data.tags.get("verdict"), {file.name: file.read_text(encoding="utf-8") for file in files}

    assert shown() == (None, {})
    for text in ("первая", "вторая"):
        assert save_note(wide, {"verdict": text}, {"a.md": text.encode()})
        assert shown() == (text, {"a.md": text})
    assert save_note(wide, {"verdict": "вторая"}, {"a.md": "вторая".encode()})
    monkeypatch.setattr(type(store.client), "log_artifacts", lambda *_: pytest.fail("sent again"))
    assert shown() == ("вторая", {"a.md": "вторая"})
    assert {run.data.tags.get("verdict") for run in store.runs()} == {"вторая", None}  # stages get none
