"""Rows of sweeps: on this machine, and on a simulated Ray cluster whose machines share the project."""

import contextlib
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from bukva.core.processes import free_port
from chaos import network
from chaos.project import ROOT, Project
from chaos.row import Row
from chaos.running import Running, wait_until, wait_until_empty
from chaos.setup import LONG, SAVE_OFTEN, Setup, has_checkpoint

SWEEP = "python", "-m", "bukva", "sweep"
LONGER = "-S", f"train_gpt.n_steps={LONG[-1]}", "-S", f"train_gpt.eval_every={LONG[1]}"
SEEDS = *LONGER, "-S", "train_gpt.seed=3,5"
RATES = "-S", "train_gpt.learning_rate=0.01,0.00001"
STEPS = list(range(0, 3001, 1000))  # steps at which a trial on the cluster scores val
TRIAL = "-S", "train_gpt.n_steps=3000", "-S", "train_gpt.eval_every=1000", "-S", "train_gpt.seed=3"
RAY = str(Path(sys.executable).with_name("ray"))
SECONDS = 400.0  # limit for a whole trial, including the time until Ray notices a dead machine
NODE = "CHAOS_NODE"  # environment variable of all processes of a machine

# ---- one machine


def sweep(setup: Setup, tries: int) -> Iterator[str]:
    """A sweep on one machine: `kill -9` of the process of a trial, and of the driver.

    `bukva sweep run` with two seeds; then the same command again; the results must equal those of `dvc exp run`, and
    MLflow must have each training once.
    """
    alone = _fresh_project(setup, "alone")
    for seed in (3, 5):
        alone.run("dvc", "exp", "run", "--temp", *LONGER, "-S", f"train_gpt.seed={seed}")
    reference = set(_locks(alone).values())
    for number in range(tries):
        project = _fresh_project(setup, f"sweep-{number}")
        driver = project.start(*SWEEP, "run", *SEEDS)
        assert driver.reaches(partial(has_checkpoint, project)), driver.printed
        for process in _processes(driver, "exp")[:1]:
            process.parent().kill()  # the actor
        wait_until(partial(_is_running, project))
        driver.process.kill()
        driver.wait()
        printed = project.run(*SWEEP, "run", *SEEDS)
        locks = _locks(project)
        if set(locks.values()) != reference or len(reference) != 2:
            yield f"its results differ from those of `dvc exp run`: {printed}"
        else:
            project.sync()
            left = wait_until_empty(project.leftovers)
            yield _mlflow_fault(project, locks, LONG) or (f"left over: {left}" if left else "")


def sweep_pruned(setup: Setup, tries: int) -> Iterator[str]:
    """A trial that a search stops, and that is continued later.

    A search over two learning rates, one of which is far too small; then `bukva sweep run` with this learning rate must
    resume the training.
    """
    for number in range(tries):
        project = _fresh_project(setup, f"pruned-{number}")
        project.set({"train_gpt": {"n_steps": 1800, "eval_every": 100, "seed": number}})
        project.commit("longer")
        project.run(*SWEEP, "search", *RATES, "--trials", "10", "--seeds", "0")
        rows = [line.split() for line in project.run(*SWEEP, "status").splitlines()]
        stopped = [row for row in rows if row[2:3] == ["stopped"]]
        if not stopped or not all("=1e-05" in row[1] for row in stopped):
            yield f"the search stopped {stopped}"
        elif {row[0] for row in stopped} & _locks(project).keys():
            yield "a stopped trial has a result"
        else:
            project.run(*SWEEP, "run", "--name", "again", "-S", stopped[0][1])
            yield _not_resumed(project, "again-*")


def _is_running(project: Project) -> bool:
    return "running" in project.run(*SWEEP, "status")


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


