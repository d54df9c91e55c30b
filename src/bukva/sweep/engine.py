"""Run sweeps with Ray Tune, on this machine or on a cluster, and save a table of trials for `bukva sweep status`."""

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.table import Table

from bukva.core.errors import BukvaError
from bukva.core.files import read_json, write_json
from bukva.core.machine import n_cores
from bukva.core.progress import duration
from bukva.core.words import count
from bukva.project.cache import dvc_repo
from bukva.project.lock import NUMERICS, wrong_packages
from bukva.project.revisions import commit_of
from bukva.sweep.trial import Sweep, Trial, run_trial, sweeps_root
from bukva.tracking.record import start_sync
from bukva.tracking.sync import LATER

MAX_FAILURES = 2  # number of times that Tune restarts a failed trial
ANSWER_SECONDS = 30.0  # how long to wait for a cluster, which may be busy; Ray itself would wait longer
LOCK_SECONDS = 5.0  # `bukva sweep status` holds the driver's lock for a moment
REPORT_SECONDS = 2.0  # between two looks at the trials
MAX_TMPDIR_BYTES = 26  # Ray creates sockets below TMPDIR, with up to 77 more bytes, and macOS limits paths to 103
STORE_BYTES = 100 << 20  # size of Ray's object store, which trials do not use
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # without a token, anyone who can reach a port can run programs
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # only the old output accepts a progress reporter
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # MLflow has the curves
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that DVC restores reports no intermediate scores
    "TUNE_GLOBAL_CHECKPOINT_S": "5",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # makes Ray listen on 127.0.0.1 only
# prefixes of environment variables that the machines of a cluster get from the driver
FORWARDED = "MLFLOW_", "DATABRICKS_", "BUKVA_CHECKPOINT_SECONDS"
HEADER = "trial", "settings", "state", "step", "val, bits/char", "time", "machine"
STATE = HEADER.index("state")
# style of each state; rows are sorted in this order
STYLES = {
    "running": "bold", "failed": "red", "interrupted": "yellow", "finished": "green", "stopped": "yellow",
    "waiting": "dim",
}  # fmt: skip


class InterruptedSweepError(BukvaError):
    """Ctrl-C interrupted a sweep. The sweep can be continued with the same command."""

    exit_status = 130


def run_all(sweep: Sweep, resources: dict[str, float], trials: Sequence[Trial], **options: Any) -> None:
    """Run these trials (see `run`). BukvaError: one of them has no result."""
    from ray import tune

    print(
        f"{sweep.name}: {count(len(trials), 'experiment')} from commit {(sweep.edited or sweep.commit)[:7]}", flush=True
    )
    reports = run(sweep, resources, {"trial": tune.grid_search(list(trials))}, **options)
    if left := [each for each in reports if not commit_of(sweep.ref(each["name"]))]:
        raise BukvaError(
            f"No result for {len(left)} of {count(len(trials), 'trial')}. {left[0]['name']}: {left[0]['why']} To list "
            f"all, run `bukva sweep status {sweep.name}`."
        )


def run(
    sweep: Sweep, resources: dict[str, float], space: dict[str, Any], *, anew: bool = False, **options: Any
) -> list[dict[str, Any]]:
    """Run a sweep, or continue it if it was interrupted. Return all trials with their last reports to Tune.

    `space` is {"trial": Tune's grid of all trials}, or {} for a search. With `anew`, Tune forgets earlier sweeps of
    this name. `options` are more arguments of `TuneConfig`. BukvaError: another process runs this sweep, or Ctrl-C
    interrupted it.
    """
    from ray import tune

    # not a runtime environment, because Ray writes those to a log that all users of the machine can read
    environment = forwarded() if sweep.address else {}

    def trial(config: dict[str, Any]) -> None:
        os.environ.update(environment)
        run_trial(sweep, **config["trial"])

    def tuner() -> tune.Tuner:
        state, trainable = sweeps_root() / sweep.name, tune.with_resources(trial, resources)
        if anew:
            shutil.rmtree(state, ignore_errors=True)
        if tune.Tuner.can_restore(str(state)):
            return tune.Tuner.restore(str(state), trainable, resume_errored=True)
        return tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(
                reuse_actors=False, trial_dirname_creator=lambda each: str(each.config["trial"]["name"]), **options
            ),
            run_config=tune.RunConfig(
                name=sweep.name,
                storage_path=str(state.parent),
                failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
                progress_reporter=Reporter(sweep.name),
                verbose=1,
            ),
        )

    results = _fit(sweep.name, tuner)
    return [(each.metrics or {}) | {"why": _why(each.error)} | (each.config or {})["trial"] for each in results]


