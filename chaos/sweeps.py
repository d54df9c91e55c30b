"""Rows of sweeps and parallel seeds: on this machine, and on a Ray cluster of simulated machines with one project."""

import functools
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil

from bukva.core.processes import free_port
from chaos import network
from chaos.setup import LONG, Once, Row, Setup, not_resumed
from tests.support.project import ROOT, SAVE_OFTEN, Project
from tests.support.running import Running, select, send, wait_until, wait_until_empty

SWEEP = "python", "-m", "bukva", "sweep"
LONGER = "-S", f"train_gpt.n_steps={LONG[-1]}", "-S", f"train_gpt.eval_every={LONG[1]}"
SEEDS = *LONGER, "-S", "train_gpt.seed=3,5"
GOOD, BAD = "0.01", [f"{n}e-05" for n in range(1, 9)]  # learning rates
STEPS = list(range(0, 3001, 1000))  # steps at which a trial on the cluster scores val
TRIAL = "-S", "train_gpt.n_steps=3000", "-S", "train_gpt.eval_every=1000", "-S", "train_gpt.seed=3"
RAY = str(Path(sys.executable).with_name("ray"))
SECONDS = 400.0  # limit for a whole trial, including the time until Ray notices a dead machine
NODE = "CHAOS_NODE"  # environment variable of all processes of a machine

# ---- one machine


def sweep(setup: Setup, number: int) -> str:
    """A sweep on one machine: `kill -9` of the process of a trial, and of the driver.

    `bukva sweep run` with two seeds; then the same command again; the results must equal those of `dvc exp run`, and
    MLflow must have each training once.
    """
    project = _fresh_project(setup, f"sweep-{number}")
    driver = project.start(*SWEEP, "run", *SEEDS)
    assert driver.reaches(project.has_checkpoint), driver.printed
    _kill_actor(driver)
    wait_until(lambda: "running" in project.run(*SWEEP, "status"))
    driver.process.kill()
    driver.wait()
    printed = project.run(*SWEEP, "run", *SEEDS)
    locks = _locks(project)
    if set(locks.values()) != _results_of_dvc(setup):
        return f"its results differ from those of `dvc exp run`: {printed}"
    project.sync()
    left = wait_until_empty(project.leftovers)
    return _mlflow_fault(project, locks, LONG) or (f"left over: {left}" if left else "")


def _kill_actor(driver: Running) -> None:
    """Kill the process of Ray that runs a trial."""
    select(driver.children(), lambda process: "exp" in process.cmdline())[0].parent().kill()


@functools.cache
def _results_of_dvc(setup: Setup) -> set[str]:
    project = _fresh_project(setup, "without-sweep")
    for seed in (3, 5):
        project.run("dvc", "exp", "run", "--temp", *LONGER, "-S", f"train_gpt.seed={seed}")
    results = set(_locks(project).values())
    assert len(results) == 2
    return results


def judge(setup: Setup, _: int) -> str:
    """`bukva judge --parallel 2`: `kill -9` of the process of a training.

    Seven seeds of a baseline; the ledger and all results must equal those of `bukva judge` without `--parallel`.
    """
    found = []
    for options in ((), ("--parallel", "2")):
        project = _fresh_project(setup, f"judge-{len(options)}")
        project.run("dvc", "exp", "run", "--temp", "-n", "longer", *LONGER)
        running = project.start("python", "-m", "bukva", "judge", "longer", "longer", *options)
        if options:
            assert running.reaches(project.has_checkpoint), running.printed
            _kill_actor(running)
        if running.wait():
            return running.printed
        found.append((project.read("reports/judge.jsonl"), _locks(project)))
    alone, parallel = found
    return "" if alone == parallel else f"the ledger or a result differs: {parallel[0]}"


def sweep_pruned(setup: Setup, number: int) -> str:
    """A trial that a search stops, and that is continued later.

    A search over learning rates, of which all but one are far too small; then `bukva sweep run` with one that was
    stopped must resume the training.
    """
    project = _fresh_project(setup, f"pruned-{number}")
    project.set({"train_gpt": {"n_steps": 1800, "eval_every": 100, "seed": number}})
    project.commit("longer")
    rates = f"train_gpt.learning_rate={','.join([GOOD, *BAD])}"
    project.run(*SWEEP, "search", "-S", rates, "--trials", "10", "--seeds", "0")
    rows = [line.split() for line in project.run(*SWEEP, "status").splitlines()]
    finished = {row[1] for row in rows if row[2:3] == ["finished"]}  # two trials may have the same rate
    stopped = [row for row in rows if row[2:3] == ["stopped"] and row[1] not in finished]
    if not stopped or any(row[1].endswith(f"={GOOD}") for row in stopped):
        return f"the search stopped {stopped}"
    if {row[0] for row in stopped} & _locks(project).keys():
        return "a stopped trial has a result"
    project.run(*SWEEP, "run", "--name", "again", "-S", stopped[0][1])
    return not_resumed(_logs(project, "again-*"))


