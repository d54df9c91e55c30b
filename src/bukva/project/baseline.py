"""The baseline: the results of the last commit on this machine, which experiments are compared with and return to.

It is an experiment of DVC, because a training has other bytes on another machine, so a commit that many people share
cannot hold its results. A team that works on one machine, or shares a remote, may commit results: HEAD has them then.
"""

import contextlib
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bukva.config.load import PARAMS, flatten, read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.project.cache import cached_files, digests, has_remote
from bukva.project.lock import LOCK, StageRecords, all_sources, changes, outputs, parse_lock, read_lock
from bukva.project.revisions import commit_of, experiment_ref, experiments, git, head, known_head, show

NAME = "baseline"
WAY_BACK = "To go back: "
RESULTS = LOCK, "reports"  # what a run writes that git can track
SCORED = "evaluate"
NOBODY = {  # git needs an author, and a user of a fresh machine has told it none
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "bukva"), ("EMAIL", "bukva@localhost"))
}


def save_baseline() -> str:
    """Save the results in the checkout as the experiment `baseline`, if the last commit's settings and code made them.

    Returns:
        A line that says where the results are, or why they are not the baseline.

    Raises:
        BukvaError: git or DVC cannot read the project.
    """
    commit = head()
    if why := _why_not(commit, read_lock(project_root())):
        return f"Not saved as {NAME}: {why}"
    if show(_saved(commit), LOCK) != (project_root() / LOCK).read_bytes():
        _save(commit)
    return f"Saved as experiment {NAME}. After an experiment, return to it: dvc exp apply {NAME}"


def way_back() -> str:
    """Return the command that undoes an experiment or an edit of params.yaml, outputs included; "" without git."""
    commit = known_head()
    if commit and _saved(commit) and not commit_of(NAME):
        return f"dvc exp apply {NAME}"
    if SCORED in (lock := parse_lock(show(commit, LOCK).decode(errors="replace"))) and (
        restore := _restore(commit, lock)
    ):
        return f"git checkout HEAD {PARAMS} {' '.join(RESULTS)} && {restore}"
    return f"git checkout HEAD {PARAMS} && make repro" if commit else ""


def _restore(commit: str, lock: StageRecords) -> str:
    """Return DVC's command that restores the outputs of a commit; "" where neither the cache nor a remote has them."""
    kept_by_dvc = [digest for path, digest in outputs(lock).items() if not show(commit, path)]
    try:
        if all(map(cached_files, kept_by_dvc)):
            return "dvc checkout"
        return "dvc pull" if has_remote() else ""
    except BukvaError:  # DVC cannot read the project
        return "dvc checkout"


def lock_of_baseline(commit: str) -> StageRecords:
    """Return dvc.lock of the baseline of a commit, or of the commit itself where no baseline was saved."""
    return parse_lock(show(_saved(commit) or commit, LOCK).decode(errors="replace"))


def _why_not(commit: str, lock: StageRecords) -> str:
    """Return why the results in the checkout are not those of the last commit, and what to do; "" if they are."""
    if not commit:
        return "git has no commit of the project yet."
    if commit_of(NAME):
        return "a branch or tag has this name, and DVC prefers it to the experiment; rename or delete it."
    if not _saved(commit) and (NAME, commit) in _names():
        return f"an experiment with other parameters has this name; rename it: dvc exp rename {NAME} NEW"
    if SCORED not in lock:
        return f"stage {SCORED} has not run; run `make repro`."
    sources, made = all_sources(SCORED, lock), outputs(lock)
    now = digests([*sources, *made])
    if stale := next(changes(SCORED, lock, flatten(read_yaml(project_root() / PARAMS)), now), ""):
        return f"{stale}; run `make repro`."
    if damaged := [path for path, md5 in made.items() if now[path] != md5]:
        return f"{damaged[0]} is not what {LOCK} recorded; run `dvc checkout`, then `make repro`."
    if edited := _edited(sources):
        return f"{edited[0]} differs from the last commit. To keep these results as an experiment: dvc exp run -n NAME"
    return ""


def _save(commit: str) -> None:
    """Write the experiment as DVC does: a commit on this one. It has the results, and no edit of any other file.

    `dvc exp save` would take all edits of tracked files along, and `dvc exp apply` would bring them back later.
    """
    present = [path for path in RESULTS if (project_root() / path).exists()]
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}  # the user's own stays as it is
        git("read-tree", commit, **index)
        git("add", "--all", "--", *present, **index)
        tree = git("write-tree", **index).decode().strip()
    made = git("commit-tree", tree, "-p", commit, "-m", f"bukva: {NAME}", **NOBODY).decode().strip()
    git("update-ref", experiment_ref(commit, NAME), made)


def _saved(commit: str) -> str:
    """Return the commit of the experiment `baseline` of this commit, which has its parameters; "" if there is none."""
    found = _names().get((NAME, commit), "")
    return found if show(found, str(PARAMS)) == show(commit, str(PARAMS)) else ""


def _names() -> dict[tuple[str, str], str]:
    """Return the commits of all experiments by name and the commit that they started from."""
    with contextlib.suppress(BukvaError):  # git is missing, or this is no repository
        return {(one.name, one.baseline): one.commit for one in experiments()}
    return {}


def _edited(sources: Iterable[str]) -> list[str]:
    """Return the files among params.yaml and these sources that differ from the last commit or are untracked."""
    inside = [path for path in sources if not path.startswith(("/", ".."))]
    options = "--porcelain", "-z", "--no-renames", "--untracked-files=all"
    listed = git("status", *options, "--", str(PARAMS), *inside).decode().split("\0")
    return [entry[3:] for entry in listed if entry]
