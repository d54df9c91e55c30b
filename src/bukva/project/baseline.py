"""The baseline: the results of the last commit on this machine, which experiments are compared with and return to.

It is an experiment of DVC, because a training has other bytes on another machine, so a commit that many people share
cannot hold its results. A team that works on one machine, or shares a remote, may commit results: HEAD has them then.
"""

import contextlib
import logging
from collections.abc import Iterable

from bukva.config.load import PARAMS, flatten, read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import digests, dvc_repo
from bukva.project.lock import LOCK, StageRecords, all_sources, changes, parse_lock, read_lock
from bukva.project.revisions import experiments, git, head, show

NAME = "baseline"
WAY_BACK = "To go back: "
RESULTS = LOCK, "reports"  # what a run writes that git can track
SCORED = "evaluate"


def save_baseline() -> str:
    """Save the results in the checkout as the experiment `baseline`, if the last commit's settings and code made them.

    Returns:
        A line that says where the results are, or why they are not the baseline.

    Raises:
        BukvaError: DVC refuses to save them.
    """
    commit, lock = head(), read_lock(project_root())
    if not commit:
        return f"Not saved as {NAME}: the project has no commit yet."
    if SCORED not in lock:
        return f"Not saved as {NAME}: stage {SCORED} has not run; run `make repro`."
    sources = all_sources(SCORED, lock)
    if stale := next(changes(SCORED, lock, flatten(read_yaml(project_root() / PARAMS)), digests(sources)), ""):
        return f"Not saved as {NAME}: {stale}; run `make repro`."
    if edited := _edited(sources):
        return (
            f"Not saved as {NAME}, because {edited[0]} differs from the last commit. Keep these results under another "
            "name: dvc exp save -n NAME"
        )
    if show(_saved(commit), LOCK) != (project_root() / LOCK).read_bytes():
        untracked = git("ls-files", "--others", "--exclude-standard", "-z", "--", *RESULTS).decode().split("\0")
        logging.getLogger("dvc").setLevel(logging.ERROR)  # it warns of untracked files, none of which is a result
        with dvc_repo() as repo:
            repo.experiments.save(name=NAME, force=True, include_untracked=[*filter(None, untracked)])
    return f"Saved as experiment {NAME}. After an experiment, return to it: dvc exp apply {NAME}"


def way_back() -> str:
    """Return the command that undoes an experiment or an edit of params.yaml, outputs included; "" without git."""
    commit = head()
    if _saved(commit):
        return f"dvc exp apply {NAME}"
    if SCORED in parse_lock(show(commit, LOCK).decode(errors="replace")):
        return f"git checkout HEAD {PARAMS} {' '.join(RESULTS)} && dvc checkout"
    return f"git checkout HEAD {PARAMS} && make repro" if commit else ""


def lock_of_baseline(commit: str) -> StageRecords:
    """Return dvc.lock of the baseline of a commit, or of the commit itself where no baseline was saved."""
    return parse_lock(show(_saved(commit) or commit, LOCK).decode(errors="replace"))


def _saved(commit: str) -> str:
    """Return the commit of the experiment `baseline` that belongs to this commit; "" if there is none."""
    with contextlib.suppress(BukvaError):  # git is missing, or this is no repository
        return next((one.commit for one in experiments() if (one.name, one.baseline) == (NAME, commit)), "")
    return ""


def _edited(sources: Iterable[str]) -> list[str]:
    """Return the files among params.yaml and these sources that differ from the last commit or are untracked."""
    inside = [path for path in sources if not path.startswith(("/", ".."))]
    listed = git("status", "--porcelain", "-z", "--no-renames", "--", str(PARAMS), *inside).decode().split("\0")
    return [entry[3:] for entry in listed if entry]
