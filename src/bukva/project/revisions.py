"""Find results by name: a DVC experiment, a branch, a tag, a commit, or `workspace`, the current checkout."""

import difflib
import io
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from bukva.core.errors import BukvaError, redact_text
from bukva.core.files import project_root
from bukva.project.cache import dvc_repo

WORKSPACE = "workspace"
DIGITS = 7  # fewest digits of a commit in the name of an experiment
# "refs/exps/STARTING_COMMIT/NAME COMMIT" for each DVC experiment; the starting commit has a slash after two digits
EXPERIMENT = re.compile(r"^refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/(\S+) ([0-9a-f]+)$", re.MULTILINE)
# the last message of a stage that failed, and its name; or the error of DVC itself
FAILED = re.compile(r"(?:^(.*\S.*)\n\s*)?^ERROR: (?:failed to reproduce '(.+?)'|(.+))", re.MULTILINE)
UNDO_PREFIX = "To return to the last commit: "  # a stage that failed ends with this line
# replace settings of the user with which git would refuse, leave out files or change their names
SETTINGS = (
    "core.hooksPath=/dev/null", "core.quotePath=false", "protocol.file.allow=always",
    "status.showUntrackedFiles=normal",
)  # fmt: skip
# git sets them for its hooks, and would then read the repository of the hook
HOOK_VARIABLES = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX"}


class RefusedError(BukvaError):
    """Git refuses to read the project, because another user owns it."""


def git(*arguments: str, stdin: str = "", **environment: str) -> bytes:
    """Run git in the project and return its output. `environment` has additional environment variables for git.

    RefusedError: another user owns the project. BukvaError: git is not installed or fails.
    """
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    inherited = {name: value for name, value in os.environ.items() if name not in HOOK_VARIABLES}
    try:
        done = subprocess.run(
            ["git", "-C", str(project_root()), *settings, *arguments],
            input=stdin.encode(),
            capture_output=True,
            env={**inherited, "LC_ALL": "C", **environment},
        )
    except OSError as error:
        raise BukvaError(f"git cannot be started ({error.strerror}). Install git.") from None
    if not done.returncode:
        return done.stdout
    printed = done.stderr.decode(errors="replace").strip()
    if trust := re.search(r"git config .*safe\.directory.*", printed):
        raise RefusedError(
            f"{project_root()}: git does not read this folder, because another user owns it. "
            f"If you trust this user: `{trust[0].strip()}`"
        )
    advice = " Run `git init` and commit the project." if "not a git repository" in printed else ""
    raise BukvaError(f"{project_root()}: git failed in this folder ({printed.partition(chr(10))[0]}).{advice}")


def has_identity() -> bool:
    """Return whether git knows the name and email of the user. DVC needs them to save experiments."""
    if {"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"} <= os.environ.keys():
        return True
    try:
        return all(git("config", key).strip() for key in ("user.name", "user.email"))
    except BukvaError:
        return False


_contents: dict[tuple[str, str], bytes] = {}  # commit, path -> content of the file


def file_at(commit: str, path: str) -> bytes:
    """Return the content of the file `path` in a commit, or b"" if the file does not exist or `commit` is ""."""
    load_files([commit], [path])
    return _contents.get((commit, path), b"")


def load_files(commits: Iterable[str], files: Sequence[str]) -> None:
    """Read files of many commits with one call of git, so that `file_at` then needs none."""
    wanted = [(commit, path) for commit in commits if commit for path in files if (commit, path) not in _contents]
    if not wanted:
        return
    try:
        printed = io.BytesIO(git("cat-file", "--batch", stdin="".join(f"{key[0]}:./{key[1]}\n" for key in wanted)))
    except BukvaError:
        return
    for key in wanted:
        *_, kind, size = printed.readline().split()  # "HASH blob SIZE", or "NAME missing"
        content = printed.read(int(size) + 1)[:-1] if kind in (b"blob", b"tree") else b""
        _contents[key] = content if kind == b"blob" else b""