def forwarded() -> dict[str, str]:
    """Return the environment variables for a machine of a cluster: where and as whom its trials log to MLflow."""
    found = {name: value for name, value in os.environ.items() if name.startswith(FORWARDED) and value}
    # without a server, the driver fills the project's database at the end
    return found if "MLFLOW_TRACKING_URI" in found else {**found, LATER: "1"}


def _fit(name: str, tuner: Callable[[], Any]) -> Any:
    before = signal.getsignal(signal.SIGINT)
    try:
        with driver_lock(name).acquire(timeout=LOCK_SECONDS):
            results = tuner().fit()
        is_interrupted = signal.getsignal(signal.SIGINT) == before  # Tune restores the handler at the first Ctrl-C
    except Timeout:
        raise BukvaError(
            f"{name}: another process is running this sweep. To see its trials, run `bukva sweep status {name}`."
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)  # Tune's handler would ignore the next Ctrl-C
    if is_interrupted:
        n = sum("finished" in (result.metrics or {}) for result in results)
        raise InterruptedSweepError(
            f"{name}: interrupted after {count(n, 'finished trial')}. Repeat the command to continue."
        )
    return results


@contextlib.contextmanager
def ray_for(address: str, cores: int, gpus: float | None) -> Iterator[dict[str, float]]:
    """Start Ray on this machine or connect to a cluster, check the machines, and yield the resources of each trial.

    With `gpus=None`, a trial gets 1 GPU if Ray finds any, and 0 otherwise. BukvaError: Ray is not installed, the
    cluster does not answer, or a machine cannot read the project, has other versions of packages or too few cores.
    """
    os.environ.update(ENVIRONMENT)  # before the import of Ray, which reads them
    if address:
        _check_head(address)
        options: dict[str, Any] = {"address": address, "runtime_env": {"env_vars": ENVIRONMENT}}
    else:
        # a token is needed on 127.0.0.1 as well, because other users of this machine can reach its ports
        os.environ.update(LOOPBACK | {"RAY_AUTH_TOKEN": secrets.token_hex(32)})
        options = {
            "address": "local",  # otherwise Ray may read the address of a dead cluster from its files
            "num_cpus": n_cores(),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
        }
    try:
        import ray
    except ImportError:
        raise BukvaError("This command needs Ray, which is not installed. Run `make cluster`.") from None
    short = None if len(os.fsencode(tempfile.gettempdir())) <= MAX_TMPDIR_BYTES else "/tmp"
    with tempfile.TemporaryDirectory(prefix="ray-", dir=short, ignore_cleanup_errors=True) as scratch:
        own = {} if address else {"_temp_dir": scratch}
        ray.init(**options, **own, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # the table shows why a trial failed, without a traceback
        try:
            _check_machines()
            largest = max(int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"])
            if cores > largest:  # Tune would wait for such a machine
                raise BukvaError(
                    f"A training needs {count(cores, 'core')}, but the largest machine has {count(largest, 'core')}. "
                    "Use a smaller value of `--cores`, or with `bukva judge` and `bukva seeds` of `compute.threads`."
                )
            n_gpus = int(ray.cluster_resources().get("GPU", 0))
            if (gpus or 0) > n_gpus:
                raise BukvaError(f"`--gpus` is {gpus:g}, but Ray finds {count(n_gpus, 'GPU')}.")
            yield {"cpu": cores, "gpu": float(n_gpus > 0) if gpus is None else gpus}
        finally:
            ray.shutdown()
            if address:
                start_sync()


def _check_head(address: str) -> None:
    """Check that the head of a cluster answers. Without a token, Ray would end the process that asks."""
    command = [str(Path(sys.executable).with_name("ray")), "status", "--address", address]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=ANSWER_SECONDS)
    except (subprocess.SubprocessError, FileNotFoundError):
        raise BukvaError(
            f"No Ray cluster answers at {address}, or its token differs from the token of this machine. Start the head "
            "of the cluster, and copy its ~/.ray/auth_token to this machine. Make the file readable only by you."
        ) from None


def _check_machines() -> None:
    """Check every machine (see `machine_fault`) before a trial starts."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    with dvc_repo() as repo:
        cache = Path(repo.cache.local_cache_dir)
    with contextlib.ExitStack() as stack:
        probes = []
        for folder in (sweeps_root(), cache):
            folder.mkdir(parents=True, exist_ok=True)
            probe = stack.enter_context(tempfile.NamedTemporaryFile(prefix=".sweep-", dir=folder))
            probes.append(Path(probe.name))
        check = ray.remote(num_cpus=0)(machine_fault)
        for node in filter(lambda each: each["Alive"], ray.nodes()):
            here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            answer = check.options(scheduling_strategy=here).remote(probes, NUMERICS.resolve())
            try:
                fault = ray.get(answer, timeout=ANSWER_SECONDS)
            except ray.exceptions.RayError as error:
                why = str(error).strip().rpartition("\n")[2]
                fault = f"{node['NodeManagerHostname']} cannot run bukva ({why})."
            if fault:
                raise BukvaError(fault)


def machine_fault(probes: Sequence[Path], pins: Path) -> str:
    """Return why this machine does not see the files `probes` or lacks the packages in the file `pins`, or ""."""
    host = socket.gethostname()
    if hidden := [probe.parent for probe in probes if not probe.exists()]:
        return (
            f"{host} does not see this project's folder {hidden[0]}. A cluster needs shared storage: clone the project "
            "into a folder that all its machines mount at the same path."
        )
    return next((f"{host}: {wrong}. Install the versions in its {pins.name}." for wrong in wrong_packages(pins)), "")


# ---- the table of trials


class Reporter:
    """Progress reporter for Ray Tune. It saves the table, and prints a line whenever the state of a trial changes."""

    def __init__(self, sweep: str) -> None:
        self._sweep, self._known, self._at = sweep, dict[str, str](), 0.0

    def setup(self, **_: Any) -> None:
        """Do nothing when the sweep starts."""

    def should_report(self, _: Sequence[Any], done: bool = False) -> bool:
        return done or time.monotonic() - self._at > REPORT_SECONDS

    def report(self, trials: Sequence[Any], done: bool, *_: str) -> None:
        """Save and print the states of the trials. `done` is true at the end of the sweep, also after Ctrl-C."""
        self._at, rows = time.monotonic(), [_row(trial, is_driven=not done) for trial in trials]
        write_json(_file(self._sweep, "json"), rows)
        for name, _assignments, state, _step, val, *_rest in rows:
            if state != self._known.get(name, "waiting"):
                print(f"{time.strftime('%H:%M:%S')} {name}: {state} {val}".rstrip(), flush=True)
            self._known[name] = state


def _row(trial: Any, is_driven: bool) -> list[str]:
    config, last = trial.config["trial"], trial.last_result
    states = {
        "PENDING": "waiting",
        "RUNNING": "running" if is_driven else "interrupted",
        "TERMINATED": "finished" if last.get("finished") else "stopped",
    }
    state, val = states.get(trial.status, "failed"), f"{last['val']:.3f}" if "val" in last else ""
    if state == "failed":
        val = _why(trial.get_error())
    took, machine = duration(last.get("time_total_s", 0)), last.get("hostname", "")
    return [config["name"], " ".join(config["assignments"]), state, str(last.get("step", "")), val, took, machine]


def _why(error: object) -> str:
    """Return the last line of a traceback without the name of the error, or "" for None."""
    last_line = str(error or "").strip().rpartition("\n")[2]
    return last_line.partition("Error: ")[2] or last_line


def table_of(sweep: str | None = None) -> Table:
    """Return the saved table of a sweep, by default of the newest one. BukvaError: the project has no such sweep."""
    names = [file.stem for file in sorted(sweeps_root().glob("tables/*.json"), key=lambda path: path.stat().st_mtime)]
    if not names:
        raise BukvaError(
            "This project has no sweep yet. To start one, run `bukva sweep run -S SECTION.KEY=VALUE,VALUE`."
        )
    sweep = sweep or names[-1]
    if sweep not in names:
        raise BukvaError(f"No sweep is named {sweep}. Existing sweeps: {', '.join(names)}.")
    rows: list[list[str]] = read_json(_file(sweep, "json"))
    with contextlib.suppress(Timeout), driver_lock(sweep).acquire(blocking=False):  # there is no driver
        for row in rows:
            row[STATE] = "interrupted" if row[STATE] == "running" else row[STATE]
    counts = Counter(row[STATE] for row in rows)
    title = ", ".join(f"{counts[state]} {state}" for state in STYLES if counts[state])
    table = Table(*HEADER, box=None, title=title, title_justify="left")
    for row in sorted(rows, key=lambda each: list(STYLES).index(each[STATE])):
        table.add_row(*row, style=STYLES[row[STATE]])
    return table


def driver_lock(sweep: str) -> FileLock:
    return FileLock(_file(sweep, "lock"))


def _file(sweep: str, kind: str) -> Path:
    return sweeps_root() / "tables" / f"{sweep}.{kind}"
