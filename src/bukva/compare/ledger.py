"""The ledger of `bukva judge`: every try and what was decided, as lines of JSON that are only ever added to.

Git tracks the file, so that everybody sees how many tries there were. Its copy in .bukva survives a `git reset`, with
which a loop undoes an edit that was not kept.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.judging import LOOKS, scatter
from bukva.compare.statistics.online import next_level
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text

FILE = Path("reports/judge.jsonl")
COPY = Path(".bukva/judge.jsonl")
DIGITS = 6  # of a number in bits


@dataclass(frozen=True)
class Trained:
    """The trainings of one setting.

    name: of its first experiment.
    key: of compare.groups.Setting; the same for all trainings that differ in their seeds only.
    bits: bits per character on val, by seed.
    """

    name: str
    key: str
    seeds: Sequence[int] = ()
    bits: Sequence[float] = ()


@dataclass(frozen=True)
class Try:
    """A setting that was judged.

    against: the name of the baseline then.
    changed: dotted parameter -> its values in the baseline and here.
    code: files and folders of code that differ.
    verdict: keep, discard or cannot tell; "" while it is open. The numbers below are of the last look.
    difference, se, df: bits per character less those of the baseline, the standard error and its degrees of freedom.
    text_se: the part of the error that comes from the text.
    p: corrected for all looks.
    level: at which it was tested.
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
        """Return whether it became the baseline."""
        return self.verdict == "keep"

    @property
    def what(self) -> str:
        """Return what was changed, in a few words."""
        settings = [f"{key}={after}" for key, (_, after) in self.changed.items()]
        return ", ".join([*settings, *self.code]) or "nothing"


@dataclass(frozen=True)
class Ledger:
    """What the lines of the file say.

    level: the false discovery rate that is held.
    first, baseline: the setting at the start and the one that tries are compared with now.
    final: the last report, on test; {} before it.
    """

    level: float
    model: str
    first: Trained
    baseline: Trained
    tries: Sequence[Try] = ()
    final: Mapping[str, Any] = field(default_factory=dict)

    @property
    def decided(self) -> list[Try]:
        """Return the tries with a verdict."""
        return [each for each in self.tries if each.verdict]

    @property
    def open(self) -> Try | None:
        """Return the try that was begun and has no verdict."""
        return next((each for each in self.tries if not each.verdict), None)

    @property
    def next_level(self) -> float:
        """Return the level at which the next try is tested."""
        return next_level([each.p for each in self.decided], [each.kept for each in self.decided], self.level)

    @property
    def n_trainings(self) -> int:
        """Return the number of trainings that were paid for."""
        kept = [each.trained.key for each in self.tries if each.kept]
        of_kept = len(kept) * LOOKS[-1]
        others = sum(len(each.trained.seeds) for each in self.tries if not each.kept)
        return len(self.first.seeds) + of_kept + others

    def scatter(self, floor: Floor) -> Floor:
        """Pool the scatter between seeds over all settings of the ledger, and the noise floor known before."""
        groups = {each.trained.key: each.trained.bits for each in self.decided}
        groups |= {each.key: each.bits for each in (self.first, self.baseline)}
        return scatter(list(groups.values()), floor)

    def find(self, key: str) -> Try | None:
        """Return the try of a setting, if it was judged before."""
        return next((each for each in self.tries if each.trained.key == key), None)


def start(level: float, model: str, baseline: Trained) -> Ledger:
    """Begin a ledger."""
    _append({"event": "start", "level": level, "model": model, "baseline": asdict(baseline)}, [])
    return Ledger(level, model, baseline, baseline)


def add(event: str, **values: Any) -> Ledger:
    """Add a line: `try` (a Try that begins), `verdict` (a Try that ends), `baseline` (a Trained) or `final`."""
    lines = _lines()
    _append({"event": event, **values}, lines)
    return read_ledger() or _unreadable(len(lines))


def read_ledger() -> Ledger | None:
    """Return the ledger; None if there is none.

    Raises:
        BukvaError: a line is not one of the ledger's, or the file and its copy have different lines.
    """
    ledger: Ledger | None = None
    for number, line in enumerate(_lines(), start=1):
        try:
            ledger = _with(ledger, json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            _unreadable(number)
    return ledger


def _with(ledger: Ledger | None, line: dict[str, Any]) -> Ledger:
    """Return a ledger with one more line."""
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
    judged = Try(**{**line, "trained": Trained(**line["trained"])})
    before = [*ledger.tries][: judged.number - 1]
    baseline = judged.trained if judged.kept else ledger.baseline
    return replace(ledger, tries=(*before, judged), baseline=baseline)


def _lines() -> list[str]:
    """Return the lines of the file or of its copy, whichever has more."""
    tracked, copy = (_read(project_root() / path) for path in (FILE, COPY))
    fewer, more = sorted((tracked, copy), key=len)
    if more[: len(fewer)] != fewer:
        raise BukvaError(
            f"{FILE} and {COPY} have different lines, so two nights are mixed; delete {COPY} to go on with {FILE}, or "
            f"delete both to begin another night."
        )
    return more


def _read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _append(line: dict[str, Any], before: list[str]) -> None:
    text = "".join(f"{each}\n" for each in [*before, json.dumps(line, ensure_ascii=False)])
    for path in (COPY, FILE):
        (project_root() / path).parent.mkdir(parents=True, exist_ok=True)
        write_text(project_root() / path, text)


def _unreadable(number: int) -> Any:
    raise BukvaError(f"{FILE}, line {number}: not a line of the ledger; restore it: `git checkout {FILE}`.")
