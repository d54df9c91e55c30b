"""The trials of a sweep as an array of jobs for Slurm, which runs the same worker.

Slurm takes the place of the driver: it starts workers and repeats those whose node is lost (--requeue). A job that
comes near its time limit saves, and is queued again to go on.
"""

import shlex
import sys
from pathlib import Path

from bukva.base.files import write_text
from bukva.cluster.board import Board, folder_of
from bukva.cluster.driver import Place
from bukva.cluster.job import TRY_AGAIN, Job
from bukva.cluster.origin import push_base
from bukva.cluster.trials import Sweep
from bukva.tracking.background import SOURCE

SAVE_SECONDS = 180  # before the time limit, for a training to save and the worker to send it

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=1-{n}
#SBATCH --cpus-per-task={cores}
#SBATCH --output={folder}/logs/%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@{save}
export PYTHONPATH={source}
again=
trap 'again=1; kill -TERM $worker' USR1
{python} -m bukva.cluster.work < <(sed -n "${{SLURM_ARRAY_TASK_ID}}p" {folder}/jobs.jsonl) &
worker=$!
wait $worker; status=$?
[ -n "$again" ] && {{ wait $worker; status=$?; }}
if [ $status != 0 ] && {{ [ -n "$again" ] || [ $status = {try_again} ]; }}; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit $status
"""


def write_array(sweep: Sweep, place: Place, cores: int) -> Path:
    """Write the jobs and the script for sbatch, both below .bukva/cluster; returns the script.

    Raises:
        BukvaError: there is another sweep of this name, or the origin cannot be reached.
    """
    board, folder = Board.of(sweep), folder_of(sweep.name)
    push_base(place.project, place.origin, sweep.commit)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(trial.name, trial.settings, sweep.commit, place.origin, "", 1, cores, place.environment).to_json()
        for trial in sweep.trials
    ]
    write_text(folder / "jobs.jsonl", "".join(f"{job}\n" for job in jobs))
    (folder / "jobs.jsonl").chmod(0o600)  # the environment may have a password
    script = SCRIPT.format(
        name=sweep.name,
        n=len(jobs),
        cores=cores,
        folder=shlex.quote(str(folder)),
        save=SAVE_SECONDS,
        source=shlex.quote(str(SOURCE)),
        python=shlex.quote(sys.executable),
        try_again=TRY_AGAIN,
    )
    write_text(folder / "array.sh", script)
    board.write()
    return folder / "array.sh"
