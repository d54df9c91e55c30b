"""What the project remembers between comparisons: the noise floor, and how often test scores were shown.

A group of seeds stays in the noise floor when its experiments are removed. New groups go to a file that git ignores,
because a command that only shows results must not change the checkout. Copied over SHARED, it serves other clones.

Whoever looks at test often chooses by chance, so the looks are counted.
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
FILE = Path(".bukva/noise_floor.json")  # what SHARED has, and what was found here
LOOKS = Path(".bukva/looks.json")
SPLITS = "val", "test"
DIGITS = 6  # of a standard deviation in bits

Record = dict[str, Any]


def floor(family: str, split: str, groups: Iterable[Setting] = ()) -> Floor:
    """The noise floor of a family, pooled over the groups that are known and these; nothing is written."""
    known = [record for record in _merged(_read(), _recorded(groups)) if record["family"] == family]
    return pool(Floor(record["sd"][split], record["k"] - 1) for record in known if split in record["sd"])


def merge(groups: Iterable[Setting]) -> bool:
    """Add these groups to those that are known, or replace them where they now have more seeds; whether any changed."""
    before = _read()
    after = _merged(before, _recorded(groups))
    if after != before:
        write_json(project_root() / FILE, {"groups": after})
    return after != before


def _merged(before: Iterable[Record], more: Iterable[Record]) -> list[Record]:
    """Return the record of each group with the most seeds, and of two with as many the first."""
    known: dict[tuple[str, str], Record] = {}
    for record in (*before, *more):
        place = record["family"], record["group"]
        if record["k"] > known.get(place, {"k": 0})["k"]:
            known[place] = record
    return [known[place] for place in sorted(known)]


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
    return _merged(_records(SHARED, f"restore it: `git checkout {SHARED}`"), _records(FILE, "delete it"))


def _records(file: Path, remedy: str) -> list[Record]:
    path = project_root() / file
    try:
        return list(read_json(path)["groups"]) if path.exists() else []
    except (ValueError, KeyError, TypeError):
        raise BukvaError(f"{file}: not a file of noise floors; {remedy}.") from None


def looks_at_test(text: str, more: int = 0) -> int:
    """How often scores on the test text with this digest were shown, with `more` looks that are added now."""
    path = project_root() / LOOKS
    try:
        counts = dict(read_json(path)) if path.exists() else {}
        found = int(counts.get(text, 0)) + more
    except (ValueError, TypeError):
        raise BukvaError(f"{path}: not the counts of looks at test scores; delete it, and they start at 0.") from None
    if more:
        write_json(path, {**counts, text: found})
    return found