def _fresh_project(setup: Setup, name: str) -> Project:
    """Return a project with a baseline, without the parameters and experiments that other rows leave behind."""
    project = setup.new_project(name)
    project.env["PYTHONPATH"] = "src"
    project.run("dvc", "repro")
    project.commit("experiments start from a commit")
    return project


def _locks(project: Project) -> dict[str, str]:
    """Return dvc.lock of each experiment of the last commit, by name."""
    listed = project.run("dvc", "exp", "list", "--name-only").split()
    return {name: project.read_from_experiment(name, "dvc.lock") for name in listed}


def _logs(project: Project, trial: str = "*") -> str:
    return "".join(log.read_text(encoding="utf-8") for log in project.folder.glob(f".bukva/sweeps/logs/{trial}.log"))


def _mlflow_fault(project: Project, trials: dict[str, str], steps: list[int], *, once: bool = True) -> str:
    """Check that each trial has exactly one finished training with these steps in MLflow. Return the fault, or ""."""
    finished = [run for run in project.gpt_runs("FINISHED") if run["experiment"] in trials]
    names = sorted(run["experiment"] for run in finished)
    is_whole = (names if once else sorted(set(names))) == sorted(trials)
    is_whole = is_whole and all(run["steps"] == steps for run in finished)
    return "" if is_whole and not project.has_running_run() else f"MLflow has {project.training_runs()}"


# ---- a cluster: a head without cores for trials, and two machines with one core each


class Cluster:
    """A project with a sweep of one trial, and a Ray cluster on simulated machines, or without them on this machine."""

    def __init__(self, project: Project, scratch: str, machines: list[network.Machine]) -> None:
        self.project, self.machines, self._scratch = project, machines, scratch
        self.address = f"{machines[0].address if machines else '127.0.0.1'}:{free_port(0)}"
        self.nodes: list[Running] = []  # the first is the head

    def start(self) -> None:
        port = self.address.rpartition(":")[2]
        head = "--head", "--port", port, "--include-dashboard=false", "--num-cpus=0", f"--temp-dir={self._scratch}"
        self.nodes = []
        for number, options in enumerate((head, *[("--address", self.address, "--num-cpus=1")] * 2)):
            host = ["--node-ip-address", self.machines[number].address] if self.machines else []
            words = RAY, "start", "--block", "--disable-usage-stats", *options, *host
            ray = self._start_on(number, *words, **{NODE: str(number)})
            assert ray.prints("Ray runtime started"), ray.printed
            self.nodes.append(ray)

    def stop(self) -> None:
        """End all processes that are still running."""
        for ray in reversed(self.nodes):
            if ray.process.poll() is None:
                ray.process.terminate()
                ray.wait()
        wait_until(lambda: not self.project.stage_processes())

    def drive(self) -> Running:
        return self._start_on(0, *SWEEP, "run", "--address", self.address, *TRIAL)

    def drive_again(self) -> str:
        """Run the driver to its end, and return what it printed if it failed."""
        driver = self.drive()
        return driver.printed if driver.wait(SECONDS) else ""

    def busy(self) -> int:
        """Return the number of the machine that trains."""
        return int({process.environ()[NODE] for process in self.project.stage_processes()}.pop())

    def processes(self, number: int) -> list[psutil.Process]:
        """Return all processes of a machine, including those that have outlived their parents."""
        return select(psutil.process_iter(), lambda process: process.environ().get(NODE) == str(number))

    def _start_on(self, number: int, *command: str, **env: str) -> Running:
        env |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64, "PYTHONPATH": str(ROOT / "src")}
        return self.project.start(*(self.machines[number].command(*command) if self.machines else command), **env)


def on_cluster(*, with_cards: bool = False) -> Callable[[Callable[[Cluster, Running, int], str]], Once]:
    """Turn a function into a row. It disturbs a cluster whose trial has a checkpoint, and returns what was lost."""

    def decorate(disturb: Callable[[Cluster, Running, int], str]) -> Once:
        @functools.wraps(disturb)
        def inject(setup: Setup, number: int) -> str:
            setup.whole.reset()
            reference = _result_alone(setup)
            project = setup.whole.copy_to(setup.scratch / f"{disturb.__name__}-{number}" / "bukva")
            project.env |= SAVE_OFTEN
            with (
                tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch,
                network.network(3 if with_cards else 0) as machines,
            ):
                cluster = Cluster(project, scratch, machines)
                try:
                    cluster.start()
                    driver = cluster.drive()
                    assert driver.reaches(project.has_checkpoint), driver.printed
                    lost = disturb(cluster, driver, number)
                finally:
                    cluster.stop()
            return lost or _difference(project, reference)

        return inject

    return decorate


