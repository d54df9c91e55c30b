"""The trials of a sweep as an array of jobs for Slurm, which runs the same worker.

Slurm takes the place of the driver: it starts workers and repeats those whose node is lost (--requeue). A job that
comes near its time limit saves, and is queued again to go on.
"""

import shlex
import sys
from pathlib import Path

from bukva.cluster.board import Board, folder_of
from bukva.cluster.driver import Place
from bukva.cluster.job import TRY_AGAIN, Job
from bukva.cluster.origin import push_base
from bukva.cluster.together import MEETING_SECONDS
from bukva.cluster.trials import Sweep
from bukva.core.files import write_text
from bukva.core.processes import SOURCE

SAVE_SECONDS = 180  # before the time limit, for a training to save and the worker to send it

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=1-{n}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={cores}
#SBATCH --output={folder}/logs/%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@{save}
export PYTHONPATH={source}
work() {{
    exec {python} -m bukva.cluster.work < <(sed -n "${{SLURM_ARRAY_TASK_ID}}p" {folder}/jobs.jsonl)
}}
{together}again=
trap 'again=1; kill -TERM $worker' USR1
work &
worker=$!
wait $worker; status=$?
[ -n "$again" ] && {{ wait $worker; status=$?; }}
if [ $status != 0 ] && {{ [ -n "$again" ] || [ $status = {try_again} ]; }}; then
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
fi
exit $status
"""

# The script itself runs on the first machine. Slurm ends the others with it.
TOGETHER = """\
export PET_NNODES={nodes} PET_NODE_RANK=0 PET_RDZV_CONF=timeout={seconds}
export PET_MASTER_ADDR=$(hostname) PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
srun --nodes={others} --ntasks={others} --relative=1 --cpus-per-task={cores} \\
    bash -c "$(declare -f work); PET_NODE_RANK=\\$((SLURM_PROCID + 1)) work" &
"""


def write_array(sweep: Sweep, place: Place, cores: int, nodes: int = 1) -> Path:
    """Write the jobs and the script for sbatch, both below .bukva/cluster; returns the script.

    Args:
        sweep: the trials.
        place: where they start and where results go.
        cores: of each trial, on each of its machines.
        nodes: machines of each trial.

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
        nodes=nodes,
        cores=cores,
        folder=shlex.quote(str(folder)),
        save=SAVE_SECONDS,
        source=shlex.quote(str(SOURCE)),
        python=shlex.quote(sys.executable),
        try_again=TRY_AGAIN,
        together=TOGETHER.format(nodes=nodes, others=nodes - 1, cores=cores, seconds=MEETING_SECONDS)
        if nodes > 1
        else "",
    )
    write_text(folder / "array.sh", script)
    board.write()
    return folder / "array.sh"
