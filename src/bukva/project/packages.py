"""Compare the installed packages with the versions in numerics.lock, on which the bytes of results depend."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LOCK = Path("numerics.lock")
PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)


def wrong_packages(lock: Path = LOCK) -> list[str]:
    """Return a clause for each package whose version differs. Local tags of versions, such as +cpu, are ignored."""
    wrong = []
    for name, wanted in PIN.findall(lock.read_text(encoding="utf-8")) if lock.exists() else ():
        try:
            here = version(name).partition("+")[0]
        except PackageNotFoundError:
            here = "missing"
        if here != wanted:
            wrong.append(f"{name} is {here}, but this commit needs {wanted}")
    return wrong
