"""Test changes of a model one after another, and keep those that improve its score (`bukva judge`).

Each change is a try: an experiment that is compared with the baseline. A try that is kept is the new baseline, also of
tries that are trained at the same time (docs/research.md). A try is trained with 1, 2, 4 or 8 seeds, until it is
discarded or has all eight (`statistics.judging`).

The ledger is a file of JSON lines with every try and its verdict, to which lines are only appended. Git tracks it, and
a copy in .bukva survives the `git checkout` or `git reset` with which a loop undoes a try.
"""

import contextlib
import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from filelock import FileLock, Timeout

from bukva.compare import records
from bukva.compare.comparison import Comparison, changed_code, changed_params, compare_two
from bukva.compare.groups import Setting, check_has, groups, seed_name, why_incomparable
from bukva.compare.records import DIGITS
from bukva.compare.results import read_results, results_of
from bukva.compare.seeds import Trainer, snapshot
from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.judging import GIVEN_UP, N_SEEDS, look, next_level
from bukva.compare.statistics.settings import expected_luck
from bukva.compare.statistics.text import Units, over_text
from bukva.core.errors import BukvaError
from bukva.core.files import project_root, write_text
from bukva.core.params import PARAMS
from bukva.core.progress import duration
from bukva.core.words import count
from bukva.project.baseline import SCORED, SPLIT
from bukva.project.cache import digests
from bukva.project.lock import LOCK, all_sources
from bukva.project.revisions import Revision, experiments, free_name, git, resolve

# code that a try may change; other code affects which text is scored, or how it is scored
EDITABLE = (
    "src/bukva/models", "src/bukva/training", "src/bukva/backends",
    "stages/training.py", "stages/train_bigram.py", "stages/train_gpt.py",
)  # fmt: skip
FREE_SECTIONS = "compute", "model", "train_bigram", "train_gpt", "sample"
FILE, COPY = Path("reports/judge.jsonl"), Path(".bukva/judge.jsonl")
LOCKS = Path(".bukva/judge")  # folder with a lock for the ledger and for each try
LOCK_SECONDS = 10.0  # how long a look at a try may keep the ledger locked
_say = functools.partial(print, flush=True)

# ---- the ledger


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
    p: float = 1.0  # of the last look, corrected for the number of looks; GIVEN_UP if the try was given up
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
    """All tries of a ledger file: those with a verdict in the order of the verdicts, and the others."""

    level: float  # upper limit of the expected fraction of wrong decisions among all decisions to keep a try
    model: str  # whose scores decide
    first: Trained  # baseline with which the ledger began
    tries: Sequence[Try] = ()
    final: Mapping[str, Any] = field(default_factory=dict)  # {"verdict": that on test}; the ledger is then closed

    @property
    def baseline(self) -> Trained:
        """The last try that was kept, or `first`."""
        return next((each.trained for each in reversed(self.tries) if each.kept), self.first)

    @property
    def decided(self) -> list[Try]:
        return [each for each in self.tries if each.verdict]

    @property
    def scored(self) -> list[Try]:
        """The tries that have a verdict and scores, so not those that were given up."""
        return [each for each in self.decided if each.trained.seeds]

    @property
    def open(self) -> list[Try]:
        """The tries that have no verdict yet."""
        return [each for each in self.tries if not each.verdict]

    @property
    def next_level(self) -> float:
        return next_level([each.p for each in self.decided], [each.kept for each in self.decided], self.level)

    @property
    def n_trainings(self) -> int:
        """Number of trainings that decided so far, including the trainings of the first baseline."""
        return len(self.first.seeds) + sum(len(each.trained.seeds) for each in self.tries)


