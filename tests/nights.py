"""Simulated nights of tries: how many keeps are false, how many gains are found, and what it costs.

As a script it prints the table of docs/research.md: PYTHONPATH=src:tests python tests/nights.py [NIGHTS]
"""

import heapq
import sys
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import ndtr

from bukva.compare.statistics.estimate import Estimate, Floor, pool
from bukva.compare.statistics.judging import GIVEN_UP, N_SEEDS, look, next_level
from bukva.compare.statistics.settings import MATTERS

SEED_SD, TEXT_SD, TEXT_DF = 0.010, 0.004, 30  # bits per character, as on the embedded corpus
TRIES = 60


@dataclass(frozen=True)
class Kind:
    """What the tries of a night are: a share of them gains some bits, and the others nothing."""

    share: float = 0.0
    gain: float = 0.0
    scatter: float = 1.0  # of a try's seeds, by that of the baseline
    tail_df: int = 0  # degrees of freedom of Student's t, from which the luck of all seeds is drawn; 0: normal
    known_df: int = 0  # degrees of freedom of the noise floor of other experiments
    failing: float = 0.0  # chance after each look that the next seeds cannot be trained, so that the try is given up
    patience: float = 1.0  # a try is given up if its p-value after four seeds is higher

    def draw_gain(self, rng):
        return self.gain if rng.random() < self.share else 0.0

    def luck(self, rng, n):
        """Draw what n seeds add to the mean score, with standard deviation SEED_SD."""
        if not self.tail_df:
            return rng.normal(0, SEED_SD, n)
        return rng.standard_t(self.tail_df, n) * SEED_SD / (self.tail_df / (self.tail_df - 2)) ** 0.5


@dataclass
class Night:
    """Outcome of one night, or its mean over many."""

    false: float = 0
    true: float = 0
    gains: float = 0
    trainings: float = 0
    duration: float = 0  # of all tries, in trainings
    selection_bias: float = 0.0  # part of the winner's gain on val, in bits, that does not exist on other texts

    def count(self, gain, is_kept, trainings):
        self.true += is_kept and gain > 0
        self.false += is_kept and gain <= 0
        self.trainings += trainings


def draw_text(rng):
    return rng.normal(0, TEXT_SD / 2**0.5)


@dataclass
class Open:
    """A try without a verdict: its true gain, the scores of all seeds, the luck of its text, and where it began."""

    gain: float
    seeds: np.ndarray
    text: float
    baseline_gain: float  # true gain of the baseline from which it began
    baseline_score: float  # and the score of this baseline
    n_looks: int = 0


def judged(rng, kind, level=0.1, in_flight=1):
    """A night of `bukva judge`, in which `in_flight` tries are open at the same time, each of which trains one seed.

    A try is compared with the baseline of the moment. One that another keep has overtaken, and that looked better than
    the baseline from which it began, is tried again on the new one.
    """
    night, now = Night(trainings=N_SEEDS[-1]), 0
    baseline, text, baseline_gain = kind.luck(rng, N_SEEDS[-1]), draw_text(rng), 0.0
    floor, ps, kept = Floor.of(baseline), [], []
    if kind.known_df:
        floor = pool([floor, Floor(SEED_SD * (rng.chisquare(kind.known_df) / kind.known_df) ** 0.5, kind.known_df)])
    queue, again, n_begun, n_fresh = [], [], 0, 0
    while queue or again or n_fresh < TRIES:
        if len(queue) < in_flight and (again or n_fresh < TRIES):
            if again:
                gain = again.pop(0)
            else:
                gain, n_fresh = kind.draw_gain(rng), n_fresh + 1
                night.gains += gain > 0
            seeds, own_text = kind.luck(rng, N_SEEDS[-1]) * kind.scatter - baseline_gain - gain, draw_text(rng)
            begun = Open(baseline_gain + gain, seeds, own_text, baseline_gain, baseline.mean() + text)
            heapq.heappush(queue, (now + N_SEEDS[0], n_begun, begun))
            n_begun += 1
            continue
        now, number, tried = heapq.heappop(queue)
        n = N_SEEDS[tried.n_looks]
        score = tried.seeds[:n].mean() + tried.text
        estimate = Estimate(score - baseline.mean() - text, TEXT_SD, TEXT_DF)
        seen = look(estimate, baseline, tried.seeds[:n], floor, next_level(ps, kept, level))
        gives_up = rng.random() < kind.failing or (n == 4 and seen.p > kind.patience)
        if seen.decision == "more seeds" and not gives_up:
            tried.n_looks += 1
            heapq.heappush(queue, (now + N_SEEDS[tried.n_looks] - n, number, tried))
            continue
        is_kept = seen.decision == "keep"
        kept.append(is_kept)
        night.count(tried.gain - baseline_gain, is_kept, n)
        if seen.decision == "more seeds":  # the try was given up, so the ledger has none of its scores
            ps.append(GIVEN_UP)
            continue
        ps.append(seen.p)
        floor = pool([floor, Floor.of(tried.seeds[:n])])
        if not is_kept and tried.baseline_gain != baseline_gain and score < tried.baseline_score - MATTERS:
            again.append(tried.gain - tried.baseline_gain)
        if is_kept:
            baseline, text, baseline_gain = tried.seeds, tried.text, tried.gain
    night.duration = now
    night.selection_bias = -text
    return night


