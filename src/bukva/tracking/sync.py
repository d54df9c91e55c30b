"""Fills an MLflow store from journals.

Filling twice adds nothing: runs are found by their tags, MLflow ignores a point that has the same name, step, time and
value as another, and an artifact replaces the one of its name. A tag of each run says how many bytes of its journal the
store has, so a journal that is complete there is not even read.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bukva.core.errors import BukvaError
from bukva.core.redact import redact_url
from bukva.tracking import entries
from bukva.tracking.address import errors_in_one_line, explain, tracking_uri
from bukva.tracking.charts import write_view
from bukva.tracking.losing import check_not_taken
from bukva.tracking.models.logged import Models
from bukva.tracking.models.scores import Evaluation, evaluation, model_scores
from bukva.tracking.notes import Notes, files_folder, read_notes
from bukva.tracking.reading import Journal, read_journals
from bukva.tracking.records import Record
from bukva.tracking.store import Store, connect, lock, only_once, with_second_look

if TYPE_CHECKING:
    from mlflow.entities import Run


def open_store() -> Store:
    """The store; if its database replaces one of another folder, with all journals in it."""
    store = connect()
    if store.to_fill:
        View(store).update(read_journals())
        store.mark_filled()
    return store


def sync_with_journals(experiments: Iterable[str] = ("*",)) -> str:
    """Bring MLflow up to date with the journals and notes of these experiments; the sentence says what it has.

    Raises:
        BukvaError: something is missing there, and why; without passwords.
    """
    journals = [journal for name in experiments for journal in read_journals(name)]
    with errors_in_one_line():
        troubles = View(open_store()).update(journals)
    if troubles:
        raise BukvaError("\n".join(troubles))
    return f"{redact_url(tracking_uri())} has all {len(journals)} stage executions."


@dataclass
class Shown:
    """A run as the store has it: of a whole experiment, or of one stage execution."""

    run_id: str
    key: str  # of its experiment
    journal: str  # empty for a whole experiment
    kind: str
    status: str
    ended_at: int | None
    deleted: bool
    synced: int  # bytes of the journal
    tags: dict[str, str]

    @classmethod
    def of(cls, run: "Run") -> "Shown":
        """Take it from an MLflow run."""
        tags, info = run.data.tags, run.info
        return cls(
            run_id=info.run_id,
            key=tags["bukva.key"],
            journal=tags.get("bukva.journal", ""),
            kind=tags.get("bukva.kind", ""),
            status=info.status,
            ended_at=info.end_time if info.status != "RUNNING" else None,  # MLflow keeps a former end
            deleted=info.lifecycle_stage == "deleted",
            synced=entries.synced_bytes(tags),
            tags=dict(tags),
        )


class View:
    """What one store shows of the journals. It remembers what the store has, and so sends few queries."""

    def __init__(self, store: Store) -> None:
        self._store, self._client = store, store.client
        self._models = Models(store.client, store.experiment_id)
        self._shown: dict[str, Shown] = {}  # by journal, or by the experiment's key
        self._remember(store.runs())

    def update(self, journals: list[Journal]) -> list[str]:
        """Bring the store up to date; return a sentence for each journal, or notes, that could not be shown."""
        news = list(filter(self._is_news, journals))
        troubles = [_trouble_with(journal.folder, partial(self._push, journal)) for journal in news]
        for folder, key in {(journal.folder.parent, journal.key) for journal in journals}:
            self._end_experiment(key)
            troubles.append(_trouble_with(folder, partial(self._annotate, folder, key)))
        if any(journal.start["kind"] == "training" and journal.status()[0] != "RUNNING" for journal in news):
            write_view(self._store)  # its charts show where trainings end
        return list(filter(None, troubles))

    def _is_news(self, journal: Journal) -> bool:
        if journal.id not in self._shown:
            return not self._is_deleted(journal.key)
        run = self._shown[journal.id]
        if run.deleted or self._is_deleted(journal.key):
            return False
        return run.synced < journal.size or run.status != journal.status()[0]

    def _is_deleted(self, identity: str) -> bool:
        """Whether somebody deleted the run in MLflow; then it is not created again."""
        return identity in self._shown and self._shown[identity].deleted

    def _push(self, journal: Journal) -> None:
        status, ended_at = journal.status()  # before reading: behind an end there is nothing more to read
        whole, run = self._runs_of(journal)
        check_not_taken(self._store, run.run_id)
        records, offset = journal.read(run.synced)
        found = evaluation(journal, records)
        scores = entries.scores(found)
        with lock():  # MLflow first looks what is missing and then inserts it: two processes at once would collide
            self._client.log_batch(whole.run_id, scores, entries.all_params(records))
            self._client.log_batch(run.run_id, entries.points(records) + scores, entries.own_params(records))
            if datasets := entries.inputs(records):
                for each in (whole, run):
                    with_second_look(partial(self._client.log_inputs, each.run_id, datasets))
        for path in entries.artifacts(records):
            self._upload(run, journal.folder / "artifacts", Path(path))
        self._show_models(journal, records, found, run)
        # last: a process that is stopped before this sends everything again, with the same result
        self._client.log_batch(run.run_id, tags=entries.texts(journal.start, records, offset))
        run.synced = offset
        self._set_status(run, status, ended_at)

    def _show_models(self, journal: Journal, records: list[Record], found: Evaluation | None, run: Shown) -> None:
        with lock():  # each step looks for what the store has, and then creates it
            for record in entries.models(records):
                self._models.log(journal, record, run.run_id)
            for name, scored in model_scores(journal, found):
                self._models.score(journal, name, scored)

    def _runs_of(self, journal: Journal) -> tuple[Shown, Shown]:
        """The run of the whole experiment and that of the stage, created if they are missing."""
        if journal.id not in self._shown or self._shown[journal.id].key != journal.key:
            with lock():
                self._remember(self._store.runs(journal.key))  # another process may have been first
                if journal.key not in self._shown:
                    self._create(journal, entries.label(journal.start), entries.experiment_tags(journal.start))
                if journal.id not in self._shown:
                    parent = self._shown[journal.key].run_id
                    color = sum(shown.kind == "training" for shown in self._shown.values())
                    tags = entries.stage_tags(journal.start, parent, color)
                    self._create(journal, entries.stage_name(journal.start), tags)
                elif self._shown[journal.id].key != journal.key:
                    self._move(journal)
        return self._shown[journal.key], self._shown[journal.id]

    def _create(self, journal: Journal, name: str, tags: Mapping[str, str]) -> None:
        started_at, experiment = journal.start["at"], self._store.experiment_id
        with only_once():
            run = self._client.create_run(experiment, start_time=started_at, tags=dict(tags), run_name=name)
        self._remember([run])

    def _move(self, journal: Journal) -> None:
        """Show a training below the experiment that continues it; the one that it began in was killed."""
        run, whole = self._shown[journal.id], self._shown[journal.key]
        self._client.log_batch(whole.run_id, params=entries.all_params([journal.start]))
        self._client.log_batch(run.run_id, tags=entries.tags_that_move(journal.start, whole.run_id))
        self._client.update_run(run.run_id, name=entries.stage_name(journal.start))
        former, run.key = self._shown.get(run.key), journal.key
        if former and not any(shown.key == former.key and shown.journal for shown in self._shown.values()):
            self._set_status(former, "KILLED", journal.start["at"])

    def _upload(self, run: Shown, artifacts: Path, name: Path) -> None:
        kept = artifacts / name
        for file in [kept] if kept.is_file() else sorted(kept.rglob("*")):
            if file.is_file():
                folder = file.parent.relative_to(artifacts).as_posix()
                self._client.log_artifact(run.run_id, str(file), "" if folder == "." else folder)

    def _end_experiment(self, key: str) -> None:
        whole = self._shown.get(key)
        if whole and not whole.deleted and (whole.status, whole.ended_at) != self._status_of(key):
            with lock():
                self._remember(self._store.runs(key))  # another process may have added stages
                self._set_status(self._shown[key], *self._status_of(key))

    def _annotate(self, folder: Path, key: str) -> None:
        """Send the notes on a whole experiment that the store does not have."""
        notes = read_notes(folder, key)
        if self._missing_notes(notes, key):
            with lock():
                self._remember(self._store.runs(key))  # another process or a person may have changed its description
                if tags := self._missing_notes(notes, key):
                    self._client.log_batch(self._shown[key].run_id, tags=entries.run_tags(tags))
                    self._shown[key].tags |= tags
        self._attach(notes.files, files_folder(folder, key), key)

    def _attach(self, files: Mapping[str, str], kept: Path, key: str) -> None:
        whole = self._shown.get(key)
        if not whole or whole.deleted or not (missing := entries.missing_files(files, whole.tags)):
            return
        for name in missing:
            self._client.log_artifact(whole.run_id, str(kept / name))
        tags = entries.files_tag(files)
        self._client.log_batch(whole.run_id, tags=entries.run_tags(tags))
        whole.tags |= tags

    def _missing_notes(self, notes: Notes, key: str) -> dict[str, str]:
        whole = self._shown.get(key)
        return entries.missing_notes(notes, whole.tags) if whole and not whole.deleted else {}

    def _status_of(self, key: str) -> tuple[str, int | None]:
        """A whole experiment is running while one of its stages is; else it ended as its last stage did."""
        stages = [shown for shown in self._shown.values() if shown.key == key and shown.journal]
        last = max(stages, key=lambda shown: (shown.status == "RUNNING", shown.ended_at or 0), default=None)
        return (last.status, last.ended_at) if last else ("RUNNING", None)

    def _set_status(self, run: Shown, status: str, ended_at: int | None) -> None:
        if (run.status, run.ended_at) == (status, ended_at):
            return
        if status == "RUNNING":
            self._client.update_run(run.run_id, status)
        else:
            self._client.set_terminated(run.run_id, status, ended_at)
        run.status, run.ended_at = status, ended_at

    def _remember(self, runs: Iterable["Run"]) -> None:
        for shown in map(Shown.of, runs):
            self._shown[shown.journal or shown.key] = shown


def _trouble_with(folder: Path, send: Callable[[], None]) -> str:
    """Send what a folder has; a sentence if that is invalid, which must not stop the others; a store's error must."""
    from mlflow.exceptions import MlflowException

    try:
        send()
    except (KeyError, ValueError) as error:
        return f"{folder}: {explain(error)}"
    except MlflowException as error:
        if error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        return f"{folder}: {explain(error)}"
    return ""
