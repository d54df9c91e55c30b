"""Time budgets: the GPT that this machine trains in so many minutes, as numbers for params.yaml.

Stages know steps only. Here the sizes of a ladder are measured by a few updates each, on the text as it is split, and
a budget in seconds becomes a size, a batch and a number of steps. Sources: Hoffmann et al. 2022, "Training
compute-optimal large language models" (about 20 tokens for each parameter); Muennighoff et al. 2023, "Scaling
data-constrained language models" (text read up to four times is nearly as good as new text).
"""

import io
import itertools
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.table import Table
from ruamel.yaml import YAML

from bukva.base.errors import BukvaError
from bukva.base.files import write_text
from bukva.base.ids import Ids
from bukva.base.progress import duration, quantity
from bukva.config.load import PARAMS, parse_params, read_yaml
from bukva.config.schema import Params
from bukva.corpus.splits import check_lengths, load_splits
from bukva.models.gpt import GPTConfig
from bukva.pipeline.dvc import paths
from bukva.tokenizers.char import CharTokenizer
from bukva.training.device import Machine, prepare
from bukva.training.fit import fit
from bukva.training.run import start
from bukva.training.state import Progress

UNITS = {"h": 3600, "min": 60, "s": 1}  # seconds
BUDGET = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS))
GOOD_BUDGETS = "90s, 10min, 1h30min or 2h would do."
LONGEST = 30 * 24 * 3600  # seconds

HEAD_SIZE = 32
CHARS_PER_PARAMETER = 20  # the least that a size is proposed with
EPOCHS = 4  # more of them are warned of
RESERVE = 0.05  # share of the budget kept for what is not measured: files, the tracker, a machine that slows down
SCORINGS = 10  # beside the one before the first update
SCORING_SHARE = 0.2  # of the time, at most; where val is large there are fewer scorings
WARMUP_SHARE, LEAST_WARMUP = 0.02, 10  # of n_steps; updates
LEAST_STEPS = 200  # the batch is halved rather than make fewer updates
OWN_BATCH_CHANNELS = 128  # up to here batch_size stays as it is; it doubles whenever n_embd does

WARM_UP, LEAST_UPDATES, LEAST_SECONDS = 2, 3, 1.0  # of a measurement
SCORED_CHARS = 2**14  # of val, to measure scoring
MANY = 10**9  # more updates than a measurement makes

Values = dict[str, dict[str, Any]]  # section -> key -> value
Change = tuple[str, Any, Any]  # section.key, the value it has, the value it gets


@dataclass(frozen=True)
class Size:
    """A rung of the ladder."""

    n_layer: int
    n_embd: int

    @property
    def n_head(self) -> int:
        """As many heads as make HEAD_SIZE channels each."""
        return self.n_embd // HEAD_SIZE


LADDER = [Size(2, 64), Size(3, 96), Size(4, 128), Size(4, 192), Size(6, 256), Size(6, 384), Size(8, 512), Size(12, 768)]


@dataclass(frozen=True)
class Speed:
    """What was measured of one size with one batch."""

    size: Size
    n_parameters: int
    batch_size: int  # windows
    chars_per_update: int
    seconds_per_update: float
    seconds_per_scoring: float  # of the whole val split

    @property
    def chars_per_second(self) -> float:
        """Characters learned from per second of updates."""
        return self.chars_per_update / self.seconds_per_update


@dataclass(frozen=True)
class Budget:
    """The time that stage train-gpt may take, what of it goes before the first update, and the text there is."""

    seconds: float
    startup_seconds: float
    train_chars: int


