"""Find results by name: DVC experiments, branches, tags, commits, and `workspace`, which is the current checkout."""

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
# line about a DVC experiment: git reference (starting commit with a slash after two digits, and name), and its commit
EXPERIMENT = re.compile(r"^refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/(\S+) ([0-9a-f]+)$", re.MULTILINE)


class RefusedError(BukvaError):
    """Git refuses to read the project, because another user owns it."""


def git(*arguments: str, **environment: str) -> bytes:
    """Run git in the project, with `environment` as additional environment variables, and return its output.

    Raises:
        RefusedError: another user owns the project.
        BukvaError: git is not installed, or fails.
    """
    command = ["git", "-C", str(project_root()), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, env={**os.environ, "LC_ALL": "C", **environment})
    except OSError as error:
        raise BukvaError(f"git cannot be started ({error.strerror}). Install git.") from None
    if done.returncode:
        printed = done.stderr.decode(errors="replace").strip()
        if trust := re.search(r"git config .*safe\.directory.*", printed):
            raise RefusedError(
                f"{project_root()}: git does not read this folder, because another user owns it. "
                f"If you trust this user: {trust[0]}"
            )
        advice = " Run `git init` and commit the project." if "not a git repository" in printed else ""
        raise BukvaError(f"{project_root()}: git failed in this folder ({printed.partition(chr(10))[0]}).{advice}")
    return done.stdout


