"""What a machine needs to reach a Ray cluster: Ray, the address of the head, and its token."""

import os
import secrets
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bukva.core.errors import BukvaError

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0  # a busy head; Ray itself would wait longer
REFUSED = "AuthenticationError"  # of Ray, for a token that is not the head's; without any it may abort
TOKEN = "~/.ray/auth_token"  # where Ray looks for it if RAY_AUTH_TOKEN_PATH names no other file
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # always: without it everybody who reaches a port can run programs
    "RAY_USAGE_STATS_ENABLED": "0",
}


def check_installed() -> None:
    """Check that Ray is installed.

    Raises:
        BukvaError: it is not.
    """
    if find_spec("ray") is None:
        raise BukvaError("Ray is not installed; run: make cluster.")


def ray_program() -> str:
    """The command `ray` of this environment."""
    return str(Path(sys.executable).with_name("ray"))


def check_head(address: str) -> None:
    """Check that the head of a cluster answers there and takes this user's token; Ray's own answer is a traceback.

    Raises:
        BukvaError: Ray is not installed, nothing or something else answers, or the token is missing or another one.
    """
    check_installed()
    check_reachable(address)
    trouble = _trouble_with(address) if _has_token() else REFUSED
    if REFUSED in trouble:
        raise BukvaError(
            f"--address {address}: this machine's token is missing or is not the head's; "
            f"copy {TOKEN} from the head, and let only its user read it."
        )
    if trouble:
        last = trouble.splitlines()[-1].rstrip(".")
        raise BukvaError(f"--address {address}: no Ray head answers there ({last}); use the head's address.")


def _trouble_with(address: str) -> str:
    """What `ray status` prints when it fails; "" if the head answers."""
    command = [ray_program(), "status", "--address", address]
    try:
        asked = subprocess.run(
            command, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=ANSWER_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"nothing came for {ANSWER_SECONDS:g} s"
    return (asked.stderr.strip() or f"ray status exited with {asked.returncode}") if asked.returncode else ""


def _has_token() -> bool:
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or _token_file().exists()


def _token_file() -> Path:
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or TOKEN).expanduser()


def check_reachable(address: str) -> None:
    """Check that something answers there; Ray itself would wait for more than a minute.

    Raises:
        BukvaError: nothing does.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except ValueError:
        raise BukvaError(f"--address: {address!r} is not HOST:PORT.") from None
    except OSError as error:
        raise BukvaError(f"--address {address}: nothing answers there ({error}); start the head first.") from None


def make_token() -> Path:
    """The file with the token of this user's clusters, created if it is missing; other machines need a copy."""
    path = _token_file()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    return path
