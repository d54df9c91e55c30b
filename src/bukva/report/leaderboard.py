"""The leaderboard for the terminal, and as JSON."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bukva.compare.cost import Cost
from bukva.compare.leaderboard import SPLIT, Leaderboard, Row, Winner
from bukva.compare.statistics.settings import MIN_SEEDS
from bukva.compare.statistics.wording import settings_line
from bukva.report.comparison import COMMAND, score_of, seconds_of

if TYPE_CHECKING:
    from rich.table import Table

MAX_CHANGED = 4  # parameters that a row names


def print_leaderboard(board: Leaderboard, looks: int, *, with_test: bool, as_json: bool) -> None:
    """Print it for a person or, as JSON, for a program.

    Args:
        board: what to print.
        looks: how often scores on this test text were shown.
        with_test: show them, too.
        as_json: for a program.
    """
    if as_json:
        print(json.dumps(to_json(board, with_test=with_test), ensure_ascii=False, indent=2))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(table(board, with_test=with_test))
    for sentence in sentences(board):
        console.print(sentence, soft_wrap=True)
    how = "" if with_test else "; bukva experiments --test shows them"
    console.print(f"Looks at scores on this test text so far: {looks}{how}", soft_wrap=True)


def table(board: Leaderboard, *, with_test: bool) -> "Table":
    """One row for each setting, the best on val first."""
    from rich.table import Table

    result = Table(title=f"Experiments by {SPLIT}, bits per character (lower is better)")
    for header in ("experiment", "changed", SPLIT, "against the baseline", *(["test"] if with_test else []), "cost"):
        result.add_column(header, overflow="fold")
    for row in board.rows:
        setting = row.setting
        result.add_row(
            name(row),
            "baseline" if setting is board.baseline else changed(row),
            score_of(setting, SPLIT),
            verdict(row),
            *([score_of(setting, "test")] if with_test else []),
            _cost(setting.cost),
        )
    return result


def sentences(board: Leaderboard) -> list[str]:
    """What qualifies the table, one sentence a line."""
    compared = sum(row.comparison is not None for row in board.rows)
    found = []
    if compared > 1:
        found.append(f"Verdicts are corrected for {compared} comparisons with the baseline (Holm).")
    if board.choice:
        found.append(_choice(board.choice, board.baseline.name))
    if board.floor.known:
        found.append(
            f"Noise floor on {SPLIT}: {board.floor.difference:.3f} bits between two trainings that differ in the seed "
            f"only ({board.floor.df} degrees of freedom)."
        )
    else:
        found.append(f"The noise floor is unknown; five seeds of one setting make it known: {COMMAND}")
    found += [f"{row.setting.name}: not compared. {row.refusal}" for row in board.rows if row.refusal]
    without: dict[str, list[str]] = {}
    for name, reason in board.without_result:
        without.setdefault(reason, []).append(name)
    return [*found, *(f"No result ({reason}): {', '.join(names)}." for reason, names in without.items())]


def to_json(board: Leaderboard, *, with_test: bool) -> dict[str, Any]:
    """Plain numbers, strings and None."""
    splits = [SPLIT, *(["test"] if with_test else [])]
    return {
        "model": board.model,
        "baseline": board.baseline.name,
        "rows": [
            {
                "experiments": list(row.names),
                "seeds": row.setting.seeds,
                "changed": row.changed,
                **{split: row.setting.scores(split) for split in splits},
                "verdict": row.comparison.verdict.to_json() if row.comparison else None,
                "refusal": row.refusal or None,
                "parameters": row.setting.cost.parameters,
                "chars_seen": row.setting.cost.chars_seen,
                "seconds": row.setting.cost.seconds,
            }
            for row in board.rows
        ],
        "choice": _choice_json(board.choice) if board.choice else None,
        "noise_floor": asdict(board.floor) if board.floor.known else None,
        "without_result": [{"name": name, "reason": reason} for name, reason in board.without_result],
    }


def _choice(choice: Winner, baseline: str) -> str:
    name = choice.best.setting.name
    luck = f"expected luck {choice.luck:.3f} bits" if choice.luck is not None else "its luck is unknown"
    marked = f"{name}: chosen of {choice.n_settings} by {SPLIT}; {luck}."
    if choice.on_unused_seeds:
        seeds = ", ".join(map(str, choice.unused_seeds))
        line = settings_line(choice.on_unused_seeds.verdict, baseline, f"{name} on fresh seeds {seeds}", COMMAND)
        return f"{marked} Only fresh seeds count, here on {SPLIT}: {line}"
    missing = MIN_SEEDS - len(choice.unused_seeds)
    return (
        f"{marked} To know what it is worth, run it with {missing} more seeds that no other setting of the sweep has: "
        f"dvc exp apply {name} && bukva seeds {len(choice.best.setting.members) + missing}"
    )


def _choice_json(choice: Winner) -> dict[str, Any]:
    return {
        "best": list(choice.best.names),
        "n_settings": choice.n_settings,
        "expected_luck": choice.luck,
        "fresh_seeds": list(choice.unused_seeds),
        "on_fresh_seeds": choice.on_unused_seeds.verdict.to_json() if choice.on_unused_seeds else None,
    }


def name(row: Row) -> str:
    """Of one of its experiments, and how many seeds there are."""
    k = len(row.names)
    return f"{row.names[0]} ({k} seeds)" if k > 1 else row.names[0]


def changed(row: Row, *, short: bool = False) -> str:
    """The first MAX_CHANGED parameters that differ from the baseline; if short, n_head=8 instead of model.n_head=8."""
    items = [(key.rpartition(".")[2] if short else key, value) for key, value in row.changed.items()]
    shown = ", ".join(f"{key}={value}" for key, value in items[:MAX_CHANGED])
    more = len(items) - MAX_CHANGED
    return (f"{shown} and {more} more" if more > 0 else shown) or "code"


def verdict(row: Row) -> str:
    """The difference from the baseline, and what it is worth."""
    if row.comparison is None:
        return "not compared" if row.refusal else ""
    found = row.comparison.verdict
    return f"{found.difference:+.3f} {found.verdict}"


def _cost(cost: Cost) -> str:
    """Of one training."""
    return f"{_short(cost.parameters)} parameters, {_short(cost.chars_seen)} chars, {seconds_of(cost)} s"


def _short(n: int) -> str:
    """812,160 to 812k."""
    return f"{n / 1e6:.1f}M" if n >= 999_500 else f"{n / 1e3:.0f}k" if n >= 1000 else str(n)
