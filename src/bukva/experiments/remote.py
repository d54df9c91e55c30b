"""Sends what this project has computed to DVC's remote, so that another clone need not compute it again.

`dvc push --run-cache` sends the entries of the run cache, but of the outputs that they name only those of the present
dvc.lock, and none that DVC does not keep in its cache (`cache: false`, the small files in git). A clone that lacks one
output of a stage runs the stage. With all objects, `dvc exp run --pull` restores it.
"""

from bukva.base.errors import BukvaError
from bukva.base.files import project_root
from bukva.experiments.cache import has_remote

NO_REMOTE = "push: this project has no DVC remote; add one: dvc remote add -d NAME ADDRESS."


def push() -> tuple[int, int]:
    """Send the run cache and the objects of its entries that are here.

    Returns:
        How many stage executions the run cache has, and how many objects were sent.

    Raises:
        BukvaError: there is no remote, it cannot be reached, or it cannot keep a run cache.
    """
    from dvc.exceptions import DvcException  # type: ignore[import-untyped]
    from dvc.repo import Repo  # type: ignore[import-untyped]

    if not has_remote():
        raise BukvaError(NO_REMOTE)
    try:
        with Repo(str(project_root())) as repo:
            entries = repo.stage_cache.push(None)
            used = repo.stage_cache.get_used_objs(entries)
            cache = repo.cache.local
            here = {found for objects in used.values() for found in objects if cache.exists(found.value)}
            sent, failed = repo.cloud.push(here)
    except (DvcException, OSError) as error:
        raise BukvaError(f"push: DVC cannot send it: {' '.join(str(error).split())}.") from None
    if failed:
        raise BukvaError(f"push: {len(failed)} of {len(here)} objects could not be sent; give the same command again.")
    return len(entries), len(sent)
