"""Exchange commits with the origin of a sweep, the git repository that all machines share.

The machines fetch the commit of the sweep from the origin, and push the results of trials to the origin.
"""

import subprocess
from pathlib import Path

from bukva.core.errors import BukvaError, redact_url
from bukva.project.revisions import experiment_ref

TIMEOUT_SECONDS = 120


class GitError(BukvaError):
    """A git command failed, or took too long."""


def run_git(folder: Path, *arguments: str) -> str:
    """Run a git command in a folder and return its output.

    Raises:
        GitError: git fails, or takes more than TIMEOUT_SECONDS.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise GitError(f"git {arguments[0]} did not finish within {TIMEOUT_SECONDS} s.") from None
    if done.returncode:
        printed = " ".join(redact_url(word) for word in done.stderr.split())
        raise GitError(f"git {arguments[0]} failed: {printed or f'exit status {done.returncode}'}")
    return done.stdout


def base_ref(commit: str) -> str:
    """Return the name of the git reference that points to the commit of a sweep.

    With this reference, the git repository that all machines share keeps the commit, even if no branch contains it.
    """
    return f"refs/bukva/base/{commit}"


def push_result(clone: Path, origin: str, commit: str, name: str) -> None:
    """Push the result of a trial from `clone` to the origin, the git repository that all machines share.

    A failed push is ignored if the origin already has the result.

    commit: commit from which the trial started.
    name: name of the trial.

    Raises:
        GitError: the push failed, and the origin does not have the result.
    """
    ref = experiment_ref(commit, name)
    try:
        run_git(clone, "push", "--quiet", origin, f"{ref}:{ref}")
    except GitError:
        if name not in finished(clone, origin, commit):  # otherwise, another attempt has already pushed the result
            raise


def finished(folder: Path, origin: str, commit: str) -> set[str]:
    """Return the names of the finished experiments that started from `commit`.

    An experiment is finished if the origin, the git repository that all machines share, has its git reference.

    folder: any git repository. git runs in this folder.

    Raises:
        GitError: the origin cannot be reached.
    """
    prefix = experiment_ref(commit, "")
    listed = run_git(folder, "ls-remote", origin, f"{prefix}*")
    return {line.partition(prefix)[2] for line in listed.splitlines() if prefix in line}
