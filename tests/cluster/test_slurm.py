"""The jobs for Slurm are those that a driver would give out, and the script repeats what is worth it."""

import os
import socket
import subprocess
import sys

import pytest
from cluster.fakes import place, sweep_of

from bukva.cluster.board import Board
from bukva.cluster.job import Job
from bukva.cluster.origin import run_git
from bukva.cluster.slurm import write_array


@pytest.fixture
def array(project):
    return write_array(sweep_of(project, "a", "b"), place(project), 2)


def test_each_line_is_a_job(project, array):
    jobs = [Job.from_json(line) for line in (array.parent / "jobs.jsonl").read_text().splitlines()]
    assert [(job.trial, job.settings, job.cores) for job in jobs] == [
        ("a", ("train_gpt.seed=0",), 2),
        ("b", ("train_gpt.seed=1",), 2),
    ]
    assert (array.parent / "jobs.jsonl").stat().st_mode & 0o777 == 0o600
    assert run_git(project, "ls-remote", place(project).origin, f"refs/bukva/base/{jobs[0].commit}")
    assert set(Board.read("tries").trials) == {"a", "b"}


def test_a_trial_on_several_machines_gets_the_variables_of_torchrun(project, tmp_path):
    """srun and the worker are replaced: the one runs its command as the second task, the other notes what it got."""
    script = write_array(sweep_of(project, "a"), place(project), 1, nodes=3)
    assert "#SBATCH --nodes=3\n" in script.read_text()
    (tmp_path / "srun").write_text(f'#!/bin/sh\necho $* > {tmp_path}/srun.txt\nshift 4; SLURM_PROCID=1 exec "$@"\n')
    note = f"env | grep ^PET_ | sort > {tmp_path}/$PET_NODE_RANK.txt; read line; sleep 1"
    (tmp_path / "worker").write_text(f"#!/bin/bash\n{note}\n")
    for name in ("srun", "worker"):
        (tmp_path / name).chmod(0o755)
    script.write_text(script.read_text().replace(f"{sys.executable} -m bukva.cluster.work", f"{tmp_path}/worker"))
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "70001"}
    assert subprocess.run(["bash", str(script)], env=env).returncode == 0
    assert "--nodes=2 --ntasks=2 --relative=1" in (tmp_path / "srun.txt").read_text()
    for rank in (0, 2):
        assert (tmp_path / f"{rank}.txt").read_text().splitlines() == [
            f"PET_MASTER_ADDR={socket.gethostname()}", "PET_MASTER_PORT=20001", "PET_NNODES=3",
            f"PET_NODE_RANK={rank}", "PET_RDZV_CONF=timeout=3600",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "signal", "requeued"), [(0, False, False), (1, False, False), (75, False, True), (143, True, True)]
)
def test_a_job_is_queued_again_after_its_time_or_while_the_origin_is_away(array, tmp_path, status, signal, requeued):
    """The worker and scontrol are replaced: the one ends with a status, the other leaves a file."""
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho $* > {tmp_path}/requeued\n")
    program = f"trap 'exit 143' TERM; read line; echo \"$line\" > {tmp_path}/job"
    program += "; kill -USR1 $PPID; sleep 60 & wait" if signal else f"; exit {status}"
    (tmp_path / "worker").write_text(f"#!/bin/bash\n{program}\n")
    for name in ("scontrol", "worker"):
        (tmp_path / name).chmod(0o755)
    lines = array.read_text().splitlines()
    [index] = [number for number, line in enumerate(lines) if "-m bukva.cluster.work" in line]
    lines[index] = f"exec {tmp_path}/worker <{lines[index].partition('<')[2]}"
    array.write_text("\n".join(lines))
    env = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_ARRAY_TASK_ID": "2",
        "SLURM_ARRAY_JOB_ID": "7",
    }
    assert subprocess.run(["bash", str(array)], env=env).returncode == status
    assert Job.from_json((tmp_path / "job").read_text()).trial == "b"
    assert (tmp_path / "requeued").exists() is requeued
    if requeued:
        assert (tmp_path / "requeued").read_text() == "requeue 7_2\n"
