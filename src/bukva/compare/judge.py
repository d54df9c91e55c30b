"""Test changes of a model one after another, and keep those that improve its score (`bukva judge`).

Each tested change is a try: an experiment that is compared with the baseline. A try that is kept is the baseline of the
next try. A try is trained with 1, 2, 4 or 8 seeds, depending on how soon the verdict is clear (`statistics.judging`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from bukva.compare import records
from bukva.compare.comparison import Comparison, changed_code, changed_params, compare_all
from bukva.compare.groups import Setting, check_has, groups, seed_name, why_incomparable
from bukva.compare.ledger import COPY, DIGITS, FILE, Ledger, Trained, Try, append
from bukva.compare.results import STAGE, Result, read_results, results_of
from bukva.compare.statistics.estimate import Estimate
from bukva.compare.statistics.judging import LOOKS, Look, decide, noise_floor
from bukva.compare.statistics.settings import expected_luck
from bukva.compare.statistics.text import Units, compare_text
from bukva.core.errors import BukvaError
from bukva.core.files import project_root
from bukva.core.params import read_yaml
from bukva.core.words import count
from bukva.project.cache import digests
from bukva.project.commands import assignments_for, run_experiment
from bukva.project.lock import LOCK, PARAMS, all_sources, changes
from bukva.project.revisions import Revision, experiments, free_name, git

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
    """Begin a ledger with experiment `name` as baseline, which is trained with 8 seeds.

    level: upper limit of the expected fraction of wrong decisions among all decisions to keep a try, such as 0.1.
    tried: name of the experiment that will be judged first. It is checked before the baseline is trained.

    Raises:
        BukvaError: `level` is not between 0 and 1, an experiment has no result, the first try cannot be judged, or a
            training fails.
    """
    if not 0 < level < 1:
        raise BukvaError(f"`--level` must be between 0 and 1, for example 0.1; got {level}.")
    baseline = _setting(name, model)
    _check_checkout(baseline, LOOKS[-1])
    if tried and tried != name:
        first_try = _setting(tried, model)
        _check_try(baseline, first_try)
        try:
            _check_checkout(first_try, LOOKS[-1])
        except BukvaError as error:
            if not _missing(baseline, LOOKS[-1]):
                raise
            raise BukvaError(f"{error} Before that: `bukva judge {name}`.") from None
    print_line(
        f"Beginning a new ledger, {FILE}. On average, at most {level:.0%} of the decisions to keep a try will be wrong "
        "(--level)."
    )
    trained = _trained(_with_seeds(baseline, LOOKS[-1], print_line), LOOKS[-1])
    return append("start", level=level, model=model, baseline=asdict(trained))


def judge(name: str, ledger: Ledger, print_line: PrintLine) -> Try:
    """Test whether experiment `name` is better than the baseline, and write the verdict to the ledger file.

    If the same parameters and code were tested before, return the old verdict. An experiment that is kept becomes the
    baseline, and is trained with further seeds until it has 8.

    Raises:
        BukvaError: the experiment has no result, differs from the baseline only in the seed, or changes how scores are
            computed; another experiment has no verdict yet; the ledger is closed; or a training fails.
    """
    waiting = ledger.open and ledger.open.trained
    # a commit may have given the name of a try without a verdict to another result
    tried = _recorded(waiting, ledger.model) if waiting and waiting.name == name else _setting(name, ledger.model)
    known = ledger.find(tried.key)
    if known and known.verdict:
        print_line(f"These parameters and this code were judged before, as try {known.number} ({known.trained.name}).")
        complete_baseline(ledger, print_line)
        return known
    if ledger.final:
        raise BukvaError(
            f"{FILE} is closed, because `bukva judge --final` has shown scores on test. To begin a new ledger: "
            f"`git mv {FILE} reports/judge-1.jsonl && rm {COPY}`."
        )
    if not known:
        _check_none_open(ledger)
    baseline = _recorded(ledger.baseline, ledger.model)
    _check_try(baseline, tried)
    if not known:
        pair = baseline.result, tried.result, ledger.model
        params = {key: list(values) for key, values in changed_params(*pair).items()}
        known = Try(len(ledger.tries) + 1, Trained(name, tried.key), baseline.name, params, changed_code(*pair))
        append("try", **asdict(known))
    decided = _look_until_decided(ledger, known, baseline, tried, print_line)
    complete_baseline(append("verdict", **asdict(decided)), print_line)
    return decided


def give_up(name: str, ledger: Ledger) -> Try:
    """Discard the experiment `name` without a decision by its scores, for example because its training fails.

    Raises:
        BukvaError: no experiment with this name is waiting for a verdict.
    """
    if not ledger.open or ledger.open.trained.name != name:
        raise BukvaError(
            f"{name} cannot be given up, because it is not waiting for a verdict. Run `bukva judge` to list all tries."
        )
    discarded = replace(ledger.open, verdict="discard")
    append("verdict", **asdict(discarded))
    return discarded


def _check_none_open(ledger: Ledger) -> None:
    if ledger.open:
        name = ledger.open.trained.name
        raise BukvaError(
            f"Try number {ledger.open.number} in the ledger ({name}) has no verdict yet. To finish this try: "
            f"`bukva judge {name}`. If it cannot be trained: `bukva judge {name} --give-up`."
        )


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


def _look_until_decided(ledger: Ledger, opened: Try, baseline: Setting, tried: Setting, print_line: PrintLine) -> Try:
    """Test `opened` after 1, 2, 4 and 8 seeds until there is a verdict."""
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

    last = decide(measured(), baseline.scores(SPLIT), known, level, lambda look: print_line(f"  {_line(look)}"))
    return replace(
        opened,
        trained=_trained(tried, last.n_seeds),
        verdict=last.decision,
        difference=round(last.estimate.difference, DIGITS),
        se=round(last.estimate.se, DIGITS),
        df=round(last.estimate.df, 1),
        text_se=round(_over_text(baseline, _first_seeds(tried, last.n_seeds)).se, DIGITS),
        p=float(f"{last.p:.3g}"),
        level=float(f"{level:.3g}"),
    )


def _over_text(a: Setting, b: Setting) -> Estimate:
    """Return the difference between the mean scores of `b` and `a` on val, b minus a."""
    units = Units.of(a.result.characters.chars[SPLIT])
    means = [setting.seed_sums(units, SPLIT).sums.mean(axis=0) for setting in (a, b)]  # (G,) bits
    return compare_text(means[0], means[1], units).estimate


def _line(look: Look) -> str:
    low, high = look.estimate.interval
    size = f"{look.estimate.difference:+.3f} bits ({low:+.3f} to {high:+.3f})"
    return f"{count(look.n_seeds, 'seed')}: {size}, p {look.p:.2g}: {look.decision}"


def complete_baseline(ledger: Ledger, print_line: PrintLine) -> None:
    """Train the baseline with further seeds until it has 8 seeds, and add the new scores to the ledger."""
    if len(ledger.baseline.seeds) < LOOKS[-1]:
        setting = _with_seeds(_recorded(ledger.baseline, ledger.model), LOOKS[-1], print_line)
        append("baseline", baseline=asdict(_trained(setting, LOOKS[-1])))


# ---- after all tries


def selection_bias(ledger: Ledger) -> float:
    """Return an upper limit of the part of the gain on val that may be due to chance, in bits per character.

    The limit assumes that all decided tries are equally good. It is 0 if no try has been decided.
    """
    # each is the standard error of a difference of two scores: sqrt(2) times the standard error of one score
    errors = [each.text_se for each in ledger.decided]
    return expected_luck(len(errors), median(errors) / 2**0.5) if errors else 0.0


def finish(ledger: Ledger) -> Comparison:
    """Compare the current baseline with the first baseline on the test split, and close the ledger file.

    Raises:
        BukvaError: no try was kept, a try has no verdict yet, or the scores on test are missing.
    """
    _check_none_open(ledger)
    if ledger.baseline.key == ledger.first.key:
        raise BukvaError("No try was kept, so there is nothing to compare with the first baseline on test.")
    first, last = (_recorded(trained, ledger.model) for trained in (ledger.first, ledger.baseline))
    for setting in (first, last):
        check_has(setting.result, ledger.model, "test")
    [comparison] = compare_all([(first, last)], "test", records.floor(first.family, "test", [first, last]))
    if not ledger.final:
        append("final", verdict=comparison.verdict.to_json())
    return comparison


# ---- settings and their seeds


def _setting(name: str, model: str) -> Setting:
    [result] = results_of([name])
    check_has(result, model, SPLIT)
    return _with_experiments(name, [result], model)


def _with_experiments(name: str, results: Sequence[Result], model: str) -> Setting:
    """Return `results`, and all finished experiments that differ from them only in the seed, as one setting."""
    return replace(groups([*results, *read_results(experiments())], model)[0], name=name)


def _recorded(trained: Trained, model: str) -> Setting:
    """Return all trainings with the key of `trained`, whatever its name means since the last commit."""
    commits = git("rev-list", "HEAD", "--", LOCK).decode().split()  # HEAD may have been the baseline
    results = read_results([*experiments(), *(Revision(commit[:7], commit) for commit in commits)])
    with suppress(BukvaError):  # the name is unknown
        results = [*results_of([trained.name]), *results]  # also fetches scores that are not in DVC's cache
    for setting in groups(results, model):
        if setting.key == trained.key:
            return replace(setting, name=trained.name)
    raise BukvaError(
        f"No experiment has the parameters and the code of {trained.name} in {FILE}. Fetch its scores: "
        "`dvc pull --all-commits`."
    )


def _trained(setting: Setting, n: int) -> Trained:
    first = _first_seeds(setting, n)
    return Trained(setting.name, setting.key, first.seeds, [round(score, DIGITS) for score in first.scores(SPLIT)])


def _first_seeds(setting: Setting, n: int) -> Setting:
    """Return `setting` with one training for each of its first `n` consecutive seeds."""
    of_seed = {member.seed: member for member in setting.members}
    first = min(of_seed)
    return replace(setting, members=tuple(of_seed[seed] for seed in range(first, first + n)))


def _missing(setting: Setting, n: int) -> list[int]:
    first = min(setting.seeds)
    return [seed for seed in range(first, first + n) if seed not in setting.seeds]


def _with_seeds(setting: Setting, n: int, print_line: PrintLine) -> Setting:
    """Return `setting` after its first `n` consecutive seeds have been trained."""
    _check_checkout(setting, n)
    for seed in _missing(setting, n):
        _train(setting, seed, print_line)
        setting = _with_experiments(setting.name, [member.result for member in setting.members], setting.model)
        if seed not in setting.seeds:
            raise BukvaError(
                f"Seed {seed} of {setting.name} was trained with other code, data or parameters than {setting.name}. "
                f"Commit new files, or run `dvc exp apply {setting.name}`."
            )
    return setting


def _check_checkout(setting: Setting, n: int) -> None:
    """Check that the checkout has the code and data of `setting`, unless its first `n` seeds are already trained."""
    if not (missing := _missing(setting, n)):
        return
    result = setting.result
    now = digests(all_sources(STAGE, result.lock))
    if changed := next(changes(STAGE, result.lock, result.flat_params, now), ""):
        raise BukvaError(
            f"{setting.name} must be trained with seed {missing[0]}, but the checkout no longer matches this "
            f"experiment: {changed}. Run `dvc exp apply {setting.name}` to restore the experiment."
        )


def _train(setting: Setting, seed: int, print_line: PrintLine) -> None:
    """Run an experiment with the parameters of `setting` and another seed, without changing the checkout."""
    root, name = project_root(), free_name(f"{setting.name}-s{seed}")
    wanted = {**setting.result.flat_params, seed_name(setting.model): seed}
    print_line(f"  training seed {seed} as {name} (output: {LOG})")
    run_experiment(name, assignments_for(read_yaml(root / PARAMS), wanted), "--temp", log=root / LOG)
