"""DVC's run cache travels by trial.

`dvc push --run-cache` sends all entries, and `dvc exp run --pull` gets all, so that each of many trials would take
longer than the one before (docs/dev/log.md). So a trial sends the entries of its own stages, in one file, where DVC
does not look, and each machine gets the files that are new since it looked last:

    <remote>/bukva/<commit>/runs/<trial>.json       path in the run cache -> entry
"""

import tempfile
from pathlib import Path

from bukva.cluster.remote import Remote
from bukva.compare.remote import add_entries, push_objects
from bukva.core.files import read_json, write_json

FOLDER = "runs"


def send_runs(folder: Path, commit: str, trial: str) -> None:
    """Send what the stages of a trial have computed.

    Args:
        folder: of its clone, which must be the current one.
        commit: from which the trial started.
        trial: its name.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    entries = push_objects(folder)
    with tempfile.TemporaryDirectory(prefix="bukva-") as scratch:
        file = Path(scratch) / f"{trial}.json"
        write_json(file, entries)
        Remote().put(file, commit, FOLDER, file.name)


def fetch_runs(project: Path, commit: str) -> None:
    """Get what the trials that started from this commit have computed, as far as it is not here yet.

    Raises:
        BukvaError: there is no DVC remote, or it does not answer.
    """
    seen, remote = project / ".bukva" / FOLDER / commit, Remote()
    here = {file.name for file in seen.glob("*.json")}
    new = sorted(name for name in remote.names(commit, FOLDER) if name.endswith(".json") and name not in here)
    entries: dict[str, str] = {}
    for name in new:
        remote.get(seen / "new" / name, commit, FOLDER, name)
        entries |= read_json(seen / "new" / name)
    if entries:
        add_entries(project, entries)
    for name in new:  # now nothing of it can be missed
        (seen / "new" / name).rename(seen / name)
