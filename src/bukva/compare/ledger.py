"""Ledger of `bukva judge`: every try and its verdict, as an append-only file of JSON lines.

Git tracks the file, so that the number of tries is public. A copy in .bukva survives the `git reset` with which a loop
of tries undoes an edit that was not kept.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.judging import LOOKS, noise_floor
from bukva.compare.statistics.online import next_level
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text

FILE = Path("reports/judge.jsonl")
COPY = Path(".bukva/judge.jsonl")
DIGITS = 6  # decimal places of a number in bits


@dataclass(frozen=True)
class Trained:
    """Trainings of one setting with different seeds.

    name: name of the first experiment with this setting.
    key: key of the compare.groups.Setting, equal for all trainings that differ only in their seeds.
    bits: bits per character on val, in the order of `seeds`.
    """

    name: str
    key: str
    seeds: Sequence[int] = ()
    bits: Sequence[float] = ()


@dataclass(frozen=True)
class Try:
    """A setting that is compared with the baseline.

    The numbers are those of the last look.

    against: name of the baseline at the time.
    changed: dotted parameter -> its value in the baseline and in this setting.
    code: files and folders of code that differ from the baseline.
    verdict: "keep", "discard" or "cannot tell"; "" while the try is open.
    difference: bits per character minus those of the baseline.
    se, df: standard error of the difference, and its degrees of freedom.
    text_se: part of the standard error that is due to the text.
    p: p-value, corrected for all looks.
    level: significance level of the try.
    """

    number: int
    trained: Trained
    against: str
    changed: Mapping[str, Sequence[Any]]
    code: Sequence[str]
    verdict: str = ""
    difference: float = 0.0
    se: float = 0.0
    df: float = 0.0
    text_se: float = 0.0
    p: float = 1.0
    level: float = 0.0

    @property
    def kept(self) -> bool:
        """Whether the try became the baseline."""
        return self.verdict == "keep"

    @property
    def change_summary(self) -> str:
        """Short list of the changed parameters and code."""
        settings = [f"{key}={after}" for key, (_, after) in self.changed.items()]
        return ", ".join([*settings, *self.code]) or "nothing"


@dataclass(frozen=True)
class Ledger:
    """State of the ledger after all its lines.

    level: upper limit of the false discovery rate.
    first: baseline at the start.
    baseline: setting that the next try is compared with.
    final: the final comparison, on test, which closes the ledger; {} while the ledger is open.
    """

    level: float
    model: str
    first: Trained
    baseline: Trained
    tries: Sequence[Try] = ()
    final: Mapping[str, Any] = field(default_factory=dict)

    @property
    def decided(self) -> list[Try]:
        """Tries with a verdict."""
        return [each for each in self.tries if each.verdict]

    @property
    def open(self) -> Try | None:
        """Try without a verdict, if there is one."""
        return next((each for each in self.tries if not each.verdict), None)

    @property
    def next_level(self) -> float:
        """Significance level of the next try."""
        return next_level([each.p for each in self.decided], [each.kept for each in self.decided], self.level)

    @property
    def n_trainings(self) -> int:
        """Number of trainings so far, including those of the first baseline."""
        kept = [each.trained.key for each in self.tries if each.kept]
        n_kept = len(kept) * LOOKS[-1]  # a kept try is the new baseline, which gets all seeds
        n_others = sum(len(each.trained.seeds) for each in self.tries if not each.kept)
        return len(self.first.seeds) + n_kept + n_others

    def noise_floor(self, known: Floor) -> Floor:
        """Pool the standard deviation between seeds over all settings of the ledger and a known noise floor."""
        groups = {each.trained.key: each.trained.bits for each in self.decided}
        groups |= {each.key: each.bits for each in (self.first, self.baseline)}
        return noise_floor(list(groups.values()), known)

    def find(self, key: str) -> Try | None:
        """Return the try of the setting with this key, if there is one."""
        return next((each for each in self.tries if each.trained.key == key), None)


def start(level: float, model: str, baseline: Trained) -> Ledger:
    """Write the first line of a new ledger."""
    _append({"event": "start", "level": level, "model": model, "baseline": asdict(baseline)}, [])
    return Ledger(level, model, baseline, baseline)


def add(event: str, **values: Any) -> Ledger:
    """Append a line and return the new state of the ledger.

    Args:
        event: `try` for a new Try, `verdict` for a Try with its verdict, `baseline` for a Trained, or `final`.
        **values: the other keys of the line.
    """
    lines = _lines()
    _append({"event": event, **values}, lines)
    return read_ledger() or _unreadable(len(lines))


def read_ledger() -> Ledger | None:
    """Read the ledger; None if the project has none.

    Raises:
        BukvaError: a line is not valid, or the file and its copy have different lines.
    """
    ledger: Ledger | None = None
    for number, line in enumerate(_lines(), start=1):
        try:
            ledger = _with(ledger, json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            _unreadable(number)
    return ledger


def _with(ledger: Ledger | None, line: dict[str, Any]) -> Ledger:
    """Return the state of the ledger after one more line."""
    event = line.pop("event")
    if event == "start":
        baseline = Trained(**line["baseline"])
        return Ledger(line["level"], line["model"], baseline, baseline)
    if ledger is None:
        raise KeyError("start")
    if event == "baseline":
        return replace(ledger, baseline=Trained(**line["baseline"]))
    if event == "final":
        return replace(ledger, final=line)
    changed = Try(**{**line, "trained": Trained(**line["trained"])})
    before = [*ledger.tries][: changed.number - 1]  # a verdict replaces the line that opened its try
    baseline = changed.trained if changed.kept else ledger.baseline
    return replace(ledger, tries=(*before, changed), baseline=baseline)


def _lines() -> list[str]:
    """Return the lines of the file or of its copy, whichever has more."""
    tracked, copy = (_read(project_root() / path) for path in (FILE, COPY))
    shorter, longer = sorted((tracked, copy), key=len)
    if longer[: len(shorter)] != shorter:
        raise BukvaError(
            f"{FILE} and {COPY} have different lines, so they belong to two different ledgers. Delete {COPY} to "
            f"continue with {FILE}, or delete both to begin a new ledger."
        )
    return longer


def _read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _append(line: dict[str, Any], before: list[str]) -> None:
    text = "".join(f"{each}\n" for each in [*before, json.dumps(line, ensure_ascii=False)])
    for path in (COPY, FILE):
        (project_root() / path).parent.mkdir(parents=True, exist_ok=True)
        write_text(project_root() / path, text)


def _unreadable(number: int) -> Any:
    raise BukvaError(f"{FILE}, line {number}: not a valid line of a ledger. Restore the file: `git checkout {FILE}`.")