def commit_of(name: str) -> str:
    """Return the hash of the commit with this git name, or "" if git does not know the name. May raise RefusedError."""
    try:
        return git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except RefusedError:
        raise
    except BukvaError:
        return ""


def head() -> str:
    """Return the hash of the last commit of the checkout, or "" before the first commit. May raise RefusedError."""
    return commit_of("HEAD")


def head_or_empty() -> str:
    """Return the hash of the last commit, or "" if there is no commit or git refuses to read the project."""
    try:
        return head()
    except RefusedError:
        return ""


@dataclass(frozen=True)
class Revision:
    """A result with its name and its commit."""

    name: str  # of the experiment (see `_unique_names`), or as the user wrote it
    commit: str  # "" for the current checkout
    baseline: str = ""  # commit from which the experiment started, or "" if the result is not an experiment
    dvc_name: str = field(default="", compare=False)  # of the experiment; others may have the same

    @property
    def is_workspace(self) -> bool:
        return self.name == WORKSPACE

    @property
    def for_dvc(self) -> str:
        """Name or hash with which `dvc exp apply` finds exactly this result."""
        # DVC prefers a branch with this name to an experiment
        is_clear = not self.baseline or (self.name == self.dvc_name and not commit_of(self.name))
        return shlex.quote(self.name) if is_clear else self.commit


def experiment_ref(commit: str, name: str) -> str:
    """Return the git reference of the experiment `name` that started from `commit`."""
    return f"refs/exps/{commit[:2]}/{commit[2:]}/{name}"