def read_ledger() -> Ledger | None:
    """Return the ledger, or None if the project has none. BukvaError: a line is not valid, or the copy is different."""
    ledger = None
    for number, text in enumerate(_lines(), start=1):
        try:
            line = json.loads(text)
            match line.pop("event"), ledger:
                case "start", None:
                    ledger = Ledger(line["level"], line["model"], Trained(**line["baseline"]))
                case "try" | "verdict", Ledger():
                    made = Try(**{**line, "trained": Trained(**line["trained"])})
                    others = [each for each in ledger.tries if each.number != made.number]
                    ledger = replace(ledger, tries=[*others, made])
                case "final", Ledger():
                    ledger = replace(ledger, final=line)
                case _:
                    raise ValueError(text)
        except (ValueError, TypeError, KeyError, AttributeError):
            message = f"Line {number} of {FILE} is not valid. Run `git checkout {FILE}` to restore the file."
            raise BukvaError(message) from None
    return ledger


def begun_ledger(tried: str = "TRY") -> Ledger:
    """Return the ledger. BukvaError: the project has none, and the message has the command that begins one."""
    if not (ledger := read_ledger()):
        raise BukvaError(f"No ledger (list of tries) exists yet. To begin a ledger: `bukva judge BASELINE {tried}`.")
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


def _append(event: str, values: Mapping[str, Any]) -> None:
    lines = [*_lines(), json.dumps({"event": event, **values}, ensure_ascii=False)]
    for path in (COPY, FILE):
        write_text(project_root() / path, "".join(f"{line}\n" for line in lines))


# ---- commands


def known_names(names: Sequence[str]) -> list[str]:
    """Return the unique name of each experiment that the ledger does not have under the given name."""
    ledger = read_ledger()
    trained = [ledger.first, *(each.trained for each in ledger.tries)] if ledger else []
    return [name if name in {each.name for each in trained} else resolve(name).name for name in names]


@contextlib.contextmanager
def _locked(number: int = 0, name: str = "") -> Iterator[None]:
    """Hold the lock of the ledger, or of the try `name` with a number. BukvaError: another process holds it."""
    seconds, work = (0, f"judging {name}") if number else (LOCK_SECONDS, "changing the ledger")
    try:
        lock = FileLock(project_root() / LOCKS / f"{number}.lock").acquire(timeout=seconds)
    except Timeout:
        message = f"Another `bukva judge` is {work}. Wait until it has ended, and run the command again."
        raise BukvaError(message) from None
    with lock:
        yield


def begin(name: str, model: str, level: float, tried: str, trainer: Trainer) -> Ledger:
    """Begin a ledger with experiment `name` as baseline, which is trained with 8 seeds.

    If another process has begun a ledger, return that. BukvaError before the training: `level` is not between 0 and 1,
    an experiment has no result, or `tried`, which will be judged first, changes more than a try may.
    """
    with _locked():
        if ledger := read_ledger():
            return ledger
        if not 0 < level < 1:
            raise BukvaError(f"`--level` must be between 0 and 1, for example 0.1; got {level}.")
        baseline = _setting(name, model)
        if tried != name:
            _check_try(baseline, _setting(tried, model))
        _say_threads(baseline, baseline, trainer)
        _say(
            f"Beginning a new ledger, {FILE}. On average, at most {level:.0%} of the decisions to keep a try will be "
            "wrong (--level)."
        )
        trained = _trained(_first_seeds(_with_seeds(baseline, N_SEEDS[-1], trainer), N_SEEDS[-1]))
        _append("start", {"level": level, "model": model, "baseline": asdict(trained)})
        return Ledger(level, model, trained)


def begins_with(ledger: Ledger, name: str) -> bool:
    """Return whether `name` is the first baseline of the ledger. A commit may have given the name to another result."""
    return name == ledger.first.name and _setting(name, ledger.model).key == ledger.first.key


def check_baseline(ledger: Ledger, name: str, tried: str) -> None:
    """Check that the experiment `name`, with which the user wants to compare `tried`, is the baseline of the ledger."""
    if _setting(name, ledger.model).key != ledger.baseline.key:
        raise BukvaError(
            f"judge: {name} is not the baseline of the ledger. The baseline is {ledger.baseline.name}. Give only the "
            f"name of the try: `bukva judge {tried}`."
        )


