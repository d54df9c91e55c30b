"""Run sweeps with Ray Tune, on this machine or on a cluster."""

import contextlib
import logging
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import Timeout

from bukva.core.errors import BukvaError
from bukva.core.machine import n_cores
from bukva.sweep.slot import TrialLocation
from bukva.sweep.table import driver_lock
from bukva.sweep.trials import Sweep

MAX_FAILURES = 2  # number of times that Tune restarts a failed trial
N_CHECKPOINTS = 2  # checkpoints that Tune keeps of each trial
ANSWER_SECONDS = 30.0  # how long to wait for a cluster, which may be busy; Ray itself would wait longer
LOCK_SECONDS = 5.0  # `bukva sweep status` holds the driver's lock for a moment
STORE_BYTES = 100 << 20  # size of Ray's object store, which trials do not use
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # without a token, anyone who can reach a port can run programs
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # only the old output accepts a progress reporter
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # journals and MLflow already have the curves
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that DVC restores reports no intermediate scores
    "TUNE_GLOBAL_CHECKPOINT_S": "5",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # makes Ray listen on 127.0.0.1 only
# environment variables that the machines of a cluster get from the driver
FORWARDED = ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "BUKVA_CHECKPOINT_SECONDS")


class InterruptedSweepError(BukvaError):
    """Ctrl-C interrupted a sweep. The sweep can be continued with the same command."""

    exit_status = 130


def run(
    sweep: Sweep, location: TrialLocation, resources: dict[str, float], space: dict[str, Any], **options: Any
) -> list[Any]:
    """Run a sweep. If the sweep was interrupted, continue it.

    Args:
        sweep: the sweep to run or continue.
        location: where the trials run.
        resources: resources of each trial, as `ray_for` yields them.
        space: {"trial": Tune's grid of the names and settings of all trials}. Empty if a search algorithm proposes
            the trials.
        options: more arguments of `TuneConfig`, such as the search algorithm and the scheduler.

    Returns:
        One dict for each trial, with its last report to Tune (`val`, `step`, `finished`), its `name` and its
        `settings`.

    Raises:
        BukvaError: another process runs this sweep, or Ctrl-C interrupted the sweep.
    """
    from ray import tune

    from bukva.sweep.live import LiveTable
    from bukva.sweep.trial import run_trial

    def trial(config: dict[str, Any]) -> None:
        run_trial(config["trial"]["name"], config["trial"]["settings"], location)

    sweep.save()
    state, trainable = f"{sweep.storage}/{sweep.name}", tune.with_resources(trial, resources)
    if tune.Tuner.can_restore(state):
        tuner = tune.Tuner.restore(state, trainable, resume_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(
                reuse_actors=False, trial_dirname_creator=lambda each: str(each.config["trial"]["name"]), **options
            ),
            run_config=tune.RunConfig(
                name=sweep.name,
                storage_path=sweep.storage,
                failure_config=tune.FailureConfig(max_failures=MAX_FAILURES),
                checkpoint_config=tune.CheckpointConfig(num_to_keep=N_CHECKPOINTS),
                progress_reporter=LiveTable(sweep.name),
                verbose=1,
            ),
        )
    results = _fit(sweep.name, tuner)
    return [(result.metrics or {}) | (result.config or {})["trial"] for result in results]


def _fit(name: str, tuner: Any) -> Any:
    """Run a Ray Tune tuner and return the results of all trials."""
    before = signal.getsignal(signal.SIGINT)
    try:
        with driver_lock(name).acquire(timeout=LOCK_SECONDS):
            results = tuner.fit()
        is_interrupted = signal.getsignal(signal.SIGINT) == before  # Tune restores the handler at the first Ctrl-C
    except Timeout:
        raise BukvaError(
            f"{name}: another process is running this sweep. To see its trials, run `bukva sweep status {name}`."
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)  # Tune's handler would ignore the next Ctrl-C
    if is_interrupted:
        n = sum("finished" in (result.metrics or {}) for result in results)
        raise InterruptedSweepError(f"{name}: interrupted after {n} finished trials. Repeat the command to continue.")
    return results


@contextlib.contextmanager
def ray_for(address: str, cores: int, gpus: float | None) -> Iterator[dict[str, float]]:
    """Start Ray on this machine, or connect to a Ray cluster. After the block, shut Ray down or disconnect.

    Args:
        address: HOST:PORT of the cluster, or "" for this machine.
        cores: number of cores for each trial.
        gpus: number of GPUs for each trial. With `None`, a trial gets 1 GPU if Ray finds any, and 0 otherwise.

    Yields:
        The resources of each trial in Ray's format: {"cpu": cores, "gpu": gpus}.

    Raises:
        BukvaError: Ray is not installed, the cluster does not answer, or this machine has fewer cores than a trial
            needs.
    """
    os.environ.update(ENVIRONMENT)  # before the import of Ray, which reads them
    if address:
        _check_head(address)
        forwarded = {name: value for name in FORWARDED if (value := os.environ.get(name))}
        settings: dict[str, Any] = {"address": address, "runtime_env": {"env_vars": ENVIRONMENT | forwarded}}
    else:
        if cores > n_cores():
            raise BukvaError(f"`--cores` is {cores}, but this machine has {n_cores()} cores. Use 1 to {n_cores()}.")
        # a token is needed on 127.0.0.1 as well, because other users of this machine can reach its ports
        os.environ.update(LOOPBACK | {"RAY_AUTH_TOKEN": secrets.token_hex(32)})
        settings = {
            "address": "local",  # otherwise Ray may read the address of a dead cluster from its files
            "num_cpus": n_cores(),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
        }
    try:
        import ray
    except ImportError:
        raise BukvaError("`bukva sweep` needs Ray, which is not installed. Run `make cluster`.") from None
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        own = {} if address else {"_temp_dir": scratch}
        ray.init(**settings, **own, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # the table shows why a trial failed, without a traceback
        try:
            has_gpus = ray.cluster_resources().get("GPU", 0) > 0
            yield {"cpu": cores, "gpu": float(has_gpus) if gpus is None else gpus}
        finally:
            ray.shutdown()


def _check_head(address: str) -> None:
    """Check that the head of a Ray cluster answers."""
    command = [str(Path(sys.executable).with_name("ray")), "status", "--address", address]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=ANSWER_SECONDS)
    except (subprocess.SubprocessError, FileNotFoundError):
        raise BukvaError(
            f"No Ray cluster answers at {address}, or its token differs from the token of this machine. Start the head "
            "of the cluster, and copy its ~/.ray/auth_token to this machine. Make the file readable only by you."
        ) from None
