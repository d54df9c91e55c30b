"""Commands that make a machine part of a Ray cluster."""

import os
from typing import Annotated, NoReturn

import typer

from bukva.cluster.ray_access import ENVIRONMENT, check_head, check_installed, make_token, ray_program
from bukva.core.processes import python_path

PORT = 6379  # Ray's own

Give = Annotated[int | None, typer.Option("--cores", help="that experiments may use here; all without it", min=0)]


def head(
    host: Annotated[str, typer.Option(help="address of this machine, as the others reach it")] = "127.0.0.1",
    port: int = PORT,
    give: Give = None,
) -> None:
    """Make this machine the head of a Ray cluster, until Ctrl-C; it runs experiments, too."""
    check_installed()
    token = make_token()
    print(f"On each other machine, with a copy of {token}: bukva sweep join {host}:{port}")
    print(f"To run a sweep: bukva sweep run --address {host}:{port} -S SECTION.KEY=VALUE,VALUE", flush=True)
    _become_ray("--head", "--node-ip-address", host, "--port", str(port), "--include-dashboard=false", *_given(give))


def join(
    address: Annotated[str, typer.Argument(help="HOST:PORT of the head")],
    host: Annotated[str, typer.Option(help="address of this machine, as the head reaches it")] = "",
    give: Give = None,
) -> None:
    """Let this machine run experiments of a Ray cluster, until Ctrl-C."""
    check_head(address)
    _become_ray("--address", address, *(["--node-ip-address", host] if host else []), *_given(give))


def _given(cores: int | None) -> list[str]:
    return [] if cores is None else ["--num-cpus", str(cores)]


def _become_ray(*arguments: str) -> NoReturn:
    """Replace this process by Ray's own, with these arguments of `ray start`; Ctrl-C ends it."""
    os.execve(
        ray_program(),
        ["ray", "start", "--block", "--disable-usage-stats", *arguments],
        {**os.environ, **ENVIRONMENT, "PYTHONPATH": python_path()},
    )
