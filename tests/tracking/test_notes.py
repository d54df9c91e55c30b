"""Notes on a whole experiment reach its run in MLflow, in a description that people edit too."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bukva.core.files import write_text
from bukva.tracking import background
from bukva.tracking.notes import FILE, Notes, add_section, annotate, attach, read_notes
from bukva.tracking.reading import journals_root, read_journals
from bukva.tracking.store import connect
from bukva.tracking.sync import View
from bukva.tracking.writing import Log

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

DESCRIPTION = "mlflow.note.content"


@pytest.fixture
def wide(alone, params, monkeypatch):
    """The name of a finished experiment; returns it."""
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    Log("clean", params).end("FINISHED")
    return "wide"


def sync(store):
    assert View(store).update(read_journals()) == []


def whole_run(store, name="wide"):
    (run,) = [run for run in store.runs() if run.info.run_name == name]
    return run


def test_notes_add_up_for_an_experiment_that_has_a_journal(wide):
    assert not annotate("workspace", {"group": "a"})
    assert not annotate(wide, {"group": "a"}, "0123456789abcdef")
    assert [folder.name for folder in journals_root().iterdir()] == [wide]
    for _ in range(2):
        assert annotate(wide, {"group": "a", "rank": "1"})
        assert annotate(wide, {"rank": "2"})
        assert add_section(wide, "against a", "no verdict")
        assert add_section(wide, "against b", "b is better")
    assert add_section(wide, "against a", "a is better")
    kept = read_notes(journals_root() / wide, read_journals(wide)[-1].key)
    assert kept == Notes({"group": "a", "rank": "2"}, {"against a": "a is better", "against b": "b is better"})


def annotate_in_another_process(number):
    return annotate("wide", {f"tag-{number}": str(number)})


def test_processes_that_make_notes_at_the_same_time_lose_none(wide):
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(annotate_in_another_process, range(23)))
    (journal,) = read_journals(wide)
    assert read_notes(journal.folder.parent, journal.key).tags == {f"tag-{number}": str(number) for number in range(23)}


def test_notes_that_cannot_be_kept_are_reported_and_stop_nothing(wide, capfd):
    write_text(journals_root() / wide / FILE, "{")
    assert not annotate(wide, {"group": "a"})
    assert capfd.readouterr().err.startswith("MLflow will lack a note on wide: ")
    background.start_sync([wide])  # no process can start
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_complete_run_gets_notes_below_its_description_once(wide, database):
    store = connect()
    sync(store)
    before = whole_run(store)
    annotate(wide, {"bukva.seed_group": "0011"})
    add_section(wide, "against a", "| author | bits |\n|---|---|\n| Чехов | −0.1 |")
    sync(store)
    after = whole_run(store)
    assert after.info.run_id == before.info.run_id
    assert after.data.tags["bukva.seed_group"] == "0011"
    own, _, section = after.data.tags[DESCRIPTION].partition("\n\n")
    assert own == before.data.tags[DESCRIPTION] == "Started from commit 0123456. To return to it: `dvc exp apply wide`"
    assert "### against a\n\n| author | bits |\n|---|---|\n| Чехов | −0.1 |" in section
    sync(store)
    assert whole_run(store).data.tags == after.data.tags
    assert {run.data.tags.get("bukva.seed_group") for run in store.runs()} == {"0011", None}  # stages get none


@pytest.mark.slow
def test_a_file_of_a_whole_experiment_becomes_an_artifact_and_a_new_version_replaces_it(
    wide, database, alone, monkeypatch
):
    page, key = alone / "index.html", read_journals(wide)[-1].key
    store = connect()

    def shown():
        sync(store)
        run_id = whole_run(store).info.run_id
        paths = [item.path for item in store.client.list_artifacts(run_id)]
        return [Path(store.client.download_artifacts(run_id, path)).read_text(encoding="utf-8") for path in paths]

    for text in ("первая", "вторая"):
        write_text(page, text)
        assert attach(wide, key, page)
        page.unlink()  # the copy is enough
        assert shown() == [text]
    monkeypatch.setattr(type(store.client), "log_artifact", lambda *_: pytest.fail("sent again"))
    assert shown() == ["вторая"]
    assert not attach(wide, "another key", page)
