"""Keep the noise floor, and how often test scores were shown, also when experiments are removed.

The noise floor is measured on seed groups: trainings that differ only in the seed. New groups go to FILE, which git
ignores, because a command that only shows results must not change the checkout. A copy at SHARED shares them.
"""

import datetime
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from bukva.compare.groups import Setting
from bukva.compare.statistics.estimate import Floor, pool
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json

SHARED = Path("reports/noise_floor.json")  # tracked by git
FILE = Path(".bukva/noise_floor.json")  # the groups of SHARED and the groups of this clone
TEST_LOOKS = Path(".bukva/looks.json")  # digest of a test text -> how often its scores were shown
DIGITS = 6  # decimal places of a saved number in bits

Record = dict[str, Any]


def floor(family: str, split: str, groups: Iterable[Setting] = (), without: Collection[str] = ()) -> Floor:
    """Return the standard deviation between the scores of different seeds, pooled over seed groups.

    These are the saved groups of `family` and those of `groups`, but none whose key is in `without`.
    """
    known = [each for each in _merged(_saved(), groups) if each["family"] == family and each["group"] not in without]
    return pool(Floor(record["sd"][split], record["k"] - 1) for record in known if split in record["sd"])


def floors(settings: Collection[Setting], split: str) -> dict[str, Floor]:
    return {family: floor(family, split, settings) for family in {setting.family for setting in settings}}


def merge(groups: Iterable[Setting]) -> bool:
    """Save `groups`, and return whether this changed FILE. A saved group is replaced if it now has more trainings."""
    before = _saved()
    after = _merged(before, groups)
    if after != before:
        write_json(project_root() / FILE, {"groups": after})
    return after != before


def _saved() -> list[Record]:
    files = [path for path in (project_root() / SHARED, project_root() / FILE) if path.exists()]
    try:
        records = _merged(record for path in files for record in read_json(path)["groups"])
        for record in records:
            for sd in record["sd"].values():
                Floor(sd, record["k"] - 1)  # refuses a record that is not valid
        return records
    except (ValueError, KeyError, TypeError):
        raise BukvaError(f"{' or '.join(map(str, files))} is not valid. Restore or delete this file.") from None


def _merged(saved: Iterable[Record], groups: Iterable[Setting] = ()) -> list[Record]:
    """Keep one record for each seed group, the one with the most seeds."""
    known: dict[tuple[str, str], Record] = {}
    for record in (*saved, *(_record(group) for group in groups if len(group.members) > 1)):
        key = record["family"], record["group"]
        if record["k"] > known.get(key, {"k": 0})["k"]:
            known[key] = record
    return [known[key] for key in sorted(known)]


def _record(group: Setting) -> Record:
    first = group.result.revision
    splits = [split for split in ("val", "test") if split in group.result.metrics[group.model]]
    return {
        "family": group.family,
        "model": group.model,
        "group": group.key,
        "k": len(group.members),
        "seeds": group.seeds,
        "sd": {split: round(Floor.of(group.scores(split)).sd, DIGITS) for split in splits},
        "experiments": group.names,
        "commit": first.baseline or first.commit,
        "processor": group.result.about["models"][group.model]["numerics"].get("processor", ""),
        "date": datetime.date.today().isoformat(),
    }


def looks_at_test(text: str, more: int = 0) -> int:
    """Add `more` to the number of times that scores on a test text were shown, and return it; `text` is its digest."""
    path = project_root() / TEST_LOOKS
    counts = read_json(path) if path.exists() else {}
    n_looks = int(counts.get(text, 0)) + more
    if more:
        write_json(path, {**counts, text: n_looks})
    return n_looks
