"""The page of all experiments: the leaderboard, what each changed, and their losses."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from bukva.compare.leaderboard import SPLIT, Leaderboard, Row, leaderboard
from bukva.report import charts
from bukva.report import leaderboard as shown
from bukva.report.comparison import score_of, seconds_of
from bukva.report.page.render import Links, Specs, render
from bukva.text.ids import bits

BASELINE, MODEL = "HEAD", "gpt"
REFRESH_SECONDS = 30  # of a page that says how far a training is
MOST_CURVES = len(charts.SERIES)
FEWEST_AXES = 2
SUBTITLE = (
    f"All experiments, the best on {SPLIT} first; verdicts are against the last commit ({BASELINE}), the baseline. "
    "2.3 bits a character mean being as unsure as among five equally likely letters."
)
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
            BukvaError: the last commit has no result to compare with; says what to do.
        """
        return cls(leaderboard(BASELINE, MODEL))

    @property
    def alone(self) -> str:
        """A sentence if no experiment has a result yet; else ""."""
        if len(self.board.rows) > 1:
            return ""
        return f"No experiment beside {BASELINE} has a result yet; run one: `dvc exp run -S model.n_head=8`"

    def page(self, *, links: Links, served: bool = False, training: Sequence[str] = ()) -> str:
        """The page; that of a server has links to the report of each experiment.

        Args:
            links: other pages.
            served: see render.
            training: what is being trained now.
        """
        curves, curve_specs = self._curves()
        axes = self._coordinates()
        specs: Specs = {"scores": {"": charts.seeds(self._scores(), SPLIT)}, "curves": curve_specs}
        if axes is not None:
            specs["coordinates"] = {"": charts.coordinates(axes)}
        best = self.board.rows[0].setting
        sections = {"leaderboard": "Leaderboard", "losses": "Losses", "parameters": "Parameters"}
        return render(
            "experiments.html.j2",
            specs,
            served=served,
            links=links,
            title=f"Best of {len(self.board.rows)}: {best.name}, {score_of(best, SPLIT)} bits per character on {SPLIT}"
            if not self.alone
            else f"{score_of(best, SPLIT)} bits per character on {SPLIT}",
            subtitle=SUBTITLE,
            refresh=REFRESH_SECONDS if training else 0,
            training=training,
            alone=self.alone,
            sections=[pair for pair in sections.items() if pair[0] != "parameters" or axes is not None],
            board=self._board(served=served),
            coordinates="" if axes is None else COORDINATES,
            curves=curves,
        )

    def _board(self, *, served: bool) -> dict[str, Any]:
        rows = [
            [
                shown.name(row),
                score_of(row.setting, SPLIT),
                "the baseline" if row.setting is self.board.baseline else _verdict(row),
                "" if row.setting is self.board.baseline else shown.changed(row),
                f"{row.setting.cost.parameters:,}",
                f"{row.setting.cost.chars_seen:,}",
                seconds_of(row.setting.cost),
            ]
            for row in self.board.rows
        ]
        header = ["experiment", SPLIT, "against the baseline", "changed", "parameters", "characters seen", "seconds"]
        return {
            "caption": f"Bits per character on {SPLIT}, fewer are better"
            + ("; a name opens the report of its run" if served else ""),
            "header": header,
            "rows": rows,
            "links": [f"/runs/{quote(row.names[0])}" for row in self.board.rows] if served else [],
            "sentences": shown.sentences(self.board),
            "chart": f"Every dot is a training, one for each seed; bits per character on {SPLIT}.",
        }

    @property
    def _colours(self) -> list[str]:
        """Of each row: the first ones, which have curves, differ."""
        endless = itertools.chain(charts.SERIES, itertools.repeat(charts.COLOURS["counted"]))
        return list(itertools.islice(endless, len(self.board.rows)))

    def _scores(self) -> pd.DataFrame:
        """One row for each training."""
        return pd.DataFrame(
            {"label": _label(row), "colour": colour, "seed": seed, "bits": score}
            for row, colour in zip(self.board.rows, self._colours, strict=True)
            for seed, score in zip(row.setting.seeds, row.setting.scores(SPLIT), strict=True)
        )

    def _coordinates(self) -> pd.DataFrame | None:
        """One row for each setting and axis, with its place on the axis, 0 to 1; None if the table says as much."""
        keys = list(dict.fromkeys(key for row in self.board.rows for key in row.changed))
        if len(keys) < FEWEST_AXES:
            return None
        params = [row.setting.result.flat_params for row in self.board.rows]
        scores = [sum(row.setting.scores(SPLIT)) / len(row.setting.seeds) for row in self.board.rows]
        least, most = min(scores), max(scores)
        rows = []
        for key, (row, own, score) in itertools.product(keys, zip(self.board.rows, params, scores, strict=True)):
            values = sorted({str(other.get(key)) for other in params}, key=_order)
            value = str(own.get(key))
            place = values.index(value) / max(1, len(values) - 1)
            rows.append({"label": _label(row), "axis": key, "value": value, "place": place, "bits": score})
        for row, score in zip(self.board.rows, scores, strict=True):
            place, shown = (score - least) / ((most - least) or 1), f"{score:.3f}" if score in (least, most) else ""
            rows.append({"label": _label(row), "axis": SPLIT, "value": shown, "place": place, "bits": score})
        return pd.DataFrame(rows)

    def _curves(self) -> tuple[dict[str, Any], dict[str, charts.Spec]]:
        rows = self.board.rows[:MOST_CURVES]
        points = pd.DataFrame(
            {
                "model": _label(row),
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
        caption = f"Loss on {SPLIT}, scored as one stream while training, of {which}; of the first seed."
        return {"choices": choices, "caption": caption}, specs


def _label(row: Row) -> str:
    """What differs, and the name: charts have little else."""
    return f"{shown.changed(row, short=True)} ({row.setting.name})" if row.changed else row.setting.name


def _verdict(row: Row) -> str:
    """The word to act on, and the difference in bits."""
    if row.comparison is None:
        return "not compared"
    found = row.comparison.verdict
    return f"{found.verdict.capitalize()}, {found.difference:+.3f}"


def _order(value: str) -> tuple[bool, float, str]:
    """Numbers by size, then names."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value
