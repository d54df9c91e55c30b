"""Faults of the machines that run trials, and of what they share."""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil

from bukva.cluster.job import DONE, STOPPED, TRY_AGAIN
from bukva.cluster.together import variables
from bukva.core.processes import free_port
from bukva.tracking.ui import server_command
from chaos.project import Project
from chaos.running import Running, wait_until_empty
from chaos.setup import SAVE_OFTEN, SHORT, Setup, has_checkpoint
from chaos.team import SETTINGS, TOGETHER, TRIAL, Team, Worker

AGAIN = "It is tried again."
SEEDS = "-S", "train_gpt.seed=3,5", "-S", "train_gpt.n_steps=400", "-S", "train_gpt.eval_every=100"
SWEEP = "python", "-m", "bukva", "sweep", "run", "--name", "tries", *SEEDS


def kill_sweep(setup: Setup, tries: int) -> list[str]:
    """Kill a worker of a sweep on this machine, then its driver; give the same command again."""
    reference = _results_of_queue(setup)
    return [_kill_sweep(setup, number, reference) for number in range(tries)]


def _results_of_queue(setup: Setup) -> dict[str, str]:
    setup.whole.reset()
    project = setup.whole.copy_to(setup.scratch / "queue" / "bukva")
    project.run("dvc", "exp", "run", "--queue", *SEEDS)
    project.run("dvc", "exp", "run", "--run-all", "-j", "2")
    return _results(project)


def _results(project: Project) -> dict[str, str]:
    """settings of the GPT -> dvc.lock, of all experiments."""
    found = {}
    for ref in project.run("git", "for-each-ref", "--format=%(refname)", "refs/exps").split():
        if "/celery/" not in ref and not ref.endswith("/exec"):
            params = project.run("git", "show", f"{ref}:params.yaml").partition("train_gpt:")[2]
            found[params] = project.run("git", "show", f"{ref}:dvc.lock")
    return found


def _kill_sweep(setup: Setup, number: int, reference: dict[str, str]) -> str:
    project = setup.whole.copy_to(setup.scratch / f"sweep-{number}" / "bukva")
    project.env |= {"PYTHONPATH": "src", **SAVE_OFTEN}
    driver = project.start(*SWEEP)
    assert driver.reaches(lambda: has_checkpoint(project)), driver.printed
    _workers(driver)[0].kill()
    assert driver.reaches(lambda: "stage" in project.run(*SWEEP[:4], "status")), driver.printed
    driver.process.kill()
    driver.wait()
    printed = project.run(*SWEEP)
    if "tries: 2 finished" not in printed or _results(project) != reference or len(reference) != 2:
        return f"its results are not those of the queue: {printed}"
    project.sync()
    # of both trials, and of the training that the project was copied with
    steps = [run["steps"] for run in project.training_runs() if run["stage"] == "train-gpt"]
    left = wait_until_empty(project.leftovers)
    return "" if steps == [SHORT] * 3 and not left else f"MLflow has {steps}; left over: {left}"


def _workers(driver: Running) -> list[psutil.Process]:
    below = psutil.Process(driver.process.pid).children(recursive=True)
    return [each for each in below if "bukva.cluster.work" in each.cmdline()]


def lose_machine(setup: Setup, tries: int) -> list[str]:
    """Kill all processes of a machine while it trains; another one goes on."""
    return [_lose_machine(setup.team) for _ in range(tries)]


def _train_on_first(team: Team) -> Worker:
    """The worker of a trial that is to be disturbed, when it has sent a checkpoint."""
    team.uninterrupted()
    worker = team.start("first", team.job())
    assert worker.sends_checkpoint(), worker.printed
    return worker


def _lose_machine(team: Team) -> str:
    first = _train_on_first(team)
    first.lose()
    return _goes_on(team, team.start("second", replace(team.job(), attempt=2)))


def silence_machine(setup: Setup, tries: int) -> list[str]:
    """Stop all processes of a machine; another one finishes the trial; then the first goes on to its end."""
    return [_silence_machine(setup.team) for _ in range(tries)]


def _silence_machine(team: Team) -> str:
    first = _train_on_first(team)
    for process in first.machine:
        process.send_signal(signal.SIGSTOP)
    second = team.start("second", replace(team.job(), attempt=2))
    finished = second.wait() == DONE
    result = team.lock_of()
    for process in first.machine:
        process.send_signal(signal.SIGCONT)
    first.wait()
    if not finished or team.lock_of() != result:
        return f"the result has changed: {first.printed}"
    return team.difference()


def take_away(setup: Setup, tries: int) -> list[str]:
    """Put a file in the place of the origin, or of the remote, until a worker could not push; then give it back."""
    return [_take_away(setup.team, number) for number in range(tries)]


