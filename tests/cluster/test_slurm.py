"""The jobs for Slurm are those that a driver would give out, and the script repeats what is worth it."""

import os
import subprocess

import pytest
from cluster.fakes import place, sweep_of

from bukva.cluster.job import Job
from bukva.cluster.slurm import write_array


@pytest.mark.parametrize(("status", "signal", "requeued"), [(1, False, False), (75, False, True), (143, True, True)])
def test_a_job_is_queued_again_after_its_time_or_while_the_origin_is_away(project, tmp_path, status, signal, requeued):
    """The worker and scontrol are replaced: the one ends with a status, the other leaves a file."""
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho $* > {tmp_path}/requeued\n")
    program = f"trap 'exit 143' TERM; read line; echo \"$line\" > {tmp_path}/job"
    program += "; kill -USR1 $PPID; sleep 60 & wait" if signal else f"; exit {status}"
    (tmp_path / "worker").write_text(f"#!/bin/bash\n{program}\n")
    for name in ("scontrol", "worker"):
        (tmp_path / name).chmod(0o755)
    array = write_array(sweep_of(project, "a", "b"), place(project), 2)
    assert (array.parent / "jobs.jsonl").stat().st_mode & 0o777 == 0o600  # it may have passwords of the environment
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
    assert not requeued or (tmp_path / "requeued").read_text() == "requeue 7_2\n"
