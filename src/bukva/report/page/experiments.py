"""The page of all experiments: the leaderboard, what each changed, and their losses."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from bukva.base.errors import BukvaError
from bukva.base.units import bits
from bukva.experiments.leaderboard import SPLIT, Leaderboard, Row, leaderboard
from bukva.report import leaderboard as shown
from bukva.report.comparison import score_of, seconds_of
from bukva.report.page import charts
from bukva.report.page.render import Specs, write_page

BASELINE, MODEL = "HEAD", "gpt"
MOST_CURVES = len(charts.SERIES)
COORDINATES = (
    f"A line is a setting, and axes are what differs; the last axis and the colour are its score on {SPLIT}, bluer is "
    "better. Point at a line for its name."
)


@dataclass(frozen=True, eq=False)
class Experiments:
    """All experiments beside the last commit."""

    board: Leaderboard

    @classmethod
    def read(cls) -> "Experiments":
        """What git and DVC's cache have.

        Raises:
            BukvaError: there is nothing to compare; says why.
        """
        board = leaderboard(BASELINE, MODEL)
        if len(board.rows) < 2:
            raise BukvaError(f"No experiment beside {BASELINE} has a result; run one: dvc exp run -S model.n_head=8")
        return cls(board)

    def write(self, path: Path, others: list[tuple[str, str]], link: str) -> None:
        """Write the page.

        Args:
            path: of the page.
            others: pages beside it and what they are.
            link: the address of an experiment in MLflow, with {} for its name; "" for none.
        """
        curves, curve_specs = self._curves()
        axes = self._coordinates()
        specs: Specs = {"scores": {"": charts.seeds(self._scores(), SPLIT)}, "curves": curve_specs}
        if axes is not None:
            specs["coordinates"] = {"": charts.coordinates(axes)}
        best = self.board.rows[0].setting
        sections = {"leaderboard": "Leaderboard", "parameters": "Parameters", "losses": "Losses"}
        write_page(
            path,
            "experiments.html.j2",
            specs,
            title=f"{len(self.board.rows)} settings, best {score_of(best, SPLIT)} bits per character on {SPLIT}",
            subtitle=f"The best on {SPLIT} is {best.name}; verdicts are against {self.board.baseline.name}.",
            sections=[pair for pair in sections.items() if pair[0] != "parameters" or axes is not None],
            others=others,
            board=self._board(link),
            coordinates="" if axes is None else COORDINATES,
            curves=curves,
        )

    def _board(self, link: str) -> dict[str, Any]:
        rows = [
            [
                shown.name(row),
                "baseline" if row.setting is self.board.baseline else shown.changed(row),
                score_of(row.setting, SPLIT),
                shown.verdict(row),
                f"{row.setting.cost.parameters:,}",
                f"{row.setting.cost.chars_seen:,}",
                seconds_of(row.setting.cost),
            ]
            for row in self.board.rows
        ]
        header = ["experiment", "changed", SPLIT, "against the baseline", "parameters", "characters seen", "seconds"]
        return {
            "caption": f"Settings by {SPLIT}, bits per character (lower is better)"
            + (", with links to MLflow, which `bukva ui` starts" if link else ""),
            "header": header,
            "rows": rows,
            "links": [self._address(row, link) for row in self.board.rows],
            "sentences": shown.sentences(self.board),
            "chart": f"Every dot is a training, one for each seed; bits per character on {SPLIT}. `bukva ui` shows all "
            "of them in MLflow, also while they train.",
        }

    def _address(self, row: Row, link: str) -> str:
        """Of the setting's first experiment in MLflow; "" for the baseline, which may have another name there."""
        if row.setting is self.board.baseline:
            return ""
        return link.replace("{}", quote(row.setting.result.revision.name))

    @property
    def _colours(self) -> list[str]:
        """Of each row: the first ones, which have curves, differ."""
        endless = itertools.chain(charts.SERIES, itertools.repeat(charts.COLOURS["counted"]))
        return list(itertools.islice(endless, len(self.board.rows)))

    def _scores(self) -> pd.DataFrame:
        """One row for each training."""
        return pd.DataFrame(
            {"label": row.setting.name, "colour": colour, "seed": seed, "bits": score}
            for row, colour in zip(self.board.rows, self._colours, strict=True)
            for seed, score in zip(row.setting.seeds, row.setting.scores(SPLIT), strict=True)
        )

    def _coordinates(self) -> pd.DataFrame | None:
        """One row for each setting and axis, with its place on the axis, 0 to 1; None if no parameter differs."""
        keys = list(dict.fromkeys(key for row in self.board.rows for key in row.changed))
        if not keys:
            return None
        params = [row.setting.result.flat_params for row in self.board.rows]
        scores = [sum(row.setting.scores(SPLIT)) / len(row.setting.seeds) for row in self.board.rows]
        least, most = min(scores), max(scores)
        rows = []
        for key, (row, own, score) in itertools.product(keys, zip(self.board.rows, params, scores, strict=True)):
            values = sorted({str(other.get(key)) for other in params}, key=_order)
            value = str(own.get(key))
            place = values.index(value) / max(1, len(values) - 1)
            rows.append({"label": row.setting.name, "axis": key, "value": value, "place": place, "bits": score})
        for row, score in zip(self.board.rows, scores, strict=True):
            place, shown = (score - least) / ((most - least) or 1), f"{score:.3f}" if score in (least, most) else ""
            rows.append({"label": row.setting.name, "axis": SPLIT, "value": shown, "place": place, "bits": score})
        return pd.DataFrame(rows)

    def _curves(self) -> tuple[dict[str, Any], dict[str, charts.Spec]]:
        rows = self.board.rows[:MOST_CURVES]
        points = pd.DataFrame(
            {
                "model": row.setting.name,
                "colour": colour,
                "split": SPLIT,
                "step": step,
                "chars": chars,
                "bits": bits(nats),
            }
            for row, colour in zip(rows, self._colours, strict=False)
            for step, chars, nats in row.setting.result.trainings[MODEL].val
        )
        choices, specs = charts.curve_choices(points, {"step": "updates", "chars": "characters seen"})
        which = f"the best {MOST_CURVES}" if len(self.board.rows) > MOST_CURVES else "all"
        return {"choices": choices, "caption": f"Loss on {SPLIT} as one stream, of {which}; of the first seed."}, specs


def _order(value: str) -> tuple[bool, float, str]:
    """Numbers by size, then names."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
