"""Notes on a whole experiment reach its run in MLflow, in a description that people edit too."""

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from bukva.base.files import write_text
from bukva.tracking import background
from bukva.tracking.description import CUT, MOST_CHARS, with_sections
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


def kept(name):
    """The notes on the experiment of this name that began last."""
    return read_notes(journals_root() / name, read_journals(name)[-1].key)


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
    assert kept(wide) == Notes({"group": "a", "rank": "2"}, {"against a": "a is better", "against b": "b is better"})


def annotate_in_another_process(number):
    return annotate("wide", {f"tag-{number}": str(number)})


def test_processes_that_make_notes_at_the_same_time_lose_none(wide):
    with ProcessPoolExecutor(2) as pool:
        assert all(pool.map(annotate_in_another_process, range(23)))
    assert kept(wide).tags == {f"tag-{number}": str(number) for number in range(23)}


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


@pytest.mark.slow
def test_what_a_person_writes_in_mlflow_stays_also_while_a_process_follows(wide, database):
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


@pytest.mark.slow
def test_notes_that_mlflow_refuses_do_not_stop_other_experiments(wide, database, params, monkeypatch):
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


OWN = "Started from commit 0123456."
A, B = {"against a": "a is better"}, {"against b": "b is better"}
NEW_A = {"against a": "a is worse"}


class Run:
    """A run with a description, which gets sections again and again."""

    def __init__(self, text):
        self.text = text
        self.received = {}

    def get(self, sections):
        self.text, self.received = with_sections(self.text, sections, self.received)
        return self.text

    def shown(self):
        """The lines that MLflow shows."""
        return [line for line in self.text.splitlines() if line and not line.startswith("<!--")]


def test_a_section_that_a_person_changed_stays_and_a_new_version_is_added_below():
    run = Run(OWN)
    run.text = run.get(A | B).replace("a is better", "a is better, says Anna")
    run.get(A | B)
    assert run.shown() == [OWN, "### against a", "a is better, says Anna", "### against b", "b is better"]
    for newer in ("a is worse", "a is much worse"):
        run.get({"against a": newer} | B)
        assert run.shown()[1:3] == ["### against a", "a is better, says Anna"]
        assert run.shown()[5:] == ["### against a", newer]


def test_a_person_who_removes_half_of_the_marks_loses_nothing():
    run = Run(OWN)
    run.text = run.get(A | B).replace("<!-- /bukva -->", "", 1)
    run.get(NEW_A | {"against b": "b is worse"})
    assert run.shown()[1::2] == ["### against a", "### against b", "### against a"]
    assert run.shown()[2::2] == ["a is better", "b is worse", "a is worse"]


def test_a_text_that_was_sent_but_not_remembered_is_not_doubled():
    for sections in (A, NEW_A):
        run = Run(OWN)
        run.get(A)
        remembered = run.received
        text = run.get(sections | B)
        run.received = remembered
        assert run.get(sections | B) == text


def test_a_description_never_becomes_too_long():
    run, words = Run(OWN), "слово " * 200
    for number in range(13):
        run.get({f"against {earlier}": f"{earlier} {words}" for earlier in range(number + 1)})
        assert len(run.text) <= MOST_CHARS
    headings = [line for line in run.shown() if line.startswith("#")]
    assert headings == [f"### against {number}" for number in (7, 8, 9, 10, 11, 12)]  # the oldest gave way
    assert run.shown()[0] == OWN
    lines = [f"| author {number:04d} | 0.1 |" for number in range(500)]
    run.get({"against a": "\n".join(lines)})
    *_, last_line, cut = run.shown()
    assert cut == CUT
    assert last_line in lines