def _processes(running: Running, word: str) -> list[psutil.Process]:
    """Return the processes that a command has started and whose command line contains a word."""
    found = []
    for process in psutil.Process(running.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if word in process.cmdline():
                found.append(process)
    return found


def _not_resumed(project: Project, trial: str = "*") -> str:
    logs = [log.read_text(encoding="utf-8") for log in project.folder.glob(f".bukva/sweeps/logs/{trial}.log")]
    return "" if any("Resumed at step" in log for log in logs) else f"it did not resume: {logs}"


def _mlflow_fault(project: Project, trials: dict[str, str], steps: list[int], *, once: bool = True) -> str:
    """Check that each trial has exactly one finished training with these steps in MLflow. Return the fault, or ""."""
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt"]
    finished = [run for run in runs if run["status"] == "FINISHED" and run["experiment"] in trials]
    names = sorted(run["experiment"] for run in finished)
    is_whole = (names if once else sorted(set(names))) == sorted(trials)
    is_whole = is_whole and all(run["steps"] == steps for run in finished)
    return "" if is_whole and "RUNNING" not in project.statuses() else f"MLflow has {runs}"


# ---- a cluster: a head without cores for trials, and two machines with one core each


class Cluster:
    """A project with a sweep of one trial, and the processes of a Ray cluster. All machines use the project's folder.

    machines: simulated machines with network cards, or none.
    """

    def __init__(self, project: Project, scratch: str, machines: list[network.Machine]) -> None:
        self.project, self.machines, self._scratch = project, machines, scratch
        self._env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64, "PYTHONPATH": str(ROOT / "src")}
        self.address = f"{machines[0].address if machines else '127.0.0.1'}:{free_port(0)}"
        self.nodes: list[Running] = []  # the first is the head

    def start(self) -> None:
        """Start the head, then the other machines."""
        port = self.address.rpartition(":")[2]
        head = "--head", "--port", port, "--include-dashboard=false", "--num-cpus=0", f"--temp-dir={self._scratch}"
        self.nodes = []
        for number, options in enumerate((head, *[("--address", self.address, "--num-cpus=1")] * 2)):
            host = ["--node-ip-address", self.machines[number].address] if self.machines else []
            words = RAY, "start", "--block", "--disable-usage-stats", *options, *host
            ray = self.project.start(*self._on(number, *words), **self._env, **{NODE: str(number)})
            assert ray.reaches(partial(_has_started, ray)), ray.printed
            self.nodes.append(ray)

    def stop(self) -> None:
        """End all processes that are still running."""
        for ray in reversed(self.nodes):
            if ray.process.poll() is None:
                ray.process.terminate()
                ray.wait()
        wait_until(lambda: not self.project.processes("stages.train_gpt"))

    def drive(self, *, to_checkpoint: bool = True) -> Running:
        """Start the driver on the head, and wait until its trial can be resumed."""
        words = *SWEEP, "run", "--address", self.address, *TRIAL
        driver = self.project.start(*self._on(0, *words), **self._env)
        if to_checkpoint:
            assert driver.reaches(lambda: has_checkpoint(self.project)), driver.printed
        return driver

    def busy(self) -> int:
        """Return the number of the machine that trains."""
        training = {process.environ()[NODE] for process in self.project.processes("stages.train_gpt")}
        return int(training.pop())

    def processes(self, number: int) -> list[psutil.Process]:
        """Return all processes of a machine, including those that have outlived their parents."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(NODE) == str(number):
                    found.append(process)
        return found

    def _on(self, number: int, *command: str) -> tuple[str, ...]:
        return self.machines[number].command(*command) if self.machines else command


def _has_started(ray: Running) -> bool:
    return "Ray runtime started" in ray.printed


def _on_cluster(
    setup: Setup,
    tries: int,
    fault: Callable[[Cluster, Running, int], str],
    machines: Callable[[], contextlib.AbstractContextManager[list[network.Machine]]] = lambda: contextlib.nullcontext(
        []
    ),
) -> Iterator[str]:
    """Start a cluster and a sweep, inject a fault at a checkpoint, and compare the result with an undisturbed one."""
    setup.whole.reset()
    if "cluster" not in setup.references:
        alone = setup.whole.copy_to(setup.scratch / "alone" / "bukva")
        alone.run("dvc", "exp", "run", "--temp", "-n", "alone", *TRIAL)
        setup.references["cluster"] = {"dvc.lock": alone.read_from_experiment("alone", "dvc.lock")}
    for number in range(tries):
        project = setup.whole.copy_to(setup.scratch / f"{fault.__qualname__.partition('.')[0]}-{number}" / "bukva")
        project.env |= SAVE_OFTEN
        with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch, machines() as cards:
            cluster = Cluster(project, scratch, cards)
            try:
                cluster.start()
                lost = fault(cluster, cluster.drive(), number)
            finally:
                cluster.stop()
        yield lost or _difference(project, setup.references["cluster"]["dvc.lock"])


def _difference(project: Project, reference: str) -> str:
    """Describe how the result of the trial differs from the reference, or what is wrong in MLflow."""
    locks = _locks(project)
    if list(locks.values()) != [reference]:
        return "its dvc.lock differs" if locks else "there is no result"
    project.wait_for_mlflow()
    if not (project.folder / "mlflow.db").exists():
        return "the driver did not fill MLflow"
    project.sync()  # a machine that came back has ended its run later, and may have finished it
    return _mlflow_fault(project, locks, STEPS, once=False)


def _fault_after_takeover(cluster: Cluster, driver: Running) -> str:
    return driver.printed if driver.wait(SECONDS) else _not_resumed(cluster.project)


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _wait_for_end(processes: list[psutil.Process]) -> None:
    def alive() -> list[psutil.Process]:
        return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    wait_until(lambda: not alive())


def sweep_machine(setup: Setup, tries: int) -> Iterator[str]:
    """A machine of a cluster that is lost while it trains.

    `kill -9` of all its processes; another machine must resume the trial from the checkpoint in the shared folder.
    """

    def fault(cluster: Cluster, driver: Running, _: int) -> str:
        _signal(cluster.processes(cluster.busy()), signal.SIGKILL)
        return _fault_after_takeover(cluster, driver)

    yield from _on_cluster(setup, tries, fault)


def sweep_silent(setup: Setup, tries: int) -> Iterator[str]:
    """A machine that does not respond until another machine has finished its trial.

    `kill -STOP` of all its processes, and later `kill -CONT`; the first result must stay, and MLflow must have each
    point once.
    """

    def fault(cluster: Cluster, driver: Running, _: int) -> str:
        silent = cluster.processes(cluster.busy())
        _signal(silent, signal.SIGSTOP)
        lost = _fault_after_takeover(cluster, driver)
        _signal(silent, signal.SIGCONT)
        _wait_for_end(silent)
        return lost

    yield from _on_cluster(setup, tries, fault)


def sweep_away(setup: Setup, tries: int) -> Iterator[str]:
    """The shared checkpoints and journals, DVC's cache or the git repository are unavailable.

    After a checkpoint, a file takes the place of the folder until no stage trains; then the same command again.
    """

    def fault(cluster: Cluster, driver: Running, number: int) -> str:
        folder = cluster.project.folder / (".bukva", ".dvc/cache", ".git")[number]
        hidden = folder.with_name("hidden")
        folder.rename(hidden)
        folder.touch()  # a file, because DVC would create a missing folder
        wait_until(lambda: not cluster.project.processes("stages.train_gpt"))
        folder.unlink()
        hidden.rename(folder)
        if driver.wait(SECONDS):
            again = cluster.drive(to_checkpoint=False)
            return again.printed if again.wait(SECONDS) else ""
        return ""

    yield from _on_cluster(setup, tries, fault)


def sweep_head(setup: Setup, tries: int) -> Iterator[str]:
    """`kill -9` of the head of a Ray cluster.

    Its server process is killed; the driver must end; then the cluster and the same command are started again.
    """

    def fault(cluster: Cluster, driver: Running, _: int) -> str:
        below = psutil.Process(cluster.nodes[0].process.pid).children(recursive=True)
        next(process for process in below if process.name() == "gcs_server").kill()
        ended = driver.wait(SECONDS)
        cluster.stop()
        cluster.start()
        again = cluster.drive(to_checkpoint=False)
        return again.printed if again.wait(SECONDS) else "" if ended else "the driver did not fail"

    yield from _on_cluster(setup, tries, fault)


def sweep_card(setup: Setup, tries: int) -> Iterator[str]:
    """The network card of a machine of a Ray cluster goes down while the machine trains.

    Three network namespaces (skipped without root); Ray must declare the machine dead, and another must take over the
    trial; the first machine still reaches the shared folder, so either may finish first; then the card is brought up
    again.
    """

    def fault(cluster: Cluster, driver: Running, _: int) -> str:
        busy = cluster.busy()
        processes = cluster.processes(busy)
        cluster.machines[busy].set_card("down")
        lost = driver.printed if driver.wait(SECONDS) else ""
        cluster.machines[busy].set_card("up")
        _wait_for_end(processes)
        return lost

    yield from _on_cluster(setup, tries, fault, lambda: network.network(size=3))


ROWS = (
    Row(sweep, 2), Row(sweep_pruned, 2), Row(sweep_machine, 3), Row(sweep_silent, 2), Row(sweep_away, 3),
    Row(sweep_head, 2), Row(sweep_card, 2, network.is_possible),
)  # fmt: skip
