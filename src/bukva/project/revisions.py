"""Names of results: experiments of DVC, branches, tags, commits, and `workspace` for the checkout itself.

DVC keeps an experiment as the git reference refs/exps/<commit that it started from>/<name>, that commit with a slash
behind its second digit. Other references of that folder are DVC's own: its queue, and what it runs now. Those that wait
and those that failed are stashes of git (refs/exps/celery/stash and failed, by their reflogs), and what DVC knows of
each execution is in .dvc/tmp/exps: `dvc queue status` and `dvc exp show` read the same.
"""

import contextlib
import difflib
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bukva.core.errors import BukvaError
from bukva.core.files import project_root

WORKSPACE = "workspace"
EXPERIMENT = re.compile(r"refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/([^/]+)")
WAITING = {
    "queued": "has no result yet; start the queue: `dvc queue start`",
    "running": "has no result yet; wait for its end",
    "interrupted": "was interrupted and has no result; run it again",
}
MAX_SIMILAR = 4  # names that an error proposes

ENTRY = re.compile(
    r"([0-9a-f]{40}) refs/exps/celery/(stash|failed)@.* dvc-exp:[0-9a-f]+:([0-9a-f]{40}):([^:]*)(?::.*)?"
)
EXECUTIONS = Path(".dvc/tmp/exps")
RUNS = "run", "standalone/run"  # of the queue; of dvc exp run --temp
EARLY = "before its first stage"
SUCCESS = 3  # the highest status of DVC before it has collected the result

Kind = Literal["queued", "running", "interrupted", "failed"]

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


def experiments() -> list[Revision]:
    """All finished experiments of DVC, of every baseline, in the order of their names.

    Raises:
        BukvaError: the project is no repository of git.
    """
    return _experiments(_references())


def resolve(names: Sequence[str]) -> list[Revision]:
    """What the names stand for: `workspace`, else an experiment, else whatever git takes for a commit.

    A branch that has the name of an experiment is reached as heads/NAME.

    Raises:
        BukvaError: nothing has this name, or experiments of several baselines have it and none is that of HEAD.
    """
    references = _references()
    known, commits = _experiments(references), commits_of([*names, "HEAD"])
    return [_resolve(name, known, references, commits) for name in names]


def head() -> str:
    """The last commit of the checkout; "" before the first one."""
    return commits_of(["HEAD"])["HEAD"]


