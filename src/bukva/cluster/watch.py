"""The progress of a trial, from the journals that its stages write."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bukva.project.stages import trained_models
from bukva.text.ids import bits
from bukva.tracking.journal import Journal, read_journals

RETOLD_SECONDS = 1.0  # a training that resumes tells its former scorings at once
VAL, BEST, RATE = "val_nats_per_char", "best_val_nats_per_char", "chars_per_second"


@dataclass
class Progress:
    """What a trial does now.

    stage: that runs, or ran last.
    step, n_steps: of a training, in updates; 0 for other stages.
    val, best: bits per character on val in the last training; None before its first scoring.
    rate: characters per second of updates.
    """

    stage: str = ""
    step: int = 0
    n_steps: int = 0
    val: float | None = None
    best: float | None = None
    rate: float | None = None


def journals_of(name: str, commit: str) -> list[Journal]:
    """The journals of an experiment that started from this commit, in the order in which they began."""
    return [journal for journal in read_journals(name) if journal.start["commit"] == commit]


class Watch:
    """Reads the journals of an experiment while they grow.

    Args:
        name: of the experiment.
        commit: from which it started; DVC uses names again.
    """

    def __init__(self, name: str, commit: str) -> None:
        self._name, self._commit = name, commit
        self._offsets: dict[Path, int] = {}
        self._progress = self._said = Progress()
        self._training = ""  # the stage to which val belongs

    def news(self) -> list[Progress]:
        """What has changed since the last call: the progress at each scoring of val, and as it is now."""
        found = []
        for journal in journals_of(self._name, self._commit):
            if journal.folder not in self._offsets:
                self._begin(journal)
            records, self._offsets[journal.folder] = journal.read(self._offsets[journal.folder])
            for record in records if self._is_last_training(journal) else ():
                if record["record"] == "metrics":
                    self._take(record["step"], record["values"])
                    if VAL in record["values"]:
                        found.append(replace(self._progress))
        if self._progress != (found[-1] if found else self._said):
            found.append(replace(self._progress))
        self._said = found[-1] if found else self._said
        return found

    def _begin(self, journal: Journal) -> None:
        stage, self._offsets[journal.folder] = str(journal.start["stage"]), 0
        if journal.start["restored"]:
            return  # stage publish tells afterwards what DVC did not run
        self._progress.stage, self._progress.step, self._progress.n_steps = stage, 0, 0
        if journal.start["kind"] == "training":
            n_steps = int(journal.start["params"][f"{stage.replace('-', '_')}.n_steps"])
            self._progress = Progress(stage, n_steps=n_steps)

    def _is_last_training(self, journal: Journal) -> bool:
        """Whether it is of a training, and none of a later stage is known."""
        if journal.start["kind"] != "training":
            return False
        order = ["", *(model.stage for model in trained_models().values())]
        stage = str(journal.start["stage"])
        if order.index(stage) < order.index(self._training):
            return False
        self._training = stage
        return True

    def _take(self, step: int, values: dict[str, Any]) -> None:
        progress = self._progress
        progress.step = max(progress.step, step)
        progress.val = bits(values[VAL]) if VAL in values else progress.val
        progress.best = bits(values[BEST]) if BEST in values else progress.best
        progress.rate = values.get(RATE, progress.rate)


class Pace:
    """How long a training will still take, by its last two scorings."""

    def __init__(self) -> None:
        self._stage, self._step, self._at = "", 0, 0.0

    def left(self, now: Progress, at: float) -> float:
        """Seconds from now on; 0 as long as nobody can say.

        Args:
            now: its last progress.
            at: the time of this, in seconds.
        """
        steps, seconds = now.step - self._step, at - self._at
        known = self._stage == now.stage and steps > 0 and seconds >= RETOLD_SECONDS
        self._stage, self._step, self._at = now.stage, now.step, at
        return seconds / steps * (now.n_steps - now.step) if known else 0.0
