"""Repositories of git for tests; tests/gitconfig has the name and the email of their user."""

import subprocess
from pathlib import Path


def run_git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it prints."""
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def commit(folder: Path, *files: str) -> str:
    """Commit these files, or all of a folder, and return the commit."""
    run_git(folder, "add", *(files or ["."]))
    run_git(folder, "commit", "-qm", "one")
    return run_git(folder, "rev-parse", "HEAD")