def _unique_names(keys: Set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Name experiments, given by DVC's name and the starting commit: NAME@COMMIT if several have a name."""
    n_of = Counter(name for name, _ in keys)
    digits = next(n for n in count(DIGITS) if len({(name, start[:n]) for name, start in keys}) == len(keys))
    return {(name, start): f"{name}@{start[:digits]}" if n_of[name] > 1 else name for name, start in keys}


def experiments() -> list[Revision]:
    """Return all finished DVC experiments of all starting commits, sorted by name."""
    printed = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps").decode()
    commits = {(match[3], match[1] + match[2]): match[4] for match in EXPERIMENT.finditer(printed)}
    names = _unique_names(commits.keys())
    return [Revision(names[name, start], commit, start, name) for (name, start), commit in sorted(commits.items())]


def resolve(name: str) -> Revision:
    """Return the result with this name. BukvaError: it is unknown or ambiguous, or the experiment has no result.

    If several experiments have this name, the one that started from HEAD or its nearest ancestor is returned. An
    experiment goes before a branch of its name, which is then `heads/NAME`.
    """
    if name == WORKSPACE:
        return Revision(name, "")
    finished = experiments()
    plain, _, start = name.rpartition("@")  # of NAME@COMMIT
    namesakes = {
        each.baseline: each
        for each in finished
        if each.dvc_name == name
        or (each.dvc_name == plain and each.baseline.startswith(start) and len(start) >= DIGITS)
    }
    if len(namesakes) > 1:
        for commit in git("rev-list", "HEAD").decode().split():
            if commit in namesakes:
                return namesakes[commit]
        choices = " or ".join(each.name for each in namesakes.values())
        raise BukvaError(f"{name}: {len(namesakes)} experiments have this name. Use {choices}.")
    if namesakes:
        return next(iter(namesakes.values()))
    if commit := commit_of(name):
        return replace(next((each for each in finished if each.commit == commit), Revision("", commit)), name=name)
    for state in unfinished():
        if name in (state.name, state.dvc_name):
            has_ended = state.kind in ("failed", "interrupted")
            remedy = "Run it again" if has_ended else "Run `dvc queue start`, or wait until the experiment ends"
            raise BukvaError(f"{name} has no result ({state.why}). {remedy}.")
    similar = difflib.get_close_matches(name, [WORKSPACE, *(experiment.name for experiment in finished)])
    hint = f"Similar names: {', '.join(similar)}. " if similar else ""
    raise BukvaError(
        f"{name}: no experiment, branch, tag or commit has this name. {hint}`bukva experiments` lists all experiments."
    )


def valid_name(name: str) -> str:
    """Return the name of a revision, such as `HEAD~1`, as a name that DVC accepts for an experiment."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")


def free_name(name: str) -> str:
    """Return a name for a new experiment: `name`, or this name with a number if an experiment has it."""
    first = valid_name(name)
    taken = {each.dvc_name for each in experiments()} | {each.dvc_name for each in unfinished()}
    return next(free for n in count(1) if (free := first if n == 1 else f"{first}-{n}") not in taken)


# ---- experiments without a result


def why_no_snapshots() -> str:
    """Return why DVC cannot run experiments with `--queue` or `--temp` in this folder, or "" if it can.

    DVC writes the path of its cache in ASCII, and uses it in a URL, in which "?" and "#" end the path.
    """
    root = str(project_root())
    if unsupported := sorted({char for char in root if char in "?#" or not char.isascii()}):
        return (
            f"{root}: DVC's queue and `dvc exp run --temp` fail in a path with {' '.join(unsupported)}. Rename or move "
            "the folder, or run experiments without --queue and --temp."
        )
    return ""


@dataclass(frozen=True, order=True)
class Unfinished:
    """An experiment that has no result yet, or that failed."""

    name: str  # unique (see `_unique_names`)
    commit: str  # in DVC's stash, with the files of the experiment
    why: str  # queued, running, interrupted, failed or, if the cause is known, "failed: CAUSE"
    dvc_name: str = field(default="", compare=False)

    @property
    def kind(self) -> str:
        """Return `queued`, `running`, `interrupted` or `failed`."""
        return self.why.partition(":")[0]


def unfinished() -> list[Unfinished]:
    """Return all experiments of DVC's queue and of `dvc exp run --temp` that have no result, sorted by name.

    A failed experiment that was run again and then finished is left out.
    """
    folder = project_root() / ".dvc" / "tmp" / "exps"
    if not any([*folder.glob("celery/broker/*/*"), *folder.glob("standalone/*")]):
        return []  # importing DVC's queues takes half a second
    finished = {(each.dvc_name, each.baseline) for each in experiments()}
    with dvc_repo() as repo:
        celery, temporary = repo.experiments.celery_queue, repo.experiments.tempdir_queue
        entries = [(entry, "queued") for entry in celery.iter_queued()]
        for queue in (celery, temporary):
            for entry in queue.iter_active():
                process = queue.proc.get(entry.stash_rev)
                is_running = process is None or psutil.pid_exists(process.pid)
                entries.append((entry, "running" if is_running else "interrupted"))
        for entry, _ in celery.iter_failed():
            if (entry.name, entry.baseline_rev) not in finished:
                entries.append((entry, _failed(celery.proc.get(entry.stash_rev))))
    keys = [(entry.name or entry.stash_rev[:7], entry.baseline_rev) for entry, _ in entries]
    names = _unique_names({*finished, *keys})
    pairs = zip(entries, keys, strict=True)
    return sorted(Unfinished(names[key], entry.stash_rev, why, key[0]) for (entry, why), key in pairs)


def _failed(process: Any) -> str:
    log = Path((process and process.stdout) or "")
    printed = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    why = why_failed(printed) or why_no_snapshots().rstrip(".")
    return f"failed: {why}" if why else "failed"


def why_failed(printed: str) -> str:
    """Find the cause of a failure in the output of `dvc exp run`. It has no period at its end, and is "" if unknown."""
    match = FAILED.search(re.sub(rf"^{UNDO_PREFIX}.*\n", "", printed, flags=re.MULTILINE))
    if not match:
        return ""
    message, stage, error = match.groups()
    return redact_text(error or ": ".join(filter(None, (f"stage {stage}", message)))).rstrip(".")
