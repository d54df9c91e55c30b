"""Search for good settings: docs/sweep.md describes the search space and its grammar, as in Hydra's plugin for Optuna.

Optuna proposes trials by TPE (Bergstra et al. 2011). Asynchronous successive halving (Li et al. 2020) stops a trial at
1/9 or 1/3 of the updates unless it is in the best third of the trials that have come so far. Both use bits per
character on val.
"""

import functools
import itertools
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from bukva.core.errors import BukvaError
from bukva.core.schema import Training
from bukva.project.commands import overrides, params_with, values_of
from bukva.project.lock import digest
from bukva.sweep.trial import DIGITS, Trial, trial_of

if TYPE_CHECKING:
    import optuna
    from hydra.core.override_parser.types import Override
    from ray.tune.schedulers import TrialScheduler
    from ray.tune.search import Searcher

FIXED = "train_gpt.n_steps"  # must have a single value in a search
REDUCTION_FACTOR = 3  # one in three trials continues after each comparison
RUNGS = 2  # number of steps at which running trials are compared
MAX_INVALID = 100  # invalid combinations in a row before the search gives up


def read_space(assignments: Sequence[str], prune: bool) -> "tuple[list[Override], list[str], Training]":
    """Parse and check the search space, the values of option -S.

    Return the parsed settings, those with a single value as text, and the section `train_gpt` that results from these.
    BukvaError: no setting has several values, or `train_gpt.n_steps` has; a value, or an end of an interval, is invalid
    in every combination; or val is scored too rarely to `prune` trials.
    """
    space = overrides(assignments)
    chosen = {each.key_or_group for each in space if each.is_sweep_override()}
    if not chosen:
        raise BukvaError(
            "There is nothing to search, because no setting has several values. Use `-S` with several values: "
            "KEY=VALUE,VALUE, KEY=range(LOW,HIGH,STEP) or KEY=interval(LOW,HIGH)."
        )
    if FIXED in chosen:
        raise BukvaError(
            f"`{FIXED}` must have a single value in a search, because the learning rate decays over all updates."
        )
    fixed = [assignment for each in space if each.key_or_group not in chosen for assignment in values_of(each)]
    training = params_with(fixed).train_gpt
    values = [_extremes(each) for each in space]
    for index, choices in enumerate(values):
        for value in choices:
            tried = _valid([*values[:index], [value], *values[index + 1 :]])
            if prune and tried.eval_every > tried.n_steps // REDUCTION_FACTOR:
                raise BukvaError(
                    f"train_gpt.eval_every={tried.eval_every} is too large to compare running trials of "
                    f"{tried.n_steps} updates. Use {_first_rung(tried)} or less, or add `--no-prune`."
                )
    return space, fixed, training


def _extremes(override: "Override") -> list[str]:
    """Return each value of a setting, or both ends of an interval, as `KEY=VALUE`."""
    if not override.is_interval_sweep():
        return values_of(override)
    interval: Any = override.value()
    return [f"{override.key_or_group}={end}" for end in (interval.start, interval.end)]


def _valid(values: Sequence[Sequence[str]]) -> Training:
    """Apply the first valid combination of settings, and return section `train_gpt` of params.yaml."""
    mistakes = []
    for combination in itertools.islice(itertools.product(*values), MAX_INVALID):
        try:
            return params_with(combination).train_gpt
        except BukvaError as error:
            mistakes.append(error)
    raise mistakes[0]


def _suggest(space: "Sequence[Override]", trial: "optuna.Trial") -> dict[str, list[str]]:
    assignments = []
    for override in space:
        key, value = override.key_or_group, cast("Any", override.value())
        if override.is_interval_sweep():
            chosen = f"{key}={trial.suggest_float(key, value.start, value.end, log='log' in value.tags)}"
        elif override.is_range_sweep() and isinstance(numbers := value.range(), range):
            chosen = f"{key}={trial.suggest_int(key, numbers[0], numbers[-1], step=numbers.step)}"
        else:
            choices = values_of(override)
            chosen = trial.suggest_categorical(key, choices) if len(choices) > 1 else choices[0]
        assignments.append(chosen)
    return {"assignments": assignments}


def searcher(name: str, space: "Sequence[Override]", trials: int) -> "Searcher":
    """Return a Ray Tune searcher that proposes trials with Optuna's TPE sampler, whose seed depends on the name."""
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    class Search(OptunaSearch):
        """Optuna searcher that names the trials and skips invalid combinations of settings."""

        given = 0  # number of suggested trials; Tune saves this attribute in its state

        def suggest(self, trial_id: str) -> dict[str, Trial]:
            """Return the next trial, as {"trial": ...}."""
            for _ in range(MAX_INVALID):
                assignments = super().suggest(trial_id)["assignments"]
                try:
                    params_with(assignments)
                except BukvaError:  # for example, the number of heads does not divide the width
                    self._ot_study.tell(self._ot_trials.pop(trial_id), state=optuna.trial.TrialState.FAIL)
                    continue
                self.given += 1
                return {"trial": trial_of(name, f"{self.given:0{len(str(trials))}d}", assignments)}
            raise BukvaError(
                f"{MAX_INVALID} combinations in a row were invalid. Remove values that exclude each other."
            )

        def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
            """Report the end of a trial to Optuna, without the score of a trial that was stopped early."""
            super().on_trial_complete(trial_id, result if result and result.get("finished") else None, error)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", "The reported value is ignored")  # a resumed trial reports its curve again
    sampler = optuna.samplers.TPESampler(seed=int(digest(name)[:DIGITS], 16), constant_liar=True)
    suggest = functools.partial(_suggest, space)  # not a lambda, because Tune pickles it
    return Search(suggest, metric="val", mode="min", sampler=sampler)


def pruning_rule(training: Training) -> "TrialScheduler":
    """Return Ray Tune's scheduler for successive halving, which stops trials that fall behind."""
    from ray.tune.schedulers import ASHAScheduler

    # Tune stops a trial at step max_t. This must not happen at the last step, because stage evaluate is still to run.
    max_t, first = training.n_steps + 1, _first_rung(training)
    return ASHAScheduler("step", "val", "min", max_t=max_t, grace_period=first, reduction_factor=REDUCTION_FACTOR)


def _first_rung(training: Training) -> int:
    """Return the step at which trials are first compared (the first rung of successive halving)."""
    return training.n_steps // REDUCTION_FACTOR**RUNGS + 1
