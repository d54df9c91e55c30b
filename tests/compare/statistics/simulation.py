"""Simulated comparisons whose truth is known: how often are the verdicts wrong, how often do they find a difference?

Prints the tables of docs/comparing-method.md: PYTHONPATH=src python -m tests.compare.statistics.simulation [draws]

Effects of works have Student's t with 3 degrees of freedom, whose tails are as heavy as those of real works. All rates
are in per cent of the draws, each of which goes through the functions that a comparison calls.
"""

import itertools
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from bukva.compare.statistics.estimate import Floor
from bukva.compare.statistics.settings import SeedSums, compare_settings, correct
from bukva.compare.statistics.text import Units, compare_text, over_text

# Test characters of the works of data/sample under split tail 0.9/0.05/0.05, rules notes; worth 33.9 equal works.
# fmt: off
EMBEDDED = np.array([
    580, 520, 680, 684, 271, 276, 246, 231, 662, 571, 558, 570, 528, 552, 539, 685, 541, 567, 566, 579, 224, 234, 224,
    217, 211, 212, 229, 221, 485, 483, 492, 487, 482, 477, 459, 453, 471, 463,
])
# fmt: on
# The same of RusLit's 373 works; worth 61.8.
RUSLIT = np.array(Path(__file__).with_name("ruslit_test_chars.txt").read_text(encoding="utf-8").split(), np.int64)

SEED_SD = 0.010  # bits per character, of one training
OWN_SHARE = 0.13  # of the variance between seeds that is a work's own; the rest moves all works alike
TEXT_SE = 0.0055  # bits per character, of the difference over the text
BITS = 2.5  # per character
UNITS = Units.of(EMBEDDED)


def coverage(lengths, n_works, draws):
    """Per cent of the 95 % intervals that contain the true difference, and per cent that lie below and above it."""
    rng = np.random.default_rng(1)
    signs = Counter()
    for _ in range(draws):
        units = Units.works(rng.choice(lengths, n_works, replace=False))
        signs[over_text(units.chars * _heavy(rng, n_works), units).sign] += 1
    return [100 * signs[sign] / draws for sign in (0, -1, 1)]


def found_on_the_text(difference, draws):
    """Per cent of draws in which the second line says "better" of one model each, embedded lengths."""
    rng = np.random.default_rng(1)
    sides = ((UNITS.chars * BITS, UNITS.chars * (BITS + difference + _of_text(rng))) for _ in range(draws))
    return 100 * sum(compare_text(*sums, UNITS).verdict == "better" for sums in sides) / draws


def verdicts_on_settings(
    k, draws, *, difference=0.0, sd=(SEED_SD, SEED_SD), text_se=TEXT_SE, pairable=False, floor=None
):
    """Per cent of draws in which the first line says each word, embedded lengths.

    Args:
        k: seeds of each side, or a pair of numbers.
        difference: the true one, B minus A.
        sd: of one training of A, and of B.
        text_se: standard error of the difference over the text; 0 where A and B are the same setting.
        pairable: whether both sides have the same seeds; they are drawn independently, so pairing gains nothing.
        floor: the number of seeds of A that the noise floor was measured on.
    """
    rng = np.random.default_rng(1)
    k_a, k_b = k if isinstance(k, tuple) else (k, k)
    verdicts = Counter()
    for _ in range(draws):
        a = _side(rng, k_a, sd[0], 0.0)
        b = _side(rng, k_b, sd[1], difference + _of_text(rng, text_se))
        measured = Floor.of(rng.normal(0, sd[0], floor)) if floor else None
        verdicts[compare_settings(a, b, UNITS, measured, pairable).verdict] += 1
    return {verdict: 100 * n / draws for verdict, n in verdicts.items()}


def false_while_adding_seeds(looks, draws, *, pairable=True, text_se=TEXT_SE):
    """Per cent of draws in which equal settings are called better or worse at one look at least.

    looks: the numbers of seeds a side at which somebody looks, ascending; the text and the first seeds stay the same.
    """
    rng = np.random.default_rng(1)
    n = 0
    for _ in range(draws):
        a, b = (_side(rng, looks[-1], SEED_SD, effect) for effect in (0.0, _of_text(rng, text_se)))
        seen = (compare_settings(a.only(range(k)), b.only(range(k)), UNITS, None, pairable).verdict for k in looks)
        n += any(verdict in ("better", "worse") for verdict in seen)
    return 100 * n / draws


def sweeps_with_a_false_better(m, k, draws, *, pairable=True, corrected=True, text_se=TEXT_SE):
    """Per cent of sweeps of m experiments, none better than the one baseline, in which one is called better."""
    rng = np.random.default_rng(1)
    n = 0
    for _ in range(draws):
        baseline = _side(rng, k, SEED_SD, 0.0)
        others = (_side(rng, k, SEED_SD, _of_text(rng, text_se)) for _ in range(m))
        verdicts = [compare_settings(baseline, other, UNITS, None, pairable) for other in others]
        n += any(verdict.verdict == "better" for verdict in (correct(verdicts) if corrected else verdicts))
    return 100 * n / draws


