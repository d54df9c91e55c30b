"""Ray Tune, on this machine or on a cluster."""

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

MOST_LOSSES = 2  # of one trial, after which it has failed
KEPT = 2  # checkpoints of a trial
ANSWER_SECONDS = 30.0  # of a busy head; Ray itself would wait longer
LOCK_SECONDS = 5.0  # `bukva sweep status` holds the lock of a driver for a moment
STORE_BYTES = 100 << 20  # of Ray's memory for objects, of which trials make none
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # always: without it everybody who reaches a port can run programs
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the old one takes a reporter
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # journals and MLflow have the curves
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that DVC's run cache has scores nothing on its way
    "TUNE_GLOBAL_CHECKPOINT_S": "5",
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # Ray's own way to open no port to other machines
PASSED = ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "BUKVA_CHECKPOINT_SECONDS")


class InterruptedSweepError(BukvaError):
    """Ctrl-C ended a sweep, which can go on."""

    exit_status = 130


def run(
    sweep: Sweep, location: TrialLocation, resources: dict[str, float], space: dict[str, Any], **choice: Any
) -> list[Any]:
    """Run a sweep, or what is left of it; returns what each trial reported last, with its name and settings.

    Args:
        sweep: the sweep.
        location: where its trials start, and where results go.
        resources: of each trial, as ray_for yields them.
        space: {"trial": the names and settings of all trials}; empty for a search.
        choice: the rest of Tune's configuration: who proposes trials, and who stops them.

    Raises:
        BukvaError: another process runs this sweep, or Ctrl-C ended it.
    """
    from ray import tune

    from bukva.sweep.live import LiveTable
    from bukva.sweep.trial import run_trial

    def trial(config: dict[str, Any]) -> None:
        run_trial(config["trial"]["name"], config["trial"]["settings"], location)

    sweep.keep()
    known, trainable = f"{sweep.storage}/{sweep.name}", tune.with_resources(trial, resources)
    if tune.Tuner.can_restore(known):
        tuner = tune.Tuner.restore(known, trainable, resume_errored=True)
    else:
        tuner = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(
                reuse_actors=False, trial_dirname_creator=lambda each: str(each.config["trial"]["name"]), **choice
            ),
            run_config=tune.RunConfig(
                name=sweep.name,
                storage_path=sweep.storage,
                failure_config=tune.FailureConfig(max_failures=MOST_LOSSES),
                checkpoint_config=tune.CheckpointConfig(num_to_keep=KEPT),
                progress_reporter=LiveTable(sweep.name),
                verbose=1,
            ),
        )
    results = _fit(sweep.name, tuner)
    return [(result.metrics or {}) | (result.config or {})["trial"] for result in results]


def _fit(name: str, tuner: Any) -> Any:
    """Return the results of all trials. Tune would also return after Ctrl-C, with trials that have not even begun.

    Raises:
        BukvaError: another process runs this sweep, or Ctrl-C ended it.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        with driver_lock(name).acquire(timeout=LOCK_SECONDS):
            results = tuner.fit()
        is_interrupted = signal.getsignal(signal.SIGINT) == before  # Tune gives it back at the first Ctrl-C
    except Timeout:
        raise BukvaError(f"{name}: another process runs this sweep; look at: bukva sweep status {name}.") from None
    finally:
        signal.signal(signal.SIGINT, before)  # else Tune's stays, which would ignore the next Ctrl-C
    if is_interrupted:
        n = sum("finished" in (result.metrics or {}) for result in results)
        raise InterruptedSweepError(
            f"{name}: interrupted after {n} finished trials; give the same command again to continue."
        )
    return results


@contextlib.contextmanager
def ray_for(address: str, cores: int, gpus: float | None) -> Iterator[dict[str, float]]:
    """Ray on this machine, or the cluster at an address, until the block ends; yields the resources of each trial.

    Raises:
        BukvaError: Ray is not installed, the cluster does not answer, or this machine has fewer cores than a trial.
    """
    os.environ.update(ENVIRONMENT)  # Ray reads it when it is imported
    if address:
        _check_head(address)
        passed = {name: value for name in PASSED if (value := os.environ.get(name))}
        settings: dict[str, Any] = {"address": address, "runtime_env": {"env_vars": ENVIRONMENT | passed}}
    else:
        if cores > n_cores():
            raise BukvaError(f"--cores: {cores} is not possible with {n_cores()} cores; use 1 to {n_cores()}.")
        os.environ.update(LOOPBACK | {"RAY_AUTH_TOKEN": secrets.token_hex(32)})  # other users reach these ports, too
        settings = {
            "address": "local",  # else Ray takes that of a dead cluster from its files
            "num_cpus": n_cores(),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
        }
    try:
        import ray
    except ImportError:
        raise BukvaError("bukva sweep: Ray is not installed; run: make cluster.") from None
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        own = {} if address else {"_temp_dir": scratch}
        ray.init(**settings, **own, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray").setLevel(logging.CRITICAL)  # the table says why a trial failed, without a traceback
        try:
            has_gpus = ray.cluster_resources().get("GPU", 0) > 0
            yield {"cpu": cores, "gpu": float(has_gpus) if gpus is None else gpus}
        finally:
            ray.shutdown()


def _check_head(address: str) -> None:
    """Ask a cluster for its status, in a process of its own, because Ray ends it where a token is missing.

    Raises:
        BukvaError: it does not answer.
    """
    command = [str(Path(sys.executable).with_name("ray")), "status", "--address", address]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=ANSWER_SECONDS)
    except (subprocess.SubprocessError, FileNotFoundError):
        raise BukvaError(
            f"--address {address}: no Ray head answers there, or it has another token; start it, copy its "
            "~/.ray/auth_token to this machine, and let only its user read that."
        ) from None
