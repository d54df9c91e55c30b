"""Read and write the ledger of `bukva judge`: a file of JSON lines with all tested changes and their verdicts.

Each tested change is called a try. Lines are only appended. Git tracks the file, so everybody who has the repository
can see how many tries there were. A copy of the file is kept in .bukva, because the user runs `git reset` after a try
that was not kept. This command can undo changes of the file, but not of the copy.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bukva.compare.statistics.judging import LOOKS
from bukva.compare.statistics.online import next_level
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text

FILE = Path("reports/judge.jsonl")
COPY = Path(".bukva/judge.jsonl")
DIGITS = 6  # decimal places of a number in bits


@dataclass(frozen=True)
class Trained:
    """Scores of several trainings that differ only in the seed.

    name: name of the experiment that was tested, or of the baseline.
    key: digest of the common parameters and code of the trainings (`key` of `compare.groups.Setting`).
    bits: bits per character on val, one score for each of `seeds`.
    """

    name: str
    key: str
    seeds: Sequence[int] = ()
    bits: Sequence[float] = ()


@dataclass(frozen=True)
class Try:
    """A change of parameters or code that is tested against the baseline, and the result of the test.

    A try is tested after 1, 2, 4 and 8 seeds, until there is a decision. `difference`, `se`, `df` and `text_se` are
    results of the last test.

    number: 1 for the first try of the ledger.
    trained: scores of the trainings with the change.
    against: name of the baseline with which this try was compared.
    changed: parameters that differ from the baseline, by dotted name, as (value in the baseline, value in this try).
    code: paths of the files and folders of code that differ from the baseline.
    verdict: "keep", "discard" or "cannot tell"; "" if the try has not been decided.
    difference: mean bits per character of the try minus those of the baseline, on val.
    se, df: standard error of the difference, and its degrees of freedom.
    text_se: standard error from the choice of the text alone, without the variation between seeds.
    p: smallest p-value of the tests that may keep this try, each corrected for the number of tests.
    level: significance level at which the try was tested.
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
        """Whether the verdict is "keep". A try with this verdict becomes the baseline."""
        return self.verdict == "keep"

    @property
    def change_summary(self) -> str:
        """Changed parameters and code as "key=value, path, ..."; "nothing" if there are no changes."""
        settings = [f"{key}={after}" for key, (_, after) in self.changed.items()]
        return ", ".join([*settings, *self.code]) or "nothing"


@dataclass(frozen=True)
class Ledger:
    """All tests of `bukva judge`, as read from the ledger file. Each tested change of the baseline is called a try.

    level: upper limit of the expected fraction of wrong decisions among all decisions to keep a try (false discovery
        rate).
    model: name of the model whose scores decide.
    first: baseline with which the ledger began.
    baseline: baseline with which the next try is compared: the last kept try, or `first`.
    final: {"verdict": verdict of the final comparison on test}; {} if this comparison has not been done. After the
        final comparison, the ledger is closed: no further tries are accepted.
    """

    level: float
    model: str
    first: Trained
    baseline: Trained
    tries: Sequence[Try] = ()
    final: Mapping[str, Any] = field(default_factory=dict)

    @property
    def decided(self) -> list[Try]:
        """All tries (tested changes) that have a verdict."""
        return [each for each in self.tries if each.verdict]

    @property
    def open(self) -> Try | None:
        """The try (tested change) that has no verdict yet, or None. At most one try can be open."""
        return next((each for each in self.tries if not each.verdict), None)

    @property
    def next_level(self) -> float:
        """Significance level at which the next change is tested (see `statistics.online`)."""
        return next_level([each.p for each in self.decided], [each.kept for each in self.decided], self.level)

    @property
    def n_trainings(self) -> int:
        """Number of trainings that all tests have needed so far, including the trainings of the first baseline."""
        kept = [each.trained.key for each in self.tries if each.kept]
        n_kept = len(kept) * LOOKS[-1]  # a kept try becomes the baseline, which is trained with all seeds
        n_others = sum(len(each.trained.seeds) for each in self.tries if not each.kept)
        return len(self.first.seeds) + n_kept + n_others

    @property
    def groups(self) -> dict[str, Sequence[float]]:
        """Scores of the baselines and of all tries that have a verdict, by key."""
        groups = {each.trained.key: each.trained.bits for each in self.decided}
        return groups | {each.key: each.bits for each in (self.first, self.baseline)}

    def find(self, key: str) -> Try | None:
        """Return the try (tested change) whose settings have the digest `key`, or None if there is none."""
        return next((each for each in self.tries if each.trained.key == key), None)


def start(level: float, model: str, baseline: Trained) -> Ledger:
    """Begin a new ledger file whose only line is the baseline, and return the ledger. An old file is overwritten."""
    _append({"event": "start", "level": level, "model": model, "baseline": asdict(baseline)}, [])
    return Ledger(level, model, baseline, baseline)


def add(event: str, **values: Any) -> Ledger:
    """Append a line to the ledger file, and return the ledger with this line.

    Args:
        event: what the line adds: "try" (a change whose test begins), "verdict" (a tested change with its verdict),
            "baseline" (the baseline with more seeds), or "final" (the verdict on test).
        **values: the other keys of the line. For "try" and "verdict", they are the fields of a Try. For "baseline", the
            only key is `baseline`, with the fields of a Trained. For "final", the only key is `verdict`.
    """
    lines = _lines()
    _append({"event": event, **values}, lines)
    return read_ledger() or _unreadable(len(lines))


def read_ledger() -> Ledger | None:
    """Read the ledger file of `bukva judge`. Return None if the project has none.

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
    """Return `ledger` with the content of one more line. For the first line, `ledger` is None."""
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
    before = [*ledger.tries][: changed.number - 1]  # a line with a verdict replaces the line that began the try
    baseline = changed.trained if changed.kept else ledger.baseline
    return replace(ledger, tries=(*before, changed), baseline=baseline)


def _lines() -> list[str]:
    """Return the lines of the ledger file or of its copy, whichever has more lines.

    Raises:
        BukvaError: the lines of the shorter file are not the first lines of the longer file.
    """
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
    raise BukvaError(f"Line {number} of {FILE} is not valid. Run `git checkout {FILE}` to restore the file.")