def has_identity() -> bool:
    """Return whether git has a name and an email for new commits, which DVC needs to save experiments."""
    if {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"} <= os.environ.keys():
        return True
    try:
        return all(git("config", key).strip() for key in ("user.name", "user.email"))
    except BukvaError:
        return False


@functools.cache
def file_at(commit: str, path: str) -> bytes:
    """Return the content of a file in a commit. Return b"" if the file does not exist or `commit` is ""."""
    try:
        return git("show", f"{commit}:./{path}") if commit else b""
    except BukvaError:
        return b""


def commit_of(name: str) -> str:
    """Return the commit of a git revision, or "" if git does not know the name.

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
    """Return the last commit of the checkout, or "" before the first commit.

    Raises:
        RefusedError: another user owns the project.
    """
    return commit_of("HEAD")


def head_or_empty() -> str:
    """Return the last commit of the checkout, or "" if there is none or git refuses to read the project.

    This is for callers that can continue without a commit. Others use `head`, which raises an error.
    """
    try:
        return head()
    except RefusedError:
        return ""


@dataclass(frozen=True)
class Revision:
    """The name of a result and the commit that it refers to.

    name: the name as the user wrote it, or the name of the experiment.
    commit: the commit with 40 digits, or "" for the workspace.
    baseline: the commit from which an experiment started, or "" if this is not an experiment.
    """

    name: str
    commit: str
    baseline: str = ""

    @property
    def is_workspace(self) -> bool:
        """Return whether this is the checkout with its uncommitted changes."""
        return self.name == WORKSPACE


def experiment_ref(commit: str, name: str) -> str:
    """Return the git reference of the experiment `name` that started from `commit`."""
    return f"refs/exps/{commit[:2]}/{commit[2:]}/{name}"


def experiments() -> list[Revision]:
    """Return all finished DVC experiments, from every starting commit, sorted by name."""
    printed = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps").decode()
    finished = [Revision(match[3], match[4], match[1] + match[2]) for match in EXPERIMENT.finditer(printed)]
    return sorted(finished, key=lambda experiment: (experiment.name, experiment.baseline))


def resolve(name: str) -> Revision:
    """Find a result by its name: `workspace`, an experiment, or else any revision that git knows.

    If several experiments have the same name, the experiment that started from HEAD is used, or else the experiment
    that started from the nearest ancestor of HEAD. If a branch and an experiment have the same name, `heads/NAME` is
    the branch.

    Raises:
        BukvaError: the name is unknown, the experiment has no result, or several experiments have this name and none
            of them started from an ancestor of HEAD.
    """
    if name == WORKSPACE:
        return Revision(name, "")
    finished = experiments()
    namesakes = [experiment for experiment in finished if experiment.name == name]
    if len(namesakes) == 1:
        return namesakes[0]
    if namesakes:
        by_baseline = {experiment.baseline: experiment for experiment in namesakes}
        for commit in git("rev-list", "HEAD").decode().split():
            if commit in by_baseline:
                return by_baseline[commit]
        choices = " or ".join(f"{each.commit[:10]} (started from commit {each.baseline[:7]})" for each in namesakes)
        raise BukvaError(f"{name}: {len(namesakes)} experiments have this name; use a commit instead: {choices}.")
    if commit := commit_of(name):
        return Revision(name, commit, next((each.baseline for each in finished if each.commit == commit), ""))
    for state in unfinished():
        if state.name == name:
            remedy = "Run it again" if state.kind in ("failed", "interrupted") else "Run `dvc queue start`, or wait"
            raise BukvaError(f"{name} has no result ({state.why}). {remedy}.")
    similar = difflib.get_close_matches(name, [WORKSPACE, *(experiment.name for experiment in finished)])
    hint = f"Similar names: {', '.join(similar)}. " if similar else ""
    raise BukvaError(
        f"{name}: no experiment, branch, tag or commit has this name. {hint}`bukva experiments` lists all experiments."
    )


def fetch(revisions: Sequence[Revision], path: str) -> None:
    """Download the output `path` of each revision from the DVC remote into the cache. The checkout does not change."""
    commits = [revision.commit for revision in revisions if not revision.is_workspace]
    with dvc_repo() as repo:
        repo.fetch(targets=[path], revs=commits or None, workspace=len(commits) < len(revisions))


def why_no_snapshots() -> str:
    """Return a message if DVC cannot run experiments with `--queue` or `--temp` in this project. Return "" if it can.

    DVC fails if the path of the project contains "?", "#" or characters that are not ASCII. DVC writes the path of
    the cache in ASCII, and pushes to a URL with this path, in which "?" and "#" end the path.
    """
    root = str(project_root())
    if unsupported := sorted({char for char in root if char in "?#" or not char.isascii()}):
        return (
            f"{root}: DVC's queue and `dvc exp run --temp` fail in a path with {' '.join(unsupported)}; rename or move "
            "the folder, or run without --queue and --temp."
        )
    return ""


@dataclass(frozen=True, order=True)
class Unfinished:
    """An experiment without a result.

    commit: a commit of DVC's stash with the files of the experiment.
    why: `queued`, `running`, `interrupted`, `failed` or, if the cause is known, `failed: CAUSE`.
    """

    name: str
    commit: str
    why: str

    @property
    def kind(self) -> str:
        """Return `queued`, `running`, `interrupted` or `failed`."""
        return self.why.partition(":")[0]


def unfinished() -> list[Unfinished]:
    """Return the experiments in DVC's queue, and the running experiments of `dvc exp run --temp`, sorted by name.

    A failed experiment that was run again and finished is left out.
    """
    finished = {(experiment.name, experiment.baseline) for experiment in experiments()}
    with dvc_repo() as repo:
        celery, temporary = repo.experiments.celery_queue, repo.experiments.tempdir_queue
        entries = [(entry, "queued") for entry in celery.iter_queued()]
        for queue in (celery, temporary):
            entries += [(entry, _running(queue.proc.get(entry.stash_rev))) for entry in queue.iter_active()]
        for entry, _ in celery.iter_failed():
            if (entry.name, entry.baseline_rev) not in finished:
                entries.append((entry, _failed(celery.proc.get(entry.stash_rev))))
    return sorted(Unfinished(entry.name or entry.stash_rev[:7], entry.stash_rev, why) for entry, why in entries)


def _running(process: Any) -> str:
    """Return "running", or "interrupted" if the process of the experiment has ended.

    This check is needed because DVC lists a killed experiment as running.
    """
    import psutil

    return "running" if process is None or psutil.pid_exists(process.pid) else "interrupted"


def _failed(process: Any) -> str:
    """Return "failed: " and the cause: the stage and the last line of its output, or why DVC could not start a stage.

    Return "failed" if the cause is unknown.
    """
    log = Path((process and process.stdout) or "")
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    output, _, error = text.partition("ERROR: failed to reproduce '")
    last, stage = output.rstrip().rpartition("\n")[2].rstrip("."), error.partition("'")[0]
    why = f"stage {stage}: {last}" if stage else why_no_snapshots().rstrip(".")
    return f"failed: {why}" if why else "failed"
