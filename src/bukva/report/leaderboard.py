"""Print the leaderboard, and convert it to tables, sentences and JSON.

The leaderboard ranks settings by their scores. A setting is the code and all parameters of an experiment except the
seed.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bukva.compare.groups import Setting
from bukva.compare.leaderboard import SPLIT, Leaderboard, Row, Winner
from bukva.compare.statistics.settings import MIN_SEEDS
from bukva.compare.statistics.wording import settings_line, signed
from bukva.core.words import count
from bukva.report.comparison import COMMAND, SEEDS, cost_json, more_seeds, score_of, seconds_of
from bukva.report.terminal import show, times_shown

MAX_CHANGED = 4  # number of changed parameters that a row lists


def print_leaderboard(board: Leaderboard, looks: int, *, with_test: bool, as_json: bool) -> None:
    """Print the leaderboard as tables and sentences, or as JSON.

    Args:
        board: the leaderboard.
        looks: the number of times that scores on the baseline's test text have been shown.
        with_test: also show scores on test.
        as_json: print JSON instead of tables. The JSON does not contain `looks`.
    """
    splits = [SPLIT, "test"] if with_test else [SPLIT]
    if as_json:
        print(json.dumps(to_json(board, splits), ensure_ascii=False, indent=2))
        return
    how_to_show = "" if with_test else " To show them, run `bukva experiments --test`."
    looks_line = f"{times_shown(looks)}{how_to_show}"
    title = f"Experiments by {SPLIT}, bits per character (lower is better): {text_name(board.rows)}"
    show(title, *table(board, board.rows, splits), [*sentences(board), looks_line], justify="left")
    for rows in board.others:
        title = f"Experiments on another text: {text_name(rows)}"
        show(title, *table(board, rows, splits), [best_of(rows)], justify="left")


def text_name(rows: Sequence[Row]) -> str:
    """Describe the text on which all `rows` were scored: the corpus, its source, and its number of val characters."""
    result = rows[0].setting.result
    download = result.params["download"]
    source = {"local": "path", "url": "url", "huggingface": "dataset"}.get(download["corpus"])
    name = f"{download['corpus']} ({download[source]})" if source else download["corpus"]
    return f"{name}, {count(result.characters.chars[SPLIT].sum(), 'character')} of {SPLIT}"


def best_of(rows: Sequence[Row]) -> str:
    """Return a sentence about the best setting, which is the first of `rows`.

    All `rows` were scored on the same text. The baseline was scored on another text.
    """
    best = rows[0].setting
    which = f"Best of {len(rows)}" if len(rows) > 1 else "The only setting"
    return (
        f"{which} on this text: {best.name}, {score_of(best, SPLIT)} bits per character. Scores on "
        "different texts cannot be compared, so there is no verdict against the baseline."
    )


def table(
    board: Leaderboard, rows: Sequence[Row], splits: Sequence[str] = (SPLIT,)
) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table of settings that were scored on the same text.

    Args:
        board: the leaderboard.
        rows: the settings of the table. The setting with the best score on val comes first.
        splits: the splits for which the table shows scores.
    """
    compared = ["against the baseline"] if rows is board.rows else []
    cells = [
        [
            _names(row.setting),
            *(score_of(row.setting, split) for split in splits),
            *([" ".join(filter(None, verdict_of(row, board)))] if compared else []),
            "" if row.setting is board.baseline else ", ".join(changed(row)),
            cost_of(row.setting),
        ]
        for row in rows
    ]
    return ["experiment", *splits, *compared, "changed", "cost"], cells


def _names(setting: Setting) -> str:
    """Format the names of a setting's experiments and its number of seeds, as in "wide (3 seeds), also wide-2"."""
    seeds = f" ({len(setting.seeds)} seeds)" if len(setting.seeds) > 1 else ""
    return setting.names[0] + seeds + (f", also {', '.join(setting.other_names)}" if setting.other_names else "")


def verdict_of(row: Row, board: Leaderboard) -> tuple[str, str]:
    """Return a row's difference from the baseline in bits per character, and its verdict.

    An example is ("-0.031", "better"). If the row was not compared with the baseline, the difference is "" and the
    verdict is "baseline" or "not compared".
    """
    if row.comparison:
        return signed(row.comparison.verdict.difference), row.comparison.verdict.verdict
    return "", "baseline" if row.setting is board.baseline else "not compared"


def cost_of(setting: Setting) -> str:
    """Format the cost of one training: the number of parameters, the characters seen, and the duration in seconds."""
    return f"{_short(setting.parameters)} parameters, {_short(setting.chars_seen)} chars, {seconds_of(setting)} s"


