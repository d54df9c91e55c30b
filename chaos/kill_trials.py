"""Faults in sweeps: on one machine, on the machines of a cluster, and in the services that the machines share."""

import contextlib
import signal

import psutil

from chaos.project import Project
from chaos.running import Running, wait_until, wait_until_empty
from chaos.setup import SHORT, Setup, has_checkpoint
from chaos.team import SECONDS, Cluster, Node, Team

SEEDS = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=400", "-S", "train_gpt.eval_every=100"
SWEEP = "python", "-m", "bukva", "sweep"
RATES = "-S", "train_gpt.learning_rate=0.01,0.00001"


def kill_sweep(setup: Setup, tries: int) -> list[str]:
    """Kill an actor of a sweep on this machine, then its driver, and repeat the command."""
    project = _sweep_project(setup, "queue")
    project.run("dvc", "exp", "run", "--queue", *SEEDS)
    project.run("dvc", "exp", "run", "--run-all", "-j", "2")
    reference = _results(project)
    return [_kill_sweep(setup, number, reference) for number in range(tries)]


def _results(project: Project) -> dict[str, str]:
    """Return dvc.lock of every experiment, by the text of its GPT settings."""
    locks = {}
    for ref in project.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split():
        if "/celery/" not in ref and not ref.endswith("/exec"):
            params = project.run("git", "show", f"{ref}:params.yaml").partition("train_gpt:")[2]
            locks[params] = project.run("git", "show", f"{ref}:dvc.lock")
    return locks


