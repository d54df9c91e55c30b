"""The repository that all machines share: commits to start from go there, and results."""

import subprocess
from pathlib import Path

from bukva.core.errors import BukvaError, redact_url
from bukva.project.revisions import experiment_ref

TIMEOUT_SECONDS = 120


class GitError(BukvaError):
    """A git command failed."""


def run_git(folder: Path, *arguments: str) -> str:
    """What git prints in a folder.

    Raises:
        GitError: it fails, or takes more than TIMEOUT_SECONDS.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]}: no answer in {TIMEOUT_SECONDS} s.") from None
    if done.returncode:
        said = " ".join(redact_url(word) for word in done.stderr.split())
        raise GitError(f"git {arguments[0]}: {said or f'exit status {done.returncode}'}")
    return done.stdout


def base_ref(commit: str) -> str:
    """Return the reference that keeps the base commit of a sweep at the origin, because no branch may have it."""
    return f"refs/bukva/base/{commit}"


def push_result(clone: Path, origin: str, commit: str, name: str) -> None:
    """Send a result; if the origin has one of this name, that stays.

    Raises:
        GitError: the origin cannot be reached.
    """
    ref = experiment_ref(commit, name)
    try:
        run_git(clone, "push", "--quiet", origin, f"{ref}:{ref}")
    except GitError:
        if name not in finished(clone, origin, commit):  # another attempt was first
            raise


def finished(folder: Path, origin: str, commit: str) -> set[str]:
    """The names of all results at the origin that started from this commit.

    Raises:
        GitError: the origin cannot be reached.
    """
    prefix = experiment_ref(commit, "")
    listed = run_git(folder, "ls-remote", origin, f"{prefix}*")
    return {line.partition(prefix)[2] for line in listed.splitlines() if prefix in line}
