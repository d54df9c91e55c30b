"""Questions to git, about many objects in one process."""

import re
import subprocess
from collections.abc import Iterable

from bukva.core.errors import BukvaError
from bukva.core.files import project_root

Blob = tuple[str, str]  # commit, path relative to the project


def git(*arguments: str, text: str = "") -> bytes:
    """What git prints in the project, given `text` as its input.

    Raises:
        BukvaError: git is missing, or the project is no repository of git.
    """
    command = ["git", "-C", str(project_root()), *arguments]
    try:
        done = subprocess.run(command, input=text.encode(), capture_output=True)
    except OSError as error:
        raise BukvaError(f"git: cannot be started ({error.strerror}); install it.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise BukvaError(f"{project_root()}: git cannot read it ({said}); run `git init` and commit the project.")
    return done.stdout


def commits_of(names: Iterable[str]) -> dict[str, str]:
    """The commits that git revisions name; "" for a name that git does not know."""
    names = [name for name in dict.fromkeys(names) if "\n" not in name]
    if not names:
        return {}
    answers = git("cat-file", "--batch-check", text="".join(f"{name}^{{commit}}\n" for name in names)).decode()
    found = (re.fullmatch(r"([0-9a-f]+) commit \d+", answer) for answer in answers.splitlines())
    return {name: match[1] if match else "" for name, match in zip(names, found, strict=True)}


def read_blobs(blobs: Iterable[Blob]) -> dict[Blob, bytes]:
    """The files of commits, without those that a commit does not have."""
    blobs = list(dict.fromkeys(blobs))
    if not blobs:
        return {}
    rest = git("cat-file", "--batch", text="".join(f"{commit}:./{path}\n" for commit, path in blobs))
    contents = {}
    for blob in blobs:
        header, _, rest = rest.partition(b"\n")
        if not header.endswith(b" missing"):
            size = int(header.rpartition(b" ")[2])
            contents[blob], rest = rest[:size], rest[size + 1 :]
    return contents
