"""Notes on a whole experiment reach its run in MLflow."""

import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bukva.base.files import write_text
from bukva.config.schema import Params
from bukva.tracking import background
from bukva.tracking.notes import FILE, MOST_SECTIONS, Notes, add_section, annotate, attach, read_notes
from bukva.tracking.reading import journals_root, read_journals
from bukva.tracking.store import Store, connect
from bukva.tracking.sync import View
from bukva.tracking.writing import Log

if TYPE_CHECKING:
    from mlflow.entities import Run

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

DESCRIPTION = "mlflow.note.content"


def with_seed(params: Params, seed: int) -> Params:
    return params.model_copy(update={"sample": params.sample.model_copy(update={"seed": seed})})


@pytest.fixture
def wide(alone: Path, params: Params, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a finished experiment; returns it."""
    monkeypatch.setenv("DVC_EXP_NAME", "wide")
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789abcdef")
    Log("clean", params).end("FINISHED")
    return "wide"


def kept(name: str) -> Notes:
    """The notes on the experiment of this name that began last."""
    return read_notes(journals_root() / name, read_journals(name)[-1].key)


def sync(store: Store) -> None:
    assert View(store).update(read_journals()) == []


def whole_run(store: Store, name: str = "wide") -> "Run":
    (run,) = [run for run in store.runs() if run.info.run_name == name]
    return run


def test_an_experiment_without_a_journal_gets_no_notes(wide: str) -> None:
    assert not annotate("workspace", {"group": "a"})
    assert not annotate("feature/x", {"group": "a"})
    assert not add_section("workspace", "against a", "no verdict")
    assert not annotate(wide, {"group": "a"}, "0123456789abcdef")
    assert [folder.name for folder in journals_root().iterdir()] == [wide]


def test_notes_add_up_and_equal_ones_write_nothing(wide: str) -> None:
    for _ in range(2):
        assert annotate(wide, {"group": "a", "rank": "1"})
        assert annotate(wide, {"rank": "2"})
        assert add_section(wide, "against a", "no verdict")
        assert add_section(wide, "against b", "b is better")
    assert add_section(wide, "against a", "a is better")
    assert kept(wide) == Notes({"group": "a", "rank": "2"}, {"against a": "a is better", "against b": "b is better"})
    assert list(kept(wide).sections) == ["against a", "against b"]
    file = (journals_root() / wide / FILE).stat()
    assert add_section(wide, "against a", "a is better")
    assert (journals_root() / wide / FILE).stat() == file


def test_only_so_many_sections_are_kept(wide: str) -> None:
    for number in range(MOST_SECTIONS + 3):
        add_section(wide, f"against {number}", "no verdict")
    assert list(kept(wide).sections) == [f"against {number}" for number in range(3, MOST_SECTIONS + 3)]


def annotate_in_another_process(number: int) -> bool:
    return annotate("wide", {f"tag-{number}": str(number)})


def test_processes_that_make_notes_at_the_same_time_lose_none(wide: str) -> None:
    with ProcessPoolExecutor(3) as pool:
        assert all(pool.map(annotate_in_another_process, range(23)))
    assert kept(wide).tags == {f"tag-{number}": str(number) for number in range(23)}


def test_notes_are_about_the_experiment_that_began_last_or_about_that_of_a_key(wide: str, params: Params) -> None:
    (first,) = {journal.key for journal in read_journals(wide)}
    Log("clean", with_seed(params, 7)).end("FINISHED")
    annotate(wide, {"group": "second"})
    annotate(wide, {"group": "first"}, first)
    assert kept(wide).tags == {"group": "second"}
    assert read_notes(journals_root() / wide, first).tags == {"group": "first"}


@pytest.mark.parametrize("trouble", ["a folder", "{", '{"KEY": {}}'])
def test_notes_that_cannot_be_kept_are_reported_and_stop_nothing(
    wide: str, trouble: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = journals_root() / wide / FILE
    if trouble == "a folder":
        file.mkdir()
    else:
        write_text(file, trouble.replace("KEY", read_journals(wide)[-1].key))
    assert not annotate(wide, {"group": "a"})
    assert capsys.readouterr().err.startswith("MLflow will lack a note on wide: ")


def test_making_a_note_imports_nothing_slow(project: Path) -> None:
    program = (
        "import sys; from bukva.tracking import background, notes;"
        "print({'mlflow', 'pydantic', 'typer', 'sqlalchemy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def test_a_process_that_cannot_start_stops_nothing(wide: str, capfd: pytest.CaptureFixture[str]) -> None:
    background.start_sync([wide])
    assert capfd.readouterr() == ("", "")


def test_a_complete_run_gets_notes_below_its_description_once(wide: str, database: Path) -> None:
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


def test_another_store_gets_the_notes_too(
    wide: str, database: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(wide, {"bukva.seed_group": "0011"})
    for markdown in ("no verdict", "a is better"):
        add_section(wide, "against a", markdown)
        sync(connect())
    first = whole_run(connect()).data.tags
    shutil.copy(empty_database, database.parent / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///other.db")
    sync(connect())
    assert whole_run(connect()).data.tags == first
    assert "a is better" in first[DESCRIPTION]
    assert "no verdict" not in first[DESCRIPTION]


def test_a_file_of_a_whole_experiment_becomes_an_artifact_and_a_new_version_replaces_it(
    wide: str, database: Path, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, key = alone / "index.html", read_journals(wide)[-1].key
    store = connect()

    def shown() -> list[str]:
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


def test_what_a_person_writes_in_mlflow_stays_also_while_a_process_follows(wide: str, database: Path) -> None:
    store = connect()
    view = View(store)
    add_section(wide, "against a", "no verdict")
    view.update(read_journals())
    run = whole_run(store)
    store.client.set_tag(run.info.run_id, DESCRIPTION, f"Mine.\n\n{run.data.tags[DESCRIPTION]}\n\nMine too.")
    store.client.set_tag(run.info.run_id, "mine", "yes")
    add_section(wide, "against a", "a is better")
    view.update(read_journals())
    tags = whole_run(store).data.tags
    expected = f"Mine.\n\n{run.data.tags[DESCRIPTION]}\n\nMine too.".replace("no verdict", "a is better")
    assert (tags[DESCRIPTION], tags["mine"]) == (expected, "yes")


def test_a_description_as_long_as_possible_is_not_cut_by_mlflow(wide: str, database: Path) -> None:
    for number in range(5):
        add_section(wide, f"against {number}", f"{number} слово\n" * 300)
    store = connect()
    sync(store)
    text = whole_run(store).data.tags[DESCRIPTION]
    assert 5000 < len(text) <= 8000
    assert text.endswith("<!-- /bukva -->")


def test_an_experiment_that_was_deleted_in_mlflow_gets_no_notes(wide: str, database: Path) -> None:
    store = connect()
    view = View(store)
    view.update(read_journals())
    store.client.delete_run(whole_run(store).info.run_id)
    annotate(wide, {"bukva.seed_group": "0011"})
    assert view.update(read_journals()) == []  # learns here that it was deleted
    sync(store)
    assert "bukva.seed_group" not in whole_run(store).data.tags


def test_notes_that_mlflow_refuses_do_not_stop_other_experiments(
    wide: str, database: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(wide, {"no such name!": "1"})
    monkeypatch.setenv("DVC_EXP_NAME", "broken")
    Log("clean", params).end("FINISHED")
    write_text(journals_root() / "broken" / FILE, "{")
    monkeypatch.setenv("DVC_EXP_NAME", "good")
    Log("clean", params).end("FINISHED")
    annotate("good", {"bukva.seed_group": "0011"})
    store = connect()
    broken, wrong = sorted(View(store).update(read_journals()))
    assert broken.startswith(f"{journals_root() / 'broken'}: JSONDecodeError")
    assert wrong.startswith(f"{journals_root() / wide}: ")
    assert "no such name!" in wrong
    assert whole_run(store, "good").data.tags["bukva.seed_group"] == "0011"
