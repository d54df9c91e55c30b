"""Names of results: experiments of DVC, branches, tags, commits, and `workspace` for the checkout itself.

DVC keeps an experiment as the git reference refs/exps/<commit that it started from>/<name>, that commit with a slash
behind its second digit. Other references of that folder are DVC's own: its queue, and what it runs now.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bukva.core.errors import BukvaError
from bukva.project.git import commits_of, git

WORKSPACE = "workspace"
EXPERIMENT = re.compile(r"refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/([^/]+)")
WAITING = {
    "queued": "has no result yet; start the queue: `dvc queue start`",
    "running": "has no result yet; wait for its end",
    "interrupted": "was interrupted and has no result; run it again",
}
MAX_SIMILAR = 4  # names that an error proposes


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


def _resolve(name: str, known: list[Revision], references: dict[str, str], commits: dict[str, str]) -> Revision:
    if name == WORKSPACE:
        return Revision(name, "")
    if namesakes := [experiment for experiment in known if experiment.name == name]:
        return _one_of(namesakes, commits["HEAD"])
    if commit := commits.get(name):
        baseline = next((experiment.baseline for experiment in known if experiment.commit == commit), "")
        return Revision(name, commit, baseline)
    raise BukvaError(_unfinished(name) or _unknown(name, references))


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


def _unfinished(name: str) -> str:
    """The sentence for an experiment without a result; "" if there is none of this name."""
    from bukva.project.states import states  # which needs this module

    for state in states():
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
