"""Brings journals into an MLflow store.

Filling twice adds nothing: runs are found by their tags, MLflow ignores a point that has the same name, step, time and
value as another, and an artifact replaces the one of its name. A tag of each run says how many bytes of its journal the
store has. So whatever is stopped, or fails because another machine does the same at this moment, is completed by the
next call.

mlflow is imported inside functions: importing it takes a second or more, and it reads its environment, which is set
first.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from filelock import FileLock

from bukva.config.load import flatten
from bukva.core.errors import HIDDEN, BukvaError, redact_text, redact_url
from bukva.core.files import project_root, read_json
from bukva.project.stages import trained_models
from bukva.text.ids import bits
from bukva.tracking.journal import MODELS, Event, Journal, notes_on, read_journals
from bukva.tracking.models import log_model, score_model

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import DatasetInput, Metric, Param, Run, RunTag

EXPERIMENT = "bukva"
ARTIFACTS = "mlruns"
LOCK_SECONDS = 60
MOST_RUNS = 50_000  # of one answer of MLflow
LONGEST_MESSAGE = 300  # characters of an error; a proxy may answer with a whole page in one line
# Set unless the user has set them. MLflow's own limit for a dead server is four minutes a call.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # repeating a creation whose answer was lost creates a second one
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # it logs a traceback of each error; bukva reports it in one line
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # it prints the server's address with its password
}
DESCRIPTION = "mlflow.note.content"
SYNCED, JOURNAL, KEY, DELETED = "bukva.synced", "bukva.journal", "bukva.key", "deleted"
CONTEXT = "mlflow.data.context"  # what a dataset is used for
USES = {"train": "training", "val": "validation", "test": "test"}
NATS, BITS = "nats_per_char", "bits_per_char"
SCORES = "evaluate", "metrics.json"  # the stage and the artifact with the scores of all models
ATTEMPT, OWN_ATTEMPT = "bukva.attempt", "BUKVA_ATTEMPT"  # tag, and variable of a worker of a cluster
# By default MLflow derives a run's colour from its id, and two curves of one chart may get the same.
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f", "#ff9da7", "#edc948")


# ---- the address, and what people may see of it and of errors


def tracking_uri() -> str:
    """The address of the store: MLFLOW_TRACKING_URI, else the project's own database.

    The path of a database is made absolute: a relative one means another database in every folder a stage runs in.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
    kind, slashes, path = uri.partition("///")
    if kind == "sqlite:" and not path.startswith("/"):
        return f"{kind}{slashes}{project_root() / path}"
    return uri


def is_server() -> bool:
    """Whether MLflow is reached over http; the server then decides where artifacts are stored."""
    return urlsplit(tracking_uri()).scheme in ("http", "https")