def fetch(revisions: Sequence[Revision], path: str) -> None:
    """Let DVC copy this output of these revisions from the remote into the cache; the checkout stays as it is.

    Raises:
        BukvaError: DVC could not; the sentence has its reason.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(project_root())) as repo:
            commits = [revision.commit for revision in revisions if not revision.is_workspace]
            repo.fetch(targets=[path], revs=commits or None, workspace=len(commits) < len(revisions))
    except DvcException as error:
        raise BukvaError(f"{path}: DVC cannot fetch it: {error}.") from None


def _resolve(name: str, known: list[Revision], references: dict[str, str], commits: dict[str, str]) -> Revision:
    if name == WORKSPACE:
        return Revision(name, "")
    if namesakes := [experiment for experiment in known if experiment.name == name]:
        return _one_of(namesakes, commits["HEAD"])
    if commit := commits.get(name):
        baseline = next((experiment.baseline for experiment in known if experiment.commit == commit), "")
        return Revision(name, commit, baseline)
    raise BukvaError(_why_unfinished(name) or _unknown(name, references))


def _one_of(namesakes: list[Revision], at_head: str) -> Revision:
    """The experiment that started from HEAD, if there are several of one name."""
    fitting = namesakes if len(namesakes) == 1 else [one for one in namesakes if one.baseline == at_head]
    if fitting:
        return fitting[0]
    choices = " or ".join(f"{one.commit[:10]} (started from commit {one.baseline[:7]})" for one in namesakes)
    name = namesakes[0].name
    raise BukvaError(
        f"{name}: {len(namesakes)} experiments have this name; write the commit of one instead: {choices}."
    )


def _why_unfinished(name: str) -> str:
    """The sentence for an experiment without a result; "" if there is none of this name."""
    for state in unfinished():
        if state.name == name:
            what = f"failed, {state.reason}; its log: `dvc queue logs {name}`" if state.reason else WAITING[state.kind]
            return f"{name}: {what}."
    return ""


def _unknown(name: str, references: dict[str, str]) -> str:
    names = {reference.rpartition("/")[2] for reference in references} | {WORKSPACE}
    similar = difflib.get_close_matches(name, sorted(names), MAX_SIMILAR)
    hint = f"similar: {', '.join(similar)}; " if similar else ""
    return f"{name}: no experiment, branch, tag or commit has this name; {hint}`bukva experiments` lists them."


def _references() -> dict[str, str]:
    """reference -> object, of experiments, branches and tags."""
    printed = git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps", "refs/heads", "refs/tags").decode()
    references = (line.split(" ") for line in printed.splitlines())
    own = re.compile(r"refs/exps/(?![0-9a-f]{2}/)")
    return {reference: found for reference, found in references if not own.match(reference)}


def _experiments(references: dict[str, str]) -> list[Revision]:
    found = [
        Revision(match[3], commit, match[1] + match[2])
        for reference, commit in references.items()
        if (match := EXPERIMENT.fullmatch(reference))
    ]
    return sorted(found, key=lambda one: (one.name, one.baseline))


@dataclass(frozen=True)
class Unfinished:
    """An experiment that has no result.

    commit: of git's stash, with the files that DVC runs or would run.
    baseline: the commit that it started from.
    reason: what its log says of a failure; "" for all others.
    """

    name: str
    kind: Kind
    commit: str
    baseline: str
    reason: str = ""


def unfinished() -> list[Unfinished]:
    """All of them, by name.

    A failed experiment that was run again and finished is not among them.

    Raises:
        BukvaError: the project is no repository of git.
    """
    finished = {(experiment.name, experiment.baseline) for experiment in experiments()}
    found = [*_executions(), *_stashed()]
    left = [state for state in found if state.kind != "failed" or (state.name, state.baseline) not in finished]
    return sorted(left, key=lambda state: (state.name, state.kind, state.commit))


def _stashed() -> Iterator[Unfinished]:
    reflogs = git("log", "-g", "--glob=refs/exps/celery", "--format=%H %gD %gs").decode(errors="replace")
    for match in filter(None, map(ENTRY.fullmatch, reflogs.splitlines())):
        commit, stash, baseline, name = match.groups()
        if stash == "failed":
            yield Unfinished(name or commit[:7], "failed", commit, baseline, _reason(commit))
        else:
            yield Unfinished(name or commit[:7], "queued", commit, baseline)


def _executions() -> Iterator[Unfinished]:
    """What runs, or was running when its process ended: DVC calls both running."""
    import psutil

    latest: dict[Path, tuple[int, Path, str, str]] = {}
    for file in (file for folder in RUNS for file in (project_root() / EXECUTIONS / folder).glob("*/*.run")):
        with contextlib.suppress(OSError, ValueError):  # it is being written
            info = json.loads(file.read_bytes())
            folder = Path(info["root_dir"])
            if info["location"] == WORKSPACE and file.stem != WORKSPACE:
                continue  # DVC leaves it behind, whatever became of an experiment that ran in the checkout
            if info["status"] <= SUCCESS and folder.is_dir():
                known = (int(info["status"]), file, info["name"] or file.stem[:7], str(info["baseline_rev"]))
                latest[folder] = max(known, latest.get(folder, known))
    used = {str(process.info["cwd"]) for process in psutil.process_iter(["cwd"]) if process.info["cwd"]}
    for folder, (_, file, name, baseline) in latest.items():
        with_process = file.with_suffix(".json")  # `dvc exp run --temp` writes none: a stage of it is in its folder
        if with_process.exists():
            lives = psutil.pid_exists(json.loads(with_process.read_bytes())["pid"])
        else:
            lives = any(Path(current).is_relative_to(folder) for current in used)
        yield Unfinished(name, "running" if lives else "interrupted", file.stem, baseline)


def _reason(commit: str) -> str:
    """The stage that failed and the last line that it printed."""
    log = project_root() / EXECUTIONS / RUNS[0] / commit / f"{commit}.out"
    with contextlib.suppress(OSError):
        text = log.read_text(encoding="utf-8", errors="replace")
        said, found, error = text.partition("ERROR: failed to reproduce '")
        if found:
            stage, exit_status = error.partition("'")[0], error.partition("\n")[0].rpartition(", ")[2]
            last = said.rstrip().rpartition("\n")[2]
            return f"stage {stage}: {exit_status if last.startswith('> ') else last.rstrip('.')}"
        return text.rstrip().rpartition("\n")[2] or EARLY
    return EARLY