@dataclass(frozen=True)
class Plan:
    """What one size comes to within a budget."""

    speed: Speed
    budget: Budget
    n_scorings: int  # at most, beside the one before the first update
    n_steps: int

    @classmethod
    def of(cls, speed: Speed, budget: Budget) -> "Plan":
        """As many updates as the budget holds beside start-up, scorings and reserve; maybe none."""
        left = budget.seconds * (1 - RESERVE) - budget.startup_seconds
        affordable = int(left * SCORING_SHARE / speed.seconds_per_scoring) - 1
        n_scorings = max(1, min(SCORINGS, affordable))
        left -= (n_scorings + 1) * speed.seconds_per_scoring
        return cls(speed, budget, n_scorings, max(0, int(left / speed.seconds_per_update)))

    @property
    def eval_every(self) -> int:
        """Updates between scorings."""
        return max(1, math.ceil(self.n_steps / self.n_scorings))

    @property
    def warmup_steps(self) -> int:
        """Updates over which the learning rate rises."""
        return min(self.n_steps, max(LEAST_WARMUP, round(WARMUP_SHARE * self.n_steps)))

    @property
    def chars(self) -> int:
        """Characters learned from, those of later epochs again."""
        return self.n_steps * self.speed.chars_per_update

    @property
    def chars_per_parameter(self) -> float:
        """What the choice of a size goes by."""
        return self.chars / self.speed.n_parameters

    @property
    def is_enough(self) -> bool:
        """Whether the size sees enough text to be worth its parameters."""
        return self.chars_per_parameter >= CHARS_PER_PARAMETER

    @property
    def epochs(self) -> float:
        """How often the text of train is read."""
        return self.chars / self.budget.train_chars

    def seconds_for(self, n_steps: float) -> float:
        """The budget that so many updates of this size need."""
        scorings = (self.n_scorings + 1) * self.speed.seconds_per_scoring
        return (self.budget.startup_seconds + scorings + n_steps * self.speed.seconds_per_update) / (1 - RESERVE)

    def values(self) -> Values:
        """The numbers for params.yaml."""
        steps = {"n_steps": self.n_steps, "warmup_steps": self.warmup_steps, "eval_every": self.eval_every}
        return _values(self.speed.size, self.speed.batch_size, steps)


# ---- from a budget to a plan


def budget_seconds(text: str) -> float:
    """The seconds of a budget such as 90s, 10min, 1h30min or 2h.

    Raises:
        BukvaError: it is none, or not between 0 and 30 days.
    """
    found = BUDGET.fullmatch(text)
    if not text or found is None:
        raise BukvaError(f"BUDGET {text!r}: not a time with its unit (h, min, s); {GOOD_BUDGETS}")
    seconds = sum(float(number or 0) * size for number, size in zip(found.groups(), UNITS.values(), strict=True))
    if not 0 < seconds <= LONGEST:
        raise BukvaError(f"BUDGET {text!r}: not more than 0 and at most 30 days; {GOOD_BUDGETS}")
    return seconds


def climb(speed: Callable[[Size, int], Speed], params: Params, budget: Budget) -> Iterator[Plan]:
    """The plans of the sizes from the smallest up to the first that sees too little text, or that memory cannot hold.

    Args:
        speed: measures a size with a batch of so many windows.
        params: gives the batch of the small sizes, and the parts that a batch must be divisible into.
        budget: what the plans must fit.
    """
    parts = params.train_gpt.micro_batches * params.train_gpt.processes
    for size in LADDER:
        batch_size = params.train_gpt.batch_size * _doubled(size)
        try:
            plan = Plan.of(speed(size, batch_size), budget)
            while _too_few_steps(plan) and batch_size % (2 * parts) == 0:
                batch_size //= 2
                plan = Plan.of(speed(size, batch_size), budget)
        except torch.OutOfMemoryError:
            return
        yield plan
        if not plan.is_enough:
            return


def propose(plans: list[Plan]) -> Plan:
    """The largest size that sees enough text; the smallest if none does.

    Raises:
        BukvaError: there is no time for an update, or no memory; says what would do.
    """
    if not plans:
        raise BukvaError("Memory does not hold the smallest size; a smaller train_gpt.batch_size would do.")
    enough = [plan for plan in plans if plan.is_enough]
    chosen = max(enough or plans[:1], key=lambda plan: plan.speed.n_parameters)
    if not chosen.n_steps:
        needed = duration(math.ceil(chosen.seconds_for(LEAST_STEPS)))
        raise BukvaError(
            f"BUDGET {duration(chosen.budget.seconds)}: start-up and scoring leave no time for an update; "
            f"{needed} or more would do."
        )
    return chosen