def redact_secrets(text: object) -> str:
    """A text for people and logs: without users in addresses, and without passwords and tokens anywhere."""
    redacted = redact_text(text)
    secrets = [os.environ.get(name, "") for name in ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")]
    with contextlib.suppress(ValueError):  # not a valid address
        address = urlsplit(tracking_uri())
        secrets += [address.password or "", *parse_qs(address.query).get("password", [])]
    for secret in {form(secret) for secret in secrets if secret for form in (str, quote, unquote)}:
        redacted = redacted.replace(secret, HIDDEN)
    return redacted


def explain(error: BaseException) -> str:
    """One line about an error: its innermost cause, because each part of MLflow wraps the error of another."""
    if isinstance(error, BukvaError):
        return redact_secrets(error)
    while cause := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        error = cause
    message = str(error).strip().partition("\n")[0]
    return redact_secrets(f"{type(error).__name__}: {message}")[:LONGEST_MESSAGE]


@contextlib.contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Any error as a BukvaError of one line; a traceback shows addresses with their passwords."""
    try:
        yield
    except Exception as error:
        raise BukvaError(f"{redact_url(tracking_uri())}: {explain(error)}") from None


# ---- the store


@dataclass(frozen=True)
class Store:
    """The experiment `bukva` in an MLflow store."""

    client: "MlflowClient"
    experiment_id: str

    def runs(self, key: str = "") -> list["Run"]:
        """All runs that bukva created, or those of one of its experiments; deleted ones too."""
        return self.search(f"tags.`{KEY}` = '{key}'" if key else f"tags.`{KEY}` != ''")

    def search(self, condition: str) -> list["Run"]:
        """The runs that meet a condition, deleted ones too."""
        from mlflow.entities import ViewType

        found = self.client.search_runs([self.experiment_id], condition, ViewType.ALL, max_results=MOST_RUNS)
        return list(found)


def connect() -> Store:
    """Open the store that MLFLOW_TRACKING_URI names, else the project's own database; create what is missing.

    A database is opened under the lock, because processes that create its tables at the same time break each other.

    Raises:
        BukvaError: the database writes artifacts into another project.
        Exception: MLflow's, or that of a database that is locked or broken.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    with _lock():
        if not is_server():
            _prepare_database(tracking_uri())
        client = MlflowClient(tracking_uri=tracking_uri())
        known = client.get_experiment_by_name(EXPERIMENT)
        if known is None:
            # absolute, else MLflow takes the folder of the current process; a server has a place of its own
            artifacts = None if is_server() else (project_root() / ARTIFACTS).as_uri()
            with contextlib.suppress(MlflowException):  # another machine, which has a lock of its own, was first
                client.create_experiment(EXPERIMENT, artifacts, {"mlflow.experimentKind": "custom_model_development"})
            known = client.get_experiment_by_name(EXPERIMENT)
    if known is None:
        raise BukvaError(f"the experiment {EXPERIMENT} cannot be created.")
    return Store(client, known.experiment_id)


def _prepare_database(uri: str) -> None:
    """Create the tables of a missing database file, and check that a database can be used.

    MLflow itself cannot open a file in which creating the tables was interrupted, and tries a locked or broken database
    for 100 s and more.
    """
    from mlflow import MlflowClient
    from sqlalchemy import create_engine, inspect, make_url, pool, text

    url = make_url(uri)
    path = Path(url.database or "") if url.drivername.startswith("sqlite") else None
    if path and not (path.exists() and path.stat().st_size):
        unfinished = path.with_name(f"{path.name}.unfinished")
        for left in (unfinished, unfinished.with_name(f"{unfinished.name}-journal")):
            left.unlink(missing_ok=True)
        MlflowClient(f"sqlite:///{unfinished}").search_experiments()
        unfinished.replace(path)
    with create_engine(url, poolclass=pool.NullPool).connect() as connection:
        if not path or not inspect(connection).has_table("experiments"):
            return
        query = text("SELECT artifact_location FROM experiments WHERE name = :name")
        location = urlsplit(connection.execute(query, {"name": EXPERIMENT}).scalar() or "")
    place = Path(unquote(location.path))
    is_ours = place == project_root() / ARTIFACTS or place.name != ARTIFACTS  # or a place that a user chose
    if location.scheme in ("", "file") and not is_ours and path.is_relative_to(project_root()):
        raise BukvaError(
            f"{path}: its artifacts are in {place}, so this project was copied or moved; remove the database, and fill "
            "a new one: bukva sync"
        )


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    """Held while something is searched and then created, so that two processes never create it twice."""
    path = project_root() / ".bukva" / "mlflow.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path, timeout=LOCK_SECONDS):
        yield


# ---- journals into it


def sync() -> str:
    """Bring MLflow up to date with all journals; the sentence says what it has.

    Raises:
        BukvaError: something is missing there, and why; without passwords.
    """
    journals = read_journals()
    with errors_in_one_line():
        troubles = fill(connect(), journals)
    if troubles:
        raise BukvaError("\n".join(troubles))
    return f"{redact_url(tracking_uri())} has all {len(journals)} stage executions."


def fill(store: Store, journals: Iterable[Journal]) -> list[str]:
    """Bring a store up to date with journals and with what was said about their experiments.

    Returns:
        A sentence for each journal that could not be shown.
    """
    by_key: dict[str, list[Journal]] = {}
    for journal in journals:
        by_key.setdefault(journal.key, []).append(journal)
    shown = _by_identity(store.runs(next(iter(by_key)) if len(by_key) == 1 else ""))
    troubles: list[str] = []
    for key, members in by_key.items():
        if not _has_all(shown, key, members):
            with _lock(), _in_a_sentence(members[0].folder.parent, troubles):
                _fill_experiment(store, key, members, troubles)
    return troubles


def _has_all(shown: Mapping[str, "Run"], key: str, journals: Sequence[Journal]) -> bool:
    """Whether the runs have all of the journals of an experiment, or somebody deleted them."""
    whole, notes = shown.get(key), notes_on(journals[0].start["experiment"], key)
    if whole is None or _is_deleted(whole):
        return whole is not None
    statuses = [_has(shown.get(journal.id), journal) for journal in journals]
    is_over = whole.info.status != "RUNNING" or "RUNNING" in [journal.status()[0] for journal in journals]
    return all(statuses) and is_over and (notes is None or _synced(whole) == notes.size)


def _has(run: "Run | None", journal: Journal) -> bool:
    if run is None:
        return False
    return _is_deleted(run) or (_synced(run) == journal.size and run.info.status == journal.status()[0])


def _fill_experiment(store: Store, key: str, journals: Sequence[Journal], troubles: list[str]) -> None:
    """Bring the runs of one experiment up to date; adds a sentence for each journal that could not be shown."""
    shown, start = _by_identity(store.runs(key)), journals[0].start
    whole = shown.get(key) or _create(store, start, start["label"], _experiment_tags(start))
    if _is_deleted(whole):
        return
    ends = {
        run.info.run_id: (run.info.status, run.info.end_time)
        for run in shown.values()
        if run is not whole and not _is_deleted(run)
    }
    for journal in journals:
        run = shown.get(journal.id)
        if not _has(run, journal):
            with _in_a_sentence(journal.folder, troubles):
                name = f"{start['label']}: {journal.start['stage']}"  # many of them stand in one legend
                run = run or _create(store, journal.start, name, _stage_tags(store, journal, whole))
                ends[run.info.run_id] = _push(store, journal, whole, run)
    if (notes := notes_on(start["experiment"], key)) and _synced(whole) < notes.size:
        with _in_a_sentence(notes.folder, troubles):
            events, offset = notes.read(_synced(whole))
            _upload(store.client, whole, notes, events)
            _tag(store.client, whole, _texts(events) | {SYNCED: str(offset)})
    # a whole experiment is running while one of its stages is; else it ended as its last stage did
    last = max(ends.values(), key=lambda end: (end[0] == "RUNNING", end[1] or 0), default=("RUNNING", None))
    _set_status(store.client, whole, *last)


def _push(store: Store, journal: Journal, whole: "Run", run: "Run") -> tuple[str, int | None]:
    """Send what a run lacks of its journal; returns how the execution ended and when."""
    client, ids = store.client, (whole.info.run_id, run.info.run_id)
    status, ended_at = journal.status()  # before reading: behind an end there is nothing more to read
    if own := os.environ.get(OWN_ATTEMPT):
        latest = int(client.get_run(ids[1]).data.tags.get(ATTEMPT, 0))
        if latest > int(own):
            raise ValueError(f"attempt {latest} of this training has taken over; this is attempt {own}")
    events, offset = journal.read(_synced(run))
    params = _params(journal.start["params"])
    own_params = [param for param in params if param.key.partition(".")[0] in journal.start["sections"]]
    content, at = _scores(journal, events)
    scores = _points({name: value for name, value in flatten(content).items() if value is not None}, at, 0)
    is_new = any(event["record"] == "start" for event in events)
    client.log_batch(ids[0], scores, params if is_new else ())
    client.log_batch(ids[1], _metrics(events) + scores, own_params if is_new else ())
    if is_new and (datasets := _datasets(journal.start)):
        for each in ids:
            client.log_inputs(each, datasets)
    _upload(client, run, journal, events)
    for event in events:
        if event["record"] == "model":
            log_model(client, journal, event, ids[1], {param.key: param.value for param in own_params})
    for name in trained_models():
        if name in content:
            values = {split: value for split, value in content[name].items() if isinstance(value, float)}
            score_model(client, store.experiment_id, journal, name, values, at)
    # last: a process that is stopped before this sends everything again, with the same result
    _tag(client, run, _texts(events) | {SYNCED: str(offset)})
    _set_status(client, run, status, ended_at)
    return status, ended_at


def _create(store: Store, start: Event, name: str, tags: Mapping[str, str]) -> "Run":
    return store.client.create_run(store.experiment_id, start["at"], dict(tags), name)


def _upload(client: "MlflowClient", run: "Run", journal: Journal, events: Iterable[Event]) -> None:
    """The artifacts among the events, without models, which MLflow keeps apart."""
    root, paths = journal.folder / "artifacts", [event["path"] for event in events if event["record"] == "artifact"]
    others = [root / path for path in paths if not path.startswith(f"{MODELS}/")]
    for kept in dict.fromkeys(others):  # a file that was replaced is sent once
        for file in [kept] if kept.is_file() else sorted(kept.rglob("*")):
            if file.is_file():
                folder = file.parent.relative_to(root).as_posix()
                client.log_artifact(run.info.run_id, str(file), "" if folder == "." else folder)


def _set_status(client: "MlflowClient", run: "Run", status: str, ended_at: int | None) -> None:
    if status == "RUNNING" and run.info.status != "RUNNING":
        client.update_run(run.info.run_id, status)
    elif status != "RUNNING" and (run.info.status, run.info.end_time) != (status, ended_at):
        client.set_terminated(run.info.run_id, status, ended_at)


def _tag(client: "MlflowClient", run: "Run", tags: Mapping[str, str]) -> None:
    client.log_batch(run.info.run_id, tags=run_tags(tags))


def run_tags(tags: Mapping[str, str]) -> list["RunTag"]:
    """MLflow's objects for these tags."""
    from mlflow.entities import RunTag

    return [RunTag(name, text) for name, text in tags.items()]


def _by_identity(runs: Iterable["Run"]) -> dict[str, "Run"]:
    """Runs of stages by the ids of their journals, those of whole experiments by their keys."""
    return {run.data.tags.get(JOURNAL, run.data.tags[KEY]): run for run in runs}


def _is_deleted(run: "Run") -> bool:
    """Whether somebody deleted the run in MLflow; then it is not created again."""
    return bool(run.info.lifecycle_stage == DELETED)


def _synced(run: "Run") -> int:
    """How many bytes of its journal a run has."""
    return int(run.data.tags.get(SYNCED, 0))


@contextlib.contextmanager
def _in_a_sentence(folder: Path, troubles: list[str]) -> Iterator[None]:
    """Add a sentence if what a folder has is invalid, which must not stop the others; a store's error must."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (KeyError, ValueError, MlflowException) as error:
        if isinstance(error, MlflowException) and error.error_code != "INVALID_PARAMETER_VALUE":
            raise
        troubles.append(f"{folder}: {explain(error)}")


# ---- events as MLflow's tags, parameters and metrics


def _experiment_tags(start: Event) -> dict[str, str]:
    name, commit = start["experiment"], start["commit"][:7]
    restore = f"git checkout {commit}" if name.startswith("repro-") else f"dvc exp apply {name}"
    description = f"Started from commit {commit}. To return to it: `{restore}`" if commit else ""
    return {**_common_tags(start), "mlflow.source.name": "dvc.yaml", DESCRIPTION: description}


def _stage_tags(store: Store, journal: Journal, whole: "Run") -> dict[str, str]:
    """Tags of the run of one stage execution, shown below its experiment."""
    start = journal.start
    color = len(store.search("tags.`bukva.kind` = 'training'")) if start["kind"] == "training" else 0
    return {
        **_common_tags(start),
        "bukva.stage": start["stage"],
        "bukva.kind": start["kind"],
        JOURNAL: journal.id,
        **({"bukva.restored": "true"} if start["restored"] else {}),
        "mlflow.parentRunId": whole.info.run_id,
        "mlflow.source.name": f"stages/{start['stage'].replace('-', '_')}.py",
        "mlflow.runColor": COLORS[color % len(COLORS)],
    }


def _common_tags(start: Event) -> dict[str, str]:
    return {
        "bukva.experiment": start["experiment"],
        KEY: start["key"],
        "bukva.commit": start["commit"],
        "mlflow.source.git.commit": start["commit"],
        "mlflow.source.type": "LOCAL",
        "mlflow.user": start["user"],
    }


def _texts(events: Iterable[Event]) -> dict[str, str]:
    """The tags among the events, and why the stage ended."""
    tags: dict[str, str] = {}
    for event in events:
        if event["record"] == "tags":
            tags |= event["values"]
        elif event["record"] == "end" and event["note"]:
            tags[DESCRIPTION] = event["note"]
    return tags


def _datasets(start: Event) -> list["DatasetInput"]:
    """The splits that a stage read."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    return [
        DatasetInput(
            Dataset(
                each["name"], each["digest"], "dvc", json.dumps(each["source"]), profile=json.dumps(each["profile"])
            ),
            [InputTag(CONTEXT, USES[each["split"]])],
        )
        for each in start["datasets"]
    ]


def _metrics(events: Iterable[Event]) -> list["Metric"]:
    """The metrics, each nats per character also in bits.

    They keep the times of their events, by which MLflow recognises a point that it already has.
    """
    found: list[Metric] = []
    for event in events:
        if event["record"] == "metrics":
            values = event["values"]
            in_bits = {name.replace(NATS, BITS): bits(value) for name, value in values.items() if name.endswith(NATS)}
            found += _points({**values, **in_bits}, event["at"], event["step"])
    return found


def _scores(journal: Journal, events: Iterable[Event]) -> tuple[dict[str, Any], int]:
    """metrics.json of stage evaluate, named as in DVC, and when it was written; empty if it is not among the events."""
    for event in events:
        if (journal.start["stage"], event.get("path")) == SCORES:
            return dict(read_json(journal.folder / "artifacts" / SCORES[1])), event["at"]
    return {}, 0


def _points(values: Mapping[str, float], at: int, step: int) -> list["Metric"]:
    from mlflow.entities import Metric

    return [Metric(name, value, at, step) for name, value in values.items()]


def _params(values: Mapping[str, Any]) -> list["Param"]:
    """MLflow stores parameters as text; everything else becomes JSON."""
    from mlflow.entities import Param

    return [
        Param(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]
