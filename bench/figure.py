"""The figure of the race."""

from pathlib import Path

import altair as alt
import pandas as pd

from bukva.report.charts import SERIES, finished, level, save

Curve = list[tuple[float, float]]  # seconds, nats per character
TOP = 3.0  # nats per character; both sides are above it for a moment only


def draw_race(curves: dict[str, Curve], levels: dict[str, float], path: Path) -> None:
    """Loss by seconds of training, and what is known without any."""
    points = pd.DataFrame(
        {"recipe": label, "seconds": seconds, "nats": nats}
        for label, curve in curves.items()
        for seconds, nats in curve
    )
    y = alt.Y("nats:Q", scale=alt.Scale(zero=False, domainMax=TOP), title="nats per character")
    colours = alt.Scale(domain=list(curves), range=list(SERIES[: len(curves)]))
    lines = (
        alt.Chart(points)
        .mark_line(point=True, clip=True)
        .encode(
            x=alt.X("seconds:Q", title="seconds of training"),
            y=y,
            color=alt.Color("recipe:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
        )
    )
    title = "tinyshakespeare: loss on the whole last tenth, scored with the clock stopped"
    chart = alt.layer(*(level(nats, label, y) for label, nats in levels.items()), lines)
    save({path.stem: finished(chart.properties(height=360, title=title), title)}, path.parent)