def changed(row: Row) -> list[str]:
    """List the parameters of a row that differ from the baseline, as strings "key=value".

    If more than MAX_CHANGED parameters differ, the last string gives the number of the parameters that are not listed,
    such as "2 more". If only the code differs, return ["code"].
    """
    items = [f"{key}={value}" for key, value in row.changed.items()]
    more = [f"{len(items) - MAX_CHANGED} more"] if len(items) > MAX_CHANGED else []
    return items[:MAX_CHANGED] + more or ["code"]


def _short(n: int) -> str:
    """Abbreviate a number. For example, 812,160 becomes "812k"."""
    return f"{n / 1e6:.1f}M" if n >= 999_500 else f"{n / 1e3:.0f}k" if n >= 1000 else str(n)


def sentences(board: Leaderboard) -> list[str]:
    """Return the sentences that are printed below the table of settings scored on the baseline's text.

    For example, they explain the verdicts, give the noise floor, and name the experiments without a result. The noise
    floor is the standard deviation of the difference between two trainings that differ only in the seed.
    """
    compared = sum(row.comparison is not None for row in board.rows)
    lines = []
    members = [member for rows in board.texts for row in rows for member in row.setting.members]
    same = [
        f"{name} has the same training and scores as {member.names[0]}. The two differ only in {changed}."
        for member in members
        for name, changed in member.differing.items()
    ]
    if len(board.rows) == 1 and not board.others and not same:
        lines.append(
            "Only the baseline has a result yet. Run an experiment, for example `dvc exp run -S model.n_head=8`."
        )
    if compared > 1:
        lines.append(f"The verdicts are corrected for {compared} comparisons with the baseline (Holm's method).")
    if board.winner:
        lines.append(_describe_winner(board.winner, board.baseline.name))
    if board.floor.known:
        lines.append(
            f"The noise floor on {SPLIT} is {board.floor.difference:.3f} bits ({board.floor.df} degrees of freedom). "
            "It is the standard deviation of the difference between two trainings that differ only in the seed."
        )
    else:
        lines.append(f"The noise floor is unknown. To estimate it, train {SEEDS} seeds of one setting: `{COMMAND}`.")
    lines += [
        f"{row.setting.name} was not compared with the baseline. {row.refusal}" for row in board.rows if row.refusal
    ]
    names_by_reason = {
        reason: ", ".join(name for name, why in board.without_result if why == reason)
        for _, reason in board.without_result
    }
    return [*lines, *same] + [
        f"Experiments without a result ({reason}): {names}." for reason, names in names_by_reason.items()
    ]


def _describe_winner(winner: Winner, baseline: str) -> str:
    name = winner.best.name
    luck = f"is {winner.luck:.3f} bits" if winner.luck is not None else "is unknown"
    selection = (
        f"{name} is the best of {winner.n_settings} settings on {SPLIT}. The gain expected from luck alone {luck}."
    )
    if winner.on_unused_seeds:
        fresh = f"{name} on fresh seeds {', '.join(map(str, winner.unused_seeds))}"
        line = settings_line(winner.on_unused_seeds.verdict, baseline, fresh, more_seeds(winner.on_unused_seeds))
        return f"{selection} Verdict on {SPLIT} with fresh seeds, which had no influence on the choice: {line}"
    missing = MIN_SEEDS - len(winner.unused_seeds)
    return (
        f"{selection} To measure its gain, train it with {count(missing, 'more seed')} that no other setting has: "
        f"`dvc exp apply {shlex.quote(name)} && bukva seeds {len(winner.best.members) + missing}`."
    )


def to_json(board: Leaderboard, splits: Sequence[str]) -> dict[str, Any]:
    """Return the leaderboard, with the scores on `splits`, as a dictionary for JSON output."""
    winner = board.winner
    return {
        "model": board.baseline.model,
        "baseline": board.baseline.name,
        "text": text_name(board.rows),
        "rows": [_row_json(row, splits) for row in board.rows],
        "other_texts": [
            {"text": text_name(rows), "rows": [_row_json(row, splits) for row in rows]} for rows in board.others
        ],
        "choice": winner
        and {
            "best": list(winner.best.names),
            "n_settings": winner.n_settings,
            "expected_luck": winner.luck,
            "fresh_seeds": list(winner.unused_seeds),
            "on_fresh_seeds": winner.on_unused_seeds.verdict.to_json() if winner.on_unused_seeds else None,
        },
        "noise_floor": asdict(board.floor) if board.floor.known else None,
        "without_result": [{"name": name, "reason": reason} for name, reason in board.without_result],
    }


def _row_json(row: Row, splits: Sequence[str]) -> dict[str, Any]:
    return {
        "experiments": list(row.setting.names),
        "also": [name for name in row.setting.other_names if name not in row.setting.names],
        "changed": row.changed,
        **{split: row.setting.scores(split) for split in splits},
        "verdict": row.comparison.verdict.to_json() if row.comparison else None,
        "refusal": row.refusal or None,
        **cost_json(row.setting),
    }
