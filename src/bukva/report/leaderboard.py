"""Print the leaderboard, and convert it to rows of text, sentences and JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bukva.compare.comparison import Leaderboard, Row, Winner
from bukva.compare.statistics.settings import MIN_SEEDS
from bukva.core.progress import quantity
from bukva.core.words import count, few
from bukva.project.baseline import SPLIT
from bukva.report.comparison import COMMAND, costs, floor_line, more_seeds, score_of, seconds_of, settings_line
from bukva.report.terminal import Cells, show, signed, times_shown

MAX_CHANGED = 4  # number of changed parameters that a row lists


def print_leaderboard(board: Leaderboard, looks: int, *, with_test: bool, as_json: bool) -> None:
    """Print the leaderboard as tables and sentences, or as JSON.

    `looks` is the number of times that scores on the baseline's test text have been shown.
    """
    splits = [SPLIT, "test"] if with_test else [SPLIT]
    if as_json:
        print(json.dumps(to_json(board, splits), ensure_ascii=False, indent=2))
        return
    how_to_show = "" if with_test else " To show them, run `bukva experiments --test`."
    own, *others = board.texts
    title = f"Experiments by {SPLIT}, bits per character (lower is better): {text_name(own)}"
    below = [*sentences(board), f"{times_shown(looks)}{how_to_show}"]
    show(title, *table(board, own, splits), below, justify="left")
    for rows in others:
        title = f"Experiments on another text: {text_name(rows)}"
        show(title, *table(board, rows, splits), [best_of(rows)], justify="left")


def text_name(rows: Sequence[Row]) -> str:
    """Describe the text on which all `rows` were scored: the corpus, its source, and its number of val characters."""
    result = rows[0].setting.result
    download = result.params["download"]
    source = {"local": "path", "url": "url", "huggingface": "url"}.get(download["corpus"])
    name = f"{download['corpus']} ({download[source]})" if source else download["corpus"]
    return f"{name}, {count(result.characters.chars[SPLIT].sum(), 'character')} of {SPLIT}"


def best_of(rows: Sequence[Row]) -> str:
    """Return a sentence about the best of the settings that were scored on another text than the baseline."""
    best = rows[0].setting
    which = f"Best of {len(rows)}" if len(rows) > 1 else "The only setting"
    return (
        f"{which} on this text: {best.name}, {score_of(best, SPLIT)} bits per character. Scores on "
        "different texts cannot be compared, so there is no verdict against the baseline."
    )


def as_text(board: Leaderboard, rows: Sequence[Row], splits: Sequence[str] = (SPLIT,)) -> list[dict[str, Any]]:
    """Return `rows` of the leaderboard as text, for the terminal and for pages.

    `verdict` is the difference from the baseline and a verdict, such as ("-0.031", "better") or ("", "baseline"). It is
    empty for other texts than the baseline's.
    """
    lines = []
    for row in rows:
        verdict = ("", "baseline" if row.setting is board.baseline else "not compared")
        if row.comparison:
            verdict = signed(row.comparison.verdict.difference), row.comparison.verdict.verdict
        setting, items = row.setting, [f"{key}={value}" for key, value in row.changed.items()]
        chars = f"{quantity(setting.parameters)} parameters, {quantity(setting.chars_seen)} chars"
        lines.append(
            {
                "names": setting.all_names,
                "n_seeds": len(setting.seeds),
                "scores": [score_of(setting, split) for split in splits],
                "verdict": verdict if rows is board.texts[0] else (),
                # if no parameter differs, the code does
                "changed": [] if setting is board.baseline else few(items, MAX_CHANGED) or ["code"],
                "cost": f"{chars}, {seconds_of(setting)} s",
            }
        )
    return lines


def table(board: Leaderboard, rows: Sequence[Row], splits: Sequence[str] = (SPLIT,)) -> Cells:
    """Return the header and the cells of the table that the terminal shows."""
    lines = as_text(board, rows, splits)
    compared = ["against the baseline"] if lines[0]["verdict"] else []
    cells = []
    for line in lines:
        name, *others = line["names"]
        name += f" ({line['n_seeds']} seeds)" if line["n_seeds"] > 1 else ""
        name += f", also {', '.join(others)}" if others else ""
        verdict = [" ".join(filter(None, line["verdict"]))] if compared else []
        cells.append([name, *line["scores"], *verdict, ", ".join(line["changed"]), line["cost"]])
    return ["experiment", *splits, *compared, "changed", "cost"], cells


def sentences(board: Leaderboard) -> list[str]:
    """Return the sentences below the table: verdicts, the best setting, the noise floor, and what has no result."""
    n_compared = sum(row.comparison is not None for row in board.texts[0])
    settings, lines = [row.setting for rows in board.texts for row in rows], []
    same = [
        f"{name} has the same training and scores as {member.names[0]}. The two differ only in {changed}."
        for setting in settings
        for member in setting.members
        for name, changed in member.differing.items()
    ]
    if len(settings) == 1 and not same:
        lines.append(
            "Only the baseline has a result yet. Run an experiment, for example `dvc exp run -S model.n_head=8`."
        )
    if n_compared > 1:
        lines.append(f"The verdicts are corrected for {n_compared} comparisons with the baseline (Holm's method).")
    if board.winner:
        lines.append(_describe_winner(board.winner, board.baseline.name))
    if board.floor.known:
        lines.append(
            f"The noise floor on {SPLIT} is {board.floor.difference:.3f} bits ({board.floor.df} degrees of freedom). "
            "It is the standard deviation of the difference between two trainings that differ only in the seed."
        )
    else:
        lines.append(
            f"The noise floor is unknown. To estimate it, train two settings with {MIN_SEEDS} seeds each: `{COMMAND}`."
        )
    lines += [
        f"{row.setting.name} was not compared with the baseline. {row.refusal}" for row in board.texts[0] if row.refusal
    ]
    lines += [line for row in board.texts[0] if row.comparison for line in floor_line(row.comparison)]
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in board.without_result:
        names_by_reason.setdefault(reason, []).append(name)
    return [*lines, *same] + [
        f"Experiments without a result ({reason}): {', '.join(names)}." for reason, names in names_by_reason.items()
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
        f"`dvc exp apply {winner.best.revision.for_dvc} && bukva seeds {len(winner.best.members) + missing}`."
    )


def to_json(board: Leaderboard, splits: Sequence[str]) -> dict[str, Any]:
    """Return the leaderboard, with the scores on `splits`, as a dictionary for JSON output."""
    winner = board.winner
    texts = [{"text": text_name(rows), "rows": [_row_json(row, splits) for row in rows]} for rows in board.texts]
    return {
        "model": board.baseline.model,
        "baseline": board.baseline.name,
        **texts[0],
        "other_texts": texts[1:],
        "choice": winner
        and {
            "best": winner.best.names,
            "n_settings": winner.n_settings,
            "expected_luck": winner.luck,
            "fresh_seeds": list(winner.unused_seeds),
            "on_fresh_seeds": winner.on_unused_seeds.verdict.to_json() if winner.on_unused_seeds else None,
        },
        "noise_floor": asdict(board.floor) if board.floor.known else None,
        "without_result": [{"name": name, "reason": reason} for name, reason in board.without_result],
    }


def _row_json(row: Row, splits: Sequence[str]) -> dict[str, Any]:
    setting = row.setting
    return {
        "experiments": setting.names,
        "also": [name for name in setting.all_names if name not in setting.names],
        "changed": row.changed,
        **{split: setting.scores(split) for split in splits},
        **costs(setting),
        "verdict": row.comparison.verdict.to_json() if row.comparison else None,
        "refusal": row.refusal or None,
    }