def fixed(rng, kind, level, n):
    """A night that tests each try at the same level, with n seeds and the known scatter."""
    night, text = Night(trainings=n), draw_text(rng)
    mean = text + kind.luck(rng, n).mean()
    for _ in range(TRIES):
        gain, own_text = kind.draw_gain(rng), draw_text(rng)
        score = own_text + kind.luck(rng, n).mean() * kind.scatter - gain
        is_kept = ndtr((score - mean) / (2 * SEED_SD**2 / n + TEXT_SD**2) ** 0.5) < level
        night.gains += gain > 0
        night.count(gain, is_kept, n)
        if is_kept:
            mean, text = score + gain, own_text
    night.selection_bias = -text
    return night


METHODS = {
    "greedy, one seed": lambda rng, kind: fixed(rng, kind, 0.5, 1),
    "each at 5 %, three seeds": lambda rng, kind: fixed(rng, kind, 0.05, 3),
    "judge": judged,
    "judge, 8 tries at a time": lambda rng, kind: judged(rng, kind, in_flight=8),
    "judge at 5 %": lambda rng, kind: judged(rng, kind, 0.05),
}
KINDS = {
    "all equal": Kind(),
    "1 in 10 gains 0.02 bits": Kind(0.1, 0.02),
    "1 in 10 gains 0.03 bits": Kind(0.1, 0.03),
    "1 in 10 gains 0.03 bits, noise floor known": Kind(0.1, 0.03, known_df=64),
    "1 in 10 gains 0.05 bits": Kind(0.1, 0.05),
    "all equal, seed deviation twice as large": Kind(scatter=2.0),
    "all equal, seed deviation twice as large, noise floor known": Kind(scatter=2.0, known_df=64),
    "all equal, seed deviation three times as large, noise floor known": Kind(scatter=3.0, known_df=64),
    "all equal, heavy tails": Kind(tail_df=4),
    "all equal, heavy tails, noise floor known": Kind(tail_df=4, known_df=64),
    "1 in 10 gains 0.03 bits, some given up after a failure": Kind(0.1, 0.03, failing=0.05),
    "all equal, given up if p is above 0.08 after four seeds": Kind(patience=0.08),
}


def summary(method, kind, n_nights):
    """Return shares over many nights, which are the same at every call, and the standard error of the false keeps."""
    rng = np.random.default_rng(7)
    nights = [METHODS[method](rng, KINDS[kind]) for _ in range(n_nights)]
    of = {each.name: np.array([getattr(night, each.name) for night in nights]) for each in fields(Night)}
    false_keeps = of["false"] / np.maximum(1, of["false"] + of["true"])
    return {
        "false_nights": np.mean(of["false"] > 0),
        "false_keeps": false_keeps.mean(),
        "error": false_keeps.std() / n_nights**0.5,
        "found": of["true"].sum() / max(1, of["gains"].sum()),
        "trainings": of["trainings"].mean(),
        "duration": of["duration"].mean(),
        "selection_bias": of["selection_bias"].mean(),
    }


if __name__ == "__main__":
    print(
        "| tries | method | nights with a false keep | false keeps among all keeps | true gains that were kept | "
        "trainings per night | selection bias, bits |"
    )
    for kind in KINDS:
        for method in METHODS:
            found = summary(method, kind, int(sys.argv[1]) if sys.argv[1:] else 1000)
            cells = "{false_nights:.1%} | {false_keeps:.1%} +- {error:.1%} | {found:.1%} | {trainings:.0f} | "
            print(f"| {kind} | {method} | {cells.format(**found)}{found['selection_bias']:.4f} |", flush=True)