def false(rates):
    """Per cent of draws with any word that claims a direction."""
    return sum(rate for verdict, rate in rates.items() if verdict.endswith(("better", "worse")))


def _heavy(rng, *shape):
    """Deviates of Student's t with 3 degrees of freedom, scaled to a standard deviation of 1."""
    return rng.standard_t(3, shape) / 3**0.5


def _of_text(rng, se=TEXT_SE):
    """(G,) effects of the works in bits per character, which give the difference this standard error."""
    return se * UNITS.effective**0.5 * _heavy(rng, len(UNITS))


def _side(rng, k, sd, effect):
    """k trainings whose scores have this standard deviation; effect: a number or (G,), in bits per character."""
    common = rng.normal(0, sd * (1 - OWN_SHARE) ** 0.5, (k, 1))
    own = rng.normal(0, sd * (OWN_SHARE * UNITS.effective) ** 0.5, (k, len(UNITS)))
    return SeedSums(tuple(range(k)), UNITS.chars * (BITS + effect + common + own))


def print_tables(draws):
    """The tables of docs/comparing-method.md."""
    print(f"{draws} draws\n\ncoverage of 95 % intervals over the text, embedded and RusLit lengths")
    for lengths, n_works in [(EMBEDDED, 12), (EMBEDDED, 38), (RUSLIT, 38), (RUSLIT, 373)]:
        print(f"{len(lengths)}: {n_works} works", *(f"{rate:.1f}" for rate in coverage(lengths, n_works, draws)))
    print(f"\n-0.02 found on the text: {found_on_the_text(-0.02, draws):.1f}")
    print("\nfalse words on settings: k, seed sd of A and B, text se, paired, floor")
    equal, wide = (SEED_SD, SEED_SD), (SEED_SD, 2 * SEED_SD)
    for k, sd, text_se, pairable, floor in [
        *((k, sd, text_se, pairable, None) for sd, text_se in ((equal, TEXT_SE), (wide, TEXT_SE), (equal, 0.0))
          for pairable in (True, False) for k in (3, 5)),
        *(((3, k), equal, TEXT_SE, False, None) for k in (5, 10)),
        *((k, equal, TEXT_SE, False, 5) for k in (1, (1, 5), (5, 1), 2)),
        *((k, wide, TEXT_SE, False, 5) for k in (1, (5, 1), 2)),
        (1, equal, 0.0, False, 5),
    ]:  # fmt: skip
        rates = verdicts_on_settings(k, draws, sd=sd, text_se=text_se, pairable=pairable, floor=floor)
        print(k, sd, text_se, pairable, floor, f"{false(rates):.1f}", rates)
    print("\nfound on settings: difference, k, seed sd, paired, floor")
    for difference, k, sd, pairable, floor in [
        (-0.03, 3, 0.005 / 2**0.5, True, None), (-0.03, 3, 0.005, True, None), (-0.03, 3, SEED_SD, False, None),
        (-0.03, 5, SEED_SD, False, None), (-0.05, 3, SEED_SD, False, None), (-0.05, 1, SEED_SD, False, 5),
        (-0.10, 1, SEED_SD, False, 5), (-0.10, 1, SEED_SD, False, 21), (0.0, 10, 0.002, True, None),
    ]:  # fmt: skip
        rates = verdicts_on_settings(k, draws, difference=difference, sd=(sd, sd), pairable=pairable, floor=floor)
        print(difference, k, sd, pairable, floor, rates)
    print("\nfalse while seeds are added: looks, text se, paired")
    for looks in [(3,), (5,), (10,), (3, 5), (3, 10), tuple(range(3, 11)), tuple(range(5, 11))]:
        for text_se, pairable in itertools.product((TEXT_SE, 0.0), (True, False)):
            rate = false_while_adding_seeds(looks, draws, pairable=pairable, text_se=text_se)
            print(looks, text_se, pairable, f"{rate:.1f}")
    print("\nsweeps of 12 with a false better: k, text se, paired, Holm")
    for k, text_se, pairable, corrected in [
        (3, TEXT_SE, True, True), (3, TEXT_SE, False, True), (3, TEXT_SE, True, False),
        (3, 0.0, True, True), (5, 0.0, True, True), (3, 0.0, False, True),
    ]:  # fmt: skip
        rate = sweeps_with_a_false_better(12, k, draws, pairable=pairable, corrected=corrected, text_se=text_se)
        print(k, text_se, pairable, corrected, f"{rate:.1f}")


if __name__ == "__main__":
    print_tables(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
