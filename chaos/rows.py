"""The faults, in the order of the table in docs/reliability.md."""

from chaos import disturb, kill_experiments, kill_stages, kill_training
from chaos.row import Row
from chaos.sweep_rows import SWEEP_ROWS

ROWS = (
    Row(
        "stages",
        "kill -9 of every stage, at random moments",
        "`dvc repro -f -s STAGE`, whose process is killed at a random moment of the time that the stage takes; no file "
        "with a final name may differ from that of an uninterrupted run; at the end `dvc repro`",
        kill_stages.kill_at_random_moments,
        5,
    ),
    Row(
        "system-calls",
        "killed inside write, before and after fsync and rename",
        "a program called `python` before the real one (chaos/trap.py) sets the trap in the stage's process: "
        "os.fsync, os.replace and os.rename kill it at their n-th call, the kernel kills it inside a write by "
        "RLIMIT_FSIZE; in each stage with outputs, checkpoints included",
        kill_stages.kill_at_system_calls,
        8,
    ),
    Row(
        "mlflow-ahead",
        "kill -9 between an MLflow batch and a checkpoint",
        "a training that saves its first checkpoint only, killed when mlflow.db has a later point; at the end MLflow "
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
        "the same, then `git checkout -f main`, because DVC leaves HEAD detached, and the same command again",
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
        "kill -9 of every process at once",
        "DVC, the stage, and those that follow it; the disk keeps what was flushed, which a real power cut may not",
        kill_training.kill_every_process,
        3,
    ),
    Row(
        "abandoned",
        "kill -9 of every process of a training that is never resumed",
        "MLflow shows its run as RUNNING, and as KILLED after bukva sync",
        kill_training.kill_and_abandon,
        1,
    ),
    Row(
        "signals",
        "SIGTERM, and Ctrl-C at the terminal",
        "the update is finished and saved, status KILLED, the stage exits with 143 or 130 (after Ctrl-C DVC prints -2 "
        "where its shell is dash); SIGINT goes to the process group",
        kill_training.stop_by_signals,
        4,
    ),
    Row(
        "two-processes",
        "two processes that train together: one killed, terminated, Ctrl-C, dvc killed",
        "train_gpt.processes 2 under torch's launcher",
        kill_training.stop_two_processes,
        4,
    ),
    Row(
        "experiments",
        "kill -9 in dvc exp run, --temp and the queue",
        "the training of each is killed, and the same command given again",
        kill_experiments.kill_experiments,
        3,
    ),
    Row(
        "full-disk",
        "a full disk in every stage that writes much",
        "a limit for files (RLIMIT_FSIZE) in the stage's process: one sentence, status 1, no torn file; then without "
        "limit",
        disturb.fill_disk,
        7,
    ),
    Row(
        "no-checkpoint",
        "a full disk for checkpoints and for MLflow's database",
        "the same limit, with space for the model: training continues, exits with 0, reports it once; then bukva sync",
        disturb.fill_disk_for_checkpoints,
        1,
    ),
    Row(
        "broken-mlflow",
        "MLflow dead, hanging, corrupt, locked, for a whole training",
        "MLFLOW_TRACKING_URI leads there; training exits with 0, reports it once; then bukva sync into another store",
        disturb.break_mlflow,
        4,
    ),
    Row(
        "queue-workers",
        "four queue workers that start without a database",
        "`dvc exp run --run-all -j 4`; each training is in MLflow once, with every step",
        disturb.start_four_workers,
        1,
    ),
    Row(
        "two-pipelines",
        "two pipelines at once in one repository",
        "dvc repro beside a dvc repro that trains: DVC refuses it and prints why, nothing is mixed",
        disturb.run_two_pipelines,
        1,
    ),
    Row(
        "diverged",
        "a loss that explodes",
        "a learning rate of 1e20: a sentence with step, rate and the last good checkpoint, which stays; status FAILED",
        disturb.diverge,
        1,
    ),
    *SWEEP_ROWS,
)
