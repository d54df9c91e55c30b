"""Names of results: experiments of DVC, branches, tags, commits, and `workspace` for the checkout itself."""

import difflib
import functools
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import dvc_repo

WORKSPACE = "workspace"
# DVC's reference of an experiment: the commit that it started from, with a slash in it, and its name
EXPERIMENT = re.compile(r"^refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/(\S+) ([0-9a-f]+)$", re.MULTILINE)


class RefusedError(BukvaError):
    """Git does not read the project, because another user owns it."""


def git(*arguments: str, **environment: str) -> bytes:
    """Return what git prints in the project.

    Raises:
        RefusedError: another user owns the project.
        BukvaError: git is missing, or fails.
    """
    command = ["git", "-C", str(project_root()), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C", **environment})
    except OSError as error:
        raise BukvaError(f"git: cannot be started ({error.strerror}); install it.") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        if trust := re.search(r"git config .*safe\.directory.*", said):
            raise RefusedError(
                f"{project_root()}: git does not read it, because another user owns it. If you trust it: {trust[0]}"
            )
        advice = "; run `git init` and commit the project" if "not a git repository" in said else ""
        raise BukvaError(f"{project_root()}: git cannot read it ({said.partition(chr(10))[0]}){advice}.")
    return done.stdout


def has_identity() -> bool:
    """Return whether git knows a name and an address for commits, and so for experiments of DVC."""
    if {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"} <= os.environ.keys():
        return True
    try:
        return all(git("config", key).strip() for key in ("user.name", "user.email"))
    except BukvaError:
        return False


@functools.cache
def show(commit: str, path: str) -> bytes:
    """A file of a commit; empty if the commit has none, or there is none ("")."""
    try:
        return git("show", f"{commit}:./{path}") if commit else b""
    except BukvaError:
        return b""


def commit_of(name: str) -> str:
    """Return the commit that a git revision names; "" for a name that git does not know.

    Raises:
        RefusedError: another user owns the project.
    """
    try:
        return git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except RefusedError:
        raise
    except BukvaError:
        return ""


def head() -> str:
    """Return the last commit of the checkout; "" before the first one.

    Raises:
        RefusedError: another user owns the project.
    """
    return commit_of("HEAD")


def known_head() -> str:
    """Return the same, and "" also where git refuses, for what can be done without git."""
    try:
        return head()
    except RefusedError:
        return ""


@dataclass(frozen=True)
class Revision:
    """A name and what it stands for.

    commit: 40 digits; "" for the workspace.
    baseline: the commit that an experiment started from; "" for everything else.
    """

    name: str
    commit: str
    baseline: str = ""

    @property
    def is_workspace(self) -> bool:
        """Whether this is the checkout itself, with its uncommitted changes."""
        return self.name == WORKSPACE


def experiment_ref(commit: str, name: str) -> str:
    """Return git's reference of an experiment that started from this commit."""
    return f"refs/exps/{commit[:2]}/{commit[2:]}/{name}"


def experiments() -> list[Revision]:
    """All finished experiments of DVC, of every baseline, in the order of their names."""
    printed = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps").decode()
    found = [Revision(match[3], match[4], match[1] + match[2]) for match in EXPERIMENT.finditer(printed)]
    return sorted(found, key=lambda one: (one.name, one.baseline))


def resolve(name: str) -> Revision:
    """What a name stands for: `workspace`, else an experiment, else whatever git takes for a commit.

    If several experiments share a name, the one that started from HEAD is meant, else the one that started from the
    nearest commit before it. A branch with the name of an experiment is heads/NAME.

    Raises:
        BukvaError: nothing has this name, or only experiments of several other branches.
    """
    if name == WORKSPACE:
        return Revision(name, "")
    known = experiments()
    namesakes = [one for one in known if one.name == name]
    if len(namesakes) == 1:
        return namesakes[0]
    if namesakes:
        of_commit = {one.baseline: one for one in namesakes}
        for commit in git("rev-list", "HEAD").decode().split():
            if commit in of_commit:
                return of_commit[commit]
        choices = " or ".join(f"{one.commit[:10]} (started from commit {one.baseline[:7]})" for one in namesakes)
        raise BukvaError(f"{name}: {len(namesakes)} experiments have this name; write the commit of one: {choices}.")
    if commit := commit_of(name):
        return Revision(name, commit, next((one.baseline for one in known if one.commit == commit), ""))
    for state in unfinished():
        if state.name == name:
            remedy = "run it again" if state.kind in ("failed", "interrupted") else "run `dvc queue start`, or wait"
            raise BukvaError(f"{name}: has no result ({state.why}); {remedy}.")
    similar = difflib.get_close_matches(name, [WORKSPACE, *(one.name for one in known)])
    hint = f"similar: {', '.join(similar)}; " if similar else ""
    raise BukvaError(
        f"{name}: no experiment, branch, tag or commit has this name; {hint}`bukva experiments` lists them."
    )


def fetch(revisions: Sequence[Revision], path: str) -> None:
    """Let DVC copy this output of these revisions from the remote into the cache; the checkout stays as it is."""
    commits = [revision.commit for revision in revisions if not revision.is_workspace]
    with dvc_repo() as repo:
        repo.fetch(targets=[path], revs=commits or None, workspace=len(commits) < len(revisions))


def why_no_snapshots() -> str:
    """Return why DVC cannot run `--queue` and `--temp` in this project, in one sentence; "" if it can.

    DVC writes the path of the cache in ASCII, and pushes to an address in which ? and # end the path.
    """
    root = str(project_root())
    if odd := sorted({sign for sign in root if sign in "?#" or not sign.isascii()}):
        return (
            f"{root}: DVC's queue and `dvc exp run --temp` fail in a path with {' '.join(odd)}; rename or move the "
            "folder, or run without --queue and --temp."
        )
    return ""


@dataclass(frozen=True, order=True)
class Unfinished:
    """An experiment that has no result.

    commit: of git's stash, with the files that DVC runs or would run.
    why: it has no result: its kind, and what its log says of a failure.
    """

    name: str
    commit: str
    why: str

    @property
    def kind(self) -> str:
        """queued, running, interrupted or failed."""
        return self.why.partition(":")[0]


def unfinished() -> list[Unfinished]:
    """The experiments in DVC's queue, and those of `dvc exp run --temp` that run, by name.

    A failed experiment that was run again and finished is not among them.
    """
    finished = {(one.name, one.baseline) for one in experiments()}
    with dvc_repo() as repo:
        queue, temporary = repo.experiments.celery_queue, repo.experiments.tempdir_queue
        found = [(entry, "queued") for entry in queue.iter_queued()]
        for place in (queue, temporary):
            found += [(entry, _running(place.proc.get(entry.stash_rev))) for entry in place.iter_active()]
        for entry, _ in queue.iter_failed():
            if (entry.name, entry.baseline_rev) not in finished:
                found.append((entry, _failed(queue.proc.get(entry.stash_rev))))
    return sorted(Unfinished(entry.name or entry.stash_rev[:7], entry.stash_rev, why) for entry, why in found)


def _running(process: Any) -> str:
    """What DVC calls running: its process may have ended without a word."""
    import psutil

    return "running" if process is None or psutil.pid_exists(process.pid) else "interrupted"


def _failed(process: Any) -> str:
    """Return "failed", with the stage and the last line in the log of a process, or why no stage could run."""
    log = Path((process and process.stdout) or "")
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    said, _, error = text.partition("ERROR: failed to reproduce '")
    last, stage = said.rstrip().rpartition("\n")[2].rstrip("."), error.partition("'")[0]
    why = f"stage {stage}: {last}" if stage else why_no_snapshots().rstrip(".")
    return f"failed: {why}" if why else "failed"
