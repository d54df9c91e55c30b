"""The ledger of `bukva judge`: a file of JSON lines with every try, that is a tested change, and its verdict.

Lines are only appended. Git tracks the file, so everybody can see how many tries there were. A copy in .bukva survives
the `git checkout` or `git reset` with which a loop undoes a try.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bukva.compare.statistics.estimate import Estimate
from bukva.compare.statistics.judging import LOOKS, next_level
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text

FILE = Path("reports/judge.jsonl")
COPY = Path(".bukva/judge.jsonl")
DIGITS = 6  # decimal places of a number in bits


@dataclass(frozen=True)
class Trained:
    """A setting: the name that the user gave, the key of its `Setting`, and bits per character on val by seed."""

    name: str
    key: str
    seeds: Sequence[int] = ()
    bits: Sequence[float] = ()


@dataclass(frozen=True)
class Try:
    """A change of parameters or code, and the last test of this change against the baseline."""

    number: int  # 1 for the first try of the ledger
    trained: Trained
    against: str  # name of the baseline
    changed: Mapping[str, Sequence[Any]]  # dotted name of a parameter -> value in the baseline, value in this try
    code: Sequence[str]  # files and folders of code that differ from the baseline
    verdict: str = ""  # keep, discard or cannot tell; "" until there is one
    difference: float = 0.0  # try minus baseline on val, with its standard error and degrees of freedom
    se: float = 0.0
    df: float = 0.0
    text_se: float = 0.0  # standard error from the choice of the text alone
    p: float = 1.0  # smallest of the looks that may keep this try, each corrected for the number of looks
    level: float = 0.0  # at which the try was tested

    @property
    def kept(self) -> bool:
        return self.verdict == "keep"

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the 95 % interval of the difference from the baseline."""
        return Estimate(self.difference, self.se, self.df).interval

    @property
    def change_summary(self) -> str:
        """Changed parameters and code as "key=value, path, ..."; "nothing" if there are no changes."""
        settings = [f"{key}={after}" for key, (_, after) in self.changed.items()]
        return ", ".join([*settings, *self.code]) or "nothing"


@dataclass(frozen=True)
class Ledger:
    """All tries of a ledger file."""

    level: float  # upper limit of the expected fraction of wrong decisions among all decisions to keep a try
    model: str  # whose scores decide
    first: Trained  # baseline with which the ledger began
    baseline: Trained  # the last try that was kept, or `first`
    tries: Sequence[Try] = ()
    final: Mapping[str, Any] = field(default_factory=dict)  # {"verdict": that on test}; the ledger is then closed

    @property
    def decided(self) -> list[Try]:
        return [each for each in self.tries if each.verdict]

    @property
    def open(self) -> Try | None:
        """The try that has no verdict yet. At most one try can be open."""
        return next((each for each in self.tries if not each.verdict), None)

    @property
    def next_level(self) -> float:
        return next_level([each.p for each in self.decided], [each.kept for each in self.decided], self.level)

    @property
    def n_trainings(self) -> int:
        """Number of trainings so far, including those of the first baseline."""
        # a kept try becomes the baseline, which is trained with all seeds
        tried = [LOOKS[-1] if each.kept else len(each.trained.seeds) for each in self.tries]
        return len(self.first.seeds) + sum(tried)

    @property
    def groups(self) -> dict[str, Sequence[float]]:
        """Scores of the baselines and of all tries that have a verdict, by key."""
        groups = {each.trained.key: each.trained.bits for each in self.decided}
        return groups | {each.key: each.bits for each in (self.first, self.baseline)}

    def find(self, key: str) -> Try | None:
        return next((each for each in self.tries if each.trained.key == key), None)


def read_ledger() -> Ledger | None:
    """Read the ledger file. Return None if the project has none.

    Raises:
        BukvaError: a line is not valid, or the file and its copy belong to different ledgers.
    """
    ledger = None
    for number, text in enumerate(_lines(), start=1):
        try:
            line = json.loads(text)
            ledger = _with_line(ledger, line.pop("event"), line)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError):
            message = f"Line {number} of {FILE} is not valid. Run `git checkout {FILE}` to restore the file."
            raise BukvaError(message) from None
    return ledger


def _with_line(ledger: Ledger | None, event: str, line: dict[str, Any]) -> Ledger:
    match event, ledger:
        case "start", None:
            baseline = Trained(**line["baseline"])
            return Ledger(line["level"], line["model"], baseline, baseline)
        case "try", Ledger():
            return replace(ledger, tries=[*ledger.tries, _try(line)])
        case "verdict", Ledger():  # on the last try
            decided = _try(line)
            baseline = decided.trained if decided.kept else ledger.baseline
            return replace(ledger, tries=[*ledger.tries[:-1], decided], baseline=baseline)
        case "baseline", Ledger():
            return replace(ledger, baseline=Trained(**line["baseline"]))
        case "final", Ledger():
            return replace(ledger, final=line)
    raise ValueError(event)


def _try(line: dict[str, Any]) -> Try:
    return Try(**{**line, "trained": Trained(**line["trained"])})


def append(event: str, **values: Any) -> Ledger:
    """Append a line to the ledger file, and return the new ledger.

    The events are "start" (`level`, `model` and `baseline`), "try" (fields of a Try whose test begins), "verdict" (the
    same try with its verdict), "baseline" (`baseline` with more seeds) and "final" (`verdict` on test).
    """
    lines = [*_lines(), json.dumps({"event": event, **values}, ensure_ascii=False)]
    for path in (COPY, FILE):
        (project_root() / path).parent.mkdir(parents=True, exist_ok=True)
        write_text(project_root() / path, "".join(f"{line}\n" for line in lines))
    ledger = read_ledger()
    assert ledger is not None
    return ledger


def _lines() -> list[str]:
    """Return the lines of the ledger file or of its copy, whichever has more lines."""
    files = [project_root() / path for path in (FILE, COPY)]
    shorter, longer = sorted(
        (file.read_text(encoding="utf-8").splitlines() if file.is_file() else [] for file in files), key=len
    )
    if longer[: len(shorter)] != shorter:
        raise BukvaError(
            f"{FILE} and {COPY} have different lines, so they belong to two different ledgers. Delete {COPY} to "
            f"continue with {FILE}, or delete both to begin a new ledger."
        )
    return longer
