"""Run one trial in a process of Ray (an actor): run DVC in a git clone, report progress to Tune, and push the result.

The actor ends when Tune stops the trial, or when the process of `bukva sweep` or the machine dies. DVC ends with the
actor. When DVC has ended, the running stage saves its state and ends (see core/processes.py). So no training continues
without its trial.

A stopped trial leaves no result. If its training ended normally after fewer updates, DVC's run cache would record the
shorter training as the result of the trial's settings.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.processes import die_with_parent
from bukva.project.revisions import UNDO_PREFIX, experiment_ref
from bukva.project.stages import paths, trained_models
from bukva.sweep.origin import finished, push_result, run_git
from bukva.sweep.slot import TrialLocation, slot_for
from bukva.sweep.transfer import checkpoint_files, journals_of, pack_checkpoint, pack_result, unpack
from bukva.text.ids import bits

MODEL, SPLIT = "gpt", "val"
VAL = "best_val_nats_per_char"  # metric in a journal
POLL_SECONDS = 0.5
PUSH_SECONDS = 300.0  # how long the origin or the DVC remote may be unavailable
MAX_PAUSE_SECONDS = 30.0  # between two attempts
# finds the cause of a failure at the end of DVC's output
FAILED = re.compile(r"(?:^(.+)\n+)?^ERROR: (?:failed to reproduce|(.+))", re.MULTILINE)

T = TypeVar("T")


def run_trial(name: str, settings: list[str], location: TrialLocation) -> None:
    """Run a trial, and push its result to the origin, the git repository that all machines share.

    During the training, report the step and the best score on val so far to Ray Tune, in bits per character. If the
    origin already has the result, report only the final score.

    Args:
        name: name of the trial and of its experiment.
        settings: values of option -S of `dvc exp run`, such as `model.n_head=8`.
        location: where the trials of the sweep run.

    Raises:
        BukvaError: a stage failed, or the origin or the DVC remote did not answer for PUSH_SECONDS.
    """
    from ray import tune

    with slot_for(location, name) as folder:
        _enter_project(folder, location)
        report = Report(name, location)
        if name not in _retry(lambda: finished(folder, location.origin, location.commit)):
            if checkpoint := tune.get_checkpoint():
                with checkpoint.as_directory() as files:
                    unpack(Path(files), name)
            while any(journal.is_running() for journal in journals_of(name, location.commit)):
                time.sleep(POLL_SECONDS)  # a stage of an earlier attempt is still saving in another slot
            options = [*([] if location.project else ["--pull"]), *(word for each in settings for word in ("-S", each))]
            _run_dvc(name, options, folder, report)
            if not location.project:
                _retry(lambda: report.send_result(folder))
            # the reference is pushed last, because an experiment with a reference counts as complete
            _retry(lambda: push_result(folder, location.origin, location.commit, name))
        run_git(folder, "fetch", "--quiet", location.origin, experiment_ref(location.commit, name))
        scores = json.loads(run_git(folder, "show", f"FETCH_HEAD:./{paths()['metrics']}"))
        tune.report(report.values | {"val": scores[MODEL][SPLIT], "finished": True})


class Report:
    """Progress of a running trial, reported to Ray Tune.

    The step and the best score on val are reported. On a cluster, checkpoints are also sent.

    Args:
        trial: name of the trial.
        location: where the trials of the sweep run.
    """

    def __init__(self, trial: str, location: TrialLocation) -> None:
        self._trial, self._location = trial, location
        self.values: dict[str, Any] = {}
        self._offsets: dict[Path, int] = {}  # bytes read from each journal, by its folder
        self._sent = checkpoint_files()  # existing checkpoints are not sent, because they may belong to other trials

    def update(self) -> None:
        """Report each new score on val to Ray Tune. On a cluster, also send the newest checkpoint."""
        from ray import tune

        for scoring in self._new_scorings():
            self.values = scoring
            tune.report(scoring)
        if self.values and not self._location.project and (new := checkpoint_files() - self._sent):
            with contextlib.suppress(FileNotFoundError):  # a newer checkpoint has replaced this one
                newest = max(new, key=os.path.getmtime)
                self._send(lambda folder: pack_checkpoint(folder, self._trial, self._location.commit, newest))
                self._sent |= new

    def send_result(self, clone: Path) -> None:
        """Send the result of a finished trial to the storage of the sweep (see `pack_result`).

        clone: git clone in which the trial ran.
        """
        self._send(lambda folder: pack_result(folder, self._trial, self._location.commit, clone))

    def _send(self, pack: Callable[[Path], None]) -> None:
        from ray import tune

        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            pack(Path(folder))
            tune.report(dict(self.values), checkpoint=tune.Checkpoint.from_directory(folder))

    def _new_scorings(self) -> list[dict[str, Any]]:
        stage, scorings = trained_models()[MODEL].stage, []
        for journal in journals_of(self._trial, self._location.commit):
            if journal.start["stage"] == stage and not journal.start["restored"]:
                events, self._offsets[journal.folder] = journal.read(self._offsets.get(journal.folder, 0))
                metrics = [event for event in events if event["record"] == "metrics" and VAL in event["values"]]
                scorings += [{"val": bits(event["values"][VAL]), "step": event["step"]} for event in metrics]
        return scorings


def _run_dvc(name: str, options: list[str], folder: Path, report: Report) -> None:
    """Run `dvc exp run` in `folder`, and report the progress of the trial while DVC runs."""
    log = project_root() / ".bukva" / "sweeps" / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w+", encoding="utf-8", errors="replace") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "dvc", "exp", "run", "--name", name, *options],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=die_with_parent,
        )  # fmt: skip
        while process.poll() is None:
            time.sleep(POLL_SECONDS)
            report.update()
        if process.returncode:
            file.seek(0)
            match = FAILED.search(re.sub(rf"^{UNDO_PREFIX}.*", "", file.read(), flags=re.MULTILINE))
            why = match and (match[2] or match[1])
            raise BukvaError(
                why or f"`dvc exp run` failed with exit status {process.returncode}. See {log} for its output."
            )


def _enter_project(folder: Path, location: TrialLocation) -> None:
    """Make this process and its children work in `folder`, which is the project in the trial's git clone."""
    os.chdir(folder)  # DVC can only push from the current folder
    os.environ["BUKVA_ROOT"] = str(location.project or folder)  # folder of journals, checkpoints and MLflow
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if location.project:
        # Ray sets this to the cores of a trial, but trials on this machine share all cores, as in DVC's queue
        os.environ.pop("OMP_NUM_THREADS", None)


def _retry(call: Callable[[], T]) -> T:
    """Return the result of `call`."""
    return Retrying(
        retry=retry_if_exception_type(BukvaError),
        wait=wait_exponential(max=MAX_PAUSE_SECONDS),
        stop=stop_after_delay(PUSH_SECONDS),
        reraise=True,
    )(call)
