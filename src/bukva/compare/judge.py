"""Implement `bukva judge`, which tests changes of a model one after another and keeps those that improve its score.

Each tested change is called a try. A try is an experiment that is compared with the baseline. If the try is kept, it
becomes the baseline of the next try. A try is trained with 1, 2, 4 or 8 seeds, depending on how soon the verdict is
clear. All tries and verdicts are written to a file, the ledger.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain, count
from pathlib import Path
from statistics import median

from bukva.compare import ledger as ledger_file
from bukva.compare import records
from bukva.compare.comparison import Comparison, changed_code, changed_params, compare_all
from bukva.compare.groups import Setting, check_has, groups, why_incomparable
from bukva.compare.ledger import Ledger, Trained, Try
from bukva.compare.results import Result, read_results, results_of
from bukva.compare.statistics.estimate import Estimate
from bukva.compare.statistics.judging import LOOKS, Look, decide, noise_floor
from bukva.compare.statistics.settings import expected_luck
from bukva.compare.statistics.text import Units, compare_text
from bukva.config.load import read_yaml
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.processes import die_with_parent
from bukva.project.cache import digests
from bukva.project.commands import settings
from bukva.project.lock import LOCK, PARAMS, all_sources, changes
from bukva.project.revisions import Revision, experiments, git

SPLIT = "val"
# code that a try may change; other code affects which text is scored, or how it is scored
EDITABLE = (
    "src/bukva/models", "src/bukva/training", "src/bukva/backends",
    "stages/training.py", "stages/train_bigram.py", "stages/train_gpt.py",
)  # fmt: skip
FREE_SECTIONS = "compute", "model", "train_bigram", "train_gpt", "sample"
LOG = Path(".bukva/judge.log")

PrintLine = Callable[[str], None]


def begin(name: str, model: str, level: float, print_line: PrintLine, tried: str = "") -> Ledger:
    """Begin a new ledger, the file of all tested changes ("tries"). Train the baseline with 8 seeds.

    Args:
        name: name of the experiment that is the first baseline.
        tried: name of the experiment that will be judged first. It is checked before the baseline is trained.
        model: name of the model whose scores on val decide which tries are kept.
        level: upper limit of the expected fraction of wrong decisions among all decisions to keep a try, such as 0.1.
        print_line: called with each line of progress.

    Raises:
        BukvaError: `level` is not between 0 and 1, an experiment has no result, the first try cannot be judged, or a
            training fails.
    """
    if not 0 < level < 1:
        raise BukvaError(f"`--level` must be between 0 and 1, for example 0.1; got {level}.")
    setting = _setting(name, model)
    _check_checkout(setting, LOOKS[-1])
    if tried and tried != name:
        _check_first_try(setting, _setting(tried, model))
    print_line(
        f"Beginning a new ledger, {ledger_file.FILE}. On average, at most {level:.0%} of the decisions to keep a try "
        "will be wrong (--level)."
    )
    return ledger_file.start(
        level, model, _trained(_first_seeds(_with_seeds(setting, LOOKS[-1], print_line), LOOKS[-1]))
    )


def judge(name: str, ledger: Ledger, print_line: PrintLine) -> Try:
    """Test whether experiment `name` is better than the baseline, and write the verdict to the ledger file.

    If the same parameters and code were tested before, return the old verdict. An experiment that is kept becomes the
    baseline, and is trained with further seeds until it has 8. `print_line` is called with each line of progress.

    Raises:
        BukvaError: the experiment has no result, differs from the baseline only in the seed, or changes how scores are
            computed; another experiment has no verdict yet; the ledger is closed; or a training fails.
    """
    model = ledger.model
    waiting = ledger.open and ledger.open.trained
    tried = _recorded(waiting, model) if waiting and waiting.name == name else _setting(name, model)
    known = ledger.find(tried.key)
    if known and known.verdict:
        print_line(f"These parameters and this code were judged before, as try {known.number} ({known.trained.name}).")
        complete_baseline(ledger, print_line)
        return known
    _check_ready(ledger, tried, name)
    baseline = _recorded(ledger.baseline, model)
    _check_same_score(baseline, tried, name)
    opened = known or _open(ledger, baseline, tried, name)
    closed = _look_until_decided(ledger, opened, baseline, tried, print_line)
    ledger = ledger_file.add("verdict", **asdict(closed))
    complete_baseline(ledger, print_line)
    return closed


def give_up(name: str, ledger: Ledger) -> Try:
    """Discard the experiment `name` without a decision by its scores, for example because its training fails.

    Raises:
        BukvaError: no experiment with this name is waiting for a verdict.
    """
    if not ledger.open or ledger.open.trained.name != name:
        raise BukvaError(
            f"{name} cannot be given up, because it is not waiting for a verdict. Run `bukva judge` to list all tries."
        )
    closed = replace(ledger.open, verdict="discard")
    ledger_file.add("verdict", **asdict(closed))
    return closed


def _check_ready(ledger: Ledger, tried: Setting, name: str) -> None:
    _check_changed(ledger.baseline.key, ledger.baseline.name, tried, name)
    if ledger.final:
        raise BukvaError(
            f"{ledger_file.FILE} is closed, because `bukva judge --final` has shown scores on test. To begin a new "
            f"ledger: `git mv {ledger_file.FILE} reports/judge-1.jsonl && rm {ledger_file.COPY}`."
        )
    if ledger.open and ledger.open.trained.key != tried.key:
        raise _undecided(ledger.open)


def _check_changed(key: str, baseline: str, tried: Setting, name: str) -> None:
    if tried.key == key:
        raise BukvaError(
            f"{name} differs from the baseline {baseline} only in its seed. A try must change parameters or code."
        )


def _check_first_try(baseline: Setting, tried: Setting) -> None:
    _check_changed(baseline.key, baseline.name, tried, tried.name)
    _check_same_score(baseline, tried, tried.name)
    try:
        _check_checkout(tried, LOOKS[-1])
    except BukvaError as error:
        if not _missing(baseline, LOOKS[-1]):
            raise
        raise BukvaError(f"{error} Before that: `bukva judge {baseline.name}`.") from None


def _undecided(other: Try) -> BukvaError:
    name = other.trained.name
    return BukvaError(
        f"Try number {other.number} in the ledger ({name}) has no verdict yet. To finish this try: "
        f"`bukva judge {name}`. If it cannot be trained: `bukva judge {name} --give-up`."
    )


def _check_same_score(a: Setting, b: Setting, name: str) -> None:
    """Check that `a` and `b` are scored on the same text and in the same way.

    name: name of `b` for the message.

    Raises:
        BukvaError: the parameters or the code of `b` change the text or the computation of scores.
    """
    for split in a.result.about["text"]:
        if why := why_incomparable(a.result, b.result, split):
            raise BukvaError(why)
    code = [path for path in changed_code(a.result, b.result, a.model) if not path.startswith(EDITABLE)]
    params = [key for key in changed_params(a.result, b.result, a.model) if key.partition(".")[0] not in FREE_SECTIONS]
    if code or params:
        raise BukvaError(
            f"{name} changes {', '.join([*code, *params])}, which affects how scores are computed. A try may only "
            f"change {', '.join(EDITABLE)} and the sections {', '.join(FREE_SECTIONS)} of {PARAMS}."
        )


def _open(ledger: Ledger, a: Setting, b: Setting, name: str) -> Try:
    changed = {key: list(values) for key, values in changed_params(a.result, b.result, a.model).items()}
    code = changed_code(a.result, b.result, a.model)
    opened = Try(len(ledger.tries) + 1, Trained(name, b.key), ledger.baseline.name, changed, code)
    ledger_file.add("try", **asdict(opened))
    return opened


def _look_until_decided(ledger: Ledger, opened: Try, baseline: Setting, tried: Setting, print_line: PrintLine) -> Try:
    """Test `opened`, a changed setting, after 1, 2, 4 and 8 seeds until there is a verdict. Return it with the verdict.

    Missing seeds are trained before each test. If the last test does not decide, the verdict is "cannot tell".
    """
    level = ledger.next_level
    known = noise_floor(list(ledger.groups.values()), records.floor(baseline.family, SPLIT, without=ledger.groups))
    print_line(
        f"Try {opened.number}, {tried.name}: {opened.change_summary}. Baseline: {opened.against}, significance level: "
        f"{level:.2g}"
    )

    def measured() -> Iterator[tuple[Estimate, Sequence[float]]]:
        nonlocal tried
        for n_seeds in LOOKS:
            tried = _with_seeds(tried, n_seeds, print_line)
            first = _first_seeds(tried, n_seeds)
            yield _over_text(baseline, first), first.scores(SPLIT)

    last = decide(measured(), baseline.scores(SPLIT), known, level, lambda seen: print_line(f"  {_line(seen)}"))
    tried = _first_seeds(tried, last.n_seeds)
    return replace(
        opened,
        trained=_trained(tried),
        verdict=last.decision,
        difference=round(last.estimate.difference, ledger_file.DIGITS),
        se=round(last.estimate.se, ledger_file.DIGITS),
        df=round(last.estimate.df, 1),
        text_se=round(_over_text(baseline, tried).se, ledger_file.DIGITS),
        p=float(f"{last.p:.3g}"),
        level=float(f"{level:.3g}"),
    )


def _over_text(a: Setting, b: Setting) -> Estimate:
    """Return the difference between the mean scores of `b` and `a` on val, b minus a. The means are over the seeds.

    The standard error of the difference covers the choice of the text, but not the variation between seeds.
    """
    units = Units.of(a.result.characters.chars[SPLIT])
    means = [setting.seed_sums(units, SPLIT).sums.mean(axis=0) for setting in (a, b)]
    return compare_text(means[0], means[1], units).estimate


def _line(last: Look) -> str:
    low, high = last.estimate.interval
    seeds = f"{last.n_seeds} seed{'s' if last.n_seeds > 1 else ''}"
    return f"{seeds}: {last.estimate.difference:+.3f} bits ({low:+.3f} to {high:+.3f}), p {last.p:.2g}: {last.decision}"


def complete_baseline(ledger: Ledger, print_line: PrintLine) -> None:
    """Train the baseline with further seeds until it has 8 seeds, and add the new scores to the ledger.

    Nothing happens if the baseline already has 8 seeds.
    """
    if len(ledger.baseline.seeds) < LOOKS[-1]:
        setting = _with_seeds(_recorded(ledger.baseline, ledger.model), LOOKS[-1], print_line)
        ledger_file.add("baseline", baseline=asdict(_trained(_first_seeds(setting, LOOKS[-1]))))


# ---- after all tries


def selection_bias(ledger: Ledger) -> float:
    """Return an upper limit of the part of the gain on val that may be due to chance, in bits per character.

    Tested changes ("tries") are kept or discarded by their scores on val, so a try may be kept by chance. The value is
    an upper limit, because it assumes that all decided tries are equally good (see `expected_luck`). It is 0 if no try
    has been decided.
    """
    # each is the standard error of a difference of two scores: sqrt(2) times the standard error of one score
    errors = [each.text_se for each in ledger.decided]
    return expected_luck(len(errors), median(errors) / 2**0.5) if errors else 0.0


def finish(ledger: Ledger) -> Comparison:
    """Compare the current baseline with the first baseline on the test split, and close the ledger file.

    The current baseline is the tested change ("try") that was kept last. A closed ledger accepts no further tries.

    Raises:
        BukvaError: no try was kept, a try has no verdict yet, or the scores on test are missing.
    """
    if ledger.open:
        raise BukvaError(
            f"Try number {ledger.open.number} in the ledger has no verdict yet. To finish this try: "
            f"`bukva judge {ledger.open.trained.name}`."
        )
    if ledger.baseline.key == ledger.first.key:
        raise BukvaError("No try was kept, so there is nothing to compare with the first baseline on test.")
    first, last = (_recorded(trained, ledger.model) for trained in (ledger.first, ledger.baseline))
    for setting in (first, last):
        check_has(setting.result, ledger.model, ledger.model, "test")
    [comparison] = compare_all([(first, last)], "test", records.floor(first.family, "test", [first, last]))
    if not ledger.final:
        ledger_file.add("final", verdict=comparison.verdict.to_json())
    return comparison


# ---- settings and their seeds


def _setting(name: str, model: str) -> Setting:
    """Return the experiment `name` with all finished trainings in the project that differ from it only in the seed."""
    [result] = results_of([name])
    check_has(result, model, model, SPLIT)
    setting = groups([result, *read_results(experiments())], model)[0]
    return replace(setting, name=name)


def _recorded(trained: Trained, model: str) -> Setting:
    """Return all trainings with the key of `trained`, whatever its name means since the last commit.

    Raises:
        BukvaError: no experiment and no commit before HEAD has such a training.
    """
    results = read_results(experiments())
    with suppress(BukvaError):  # the name is unknown
        results = [*results_of([trained.name]), *results]  # also fetches scores that are not in DVC's cache
    setting = _with_key(trained, results, model)
    if not setting or not set(trained.seeds) <= set(setting.seeds):  # a commit, such as HEAD, was trained
        commits = git("rev-list", "HEAD", "--", LOCK).decode().split()
        results += read_results([Revision(commit[:7], commit) for commit in commits])
        setting = _with_key(trained, results, model)
    if not setting:
        raise BukvaError(
            f"No experiment has the parameters and the code of {trained.name} in {ledger_file.FILE}. Fetch its "
            "scores: `dvc pull --all-commits`."
        )
    return setting


def _with_key(trained: Trained, results: Sequence[Result], model: str) -> Setting | None:
    found = (setting for setting in groups(results, model) if setting.key == trained.key)
    return next((replace(setting, name=trained.name) for setting in found), None)


def _trained(setting: Setting) -> Trained:
    bits = [round(score, ledger_file.DIGITS) for score in setting.scores(SPLIT)]
    return Trained(setting.name, setting.key, setting.seeds, bits)


def _with_seeds(setting: Setting, n: int, print_line: PrintLine) -> Setting:
    """Return `setting` with trainings for at least n consecutive seeds. Missing seeds are trained.

    Raises:
        BukvaError: a seed is missing and the code or data of the checkout differ from the setting, or a training fails.
    """
    _check_checkout(setting, n)
    if missing := _missing(setting, n):
        for seed in missing:
            _train(setting, seed, print_line)
        setting = _recorded(Trained(setting.name, setting.key), setting.model)
    if missing := _missing(setting, n):
        raise BukvaError(
            f"Seed {missing[0]} of {setting.name} was trained with other code, data or parameters than {setting.name}. "
            f"Commit new files, or run `dvc exp apply {setting.name}`."
        )
    return setting


def _first_seeds(setting: Setting, n: int) -> Setting:
    """Return `setting` with one training for each of its first `n` consecutive seeds."""
    of_seed = {member.seed: member for member in setting.members}
    first = min(of_seed)
    return replace(setting, members=tuple(of_seed[seed] for seed in range(first, first + n)))


def _missing(setting: Setting, n: int) -> list[int]:
    first = min(setting.seeds)
    return [seed for seed in range(first, first + n) if seed not in setting.seeds]


def _check_checkout(setting: Setting, n: int) -> None:
    """Check that the checkout has the code and data of `setting`, unless its first `n` seeds are already trained."""
    if not (missing := _missing(setting, n)):
        return
    stage, result = "evaluate", setting.result
    now = digests(all_sources(stage, result.lock))
    if changed := next(changes(stage, result.lock, result.flat_params, now), ""):
        raise BukvaError(
            f"{setting.name} must be trained with seed {missing[0]}, but the checkout no longer matches this "
            f"experiment: {changed}. Run `dvc exp apply {setting.name}` to restore the experiment."
        )


def _free_name(name: str) -> str:
    """Return `name` if no experiment has this name. Otherwise, return the first free name of NAME-2, NAME-3, ...

    DVC refuses a second experiment with the same name. `dvc exp run --force` would accept the name, but would also
    rerun stages that have not changed.
    """
    taken = {experiment.name for experiment in experiments()}
    numbered = (f"{name}-{n}" for n in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)


def _train(setting: Setting, seed: int, print_line: PrintLine) -> None:
    """Run an experiment with the parameters of `setting` and another seed, without changing the checkout.

    Raises:
        BukvaError: the experiment fails. The message contains the path of the log.
    """
    run_name, log = _free_name(f"{setting.name}-s{seed}"), project_root() / LOG
    params, section = setting.result.params, f"train_{setting.model}"
    wanted = {**params, section: {**params[section], "seed": seed}}
    options = [word for option in settings(read_yaml(project_root() / PARAMS), wanted) for word in shlex.split(option)]
    print_line(f"  training seed {seed} as {run_name} (output: {LOG})")
    command = ["dvc", "exp", "run", "--temp", "--name", run_name, *options]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as output:
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=project_root(), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
        )  # fmt: skip
    if done.returncode:
        raise BukvaError(
            f"The training of {run_name} failed (log: {LOG}). To run it in the terminal: `{shlex.join(command)}`."
        )
