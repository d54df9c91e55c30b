"""Records that outlive experiments: the noise floor, and how often test scores were shown.

A seed group remains in the noise floor after its experiments are removed. New groups are written to a file that git
ignores, because a command that only shows results must not change the checkout. To share them with other clones, copy
the file over SHARED and commit it.

Looks at test scores are counted, because choosing after many looks at test selects by chance.
"""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bukva.compare.groups import Setting
from bukva.compare.statistics.estimate import Floor, pool
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json

SHARED = Path("reports/noise_floor.json")  # tracked by git
FILE = Path(".bukva/noise_floor.json")  # the groups of SHARED and those of this clone
LOOKS = Path(".bukva/looks.json")
SPLITS = "val", "test"
DIGITS = 6  # decimal places of a standard deviation in bits

Record = dict[str, Any]


def floor(family: str, split: str, groups: Iterable[Setting] = ()) -> Floor:
    """Return the noise floor of a family, pooled over the recorded groups and the given ones, without recording them.

    For the term family see bukva.compare.groups.Setting.
    """
    known = [record for record in _merged(_read(), _recorded(groups)) if record["family"] == family]
    return pool(Floor(record["sd"][split], record["k"] - 1) for record in known if split in record["sd"])


def merge(groups: Iterable[Setting]) -> bool:
    """Record seed groups, and replace recorded groups that now have more seeds.

    Returns:
        Whether the records have changed.
    """
    before = _read()
    after = _merged(before, _recorded(groups))
    if after != before:
        write_json(project_root() / FILE, {"groups": after})
    return after != before


def _merged(before: Iterable[Record], more: Iterable[Record]) -> list[Record]:
    """Return for each group the record with the most seeds; if two have equally many, the first."""
    known: dict[tuple[str, str], Record] = {}
    for record in (*before, *more):
        key = record["family"], record["group"]
        if record["k"] > known.get(key, {"k": 0})["k"]:
            known[key] = record
    return [known[key] for key in sorted(known)]


def _recorded(groups: Iterable[Setting]) -> list[Record]:
    return [_record(group) for group in groups if len(group.members) > 1]


def _record(group: Setting) -> Record:
    first = group.result.revision
    splits = [split for split in SPLITS if split in group.result.metrics[group.model]]
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


def _read() -> list[Record]:
    return _merged(_records(SHARED, f"Restore it: `git checkout {SHARED}`"), _records(FILE, "Delete it"))


def _records(file: Path, remedy: str) -> list[Record]:
    path = project_root() / file
    try:
        return list(read_json(path)["groups"]) if path.exists() else []
    except (ValueError, KeyError, TypeError):
        raise BukvaError(f"{file} is not a valid noise floor file. {remedy}.") from None


def looks_at_test(text: str, more: int = 0) -> int:
    """Return how often scores on a test text were shown, after adding `more` looks to the recorded number.

    text: digest of the test text.
    """
    path = project_root() / LOOKS
    try:
        counts = dict(read_json(path)) if path.exists() else {}
        n_looks = int(counts.get(text, 0)) + more
    except (ValueError, TypeError):
        raise BukvaError(f"{path} is not a valid count of looks at test scores. Delete it to restart at 0.") from None
    if more:
        write_json(path, {**counts, text: n_looks})
    return n_looks
