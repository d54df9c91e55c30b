"""The faults, in the order of the table in docs/reliability.md."""

from chaos import disturb, kill_experiments, kill_stages, kill_training
from chaos.row import Row
from chaos.sweep_rows import SWEEP_ROWS

ROWS = (
    Row(
        "stages",
        "kill -9 of every stage, at random moments",
        "`dvc repro -f -s STAGE`, whose process is killed at a random moment while the stage runs; no file with a "
        "final name may differ from an uninterrupted run; `dvc repro` at the end",
        kill_stages.kill_at_random_moments,
        5,
    ),
    Row(
        "system-calls",
        "kill inside write, before and after fsync and rename",
        "a program called `python` comes before the real one on the PATH (chaos/trap.py); in the stage's process, the "
        "n-th call of os.fsync, os.replace or os.rename kills the process, or the kernel kills it inside a write "
        "(RLIMIT_FSIZE); in each stage with outputs, including its checkpoints",
        kill_stages.kill_at_system_calls,
        8,
    ),
    Row(
        "mlflow-ahead",
        "kill -9 between an MLflow batch and a checkpoint",
        "a training saves only its first checkpoint and is killed when mlflow.db has a later point; at the end MLflow "
        "has every step once",
        kill_training.kill_after_mlflow_has_points,
        5,
    ),
    Row(
        "dvc",
        "kill -9 of dvc while it trains",
        "the stage notices within seconds and reports it; a training saves and ends",
        kill_training.kill_dvc,
        3,
    ),
    Row(
        "dvc-exp-run",
        "kill -9 of dvc exp run while it trains",
        "as in the row above; then `git checkout -f main`, because DVC leaves HEAD detached, and the same command "
        "again",
        kill_experiments.kill_dvc_exp_run,
        1,
    ),
    Row(
        "before-dvc-lock",
        "kill -9 of dvc between the end of a training and dvc.lock",
        "the stage kills dvc when it ends; the next run resumes at the last step",
        kill_training.kill_dvc_before_it_records,
        3,
    ),
    Row(
        "power-cut",
        "kill -9 of all processes at the same time",
        "DVC, the stage and its background processes; unlike a real power cut, the disk keeps data that was not synced",
        kill_training.kill_every_process,
        3,
    ),
    Row(
        "abandoned",
        "kill -9 of every process of a training that is never resumed",
        "MLflow shows its run as RUNNING, and after `bukva sync` as KILLED",
        kill_training.kill_and_abandon,
        1,
    ),
    Row(
        "signals",
        "SIGTERM, and Ctrl-C at the terminal",
        "the current update is completed and saved, the run gets status KILLED, and the stage exits with 143 or 130 "
        "(after Ctrl-C, DVC prints -2 if its shell is dash); SIGINT goes to the process group",
        kill_training.stop_by_signals,
        4,
    ),
    Row(
        "two-processes",
        "two processes that train together: one killed, launcher terminated, Ctrl-C, dvc killed",
        "train_gpt.processes=2 with torch's launcher; then the same command again",
        kill_training.stop_two_processes,
        4,
    ),
    Row(
        "experiments",
        "kill -9 in dvc exp run, --temp and the queue",
        "the training of each experiment is killed, then the same command is repeated",
        kill_experiments.kill_experiments,
        3,
    ),
    Row(
        "full-disk",
        "a full disk in every stage that writes much",
        "a file size limit (RLIMIT_FSIZE) in the stage's process: one message, exit status 1, no torn file; then a run "
        "without the limit",
        disturb.fill_disk,
        7,
    ),
    Row(
        "no-checkpoint",
        "a full disk for checkpoints and for MLflow's database",
        "the same limit, but with space for the model: training continues, exits with 0 and reports the fault once; "
        "then `bukva sync`",
        disturb.fill_disk_for_checkpoints,
        1,
    ),
    Row(
        "broken-mlflow",
        "MLflow dead, hanging, corrupt, locked, for a whole training",
        "MLFLOW_TRACKING_URI names the broken store; training exits with 0 and reports the fault once; then "
        "`bukva sync` into another store",
        disturb.break_mlflow,
        4,
    ),
    Row(
        "queue-workers",
        "four queue workers that start without a database",
        "`dvc exp run --run-all -j 4`; MLflow has each training once, with every step",
        disturb.start_four_workers,
        1,
    ),
    Row(
        "two-pipelines",
        "two pipelines at the same time in one repository",
        "`dvc repro` while another `dvc repro` trains: DVC refuses the second command and prints why; the outputs "
        "equal those of an undisturbed run",
        disturb.run_two_pipelines,
        1,
    ),
    Row(
        "diverged",
        "a loss that explodes",
        "a learning rate of 1e20: one message with step, learning rate and last good checkpoint, which is kept; status "
        "FAILED",
        disturb.diverge,
        1,
    ),
    *SWEEP_ROWS,
)
