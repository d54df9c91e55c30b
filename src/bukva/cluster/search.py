"""Search: Optuna chooses settings, and stops trials that fall behind.

TPE (Bergstra et al. 2011) proposes settings that are likelier among the better trials than among the others. Successive
halving (Jamieson and Talwalkar 2016; Li et al. 2020 for the asynchronous form) keeps, at 1/9 and at 1/3 of the updates,
a trial only if it is among the better third of those that came so far. Both read the same number, bits per character on
val.

A trial that is pruned ends as one that was interrupted does: its checkpoint stays, and DVC records no result. A shorter
training that ends well would enter the run cache as the answer for its settings.

The study is in a file, .bukva/cluster/<search>/study.log, which only the driver writes.
"""

import json
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from bukva.cluster.board import Entry, folder_of
from bukva.cluster.driver import Place
from bukva.cluster.origin import read_result
from bukva.cluster.space import Space, settings_of
from bukva.cluster.trials import Trial, check, digest
from bukva.config.schema import Training
from bukva.core.errors import BukvaError
from bukva.project.stages import paths, trained_models

if TYPE_CHECKING:
    import optuna

MODEL, SPLIT = "gpt", "val"
KEEP_ONE_IN = 3
RUNGS = 2  # at which trials are compared while they run
MOST_INVALID = 100  # combinations in a row
NAME = "name"  # of a trial, among Optuna's user attributes


class Search:
    """The guide of a driver (driver.py).

    Args:
        name: of the search.
        commit: from which all trials start.
        space: what may be chosen.
        n_trials: how many trials there are to be.
        training: the section of the model.
        prune: whether to stop trials that fall behind.
        place: where results go.
    """

    def __init__(
        self, name: str, commit: str, space: Space, n_trials: int, training: Training, prune: bool, place: Place
    ) -> None:
        self._name, self._commit, self._space, self._n_trials, self._place = name, commit, space, n_trials, place
        self._study = open_study(name, training, prune)
        self._running = {
            str(each.user_attrs[NAME]): self._trial(each)
            for each in self._study.get_trials(deepcopy=False)
            if not each.state.is_finished() and NAME in each.user_attrs
        }
        self._reported = defaultdict[str, set[int]](set)  # steps of each trial that Optuna has
        for each in self._study.get_trials(deepcopy=False):
            self._reported[each.user_attrs.get(NAME, "")] |= set(each.intermediate_values)

    def known(self) -> tuple[Trial, ...]:
        """The trials that earlier drivers of this search have asked for, those that ended included."""
        return tuple(
            Trial(each.user_attrs[NAME], tuple(each.user_attrs["settings"]))
            for each in self._study.get_trials(deepcopy=False)
            if NAME in each.user_attrs
        )

    def next(self) -> Trial | None:
        """One more trial with valid settings."""
        for _ in range(MOST_INVALID):
            if len(self.known()) >= self._n_trials:
                return None
            chosen = self._study.ask()
            settings = settings_of(self._space, chosen)
            try:
                check([settings])
            except BukvaError:  # such as a width that the number of heads does not divide
                self._study.tell(chosen, state=_states().FAIL)
                continue
            digits = len(str(self._n_trials))
            name = f"{self._name}-{len(self.known()) + 1:0{digits}d}-{digest(*settings)}"
            chosen.set_user_attr("settings", list(settings))
            chosen.set_user_attr(NAME, name)
            self._running[name] = chosen
            return Trial(name, settings)
        raise BukvaError(f"{MOST_INVALID} combinations in a row were invalid; make the space smaller.")

    def is_hopeless(self, name: str, entry: Entry) -> bool:
        """Whether a trial has fallen behind the others at the same step."""
        trial, now = self._running.get(name), entry.progress
        if trial is None or now.stage != trained_models()[MODEL].stage or now.best is None:
            return False
        if now.step not in self._reported[name]:  # a training that resumes tells its curve again
            trial.report(now.best, now.step)
            self._reported[name].add(now.step)
        return now.step < now.n_steps and trial.should_prune()

    def ended(self, name: str, entry: Entry) -> None:
        """Tell Optuna."""
        trial = self._running.pop(name, None)
        if trial is None:  # told before
            return
        if entry.state == "finished":
            self._study.tell(trial, self.score(name))
        else:
            self._study.tell(trial, state=_states().PRUNED if entry.state == "pruned" else _states().FAIL)

    def score(self, name: str) -> float:
        """Bits per character on val of a trial that finished."""
        text = read_result(self._place.project, self._place.origin, self._commit, name, paths()["metrics"])
        return float(json.loads(text)[MODEL][SPLIT])

    def best(self) -> Trial | None:
        """The best of the trials that finished."""
        done = [each for each in self._study.get_trials(deepcopy=False) if each.state == _states().COMPLETE]
        best = min(done, key=lambda each: each.value if each.value is not None else math.inf, default=None)
        return Trial(best.user_attrs[NAME], tuple(best.user_attrs["settings"])) if best else None

    def _trial(self, frozen: "optuna.trial.FrozenTrial") -> "optuna.Trial":
        import optuna

        return optuna.Trial(self._study, frozen._trial_id)  # as Optuna's own retries do


def open_study(name: str, training: Training, prune: bool) -> "optuna.Study":
    """The study of a search, new or known.

    Raises:
        BukvaError: Optuna is not installed, or val is scored at the end only, so that nothing can be pruned.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise BukvaError("search: Optuna is not installed; run: pip install -r cluster.lock.") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    first = -(-training.n_steps // KEEP_ONE_IN**RUNGS)
    if prune and training.eval_every > training.n_steps // KEEP_ONE_IN:
        raise BukvaError(
            f"train_gpt.eval_every: {training.eval_every} of {training.n_steps} updates is too rare to compare trials "
            f"while they run; use {first} or less, or --no-prune."
        )
    folder = folder_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    pruner = (
        optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=KEEP_ONE_IN)
        if prune
        else optuna.pruners.NopPruner()
    )
    storage = JournalStorage(JournalFileBackend(str(folder / "study.log")))
    study = optuna.create_study(study_name=name, storage=storage, pruner=pruner, load_if_exists=True)
    seed = int(digest(name, str(len(study.get_trials(deepcopy=False)))), 16)  # one that goes on must not begin again
    study.sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return study


def _states() -> "type[optuna.trial.TrialState]":
    from optuna.trial import TrialState

    return TrialState
