"""Simulated nights of tries: how many keeps are false, how many gains are found, and what it costs.

As a script it prints the table of docs/research.md:

    PYTHONPATH=src:tests python tests/nights.py [NIGHTS]
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bukva.compare.statistics.estimate import Estimate, Floor
from bukva.compare.statistics.judging import LOOKS, decide, next_level, noise_floor

SEED_SD, TEXT_SD, TEXT_DF = 0.010, 0.004, 30  # bits per character, as on the embedded corpus
TRIES = 60


@dataclass(frozen=True)
class Kind:
    """What the tries of a night are: a share of them gains some bits, and the others nothing."""

    share: float
    gain: float
    scatter: float = 1.0  # of a try's seeds, by that of the baseline
    tail_df: int = 0  # degrees of freedom of Student's t, from which the luck of all seeds is drawn; 0: normal

    def luck(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draw what n seeds add to the mean score, with standard deviation SEED_SD."""
        if not self.tail_df:
            return rng.normal(0, SEED_SD, n)
        return rng.standard_t(self.tail_df, n) * SEED_SD / (self.tail_df / (self.tail_df - 2)) ** 0.5


@dataclass
class Night:
    """Outcome of one night.

    selection_bias: part of the winner's gain on val, in bits per character, that does not exist on other texts.
    """

    false: int = 0
    true: int = 0
    gains: int = 0
    trainings: int = 0
    selection_bias: float = 0.0


def judged(rng: np.random.Generator, kind: Kind, level: float = 0.1) -> Night:
    """A night of `bukva judge`."""
    night, floor = Night(trainings=LOOKS[-1]), Floor(0.0, 0)
    baseline, text = kind.luck(rng, LOOKS[-1]), rng.normal(0, TEXT_SD / 2**0.5)
    groups, ps, kept = [baseline], [], []
    for _ in range(TRIES):
        gain = kind.gain if rng.random() < kind.share else 0.0
        seeds, own_text = kind.luck(rng, LOOKS[-1]) * kind.scatter - gain, rng.normal(0, TEXT_SD / 2**0.5)
        differences = {n: seeds[:n].mean() + own_text - baseline.mean() - text for n in LOOKS}
        measured = [(Estimate(differences[n], TEXT_SD, TEXT_DF), seeds[:n]) for n in LOOKS]
        seen = decide(measured, baseline, noise_floor(groups, floor), next_level(ps, kept, level))
        n, is_kept = seen.n_seeds, seen.decision == "keep"
        ps.append(seen.p)
        kept.append(is_kept)
        groups.append(seeds[:n])
        night.gains += gain > 0
        night.true += is_kept and gain > 0
        night.false += is_kept and gain == 0
        night.trainings += n
        if is_kept:  # it becomes the baseline, with all its seeds; gains are measured from it
            night.trainings += LOOKS[-1] - n
            groups[-1] = seeds
            baseline, text = seeds + gain, own_text
    night.selection_bias = -text
    return night


def greedy(rng: np.random.Generator, kind: Kind) -> Night:
    """A night that keeps what scored better, with one seed."""
    night, text = Night(trainings=1), rng.normal(0, TEXT_SD / 2**0.5)
    best = text + float(kind.luck(rng, 1)[0])
    for _ in range(TRIES):
        gain = kind.gain if rng.random() < kind.share else 0.0
        own_text = rng.normal(0, TEXT_SD / 2**0.5)
        score = own_text + float(kind.luck(rng, 1)[0]) * kind.scatter - gain
        night.gains += gain > 0
        night.trainings += 1
        if score < best:
            night.true += gain > 0
            night.false += gain == 0
            best, text = score + gain, own_text
    night.selection_bias = -text
    return night


def fixed(rng: np.random.Generator, kind: Kind, level: float = 0.05, n: int = 3) -> Night:
    """A night that tests each try at the same level, with three seeds and the known scatter."""
    from scipy.special import ndtr

    night, text = Night(trainings=n), rng.normal(0, TEXT_SD / 2**0.5)
    mean = text + float(kind.luck(rng, n).mean())
    for _ in range(TRIES):
        gain = kind.gain if rng.random() < kind.share else 0.0
        own_text = rng.normal(0, TEXT_SD / 2**0.5)
        score = own_text + float(kind.luck(rng, n).mean()) * kind.scatter - gain
        night.gains += gain > 0
        night.trainings += n
        if ndtr((score - mean) / (2 * SEED_SD**2 / n + TEXT_SD**2) ** 0.5) < level:
            night.true += gain > 0
            night.false += gain == 0
            mean, text = score + gain, own_text
    night.selection_bias = -text
    return night


METHODS: dict[str, Callable[[np.random.Generator, Kind], Night]] = {
    "greedy, one seed": greedy,
    "each at 5 %, three seeds": fixed,
    "judge": judged,
    "judge at 5 %": lambda rng, kind: judged(rng, kind, 0.05),
}
KINDS = {
    "all equal": Kind(0.0, 0.0),
    "1 in 10 gains 0.02 bits": Kind(0.1, 0.02),
    "1 in 10 gains 0.05 bits": Kind(0.1, 0.05),
    "all equal, seed deviation 1.5 times as large": Kind(0.0, 0.0, 1.5),
    "all equal, seed deviation twice as large": Kind(0.0, 0.0, 2.0),
    "all equal, heavy tails": Kind(0.0, 0.0, tail_df=4),
    "1 in 10 gains 0.03 bits": Kind(0.1, 0.03),
}


@dataclass(frozen=True)
class Summary:
    """Shares over many nights, and the standard error of the first two."""

    false_nights: float
    false_keeps: float
    found: float
    trainings: float
    error: float
    selection_bias: float


def summary(method: str, kind: str, n_nights: int) -> Summary:
    """Simulate many nights; the same nights at every call."""
    rng = np.random.default_rng(7)
    nights = [METHODS[method](rng, KINDS[kind]) for _ in range(n_nights)]
    false_keeps = [night.false / max(1, night.false + night.true) for night in nights]
    false_nights = float(np.mean([night.false > 0 for night in nights]))
    return Summary(
        false_nights,
        float(np.mean(false_keeps)),
        sum(night.true for night in nights) / max(1, sum(night.gains for night in nights)),
        float(np.mean([night.trainings for night in nights])),
        float(np.std(false_keeps) / n_nights**0.5),
        float(np.mean([night.selection_bias for night in nights])),
    )


def main() -> None:
    """Print the table."""
    n_nights = int(sys.argv[1]) if sys.argv[1:] else 1000
    columns = (
        "tries", "method", "nights with a false keep", "false keeps among all keeps", "true gains that were kept",
        "trainings per night", "selection bias, bits",
    )  # fmt: skip
    sys.stdout.write(f"| {' | '.join(columns)} |\n")
    for kind in KINDS:
        for method in METHODS:
            found = summary(method, kind, n_nights)
            cells = f"{found.false_nights:.1%} | {found.false_keeps:.1%} +- {found.error:.1%} | {found.found:.1%}"
            sys.stdout.write(f"| {kind} | {method} | {cells} | {found.trainings:.0f} | {found.selection_bias:.4f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
