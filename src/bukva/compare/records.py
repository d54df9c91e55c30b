"""What the project remembers between comparisons: the noise floor, and how often test scores were shown.

The noise floor, how much the seeds of each group scatter, is a file that git tracks. It grows by itself: whoever reads
groups of experiments merges them into it. A group stays there when its experiments are removed, with the names and the
commit that it came from. Whoever looks at test often chooses by chance, so the number of looks is printed, too.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bukva.compare.groups import SeedGroup
from bukva.compare.statistics.estimate import Floor, pool
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, read_json, write_json

FILE = Path("reports/noise_floor.json")
SPLITS = "val", "test"
DIGITS = 6  # of a standard deviation in bits

Record = dict[str, Any]


def floor(family: str, split: str, groups: Iterable[SeedGroup] = ()) -> Floor:
    """The noise floor of a family, pooled over the groups of the file and these; nothing is written.

    Raises:
        BukvaError: the file cannot be read.
    """
    records = _merged(_read(), groups)
    known = [record for record in records if record["family"] == family and split in record["sd"]]
    return pool(Floor(record["sd"][split], record["k"] - 1) for record in known)


def merge(groups: Iterable[SeedGroup]) -> bool:
    """Add these groups to the file, or replace those of them that now have more seeds; whether it changed.

    Raises:
        BukvaError: the file cannot be read.
    """
    before = _read()
    after = _merged(before, groups)
    if after == before:
        return False
    write_json(project_root() / FILE, {"groups": after})
    return True


def _merged(before: list[Record], groups: Iterable[SeedGroup]) -> list[Record]:
    known = {(record["family"], record["group"]): record for record in before}
    for group in groups:
        place, k = (group.family, group.key), len(group.members)
        if k > max(1, known.get(place, {"k": 0})["k"]):
            known[place] = _record(group)
    return [known[place] for place in sorted(known)]


def _record(group: SeedGroup) -> Record:
    first = group.members[0].result.revision
    splits = [split for split in SPLITS if split in group.members[0].result.metrics[group.model]]
    return {
        "family": group.family,
        "model": group.model,
        "group": group.key,
        "k": len(group.members),
        "seeds": [member.seed for member in group.members],
        "sd": {split: round(Floor.of(group.scores(split)).sd, DIGITS) for split in splits},
        "experiments": [member.names[0] for member in group.members],
        "commit": first.baseline or first.commit,
    }


def _read() -> list[Record]:
    path = project_root() / FILE
    try:
        return list(read_json(path)["groups"]) if path.exists() else []
    except (ValueError, KeyError, TypeError):
        raise BukvaError(f"{FILE}: not a file of noise floors; restore it: `git checkout {FILE}`.") from None


def count_look_at_test(text: str) -> int:
    """Count one more look at the scores on the test text with this digest; returns how many there were with it.

    Raises:
        BukvaError: the file of the counts cannot be read.
    """
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    counts = _counts(path)
    counts[text] = counts.get(text, 0) + 1
    write_json(path, counts)
    return counts[text]


def looks_at_test(text: str) -> int:
    """How often scores on this test text were shown.

    Raises:
        BukvaError: the file of the counts cannot be read.
    """
    return _counts(_file()).get(text, 0)


def _file() -> Path:
    return project_root() / ".bukva" / "looks.json"


def _counts(path: Path) -> dict[str, int]:
    try:
        counts: Any = read_json(path) if path.exists() else {}
        return {text: int(count) for text, count in counts.items()}
    except (ValueError, TypeError, AttributeError):
        raise BukvaError(f"{path}: not the counts of looks at test scores; delete it, and they start at 0.") from None
