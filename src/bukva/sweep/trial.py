"""One trial, in an actor of Ray: runs DVC in a clone, reports to Tune how it goes, and pushes the result.

Tune ends an actor when it stops a trial, and the actor dies with its driver or its machine. DVC dies with the actor,
and a stage saves and ends as soon as its DVC is gone (core/processes.py), so no training goes on without its trial.
A trial that was stopped leaves no result: a shorter training that ends well would enter DVC's run cache as the answer
for its settings.
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
from bukva.project.baseline import WAY_BACK
from bukva.project.revisions import experiment_ref
from bukva.project.stages import paths, trained_models
from bukva.sweep.origin import finished, push_result, run_git
from bukva.sweep.slot import TrialLocation, slot_for
from bukva.sweep.transfer import checkpoint_files, journals_of, pack_checkpoint, pack_result, unpack
from bukva.text.ids import bits

MODEL, SPLIT = "gpt", "val"
VAL = "best_val_nats_per_char"  # in a journal
LOOK_SECONDS = 0.5
PUSH_SECONDS = 300.0  # for an origin or a remote to come back
LONGEST_PAUSE_SECONDS = 30.0
FAILED = re.compile(r"(?:^(.+)\n+)?^ERROR: (?:failed to reproduce|(.+))", re.MULTILINE)  # what DVC prints last

Answer = TypeVar("Answer")


def run_trial(name: str, settings: list[str], location: TrialLocation) -> None:
    """Run a trial until the origin has its result; reports to Tune val in bits per character, and the step.

    Args:
        name: of the experiment.
        settings: options -S of `dvc exp run`, each with one value.
        location: where it starts, and where its result goes.

    Raises:
        BukvaError: a stage failed, or the origin or the remote did not answer for PUSH_SECONDS.
    """
    from ray import tune

    with slot_for(location, name) as folder:
        _become_part_of(folder, location)
        report = Report(name, location)
        if name not in _patiently(lambda: finished(folder, location.origin, location.commit)):
            if carried := tune.get_checkpoint():
                with carried.as_directory() as files:
                    unpack(Path(files), name)
            while any(journal.is_running() for journal in journals_of(name, location.commit)):
                time.sleep(LOOK_SECONDS)  # a stage of an earlier attempt is still saving, in another slot
            options = [*([] if location.project else ["--pull"]), *(word for each in settings for word in ("-S", each))]
            _run_dvc(name, options, folder, report)
            if not location.project:
                _patiently(lambda: report.send_result(folder))
            # the reference goes last: where it is, the experiment is complete
            _patiently(lambda: push_result(folder, location.origin, location.commit, name))
        run_git(folder, "fetch", "--quiet", location.origin, experiment_ref(location.commit, name))
        scores = json.loads(run_git(folder, "show", f"FETCH_HEAD:./{paths()['metrics']}"))
        tune.report(report.values | {"val": scores[MODEL][SPLIT], "finished": True})


class Report:
    """Reports to Tune while a trial runs: the best val so far in bits per character, and the step of its scoring.

    Args:
        trial: its name.
        location: where it starts.
    """

    def __init__(self, trial: str, location: TrialLocation) -> None:
        self._trial, self._location = trial, location
        self.values: dict[str, Any] = {}
        self._read: dict[Path, int] = {}  # bytes of each journal
        self._sent = checkpoint_files()  # not those that were here before: they may be of other trials

    def update(self) -> None:
        """Report each new scoring of val, and of a trial of a cluster each new checkpoint."""
        from ray import tune

        for scoring in self._new_scorings():
            self.values = scoring
            tune.report(scoring)
        if self.values and not self._location.project and (new := checkpoint_files() - self._sent):
            with contextlib.suppress(FileNotFoundError):  # a newer one has replaced it, and is sent next time
                newest = max(new, key=os.path.getmtime)
                self._send(lambda folder: pack_checkpoint(folder, self._trial, self._location.commit, newest))
                self._sent |= new

    def send_result(self, clone: Path) -> None:
        """Send the files of a finished trial to the driver's project."""
        self._send(lambda folder: pack_result(folder, self._trial, self._location.commit, clone))

    def _send(self, pack: Callable[[Path], None]) -> None:
        from ray import tune

        with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
            pack(Path(folder))
            tune.report(dict(self.values), checkpoint=tune.Checkpoint.from_directory(folder))

    def _new_scorings(self) -> list[dict[str, Any]]:
        stage, found = trained_models()[MODEL].stage, []
        for journal in journals_of(self._trial, self._location.commit):
            if journal.start["stage"] == stage and not journal.start["restored"]:
                events, self._read[journal.folder] = journal.read(self._read.get(journal.folder, 0))
                metrics = [event for event in events if event["record"] == "metrics" and VAL in event["values"]]
                found += [{"val": bits(event["values"][VAL]), "step": event["step"]} for event in metrics]
        return found


def _run_dvc(name: str, options: list[str], folder: Path, report: Report) -> None:
    """Run `dvc exp run`; what it prints is in .bukva/sweeps/logs.

    Raises:
        BukvaError: it fails.
    """
    log = project_root() / ".bukva" / "sweeps" / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w+", encoding="utf-8", errors="replace") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "dvc", "exp", "run", "--name", name, *options],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file, preexec_fn=die_with_parent,
        )  # fmt: skip
        while process.poll() is None:
            time.sleep(LOOK_SECONDS)
            report.update()
        if process.returncode:
            file.seek(0)
            said = FAILED.search(re.sub(rf"^{WAY_BACK}.*", "", file.read(), flags=re.MULTILINE))
            why = said and (said[2] or said[1])
            raise BukvaError(why or f"dvc exp run: exit status {process.returncode}; {log} has what it printed.")


def _become_part_of(folder: Path, location: TrialLocation) -> None:
    """Point this process and its children at the trial's project."""
    os.chdir(folder)  # DVC refuses to send from elsewhere
    os.environ["BUKVA_ROOT"] = str(location.project or folder)  # where journals, checkpoints and MLflow are
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    if location.project:
        # Ray sets it to the cores of a trial; trials of this machine share all cores, as in DVC's queue
        os.environ.pop("OMP_NUM_THREADS", None)


def _patiently(call: Callable[[], Answer]) -> Answer:
    """Call what needs the origin or the remote until it succeeds; a server may restart.

    Raises:
        BukvaError: it has failed for PUSH_SECONDS.
    """
    return Retrying(
        retry=retry_if_exception_type(BukvaError),
        wait=wait_exponential(max=LONGEST_PAUSE_SECONDS),
        stop=stop_after_delay(PUSH_SECONDS),
        reraise=True,
    )(call)