@functools.cache
def _result_alone(setup: Setup) -> str:
    """Return dvc.lock of the trial, computed without a cluster."""
    alone = setup.whole.copy_to(setup.scratch / "alone" / "bukva")
    alone.run("dvc", "exp", "run", "--temp", "-n", "alone", *TRIAL)
    return alone.read_from_experiment("alone", "dvc.lock")


def _difference(project: Project, reference: str) -> str:
    """Describe how the result of the trial differs from the reference, or what is wrong in MLflow."""
    locks = {name: lock for name, lock in _locks(project).items() if name.startswith("sweep-")}  # not of other rows
    if list(locks.values()) != [reference]:
        return "its dvc.lock differs" if locks else "there is no result"
    project.wait_for_mlflow()
    if not (project.folder / "mlflow.db").exists():
        return "the driver did not fill MLflow"
    project.sync()  # a machine that came back has ended its run later, and may have finished it
    return _mlflow_fault(project, locks, STEPS, once=False)


def _fault_after_takeover(cluster: Cluster, driver: Running) -> str:
    return driver.printed if driver.wait(SECONDS) else not_resumed(_logs(cluster.project))


def _wait_for_end(processes: list[psutil.Process]) -> None:
    def is_alive(process: psutil.Process) -> bool:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE

    wait_until(lambda: not select(processes, is_alive))


@on_cluster()
def sweep_machine(cluster: Cluster, driver: Running, _: int) -> str:
    """A machine of a cluster that is lost while it trains.

    `kill -9` of all its processes; another machine must resume the trial from the checkpoint in the shared folder.
    """
    send(cluster.processes(cluster.busy()))
    return _fault_after_takeover(cluster, driver)


@on_cluster()
def sweep_silent(cluster: Cluster, driver: Running, _: int) -> str:
    """A machine that does not respond until another machine has finished its trial.

    `kill -STOP` of all its processes, and later `kill -CONT`; the first result must stay, and MLflow must have each
    point once.
    """
    silent = cluster.processes(cluster.busy())
    send(silent, signal.SIGSTOP)
    lost = _fault_after_takeover(cluster, driver)
    send(silent, signal.SIGCONT)
    _wait_for_end(silent)
    return lost


@on_cluster()
def sweep_away(cluster: Cluster, driver: Running, number: int) -> str:
    """The shared checkpoints and records, DVC's cache or the git repository are unavailable.

    After a checkpoint, a file takes the place of the folder until no stage trains; then the same command again.
    """
    folder = cluster.project.folder / (".bukva", ".dvc/cache", ".git")[number]
    hidden = folder.with_name("hidden")
    folder.rename(hidden)
    folder.touch()  # a file, because DVC would create a missing folder
    wait_until(lambda: not cluster.project.stage_processes())
    folder.unlink()
    hidden.rename(folder)
    return cluster.drive_again() if driver.wait(SECONDS) else ""


@on_cluster()
def sweep_head(cluster: Cluster, driver: Running, _: int) -> str:
    """`kill -9` of the head of a Ray cluster.

    Its server process is killed; the driver must end; then the cluster and the same command are started again.
    """
    next(process for process in cluster.nodes[0].children() if process.name() == "gcs_server").kill()
    ended = driver.wait(SECONDS)
    cluster.stop()
    cluster.start()
    return cluster.drive_again() or ("" if ended else "the driver did not fail")


@on_cluster(with_cards=True)
def sweep_card(cluster: Cluster, driver: Running, _: int) -> str:
    """The network card of a machine of a Ray cluster goes down while the machine trains.

    Three network namespaces (skipped without root); Ray must declare the machine dead, and another must take over the
    trial; the first machine still reaches the shared folder, so either may finish first; then the card is brought up
    again.
    """
    busy = cluster.busy()
    processes = cluster.processes(busy)
    cluster.machines[busy].set_card("down")
    lost = driver.printed if driver.wait(SECONDS) else ""
    cluster.machines[busy].set_card("up")
    _wait_for_end(processes)
    return lost


ROWS = (
    Row(sweep, 1), Row(judge, 1), Row(sweep_pruned, 1), Row(sweep_machine, 1), Row(sweep_silent, 1), Row(sweep_away, 3),
    Row(sweep_head, 1), Row(sweep_card, 1, network.is_possible),
)  # fmt: skip