def judge(name: str, trainer: Trainer) -> Try:
    """Test whether experiment `name` is better than the baseline, and write the verdict to the ledger file.

    A change that was tested before keeps its verdict. A try that is kept becomes the baseline. Several processes may
    judge a try each. Their looks at the scores are made one after another, each with the baseline of that moment and,
    for the last look, the significance level that the verdicts so far leave. BukvaError: the experiment cannot be
    judged, the ledger is closed, or a training fails.
    """
    with contextlib.ExitStack() as stack:
        with _locked():
            opened, baseline, tried = _opened(name, trainer)
            if opened.verdict:
                number, other = opened.number, opened.trained.name
                _say(f"These parameters and this code were judged before, as try {number} ({other}).")
                return opened
            stack.enter_context(_locked(opened.number, name))
        return _look_until_decided(opened, baseline, tried, trainer)


def _opened(name: str, trainer: Trainer) -> tuple[Try, Setting, Setting]:
    """Return the try `name`, which is written to the ledger if it is new, the setting of the baseline and its own."""
    ledger = begun_ledger()
    # a commit may have given the name of a try without a verdict to another result
    key = next((each.trained.key for each in ledger.open if each.trained.name == name), "")
    tried, baseline = _setting(name, ledger.model, key), _setting(*_named(ledger))
    known = next((each for each in ledger.tries if each.trained.key == tried.key), None)
    if known and known.verdict:
        return known, baseline, tried
    if ledger.final:
        raise BukvaError(
            f"{FILE} is closed, because `bukva judge --final` has shown scores on test. To begin a new ledger: "
            f"`git mv {FILE} reports/judge-1.jsonl && rm {COPY}`."
        )
    _check_try(baseline, tried)
    _say_threads(baseline, tried, trainer)
    if not known:
        pair = baseline.result, tried.result, ledger.model
        params = {key: list(values) for key, values in changed_params(*pair).items()}
        known = Try(len(ledger.tries) + 1, Trained(name, tried.key), baseline.name, params, changed_code(*pair))
        _append("try", asdict(known))
    return known, baseline, tried


def _named(ledger: Ledger) -> tuple[str, str, str]:
    return ledger.baseline.name, ledger.model, ledger.baseline.key


def give_up(name: str) -> Try:
    """Discard the experiment `name` without a decision by its scores, for example because its training fails."""
    with _locked():
        opened = next((each for each in begun_ledger().open if each.trained.name == name), None)
        if not opened:
            raise BukvaError(
                f"{name} cannot be given up, because it is not waiting for a verdict. Run `bukva judge` to list all "
                "tries."
            )
        discarded = replace(opened, verdict="discard", p=GIVEN_UP)
        _append("verdict", asdict(discarded))
    return discarded


def selection_bias(ledger: Ledger) -> float:
    """Return an upper limit of the luck in the gain on val, in bits per character; 0 before the first verdict.

    The limit assumes that all tries with a score are equally good.
    """
    # each is the standard error of a difference of two scores: sqrt(2) times the standard error of one score
    errors = [each.text_se for each in ledger.scored]
    return expected_luck(len(errors), median(errors) / 2**0.5) if errors else 0.0


def finish() -> Comparison:
    """Compare the current baseline with the first baseline on the test split, and close the ledger file.

    BukvaError: no try was kept, a try has no verdict yet, or the scores on test are missing.
    """
    with _locked():
        ledger = begun_ledger()
        if ledger.open:
            number, name = ledger.open[0].number, ledger.open[0].trained.name
            raise BukvaError(
                f"Try number {number} in the ledger ({name}) has no verdict yet. To finish this try: "
                f"`bukva judge {name}`. If it cannot be trained: `bukva judge {name} --give-up`."
            )
        if ledger.baseline.key == ledger.first.key:
            raise BukvaError("No try was kept, so there is nothing to compare with the first baseline on test.")
        first, last = (_setting(each.name, ledger.model, each.key) for each in (ledger.first, ledger.baseline))
        for setting in (first, last):
            check_has(setting.result, ledger.model, "test")
        comparison = compare_two(first, last, "test", records.floors([first, last], "test"))
        if not ledger.final:
            _append("final", {"verdict": comparison.verdict.to_json()})
        records.looks_at_test(first.result.about["text"]["test"], more=1)
        return comparison