def _doubled(size: Size) -> int:
    """How many times the batch of the small sizes this one gets."""
    return 1 << max(0, (size.n_embd // OWN_BATCH_CHANNELS).bit_length() - 1)


def _too_few_steps(plan: Plan) -> bool:
    """Whether a smaller batch should be tried, for a size that may be chosen."""
    return plan.n_steps < LEAST_STEPS and (plan.is_enough or plan.speed.size == LADDER[0])


# ---- measuring


@dataclass(frozen=True)
class Bench:
    """The text and the machine that sizes are measured on; `raw` is params.yaml."""

    raw: Values
    params: Params
    parts: dict[str, Ids]
    vocab_size: int
    machine: Machine

    @classmethod
    def of(cls, raw: Values) -> "Bench":
        """What stage train-gpt would train on, with these parameters, here.

        Raises:
            BukvaError: the text is not split yet, or too short for a window.
        """
        params = parse_params(raw, str(PARAMS))
        named = paths()
        parts = load_splits(Path(named["split"]))
        if not {"train", "val"} <= parts.keys():
            raise BukvaError(f"{named['split']}: the text is not split yet; `dvc repro split` would do.")
        check_lengths({part: len(ids) for part, ids in parts.items()}, params.model.block_size, "model.block_size")
        return cls(raw, params, parts, len(CharTokenizer.load(Path(named["vocab"]))), prepare(params.compute))

    def budget(self, seconds: float, started_at: float) -> Budget:
        """The limits of a budget. The start-up began at `started_at` and ends here, with one update of a small model.

        Args:
            seconds: of the budget.
            started_at: by time.perf_counter.
        """
        self._seconds(self._training(LADDER[0], self.params.train_gpt.batch_size)[1], 2)  # a scoring and an update
        return Budget(seconds, time.perf_counter() - started_at, len(self.parts["train"]))

    def speed(self, size: Size, batch_size: int) -> Speed:
        """Measure some updates, and the scoring before them.

        Raises:
            torch.OutOfMemoryError: a GPU's memory does not hold them.
        """
        config, updates = self._training(size, batch_size)
        scoring = self._seconds(updates, 1) / (len(self._sample()) - 1)
        self._seconds(updates, WARM_UP)
        n, seconds, more = 0, 0.0, LEAST_UPDATES
        while seconds < LEAST_SECONDS:  # in rounds, because to wait for a GPU after each update would slow it down
            seconds += self._seconds(updates, more)
            n, more = n + more, 2 * more
        return Speed(
            size=size,
            n_parameters=config.n_parameters,
            batch_size=batch_size,
            chars_per_update=batch_size * config.block_size,
            seconds_per_update=seconds / n,
            seconds_per_scoring=scoring * (len(self.parts["val"]) - 1),
        )

    def _training(self, size: Size, batch_size: int) -> tuple[GPTConfig, Iterator[Progress]]:
        """The shape, and a training that scores the sample of val once and then makes updates as they are asked for."""
        values = _values(size, batch_size, {"n_steps": MANY, "eval_every": MANY})
        params = parse_params(changed(self.raw, values), str(PARAMS))
        config = GPTConfig(vocab_size=self.vocab_size, **params.model.model_dump())
        state = start(config, params.train_gpt, self.machine)
        return config, fit(state, self.parts | {"val": self._sample()}, params.train_gpt, self.machine)

    def _sample(self) -> Ids:
        return self.parts["val"][: SCORED_CHARS + 1]

    def _seconds(self, updates: Iterator[Progress], n: int) -> float:
        """The seconds that the next n updates take."""
        started_at = time.perf_counter()
        for _ in itertools.islice(updates, n):
            pass
        if self.machine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started_at


# ---- params.yaml


def changed(raw: Values, values: Values) -> Values:
    """The sections with these values in them."""
    return raw | {section: raw[section] | keys for section, keys in values.items()}


def differences(raw: Values, values: Values) -> Iterator[Change]:
    """The values that are not those of the file."""
    for section, keys in values.items():
        for key, value in keys.items():
            if raw[section][key] != value:
                yield f"{section}.{key}", raw[section][key], value


def write(values: Values, path: Path = PARAMS) -> None:
    """Put the values into params.yaml; comments, order and all other values stay.

    Raises:
        BukvaError: the file would not be valid.
    """
    raw = read_yaml(path)
    parse_params(changed(raw, values), str(path))
    if not list(differences(raw, values)):
        return
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096  # lines stay lines
    content, text = yaml.load(path.read_text(encoding="utf-8")), io.StringIO()
    for section, keys in values.items():
        content[section].update(keys)
    yaml.dump(content, text)
    write_text(path, text.getvalue())


def _values(size: Size, batch_size: int, steps: dict[str, int]) -> Values:
    shape = {"n_layer": size.n_layer, "n_head": size.n_head, "n_embd": size.n_embd}
    return {"model": shape, "train_gpt": {"batch_size": batch_size} | steps}


# ---- telling


def told(plan: Plan) -> str:
    """One measured size, while the next is measured."""
    speed = plan.speed
    shape = f"{speed.size.n_layer} layers, {speed.size.n_embd} channels, {quantity(speed.n_parameters)} parameters"
    pace = f"{quantity(speed.chars_per_second)} chars/s, {plan.chars_per_parameter:.1f} characters per parameter"
    return f"plan: {shape} | {pace}"


def table(plans: list[Plan], chosen: Plan) -> Table:
    """The measured sizes, and what each comes to; the chosen one is marked."""
    budget = chosen.budget
    result = Table(
        title=f"What stage train-gpt comes to in {duration(budget.seconds)}",
        caption=f"the other stages' time comes on top; train has {quantity(budget.train_chars)} characters",
        box=box.SIMPLE_HEAD,
        collapse_padding=True,
        pad_edge=False,
    )
    names = "layers", "heads", "channels", "parameters", "chars/s", "steps", "chars", "chars per\nparameter", "epochs"
    for name in names:
        result.add_column(name, justify="right")
    for plan in plans:
        speed, mark = plan.speed, "> " if plan is chosen else ""
        result.add_row(
            f"{mark}{speed.size.n_layer}",
            str(speed.size.n_head),
            str(speed.size.n_embd),
            quantity(speed.n_parameters),
            quantity(speed.chars_per_second),
            str(plan.n_steps),
            quantity(plan.chars),
            f"{plan.chars_per_parameter:.1f}",
            f"{plan.epochs:.1f}",
            style="bold" if plan is chosen else None,
        )
    return result


def warnings(plan: Plan) -> Iterator[str]:
    """What speaks against a plan, each in a sentence with what would do."""
    if not plan.is_enough:
        enough = _time_for(plan, CHARS_PER_PARAMETER * plan.speed.n_parameters)
        yield (
            f"Warning: even the smallest size sees {plan.chars_per_parameter:.1f} characters per parameter, fewer than "
            f"{CHARS_PER_PARAMETER}; a budget of {enough} would do."
        )
    if plan.epochs > EPOCHS:
        fewer = _time_for(plan, EPOCHS * plan.budget.train_chars)
        yield (
            f"Warning: {plan.epochs:.1f} epochs; after {EPOCHS}, which take {fewer}, reading the text again teaches "
            "little and overfits: a larger text, model.dropout, more train_gpt.weight_decay, train_gpt.patience or a "
            "smaller budget would do."
        )


def _time_for(plan: Plan, chars: float) -> str:
    """The budget that so many characters need, for people."""
    return duration(math.ceil(plan.seconds_for(chars / plan.speed.chars_per_update)))


def changes_told(changes: list[Change]) -> list[str]:
    """The proposal as changes of params.yaml."""
    if not changes:
        return ["params.yaml has the proposed numbers already."]
    return [f"{key}: {old} -> {new}" for key, old, new in changes]


def experiment(changes: list[Change]) -> str:
    """The command that trains with these changes, and leaves params.yaml to the experiment."""
    return " ".join(["dvc exp run", *(f"-S {key}={new}" for key, _, new in changes)])
