"""The faults, in the order of the table in docs/reliability-method.md."""

from chaos import disturb, kill_experiments, kill_stages, kill_training
from chaos.row import Row
from chaos.sweep_rows import SWEEP_ROWS

ROWS = (
    Row(
        "stages",
        "kill -9 of every stage, at random moments",
        "the process of `dvc repro -f -s STAGE` is killed at a random moment of the stage; every file with a final "
        "name must equal that of an uninterrupted run; then `dvc repro`",
        kill_stages.kill_at_random_moments,
        5,
    ),
    Row(
        "system-calls",
        "kill -9 inside a write, and before and after fsync and rename",
        "in each stage with outputs, and for checkpoints: a program called `python`, first on the PATH of DVC "
        "(chaos/trap.py), makes os.fsync, os.replace and os.rename kill the stage at their n-th call; the limit "
        "RLIMIT_FSIZE makes the kernel kill it inside a write",
        kill_stages.kill_at_system_calls,
        8,
    ),
    Row(
        "mlflow-ahead",
        "kill -9 between an MLflow batch and a checkpoint",
        "a training that saves only its first checkpoint is killed when mlflow.db has a later point; at the end MLflow "
        "has every step once",
        kill_training.kill_after_mlflow_has_points,
        5,
    ),
    Row(
        "dvc",
        "kill -9 of `dvc repro` during a training",
        "the stage notices within seconds and reports it; the training saves and ends",
        kill_training.kill_dvc,
        3,
    ),
    Row(
        "dvc-exp-run",
        "kill -9 of `dvc exp run` during a training",
        "as above; then `git checkout -f main`, because DVC leaves HEAD detached, and the same command again",
        kill_experiments.kill_dvc_exp_run,
        1,
    ),
    Row(
        "before-dvc-lock",
        "kill -9 of DVC between the end of a training and dvc.lock",
        "the stage kills DVC when it ends; the next run resumes at the last step",
        kill_training.kill_dvc_before_it_records,
        3,
    ),
    Row(
        "power-cut",
        "kill -9 of all processes together",
        "DVC, the stage and the processes that they started are killed; the disk keeps what was flushed, which is not "
        "certain in a real power cut",
        kill_training.kill_every_process,
        3,
    ),
    Row(
        "abandoned",
        "kill -9 of all processes of a training that is never resumed",
        "MLflow shows its run as RUNNING, and as KILLED after `bukva sync`",
        kill_training.kill_and_abandon,
        1,
    ),
    Row(
        "signals",
        "SIGTERM, and Ctrl-C at the terminal",
        "the update is finished and saved; the run has status KILLED, and the stage exits with 143 or 130 (after "
        "Ctrl-C, DVC prints -2 if its shell is dash); SIGINT goes to the process group",
        kill_training.stop_by_signals,
        4,
    ),
    Row(
        "two-processes",
        "a training in two processes: kill -9 of one, SIGTERM to both, Ctrl-C, kill -9 of DVC",
        "`train_gpt.processes` 2, under torch's launcher",
        kill_training.stop_two_processes,
        4,
    ),
    Row(
        "experiments",
        "kill -9 in `dvc exp run`, in `--temp` and in the queue",
        "the training is killed in each of the three, and the same command run again",
        kill_experiments.kill_experiments,
        3,
    ),
    Row(
        "full-disk",
        "a full disk, in every stage that writes much",
        "a limit for files (RLIMIT_FSIZE) in the stage's process; the stage prints one sentence, exits with 1 and "
        "leaves no torn file; then the same without a limit",
        disturb.fill_disk,
        7,
    ),
    Row(
        "no-checkpoint",
        "a full disk for checkpoints and for MLflow's database",
        "the same limit, with space for the model; the training continues, reports the problem once and exits with 0; "
        "then `bukva sync`",
        disturb.fill_disk_for_checkpoints,
        1,
    ),
    Row(
        "broken-mlflow",
        "MLflow dead, hanging, corrupt or locked for a whole training",
        "MLFLOW_TRACKING_URI names such a store; the training reports the problem once and exits with 0; then `bukva "
        "sync` to another store",
        disturb.break_mlflow,
        4,
    ),
    Row(
        "queue-workers",
        "four queue workers that start without an MLflow database",
        "`dvc exp run --run-all -j 4`; each training is in MLflow once, with every step",
        disturb.start_four_workers,
        1,
    ),
    Row(
        "two-pipelines",
        "two pipelines in one repository at the same time",
        "a second `dvc repro` while the first one trains; DVC refuses it and prints why, and no results are mixed",
        disturb.run_two_pipelines,
        1,
    ),
    Row(
        "diverged",
        "a loss that explodes",
        "a learning rate of 1e20; a sentence names the step, the rate and the last good checkpoint, which stays; the "
        "run has status FAILED",
        disturb.diverge,
        1,
    ),
    *SWEEP_ROWS,
)
