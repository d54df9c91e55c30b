"""Keep the noise floor, and how often test scores were shown, also when experiments are removed.

The noise floor is the standard deviation of the difference between two trainings that differ only in the seed. It is
measured on seed groups: trainings that differ only in the seed. Commands write new groups to FILE, which git ignores,
because a command that only shows results must not change the checkout. To share them, replace SHARED by a copy of FILE.

Every command that shows test scores is counted, because a choice after many looks at test depends more on luck.
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
LOOKS = Path(".bukva/looks.json")  # digest of a test text -> how often its scores were shown
DIGITS = 6  # decimal places of a standard deviation in bits
REMEDIES = {SHARED: f"Restore the file: `git checkout {SHARED}`", FILE: "Delete the file"}

Record = dict[str, Any]


def floor(family: str, split: str, groups: Iterable[Setting] = (), without: Collection[str] = ()) -> Floor:
    """Return the standard deviation between the scores of different seeds, pooled over seed groups.

    The saved groups of `family` and those of `groups` are used, but none whose key is in `without`.
    """
    known = [each for each in _merged(_saved(), groups) if each["family"] == family and each["group"] not in without]
    return pool(Floor(record["sd"][split], record["k"] - 1) for record in known if split in record["sd"])


def merge(groups: Iterable[Setting]) -> bool:
    """Save `groups`, and return whether this changed FILE. A saved group is replaced if it now has more trainings."""
    before = _saved()
    after = _merged(before, groups)
    if after != before:
        write_json(project_root() / FILE, {"groups": after})
    return after != before


def _saved() -> list[Record]:
    saved: list[Record] = []
    for file, remedy in REMEDIES.items():
        path = project_root() / file
        try:
            saved += _merged(read_json(path)["groups"]) if path.exists() else []
        except (ValueError, KeyError, TypeError):
            raise BukvaError(f"{file} is not a valid noise floor file. {remedy}.") from None
    return _merged(saved)


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
    path = project_root() / LOOKS
    try:
        counts = dict(read_json(path)) if path.exists() else {}
        n_looks = int(counts.get(text, 0)) + more
    except (ValueError, TypeError):
        raise BukvaError(
            f"{path} is not valid. This file counts how often test scores were shown. Delete it to count from 0 again."
        ) from None
    if more:
        write_json(path, {**counts, text: n_looks})
    return n_looks
