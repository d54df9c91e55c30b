"""Brings the results of other machines into this project."""

from pathlib import Path

from bukva.cluster.board import Board, has_driver
from bukva.cluster.carry import fetch_journals
from bukva.cluster.origin import finished, result_ref, run_git
from bukva.cluster.runs import fetch_runs
from bukva.project.revisions import Revision, fetch
from bukva.project.stages import paths, trained_models
from bukva.tracking.journal import start_sync


def pull_results(board: Board, project: Path) -> str:
    """Get the references of all finished trials, the files that comparisons need, and journals; returns a sentence.

    Raises:
        BukvaError: the origin, or DVC's remote, cannot be reached.
    """
    origin = origin_of(project)
    names = sorted(
        finished(project, origin, board.commit) & board.trials.keys()
    )  # Slurm has no driver that counts them
    if not names:
        return f"{board.sweep}: no trial has finished yet"
    refs = [result_ref(board.commit, name) for name in names]
    run_git(project, "fetch", "--quiet", origin, *(f"{ref}:{ref}" for ref in refs))
    commits = [run_git(project, "rev-parse", ref).strip() for ref in refs]
    revisions = [Revision(name, commit, board.commit) for name, commit in zip(names, commits, strict=True)]
    if not has_driver(board.sweep):
        for name in names:
            board.trials[name].state = "finished"
        board.write()
    for path in (paths()["scores"], *(str(model.folder) for model in trained_models().values())):
        fetch(revisions, path)
    fetch_runs(project, board.commit)
    n_journals = fetch_journals(board.commit, names)
    start_sync()
    return f"{board.sweep}: {len(names)} experiments are here; MLflow gets the journals of {n_journals} that were new"


def origin_of(project: Path) -> str:
    """The address of the repository that all machines share.

    Raises:
        GitError: the project has no remote of this name.
    """
    return run_git(project, "remote", "get-url", "origin").strip()
