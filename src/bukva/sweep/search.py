"""Search: what may be chosen, Optuna, which chooses, and Tune's rule for trials that fall behind.

What may be chosen are options -S in Hydra's grammar, as its own plugin for Optuna takes them:

    model.n_layer=1,2,4                                         one of these
    model.n_embd=range(32,160,32)                               32, 64, 96 or 128
    train_gpt.learning_rate=tag(log,interval(0.0003,0.01))      equally often in each power of ten

TPE (Bergstra et al. 2011) proposes settings that are likelier among the better trials than among the others. Successive
halving (Jamieson and Talwalkar 2016; Li et al. 2020 for the asynchronous form) keeps, at 1/9 and at 1/3 of the updates,
a trial only if it is among the better third of those that came so far. Both read bits per character on val.
"""

import functools
import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from bukva.config.schema import Training
from bukva.core.errors import BukvaError
from bukva.project.commands import applied, overrides, values_of
from bukva.sweep.trials import digest

if TYPE_CHECKING:
    import optuna
    from hydra.core.override_parser.types import Override
    from ray.tune.schedulers import TrialScheduler
    from ray.tune.search import Searcher

FIXED = "train_gpt.n_steps"
KEEP_ONE_IN = 3
RUNGS = 2  # at which trials are compared while they run
MOST_INVALID = 100  # combinations in a row


def read_space(settings: Sequence[str], prune: bool) -> "tuple[list[Override], list[str], Training]":
    """Parse and check what may be chosen.

    Args:
        settings: options -S.
        prune: whether trials that fall behind are stopped.

    Returns:
        All options; those of one value, which all trials have; and the section of the model that these give.

    Raises:
        BukvaError: nothing may be chosen, the number of updates may, the options of one value are invalid together, no
            combination with one value or end of an interval is valid, or val is scored too rarely to compare trials.
    """
    space = overrides(settings)
    chosen = {each.key_or_group for each in space if each.is_sweep_override()}
    if not chosen:
        raise BukvaError(
            "-S: nothing may be chosen; give several values with commas, range(LOW,HIGH,STEP) or interval(LOW,HIGH)."
        )
    if FIXED in chosen:
        raise BukvaError(f"-S {FIXED}: must stay the same in a search, because the learning rate decays over it.")
    fixed = [setting for each in space if not each.is_sweep_override() for setting in values_of(each)]
    training = applied(fixed).train_gpt
    values = [_extremes(each) for each in space]
    for place, some in enumerate(values):
        for value in some:
            tried = _valid([*values[:place], [value], *values[place + 1 :]])
            if prune and tried.eval_every > tried.n_steps // KEEP_ONE_IN:
                raise BukvaError(
                    f"train_gpt.eval_every: {tried.eval_every} of {tried.n_steps} updates is too rare to compare "
                    f"trials while they run; use {_first_rung(tried)} or less, or --no-prune."
                )
    return space, fixed, training


def _valid(values: Sequence[Sequence[str]]) -> Training:
    """Return the section of the model of the first valid combination: which width is valid depends on the heads.

    Raises:
        BukvaError: none of the first MOST_INVALID is valid; says why the first one is not.
    """
    mistakes = []
    for combination in itertools.islice(itertools.product(*values), MOST_INVALID):
        try:
            return applied(combination).train_gpt
        except BukvaError as error:
            mistakes.append(error)
    raise mistakes[0]


def _extremes(override: "Override") -> list[str]:
    """Options -S with each value, or both ends of an interval."""
    if not override.is_interval_sweep():
        return values_of(override)
    interval: Any = override.value()
    return [f"{override.key_or_group}={end}" for end in (interval.start, interval.end)]


def _setting(override: "Override", trial: "optuna.Trial") -> str:
    """An option -S with the value that Optuna chooses."""
    key, value = override.key_or_group, cast("Any", override.value())
    if override.is_interval_sweep():
        return f"{key}={trial.suggest_float(key, value.start, value.end, log='log' in value.tags)}"
    if override.is_range_sweep() and isinstance(numbers := value.range(), range):
        return f"{key}={trial.suggest_int(key, numbers[0], numbers[-1], step=numbers.step)}"
    settings = values_of(override)
    return str(trial.suggest_categorical(key, settings)) if len(settings) > 1 else settings[0]


def _settings(space: "Sequence[Override]", trial: "optuna.Trial") -> dict[str, Any]:
    return {"settings": [_setting(override, trial) for override in space]}


def searcher(name: str, space: "Sequence[Override]", trials: int) -> "Searcher":
    """TPE, as Tune asks it for trials.

    Args:
        name: of the search; it also gives the seed.
        space: what may be chosen.
        trials: how many there are to be.
    """
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    class Search(OptunaSearch):
        """Gives a trial its name, and leaves out combinations that are invalid."""

        given = 0  # trials

        def suggest(self, trial_id: str) -> dict[str, Any]:
            """Name and settings of one more trial."""
            for _ in range(MOST_INVALID):
                settings = super().suggest(trial_id)["settings"]
                try:
                    applied(settings)
                except BukvaError:  # such as a width that the number of heads does not divide
                    self._ot_study.tell(self._ot_trials.pop(trial_id), state=optuna.trial.TrialState.FAIL)
                    continue
                self.given += 1
                number = f"{self.given:0{len(str(trials))}d}"
                return {"trial": {"name": f"{name}-{number}-{digest(*settings)}", "settings": settings}}
            raise BukvaError(f"{MOST_INVALID} combinations in a row were invalid; let less be chosen.")

        def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
            """Tell Optuna; a trial that was stopped is pruned, and its last val is no result."""
            super().on_trial_complete(trial_id, result if result and result.get("finished") else None, error)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", "The reported value is ignored")  # a trial that goes on reports its curve again
    sampler = optuna.samplers.TPESampler(seed=int(digest(name), 16), constant_liar=True)
    return Search(functools.partial(_settings, space), metric="val", mode="min", sampler=sampler)


def rule(training: Training) -> "TrialScheduler":
    """The rule that stops trials that fall behind."""
    from ray.tune.schedulers import ASHAScheduler

    most = training.n_steps + 1  # Tune ends a trial that reports this step, before it is evaluated
    first = _first_rung(training)
    return ASHAScheduler("step", "val", "min", max_t=most, grace_period=first, reduction_factor=KEEP_ONE_IN)


def _first_rung(training: Training) -> int:
    """The step at which trials are first compared; no rung is at the end, where a trial must not stop."""
    return training.n_steps // KEEP_ONE_IN**RUNGS + 1