# ---- one try


def _check_try(baseline: Setting, tried: Setting) -> None:
    """Check that a try changes more than the seed, and is scored on the same text in the same way as the baseline."""
    if tried.key == baseline.key:
        raise BukvaError(
            f"{tried.name} differs from the baseline {baseline.name} only in its seed. A try must change parameters or "
            "code."
        )
    a, b, model = baseline.result, tried.result, tried.model
    for split in a.about["text"]:
        if why := why_incomparable(a, b, split):
            raise BukvaError(why)
    code = [path for path in changed_code(a, b, model) if not path.startswith(EDITABLE)]
    params = [key for key in changed_params(a, b, model) if key.partition(".")[0] not in FREE_SECTIONS]
    if code or params:
        raise BukvaError(
            f"{tried.name} changes {', '.join([*code, *params])}, which affects how scores are computed. A try may "
            f"only change {', '.join(EDITABLE)} and the sections {', '.join(FREE_SECTIONS)} of {PARAMS}."
        )


def _look_until_decided(opened: Try, baseline: Setting, tried: Setting, trainer: Trainer) -> Try:
    """Test `opened` after 1, 2, 4 and 8 seeds until there is a verdict, and write the verdict to the ledger file."""
    _say(f"Try {opened.number}, {tried.name}: {opened.change_summary}. Baseline: {opened.against}")
    if tried.seconds and baseline.seconds:  # a try that is slower needs fewer updates for the same budget
        _say(f"  Median training time: {duration(tried.seconds)}, baseline {duration(baseline.seconds)}")
    for n_seeds in N_SEEDS:
        tried = _with_seeds(tried, n_seeds, trainer)
        with _locked():
            ledger = begun_ledger()
            if opened.number not in {each.number for each in ledger.open}:
                raise BukvaError(f"{tried.name} was given up while it was trained, so it gets no other verdict.")
            if ledger.baseline.key != baseline.key:
                baseline = _setting(*_named(ledger))
                _say(f"  The baseline is now {baseline.name}, which was kept in the meantime.")
            decided = _look(ledger, opened, baseline, _first_seeds(tried, n_seeds))
            if decided.verdict:
                _append("verdict", asdict(decided))
                break
    if opened.against != decided.against and not decided.kept:
        _say(
            f"  {tried.name} began from {opened.against}. If its change may also improve {decided.against}, make it "
            "there, and judge that as a new try."
        )
    return decided


def _look(ledger: Ledger, opened: Try, baseline: Setting, tried: Setting) -> Try:
    """Return `opened` with the result of a test, and with a verdict if no more seeds are needed."""
    level, units = ledger.next_level, Units.of(baseline.result.characters.chars[SPLIT])
    text = over_text(tried.mean_sums(units, SPLIT) - baseline.mean_sums(units, SPLIT), units)
    seen = look(text, baseline.scores(SPLIT), tried.scores(SPLIT), _known_floor(ledger, baseline.family), level)
    low, high = seen.estimate.interval
    size = f"{seen.estimate.difference:+.3f} bits ({low:+.3f} to {high:+.3f})"
    _say(f"  {count(len(tried.seeds), 'seed')}: {size}, p {seen.p:.2g} (level {level:.2g}): {seen.decision}")
    return replace(
        opened,
        trained=_trained(tried),
        against=baseline.name,
        verdict="" if seen.decision == "more seeds" else seen.decision,
        difference=round(seen.estimate.difference, DIGITS),
        se=round(seen.estimate.se, DIGITS),
        df=round(seen.estimate.df, 1),
        text_se=round(text.se, DIGITS),
        p=float(f"{seen.p:.3g}"),
        level=float(f"{level:.3g}"),
    )


def _known_floor(ledger: Ledger, family: str) -> Floor:
    """Pool the standard deviations between seeds of the baselines, of all scored tries and of other experiments."""
    bits = {each.key: each.bits for each in (ledger.first, *(each.trained for each in ledger.scored))}
    return pool([records.floor(family, SPLIT, without=bits), *map(Floor.of, bits.values())])


