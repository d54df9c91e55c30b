"""The faults, in the order of the table."""

from collections.abc import Callable
from dataclasses import dataclass

from chaos import killing, trouble
from chaos.scene import Scene
from chaos.trouble import by_tests

Fault = Callable[[Scene, int], list[str]]


@dataclass(frozen=True)
class Row:
    """A fault: what is done, how, and how often (of a fault that tests work, each test is a try)."""

    name: str
    what: str
    how: str
    work: Fault
    tries: int = 0
    few: int = 0  # in make test

    def lost(self, scene: Scene, tries: int) -> list[str]:
        """What each try lost, or nothing; a try at which the fault was not met counts as lost."""
        verdicts = self.work(scene, tries)
        return verdicts + ["the fault was not met"] * (max(tries, 1) - len(verdicts))


ROWS = (
    Row(
        "stages",
        "kill -9 in every stage, at random moments",
        "`dvc repro -f -s STAGE`, its process killed somewhere in the time that the stage takes; no file under a final "
        "name may differ from that of a whole run; in the end `dvc repro`; as often in each stage",
        killing.in_every_stage,
        5,
        1,
    ),
    Row(
        "points",
        "killed inside write, before and after fsync and rename",
        "a program called `python` before the real one (chaos/victim.py) sets the trap in the stage's process: "
        "os.fsync, os.replace and os.rename kill it at their n-th call, the kernel kills it inside a write by "
        "RLIMIT_FSIZE; in each stage with outputs, checkpoints among them",
        killing.at_fault_points,
        8,
        1,
    ),
    Row(
        "between",
        "kill -9 between an MLflow batch and a checkpoint",
        "a training without checkpoints but the first, killed when mlflow.db has a later point; then every step is in "
        "MLflow once",
        killing.between_mlflow_and_checkpoint,
        5,
        1,
    ),
    Row(
        "dvc",
        "kill -9 of dvc while it trains",
        "the stage notices within seconds and says so; a training saves and ends",
        killing.of_dvc,
        3,
        1,
    ),
    Row(
        "dvcexp",
        "kill -9 of dvc exp run while it trains",
        "the same, then `git checkout -f main`, for DVC leaves HEAD detached, and the same command again",
        killing.of_dvc_in_an_experiment,
        1,
        0,
    ),
    Row(
        "recorded",
        "kill -9 of dvc between the end of a training and dvc.lock",
        "the stage's last act is to kill dvc; the next run goes on from the last step",
        killing.of_dvc_before_it_knows,
        3,
        1,
    ),
    Row(
        "power",
        "kill -9 of every process at once",
        "DVC, the stage, and those that follow it; the disk keeps what it was told to flush, which a real power cut "
        "may not",
        killing.of_everything,
        3,
        1,
    ),
    Row(
        "abandoned",
        "kill -9 of every process, and another experiment goes on",
        "the run that MLflow shows as RUNNING is KILLED when the next stage has started",
        killing.left_running,
        1,
        1,
    ),
    Row(
        "signals",
        "SIGTERM, and Ctrl-C at the terminal",
        "the update is finished and saved, status KILLED, the stage exits with 143 or 130 (of Ctrl-C DVC says -2 where "
        "its shell is dash); SIGINT goes to the process group",
        killing.by_signals,
        4,
        2,
    ),
    Row(
        "processes",
        "two processes that train together: one killed, terminated, Ctrl-C, dvc killed",
        "train_gpt.processes 2 under torch's launcher",
        killing.of_several_processes,
        4,
        2,
    ),
    Row(
        "experiments",
        "kill -9 in dvc exp run, --temp and the queue",
        "the training of each killed, the same command given again",
        killing.of_experiments,
        3,
        0,
    ),
    Row(
        "restored",
        "a killed training whose outputs DVC then has from its run cache",
        "the next stage that starts removes the checkpoints",
        trouble.restored_by_dvc,
        1,
        1,
    ),
    Row(
        "full",
        "a full disk in every stage that writes much",
        "a limit for files (RLIMIT_FSIZE) in the stage's process: one sentence, status 1, no half file; then with room",
        trouble.full_disk,
        7,
        0,
    ),
    Row(
        "nocheckpoint",
        "a full disk for checkpoints and for MLflow's database",
        "the same limit, with room for the model: training goes on, exits 0, says so once; then make sync",
        trouble.full_disk_for_checkpoints,
        1,
        1,
    ),
    Row(
        "mlflow",
        "MLflow dead, hanging, corrupt, locked, for a whole training",
        "MLFLOW_TRACKING_URI leads there; training exits 0 and says so once; then make sync into another store",
        trouble.mlflow_in_trouble,
        4,
        0,
    ),
    Row(
        "workers",
        "four queue workers that start on no database at all",
        "`dvc exp run --run-all -j 4`; each training is in MLflow once, with every step",
        trouble.four_workers,
        1,
        0,
    ),
    Row(
        "two",
        "two pipelines at once in one repository",
        "dvc repro beside a dvc repro that trains: refused in DVC's words, nothing mixed",
        trouble.two_pipelines,
        1,
        1,
    ),
    Row(
        "diverged",
        "a loss that explodes",
        "a learning rate of 1e20: a sentence with step, rate and the last good checkpoint, kept; status FAILED",
        trouble.diverging,
        1,
        1,
    ),
    Row(
        "trackers",
        "MLflow: 500, killed in mid-run, read-only, an older or newer version, four at once on no database, ...",
        "tests/tracking/test_trouble.py",
        by_tests("tests/tracking/test_trouble.py"),
    ),
    Row(
        "downloads",
        "downloads and archives: cut, dripping, redirected, wrong, links, bombs",
        "tests/text/test_fetching.py and test_archives.py, against a server on loopback",
        by_tests("tests/text/test_fetching.py", "tests/text/test_archives.py"),
    ),
    Row(
        "texts",
        "texts: empty, 100 MB in a line, NUL, invalid UTF-8, 200,000 symbols, one symbol, ...",
        "tests/text/test_stages.py and test_corpora.py, through the functions of the four light stages",
        by_tests("tests/text/test_stages.py", "tests/text/test_corpora.py"),
    ),
    Row(
        "strangers",
        "model files and checkpoints from strangers",
        "tests/test_modelfolder.py, tests/training/test_checkpoint.py and test_resuming.py",
        by_tests("tests/test_modelfolder.py", "tests/training/test_checkpoint.py", "tests/training/test_resuming.py"),
    ),
    Row(
        "params",
        "values of params.yaml",
        "tests/test_params_run.py: each is refused in a sentence, or run",
        by_tests("tests/test_params_run.py"),
    ),
    Row(
        "secrets",
        "credentials in addresses",
        "tests/test_secrets.py: none in errors, journals, tags or files",
        by_tests("tests/test_secrets.py"),
    ),
)
