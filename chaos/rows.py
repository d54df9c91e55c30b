"""The faults, in the order of the table in docs/reliability-method.md."""

from chaos import disturb, kill_experiments, kill_stages, kill_training
from chaos.row import Row
from chaos.sweep_rows import SWEEP_ROWS

ROWS = (
    Row(
        "stages",
        "`kill -9` of each stage, at random moments",
        "`dvc repro -f -s STAGE`; the process of the stage is killed at a random moment; no file with a final name may "
        "differ from an uninterrupted run; `dvc repro` at the end",
        kill_stages.kill_at_random_moments,
        5,
    ),
    Row(
        "system-calls",
        "a kill inside a write, and before and after an fsync and a rename",
        "a program called `python` precedes the real one on the PATH (chaos/trap.py); the n-th call of os.fsync, "
        "os.replace or os.rename kills the process of the stage, or the kernel kills it inside a write (RLIMIT_FSIZE); "
        "in each stage with outputs, also for its checkpoints",
        kill_stages.kill_at_system_calls,
        8,
    ),
    Row(
        "mlflow-ahead",
        "`kill -9` after MLflow has received later points than the last checkpoint",
        "a training saves only its first checkpoint, and is killed when mlflow.db has a later point; at the end, "
        "MLflow must have every step once",
        kill_training.kill_after_mlflow_has_points,
        5,
    ),
    Row(
        "dvc",
        "`kill -9` of DVC while a stage trains",
        "the stage must notice this within seconds, report it, save a checkpoint and end",
        kill_training.kill_dvc,
        3,
    ),
    Row(
        "dvc-exp-run",
        "`kill -9` of `dvc exp run` while a stage trains",
        "as in the row above; `git checkout -f main`, because DVC leaves HEAD detached; then the same command again",
        kill_experiments.kill_dvc_exp_run,
        1,
    ),
    Row(
        "before-dvc-lock",
        "`kill -9` of DVC between the end of a training and the writing of dvc.lock",
        "the stage kills DVC when it ends; the next run must resume at the last step",
        kill_training.kill_dvc_before_it_records,
        3,
    ),
    Row(
        "power-cut",
        "`kill -9` of all processes at the same time",
        "DVC, the stage and its background processes; unlike in a real power cut, the disk keeps data that was not "
        "synced",
        kill_training.kill_every_process,
        3,
    ),
    Row(
        "abandoned",
        "`kill -9` of all processes of a training that is never resumed",
        "MLflow shows the run of the training as RUNNING, and after `bukva sync` as KILLED",
        kill_training.kill_and_abandon,
        1,
    ),
    Row(
        "signals",
        "SIGTERM, and Ctrl-C in the terminal",
        "the training must complete and save the current update, and its run must get the status KILLED; the stage "
        "exits with 143 or 130 (after Ctrl-C, DVC prints -2 if its shell is dash); SIGINT goes to the process group",
        kill_training.stop_by_signals,
        4,
    ),
    Row(
        "two-processes",
        "a training in two processes: one process killed, the launcher terminated, Ctrl-C, DVC killed",
        "`train_gpt.processes=2` with torch's launcher; after each fault, the same command again",
        kill_training.stop_two_processes,
        4,
    ),
    Row(
        "experiments",
        "`kill -9` of a training in `dvc exp run`, with `--temp` and in DVC's queue",
        "each training is killed; then the same command again",
        kill_experiments.kill_experiments,
        3,
    ),
    Row(
        "full-disk",
        "a full disk, in each stage that writes large files",
        "a file size limit (RLIMIT_FSIZE) for the process of the stage; the stage must print one message, exit with "
        "status 1 and leave no incomplete file; then a run without the limit",
        disturb.fill_disk,
        7,
    ),
    Row(
        "no-checkpoint",
        "a full disk for checkpoints and for MLflow's database",
        "the same limit, but with enough space for the model; the training must continue, report the fault once and "
        "exit with 0; then `bukva sync`",
        disturb.fill_disk_for_checkpoints,
        1,
    ),
    Row(
        "broken-mlflow",
        "an MLflow store that is dead, hanging, corrupt or locked for a whole training",
        "MLFLOW_TRACKING_URI names the broken store; the training must report the fault once and exit with 0; then "
        "`bukva sync` into another store",
        disturb.break_mlflow,
        4,
    ),
    Row(
        "queue-workers",
        "four queue workers that start before MLflow's database exists",
        "`dvc exp run --run-all -j 4`; MLflow must have each training once, with every step",
        disturb.start_four_workers,
        1,
    ),
    Row(
        "two-pipelines",
        "two pipelines at the same time in one repository",
        "`dvc repro` while another `dvc repro` trains; DVC must refuse the second command and print the reason; the "
        "outputs must equal those of an undisturbed run",
        disturb.run_two_pipelines,
        1,
    ),
    Row(
        "diverged",
        "a training that diverges",
        "a learning rate of 1e6; the stage must print one message with step, learning rate and last good checkpoint, "
        "and keep this checkpoint; the run must get the status FAILED",
        disturb.diverge,
        1,
    ),
    *SWEEP_ROWS,
)
