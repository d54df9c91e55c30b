"""What the project remembers between comparisons: the noise floor, and how often test scores were shown.

Git tracks the noise floor, and a group stays there when its experiments are removed. Whoever looks at test often
chooses by chance, so the looks are counted.
"""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bukva.compare.groups import Setting
from bukva.compare.statistics.estimate import Floor, pool
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json

FILE = Path("reports/noise_floor.json")
LOOKS = Path(".bukva/looks.json")
SPLITS = "val", "test"
DIGITS = 6  # of a standard deviation in bits

Record = dict[str, Any]


def floor(family: str, split: str, groups: Iterable[Setting] = ()) -> Floor:
    """The noise floor of a family, pooled over the groups of the file and these; nothing is written."""
    known = [record for record in _merged(_read(), groups) if record["family"] == family and split in record["sd"]]
    return pool(Floor(record["sd"][split], record["k"] - 1) for record in known)


def merge(groups: Iterable[Setting]) -> bool:
    """Add these groups to the file, or replace those of them that now have more seeds; whether it changed."""
    before = _read()
    after = _merged(before, groups)
    if after != before:
        write_json(project_root() / FILE, {"groups": after})
    return after != before


def _merged(before: list[Record], groups: Iterable[Setting]) -> list[Record]:
    known = {(record["family"], record["group"]): record for record in before}
    for group in groups:
        place, k = (group.family, group.key), len(group.members)
        if k > max(1, known.get(place, {"k": 0})["k"]):
            known[place] = _record(group)
    return [known[place] for place in sorted(known)]


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
    path = project_root() / FILE
    try:
        return list(read_json(path)["groups"]) if path.exists() else []
    except (ValueError, KeyError, TypeError):
        raise BukvaError(f"{FILE}: not a file of noise floors; restore it: `git checkout {FILE}`.") from None


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