# ---- settings and their seeds


def _setting(name: str, model: str, key: str = "") -> Setting:
    """Return all trainings of the setting of `name` or, because a commit may give it to another result, with `key`."""
    commits = git("rev-list", "HEAD", "--", LOCK).decode().split()  # HEAD may have been the baseline
    results = read_results([*experiments(), *(Revision(commit[:7], commit) for commit in commits)])
    try:
        results = [*results_of([name]), *results]  # also fetches scores that are not in DVC's cache
    except BukvaError:
        if not key:
            raise
    if not key:
        check_has(results[0], model, SPLIT)
    for setting in groups(results, model):
        if key in ("", setting.key):
            return replace(setting, name=name)
    raise BukvaError(
        f"No experiment has the parameters and the code of {name} in {FILE}. Fetch its scores: "
        "`dvc pull --all-commits`."
    )


def _trained(setting: Setting) -> Trained:
    return Trained(setting.name, setting.key, setting.seeds, [round(score, DIGITS) for score in setting.scores(SPLIT)])


def _needed(setting: Setting, n: int) -> range:
    return range(min(setting.seeds), min(setting.seeds) + n)


def _first_seeds(setting: Setting, n: int) -> Setting:
    """Return `setting` with one training for each of its first `n` consecutive seeds."""
    of_seed = {member.seed: member for member in setting.members}
    return replace(setting, members=[of_seed[seed] for seed in _needed(setting, n)])


def _missing(setting: Setting, n: int) -> list[int]:
    return [seed for seed in _needed(setting, n) if seed not in setting.seeds]


def _say_threads(baseline: Setting, tried: Setting, trainer: Trainer) -> None:
    """Print a line if the next seeds of `tried` will have other numbers of threads than the seeds trained so far."""
    if not _missing(tried, N_SEEDS[-1]):
        return
    params, model = tried.result.flat_params, tried.model
    share = max(1, trainer.cores(params) // int(params.get(f"train_{model}.processes", 1)))
    next_threads = int(params["compute.threads"]) or share
    trained = [int(each.about["models"][model]["numerics"]["threads"]) for each in (*baseline.results, *tried.results)]
    if other := sorted({*trained} - {next_threads}):
        _say(
            f"The next seeds of {tried.name} have {count(next_threads, 'thread')}, but some finished trainings had "
            f"{' or '.join(map(str, other))}. The number of threads changes the rounding, and so the score of a seed. "
            "To use one number for all, set `compute.threads` (docs/research.md)."
        )


def _with_seeds(setting: Setting, n: int, trainer: Trainer) -> Setting:
    """Return `setting` after its first `n` consecutive seeds have been trained, without changing the checkout."""
    key = seed_name(setting.model)
    trials = {seed: (free_name(f"{setting.name}-s{seed}"), [f"{key}={seed}"]) for seed in _missing(setting, n)}
    for seeds in trainer.train(trials, setting.result.flat_params, _starting_commit(setting)) if trials else ():
        setting = _setting(setting.name, setting.model, setting.key)
        if other := {*seeds} - {*setting.seeds}:
            raise BukvaError(
                f"Seed {min(other)} of {setting.name} was trained with other code, data or parameters than "
                f"{setting.name}."
            )
    return setting


def _starting_commit(setting: Setting) -> str:
    """Return the commit from which other seeds are trained. BukvaError: it lacks code or data of the setting."""
    result = next(each for each in setting.results if each.revision == setting.revision)
    commit, needed = result.revision.commit or snapshot(), all_sources(SCORED, result.lock)
    now = digests(needed, commit)
    if changed := [path for path, md5 in needed.items() if now[path] != md5]:
        raise BukvaError(
            f"{setting.name} cannot be trained with another seed, because its commit does not have {changed[0]} as it "
            "was in its training. If git does not track a new file, run `git add`, and repeat the experiment under "
            "another name."
        )
    return commit
