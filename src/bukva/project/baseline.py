"""Save and find the baseline: the results of the last commit, with which experiments are compared.

It is the DVC experiment `baseline`, because the same training gives different bytes on another machine. A team that
works on one machine, or shares a DVC remote, can commit its results instead. The baseline is then HEAD.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.params import PARAMS, flatten, read_yaml
from bukva.project.cache import cached_files, digests, has_remote
from bukva.project.lock import LOCK, StageRecords, all_sources, changes, dependencies, outputs, parse_lock, read_lock
from bukva.project.revisions import commit_of, experiment_ref, file_at, git, head, head_or_empty

NAME = "baseline"
RESULTS = LOCK, "reports"  # results that git can track; all others are in DVC's cache
SCORED, SPLIT = "evaluate", "val"  # the stage and the split of the scores that are compared
TEXTS = "download.path", "clean.file"  # parameters that name the user's files
AS_EXPERIMENT = "To keep these results as an experiment: `dvc exp run -n NAME`"
AUTHOR = {  # `git commit-tree` fails without an author, and on a new machine the user has not set one
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "bukva"), ("EMAIL", "bukva@localhost"))
}


def save_baseline() -> str:
    """Save the results in the checkout as the DVC experiment `baseline`, and return a message for the user.

    Results are not saved if their parameters or code differ from the last commit.
    """
    commit = head()
    if why := _why_not_saved(commit, read_lock()):
        return f"The results were not saved as experiment {NAME}: {why}"
    if file_at(_saved_baseline(commit), LOCK) != Path(LOCK).read_bytes():
        _save(commit)
    return (
        f"The results were saved as experiment {NAME}. To return to them after another experiment: "
        f"`dvc exp apply {NAME}`"
    )


def undo_command() -> str:
    """Return a shell command that returns to the parameters and results of the last commit, or computes them again.

    It is "" if the project has no commit, or if DVC runs this experiment in a temporary copy of the checkout.
    """
    commit = head_or_empty()
    if not commit or Path.cwd().resolve() != project_root():
        return ""
    if _saved_baseline(commit) and not commit_of(NAME):
        return f"dvc exp apply {NAME}"
    restore, lock = "", lock_at(commit)
    if SCORED in lock:
        is_cached = all(cached_files(digest) for path, digest in outputs(lock).items() if not file_at(commit, path))
        restore = "dvc checkout" if is_cached else "dvc pull" if has_remote() else ""
    results = f"{PARAMS} {' '.join(RESULTS)}" if restore else PARAMS
    return f"git checkout HEAD {results} && {restore or 'make repro'}"


def lock_of_baseline(commit: str) -> StageRecords:
    """Return the dvc.lock of the experiment `baseline` that was saved for `commit`, or else that of `commit`."""
    return lock_at(_saved_baseline(commit) or commit)


def lock_at(commit: str) -> StageRecords:
    return parse_lock(file_at(commit, LOCK).decode(errors="replace"))


def _why_not_saved(commit: str, lock: StageRecords) -> str:
    if not commit:
        return "the project has no git commit yet. Commit the project first."
    if commit_of(NAME):
        return f"a branch or tag is called {NAME}, and DVC would use it instead of the experiment. Rename or delete it."
    if commit_of(experiment_ref(commit, NAME)) and not _saved_baseline(commit):
        return f"an experiment with other parameters is called {NAME}. To rename it: `dvc exp rename {NAME} NEW`"
    if SCORED not in lock:
        return f"stage {SCORED} has not run. Run `make repro`."
    sources, outs = all_sources(SCORED, lock), outputs(lock)
    now, params = digests([*sources, *outs]), flatten(read_yaml())
    if stale := next(changes(SCORED, lock, params, now), ""):
        return f"{stale}. Run `make repro`."
    if damaged := [path for path, md5 in outs.items() if now[path] != md5]:
        return f"{damaged[0]} differs from the output that {LOCK} recorded. Run `dvc checkout`, then `make repro`."
    hidden = hidden_texts([params[key] for key in TEXTS if params.get(key) in sources])
    if edited := edited_files([PARAMS, *sources.keys() - hidden]):
        return f"{edited[0]} differs from the last commit. {AS_EXPERIMENT}"
    committed = dependencies(lock_at(commit))
    if other := [text for text in hidden if committed.get(text) != sources[text]]:
        return (
            f"{other[0]} is not tracked by git, and {LOCK} of the last commit does not have its digest. Commit {LOCK}, "
            f"then run `bukva baseline`. {AS_EXPERIMENT}"
        )
    return ""


def _save(commit: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bukva-") as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}  # leaves the index of the user unchanged
        git("read-tree", commit, **index)
        saved = [path for path in RESULTS if Path(path).exists()]
        git("-c", "core.excludesFile=/dev/null", "add", "--all", "--", *saved, **index)  # the user may ignore *.csv
        tree = git("write-tree", **index).decode().strip()
    experiment = git("commit-tree", tree, "-p", commit, "-m", f"bukva: {NAME}", **AUTHOR).decode().strip()
    git("update-ref", experiment_ref(commit, NAME), experiment)


def _saved_baseline(commit: str) -> str:
    """Return the commit of the experiment `baseline` with the parameters of `commit`, or "" if there is none."""
    saved = commit and commit_of(experiment_ref(commit, NAME))
    return saved if file_at(saved, PARAMS) == file_at(commit, PARAMS) else ""


def edited_files(paths: Iterable[str | Path]) -> list[str]:
    """Return the files at or below `paths` that git does not track or that differ from the last commit."""
    options, here = ("--porcelain", "-z", "--no-renames", "--untracked-files=all"), ("-C", str(Path.cwd()))
    top = git(*here, "rev-parse", "--show-cdup").decode().strip()  # such as `../`, because git lists paths from there
    # without locks, because DVC and other stages may use git at the same time
    listed = git(*here, "--no-optional-locks", "status", *options, "--", *map(str, paths)).decode().split("\0")
    return [os.path.relpath(Path(top, entry[3:])) for entry in listed if entry]


def hidden_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts with files that git ignores, or that are behind a link or outside of the repository."""
    hidden = []
    for text in texts:
        files = [file for file in (Path(text), *Path(text).rglob("*")) if file.is_file() or file.is_symlink()]
        seen = set[str]()
        with contextlib.suppress(BukvaError):  # outside of the repository
            listed = git(
                "-C", str(Path.cwd()), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", text
            )
            seen.update(listed.decode().split("\0"))
        if any(file.is_symlink() or os.path.relpath(file) not in seen for file in files):
            hidden.append(text)
    return hidden
