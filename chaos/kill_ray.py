"""Faults of a Ray cluster: its head, and the network."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator

import psutil

from bukva.cluster.trials import digest
from bukva.core.processes import free_port
from chaos.network import Machine, network
from chaos.project import ROOT
from chaos.running import Running, wait_until
from chaos.setup import Setup
from chaos.team import SETTINGS, TRIAL, TRIAL_SECONDS, Team

CLUSTER = sys.executable, "-m", "bukva", "sweep"
RUN = *CLUSTER, "run", "--name", TRIAL, *(word for setting in SETTINGS for word in ("-S", setting))
OF_DRIVER = f"{TRIAL}-1-{digest(*SETTINGS)}"  # the trial that RUN makes


def kill_head(setup: Setup, tries: int) -> list[str]:
    """Kill the head of a Ray cluster; the driver ends; start the head, and give the same command again."""
    return [_kill_head(setup.team) for _ in range(tries)]


def _kill_head(team: Team) -> str:
    team.uninterrupted()
    port = free_port(0)
    command, run = (*CLUSTER, "head", "--port", str(port), "--cores", "1"), (*RUN, "--address", f"127.0.0.1:{port}")
    with _ray(team, command) as head:
        driver = team.project.start(*run, **_env(team))
        assert driver.reaches(lambda: any(team.remote.rglob("*.safetensors"))), driver.printed
        of_head = psutil.Process(head.process.pid).children(recursive=True)
        next(process for process in of_head if process.name() == "gcs_server").kill()
        ended = driver.wait(TRIAL_SECONDS)
        wait_until(lambda: not any(process.is_running() for process in of_head))
    with _ray(team, command):
        driver = team.project.start(*run, **_env(team))
        finished = driver.wait(TRIAL_SECONDS) == 0
    return team.difference(trial=OF_DRIVER) if ended and finished else driver.printed


def take_card_down(setup: Setup, tries: int) -> list[str]:
    """Take down the network card of a machine that trains, and bring it up when another one has finished the trial."""
    return [_take_card_down(setup.team) for _ in range(tries)]


def _take_card_down(team: Team) -> str:
    team.uninterrupted()
    with contextlib.ExitStack() as cluster:
        first, *others = cluster.enter_context(network(size=3))
        address = f"{first.address}:{free_port(0)}"
        port = address.rpartition(":")[2]
        head = *CLUSTER, "head", "--host", first.address, "--port", port, "--cores", "0"
        cluster.enter_context(_ray(team, head, on=first))
        for machine in others:
            join = *CLUSTER, "join", address, "--host", machine.address, "--cores", "1"
            cluster.enter_context(_ray(team, join, on=machine))
        driver = team.project.start(*first.command(*RUN, "--address", address), **_env(team))
        assert driver.reaches(lambda: any(team.remote.rglob("*.safetensors"))), driver.printed
        [trains] = [machine for machine in others if _has_files(team, machine)]
        trains.set_card("down")
        finished = driver.wait(TRIAL_SECONDS) == 0
        result = team.lock_of(OF_DRIVER)
        trains.set_card("up")
        wait_until(lambda: not _workers(team))
    if not finished or team.lock_of(OF_DRIVER) != result:
        return f"the result has changed: {driver.printed}"
    if not all(_has_files(team, machine) for machine in others):
        return "no other machine went on"
    return team.difference(trial=OF_DRIVER)


def _workers(team: Team) -> list[psutil.Process]:
    """The workers that still run, on any machine."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.Error):
            is_worker = "bukva.cluster.work" in (process.info["cmdline"] or [])
            if is_worker and process.environ().get("BUKVA_NODE", "").startswith(str(team.folder)):
                found.append(process)
    return found


def _has_files(team: Team, machine: Machine) -> bool:
    return (team.folder / "nodes" / machine.name).exists()


@contextlib.contextmanager
def _ray(team: Team, command: tuple[str, ...], on: Machine | None = None) -> Iterator[Running]:
    """A part of a Ray cluster, which ends with the block."""
    node = team.folder / "nodes" / (on.name if on else "head")
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        env = _env(team) | {"BUKVA_NODE": str(node), "RAY_TMPDIR": scratch}
        ray = team.project.start(*(on.command(*command) if on else command), **env)
        assert ray.reaches(lambda: "Ray runtime started" in ray.printed), ray.printed
        yield ray
        ray.process.terminate()  # Ctrl-C would be ignored where chaos itself runs in the background of a shell
        ray.wait()


def _env(team: Team) -> dict[str, str]:
    """The variables of all parts of a Ray cluster."""
    return team.job().environment | {"PYTHONPATH": str(ROOT / "src"), "HOME": str(team.folder)}