def _kill_sweep(setup: Setup, number: int, reference: dict[str, str]) -> str:
    project = _sweep_project(setup, f"sweep-{number}")
    driver = project.start(*SWEEP, "run", *SEEDS)
    assert driver.reaches(lambda: has_checkpoint(project)), driver.printed
    for each in psutil.Process(driver.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if "exp" in (words := each.cmdline()) and "dvc" in words:
                each.parent().kill()  # the actor
                break
    wait_until(lambda: "running" in project.run(*SWEEP, "status"))
    driver.process.kill()
    driver.wait()
    printed = project.run(*SWEEP, "run", *SEEDS)
    if _results(project) != reference or len(reference) != 2:
        return f"its results differ from the results of the queue: {printed}"
    project.sync()
    # the runs of the two trials, and of the training of the pipeline
    runs = [run for run in project.training_runs() if run["stage"] == "train-gpt"]
    steps = [run["steps"] for run in runs if run["status"] == "FINISHED"]
    left = wait_until_empty(project.leftovers)
    return "" if steps == [SHORT] * 3 and not left else f"MLflow has {steps}; left over: {left}"


def _sweep_project(setup: Setup, name: str) -> Project:
    """Return a project without the parameters, experiments and journals that other rows leave in `setup.whole`."""
    project = setup.new_project(name)
    project.env["PYTHONPATH"] = "src"
    project.run("dvc", "repro")
    project.commit("experiments start from a commit")
    return project


def prune(setup: Setup, tries: int) -> list[str]:
    """Let a search stop a trial that falls behind, then run its settings to the end."""
    return [_prune(setup, number) for number in range(tries)]


def _prune(setup: Setup, number: int) -> str:
    project = _sweep_project(setup, f"pruned-{number}")
    project.set({"train_gpt": {"n_steps": 1800, "eval_every": 100, "seed": number}})
    project.commit("longer")
    project.run(*SWEEP, "search", *RATES, "--trials", "10", "--seeds", "0")
    rows = [line.split() for line in project.run(*SWEEP, "status").splitlines()]
    stopped = [row for row in rows if row[2:3] == ["stopped"]]
    if not stopped or not all("=1e-05" in row[1] for row in stopped):
        return f"the search stopped {stopped}"
    if any(row[0] in _names(project) for row in stopped):
        return "a stopped trial has a result"
    project.run(*SWEEP, "run", "--name", "again", "-S", stopped[0][1])
    [log] = (project.folder / ".bukva" / "sweeps" / "logs").glob("again-*")
    return "" if "Resumed at step" in log.read_text(encoding="utf-8") else log.read_text(encoding="utf-8")


def _names(project: Project) -> set[str]:
    refs = project.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split()
    return {ref.rpartition("/")[2] for ref in refs}


def lose_machine(setup: Setup, tries: int) -> list[str]:
    """Kill all processes of a machine while it trains. Another machine must resume the trial."""
    return [_lose_machine(setup.team) for _ in range(tries)]


def _lose_machine(team: Team) -> str:
    team.forget()
    with team.cluster() as cluster:
        driver = cluster.driver_at_a_checkpoint()
        _signal(cluster.busy(), signal.SIGKILL)
        return _fault_after_takeover(team, cluster, driver)


def silence_machine(setup: Setup, tries: int) -> list[str]:
    """Stop all processes of a machine (SIGSTOP) until another machine has finished its trial, then continue them."""
    return [_silence_machine(setup.team) for _ in range(tries)]


def _silence_machine(team: Team) -> str:
    team.forget()
    with team.cluster() as cluster:
        driver = cluster.driver_at_a_checkpoint()
        first = cluster.busy()
        _signal(first, signal.SIGSTOP)
        fault = _fault_after_takeover(team, cluster, driver)
        _signal(first, signal.SIGCONT)
        wait_until(lambda: not any(map(_is_alive, first.processes)))
    return fault or team.difference()


def take_card_down(setup: Setup, tries: int) -> list[str]:
    """Take down the network card of a machine that trains until another machine has finished the trial."""
    return [_take_card_down(setup.team) for _ in range(tries)]


def _take_card_down(team: Team) -> str:
    team.forget()
    with team.networked() as cluster:
        driver = cluster.driver_at_a_checkpoint()
        first = cluster.busy()
        card = cluster.machines[1 + cluster.nodes.index(first)]
        card.set_card("down")
        fault = _fault_after_takeover(team, cluster, driver)
        card.set_card("up")
        wait_until(lambda: not any(map(_is_alive, first.processes)))
    return fault or team.difference()


def kill_head(setup: Setup, tries: int) -> list[str]:
    """Kill the head of a cluster, which ends the sweep. Then restart the cluster and repeat the command."""
    return [_kill_head(setup.team) for _ in range(tries)]


def _kill_head(team: Team) -> str:
    team.forget()
    with team.cluster() as cluster:
        driver = cluster.driver_at_a_checkpoint()
        below = psutil.Process(cluster.head.process.pid).children(recursive=True)
        next(process for process in below if process.name() == "gcs_server").kill()
        ended = driver.wait(SECONDS)
        cluster.stop()
        cluster.start()
        finished = cluster.drive().wait(SECONDS) == 0
    return team.difference() if ended and finished else driver.printed


def take_away(setup: Setup, tries: int) -> list[str]:
    """Replace the origin, the remote or the storage by a file for a while, then repeat the command if it failed."""
    return [_take_away(setup.team, number) for number in range(tries)]


def _take_away(team: Team, number: int) -> str:
    team.forget()
    with team.cluster() as cluster:
        driver = cluster.driver_at_a_checkpoint()
        folder = (team.origin, team.remote, team.storage)[number % 3]
        hidden = folder.with_name("hidden")
        folder.rename(hidden)
        folder.touch()  # a file, because DVC would create a missing folder
        node = cluster.busy()
        wait_until(lambda: not any("stages.train_gpt" in each.cmdline() for each in _alive(node)))
        folder.unlink()
        hidden.rename(folder)
        if driver.wait(SECONDS):
            again = cluster.drive()
            if again.wait(SECONDS):
                return again.printed
    return team.difference()


def _alive(node: Node) -> list[psutil.Process]:
    alive = []
    for process in psutil.Process(node.ray.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            process.cmdline()
            alive.append(process)
    return alive


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _signal(node: Node, number: signal.Signals) -> None:
    for process in node.processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _fault_after_takeover(team: Team, cluster: Cluster, driver: Running) -> str:
    """Wait for the driver; return what is wrong unless another machine resumed the trial and its result is right."""
    if driver.wait(SECONDS):
        return driver.printed
    if not all(node.has_trial for node in cluster.nodes):
        return "no other machine took over the trial"
    logs = [log.read_text(encoding="utf-8") for log in team.folder.glob("nodes/*/*/slot-0/.bukva/sweeps/logs/*.log")]
    return team.difference() if any("Resumed at step" in log for log in logs) else f"it did not resume: {logs}"
