"""Rows of the race: how long ours and the plain recipe train to reach a loss."""

import dataclasses
from pathlib import Path

from bench.corpora import fetched
from bench.measure import Outcome, job
from bench.race_jobs import ORDERS
from bench.rows import Goal, Measured, Row, Side

TARGET = 1.898  # nats per character, the result of nanoGPT's recipe for a CPU (docs/dev/log.md)
A100 = 1.4697  # nats per character, the result of nanoGPT's recipe for a GPU: 10.65 M parameters, three minutes
SEEDS = (11, 12, 13, 14, 15)  # the recipes below were chosen with others


def race(scratch: Path) -> Measured:
    """The GPT with its memory."""
    return _against_plain(scratch, "race")


def network(scratch: Path) -> Measured:
    """The GPT without a memory."""
    return _against_plain(scratch, "network")


def counting(scratch: Path) -> Measured:
    """N-grams and no network."""
    raw = fetched(scratch, "tinyshakespeare")
    job("count", raw=raw)  # numba compiles once on a machine
    outcomes = [job("count", raw=raw) for _ in SEEDS]
    side, nats = Side.of(outcomes), outcomes[0].values["nats_per_char"]
    found = ", ".join(f"{value:.4f} (order {order})" for order, value in nats.items())
    return Measured(
        {"seconds": side.median, "loss": min(nats.values())},
        side,
        notes=(f"race-counting: {found} nats per character, all orders counted and scored at once",),
        details={"nats_per_char": nats},
    )


def a100(scratch: Path) -> Measured:
    """Seconds to the loss that nanoGPT's recipe for a GPU reaches."""
    ours, _ = _ours(scratch, "a100")
    side = Side.of(ours)
    return Measured({"seconds": side.median, **_worst(ours)}, side, notes=(f"a100: {_losses(ours)}",))


def budget(scratch: Path) -> Measured:
    """The loss after no more time than the plain recipe takes."""
    ours, raw = _ours(scratch, "budget")
    plain = _unstopped(job("race-plain", seed=SEEDS[0], raw=raw))
    our_side, plain_side = Side.of(ours), Side.of([plain])
    return Measured(
        {**_worst(ours), "share of the time": max(our_side.values) / plain_side.median},
        our_side,
        plain_side,
        notes=(f"budget: {_losses(ours)}",),
    )


def _against_plain(scratch: Path, recipe: str) -> Measured:
    """Ours with five seeds, the plain recipe with one; the time of both is from the start of the process."""
    ours, raw = _ours(scratch, recipe)
    plain = job("race-plain", seed=SEEDS[0], raw=raw)
    our_side, plain_side = Side.of(ours), Side.of([_unstopped(plain)])
    nats = [outcome.values["nats_per_char"] for outcome in ours]
    curves = [outcome.values["curve"] for outcome in ours]
    return Measured(
        {"ratio": plain_side.median / our_side.median, "worst loss": max(nats)},
        our_side,
        plain_side,
        notes=(f"{recipe}: {_losses(ours)}; the plain recipe ends at {plain.values['nats_per_char']:.4f}",),
        details={"nats_per_char": nats, "curves": curves, "plain_curve": plain.values["curve"]},
    )


def _ours(scratch: Path, recipe: str) -> tuple[list[Outcome], Path]:
    """The runs of a recipe, one for each seed, and the text."""
    raw = fetched(scratch, "tinyshakespeare")
    job("count", raw=raw)  # numba compiles once on a machine
    return [_unstopped(job("race", recipe=recipe, seed=seed, raw=raw)) for seed in SEEDS], raw


def _worst(outcomes: list[Outcome]) -> dict[str, float]:
    """The worst of several seeds, by both rules."""
    return {
        "worst loss": max(outcome.values["nats_per_char"] for outcome in outcomes),
        "worst loss, window rule": max(outcome.values["by_window_rule"] for outcome in outcomes),
    }


def _losses(outcomes: list[Outcome]) -> str:
    side_by_side, by_rule = (
        ", ".join(f"{outcome.values[key]:.4f}" for outcome in outcomes) for key in ("nats_per_char", "by_window_rule")
    )
    return f"ours ends at {side_by_side} nats per character side by side, {by_rule} by the window rule"


def _unstopped(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, seconds=outcome.seconds - outcome.values["stopped"])


_PLAIN = "nanoGPT's recipe for a CPU, run to its end"
_TO = f"from process start to {TARGET} nats per character on tinyshakespeare, including scoring; five seeds"
ROWS = (
    Row(
        "race",
        f"{_TO}; GPT with n-grams, counting included",
        "s",
        (Goal("ratio", "x", 15, 25), Goal("worst loss", "nats", TARGET, less_is_better=True)),
        race,
        _PLAIN,
    ),
    Row(
        "race-network",
        f"{_TO}; GPT without n-grams",
        "s",
        (Goal("ratio", "x", 5, 10), Goal("worst loss", "nats", TARGET, less_is_better=True)),
        network,
        _PLAIN,
    ),
    Row(
        "race-counting",
        f"counting the n-grams of tinyshakespeare up to order {max(ORDERS)} and scoring its last tenth with them, from "
        "process start; no network",
        "s",
        (Goal("seconds", "s"), Goal("loss", "nats")),
        counting,
    ),
    Row(
        "a100",
        f"from process start to {A100} nats per character on tinyshakespeare, the result of nanoGPT on an A100; five "
        "seeds",
        "s",
        (
            Goal("seconds", "s", 40, 15, less_is_better=True),
            Goal("worst loss", "nats", A100, less_is_better=True),
            Goal("worst loss, window rule", "nats", A100, less_is_better=True),
        ),
        a100,
    ),
    Row(
        "budget",
        "loss on tinyshakespeare after no more time than nanoGPT's recipe for a CPU takes; five seeds",
        "s",
        (
            Goal("worst loss, window rule", "nats", 1.42, 1.36, less_is_better=True),
            Goal("worst loss", "nats", less_is_better=True),
            Goal("share of the time", "x", 1, less_is_better=True),
        ),
        budget,
        _PLAIN,
    ),
)