def _take_away(team: Team, number: int) -> str:
    team.uninterrupted()
    what = (team.origin, team.remote)[number % 2]
    hidden = what.with_name("hidden")
    worker = team.start("first", team.job())
    assert worker.reaches(" 400/"), worker.printed
    what.rename(hidden)
    what.touch()  # a file, because DVC would make a missing folder
    tried = worker.reaches(AGAIN)
    what.unlink()
    hidden.rename(what)
    if worker.wait() != DONE or not tried:
        return worker.printed
    return team.difference()


def hide_mlflow(setup: Setup, tries: int) -> list[str]:
    """A port that nobody listens to, for a whole trial; then its journal is pulled, and bukva sync."""
    return [_hide_mlflow(setup.team) for _ in range(tries)]


def _hide_mlflow(team: Team) -> str:
    reference, job = team.uninterrupted(), team.job()
    nowhere = f"http://127.0.0.1:{free_port(0)}"
    worker = team.start("first", replace(job, environment={**job.environment, "MLFLOW_TRACKING_URI": nowhere}))
    if worker.wait() != DONE or team.lock_of() != reference:
        return worker.printed
    fetch = f"from bukva.cluster.carry import fetch_journals; fetch_journals({team.commit!r}, [{TRIAL!r}])"
    team.project.run("python", "-c", fetch, PYTHONPATH="src")
    sync = "python", "-m", "bukva.tracking.sync"
    team.project.run(*sync, PYTHONPATH="src", MLFLOW_TRACKING_URI=job.environment["MLFLOW_TRACKING_URI"])
    return team.mlflow_fault()


def start_on_empty_mlflow(setup: Setup, tries: int) -> list[str]:
    """Two machines start at the same time, and MLflow's server has no experiment yet."""
    return [_start_on_empty_mlflow(setup.team) for _ in range(tries)]


def _start_on_empty_mlflow(team: Team) -> str:
    team.forget()
    with _mlflow_server(team) as address:
        jobs = [team.job(), team.job((*SETTINGS[:-1], "train_gpt.seed=5"), "other")]
        with_server = [replace(job, environment=job.environment | {"MLFLOW_TRACKING_URI": address}) for job in jobs]
        workers = [team.start(job.trial, job) for job in with_server]
        if [worker.wait() for worker in workers] != [DONE, DONE]:
            return "\n".join(worker.printed for worker in workers)
    return team.mlflow_fault(n_trials=2)


@contextlib.contextmanager
def _mlflow_server(team: Team) -> Iterator[str]:
    """A server whose database has nothing but its tables; yields its address."""
    port = free_port(0)
    arguments, env = server_command(f"sqlite:///{team.folder}/mlflow.db", port)
    server = Running(team.project, (sys.executable, "-m", "mlflow", *arguments), os.environ | env)
    try:
        assert server.reaches(lambda: _answers(port)), server.printed
        yield f"http://127.0.0.1:{port}"
    finally:
        server.process.terminate()
        server.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def prune(setup: Setup, tries: int) -> list[str]:
    """Stop a trial as a search does, and give it to the same machine again, or to another one."""
    return [_prune(setup.team, ("first", "second")[number % 2]) for number in range(tries)]


def _prune(team: Team, node: str) -> str:
    first = _train_on_first(team)
    first.terminate()
    if first.wait() != STOPPED or team.lock_of():
        return f"it was not stopped: {first.printed}"
    return _goes_on(team, team.start(node, replace(team.job(), attempt=2)))


def break_group(setup: Setup, tries: int) -> list[str]:
    """Two machines train one model; one of them is lost; both are started again."""
    return [_break_group(setup.team, number % 2) for number in range(tries)]


def _break_group(team: Team, lost: int) -> str:
    team.uninterrupted(TOGETHER)
    before = _start_group(team, 1)
    assert before[0].sends_checkpoint(), before[0].printed
    before[lost].lose()
    if (status := before[1 - lost].wait()) != TRY_AGAIN:
        return f"the other machine ended with {status}: {before[1 - lost].printed}"
    after = _start_group(team, 2)
    after[1].wait()
    return _goes_on(team, after[0], TOGETHER)


def _start_group(team: Team, attempt: int) -> list[Worker]:
    meeting = f"127.0.0.1:{free_port(0)}"
    job = replace(team.job(TOGETHER), attempt=attempt)
    jobs = [replace(job, environment=job.environment | variables(meeting, 2, rank)) for rank in range(2)]
    return [team.start(f"node-{rank}", job) for rank, job in enumerate(jobs)]


def _goes_on(team: Team, worker: Worker, settings: tuple[str, ...] = SETTINGS) -> str:
    """What a worker that continues a trial has lost of it."""
    if worker.wait() != DONE or "resumed at step" not in worker.printed:
        return f"it did not resume: {worker.printed}"
    return team.difference(settings)
