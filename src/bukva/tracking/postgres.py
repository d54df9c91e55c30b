"""A PostgreSQL of this project's own, which only this account reaches: a socket in a private folder, and no port."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from bukva.base.errors import BukvaError

NAME = "mlflow"  # of the database and of its user
DEBIAN = "/usr/lib/postgresql"  # has a folder for each version, none of them in PATH
ACCOUNT = "postgres"  # which Debian's package creates; PostgreSQL refuses to run as root
START_SECONDS = 60
LONGEST_SOCKET = 100  # bytes of a path; the system allows 107


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run PostgreSQL until the block ends, and yield the address of its database; the first time, create both.

    Args:
        folder: has the data, the socket and the log.

    Raises:
        BukvaError: PostgreSQL is not installed, or it does not start; the sentence has what it printed last.
    """
    data, log = folder / "data", folder / "postgres.log"
    if len(os.fsencode(folder)) > LONGEST_SOCKET - len("/.s.PGSQL.5432"):
        raise BukvaError(f"{folder}: the path is too long for a socket; move the project to a shorter one.")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    owner = _owner(folder)
    if not (data / "PG_VERSION").exists():
        shutil.rmtree(data, ignore_errors=True)  # of an initdb that was stopped
        _run("initdb", f"--pgdata={data}", f"--username={NAME}", "--auth=trust", "--encoding=UTF8", "--no-locale",
             "--no-instructions", owner=owner)  # fmt: skip
    with log.open("ab") as output:
        server = subprocess.Popen(
            [_program("postgres"), "-D", str(data), "-k", str(folder), "-c", "listen_addresses="],
            stdout=output,
            stderr=output,
            user=owner,
            start_new_session=True,  # Ctrl-C must not end it before MLflow
        )
    try:
        _wait_until_ready(server, folder, log)
        if NAME not in _run("psql", "-h", str(folder), "-U", NAME, "-d", "postgres", "-Atc",
                            "select datname from pg_database", owner=owner).split():  # fmt: skip
            _run("createdb", "-h", str(folder), "-U", NAME, NAME, owner=owner)
        yield f"postgresql+psycopg2://{NAME}@/{NAME}?host={quote(str(folder))}"
    finally:
        server.send_signal(signal.SIGINT)  # SIGINT: end the connections and shut down cleanly
        server.wait()


def _program(name: str) -> str:
    versions = sorted(Path(DEBIAN).glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, versions)]))
    if found is None:
        raise BukvaError(
            f"PostgreSQL's program {name} is not installed; on Debian and Ubuntu: sudo apt install postgresql."
        )
    return found


def _owner(folder: Path) -> str | None:
    """The account that PostgreSQL runs as: this one, or for root that of the package, which then owns the folder."""
    if os.geteuid() != 0:
        return None
    _program("postgres")  # before the look for its account
    try:
        account = pwd.getpwnam(ACCOUNT)
    except KeyError:
        raise BukvaError(
            f"PostgreSQL does not run as root, and there is no account {ACCOUNT}; run make server as another user."
        ) from None
    os.chown(folder, account.pw_uid, account.pw_gid)
    return ACCOUNT


def _run(program: str, *arguments: str, owner: str | None) -> str:
    done = subprocess.run([_program(program), *arguments], capture_output=True, text=True, user=owner, cwd="/")
    if done.returncode:
        raise BukvaError(f"PostgreSQL's {program} failed: {' '.join(done.stderr.split())}")
    return done.stdout


def _wait_until_ready(server: "subprocess.Popen[bytes]", folder: Path, log: Path) -> None:
    end, is_ready = time.monotonic() + START_SECONDS, [_program("pg_isready"), "-q", "-h", str(folder)]
    while subprocess.run(is_ready).returncode:
        if server.poll() is not None or time.monotonic() > end:
            last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            raise BukvaError(f"PostgreSQL does not start: {last} (all of it: {log}).")
        time.sleep(0.1)
