"""The figure of the race."""

from pathlib import Path

import altair as alt
import pandas as pd

from bukva.report.charts import SERIES, finished, save

Curve = list[tuple[float, float]]  # seconds, nats per character
NATS = (1.5, 3.0)  # per character; both sides are above it for a moment only


def draw_race(curves: dict[str, Curve], path: Path) -> None:
    """Loss by seconds of training."""
    points = pd.DataFrame(
        {"recipe": label, "seconds": seconds, "nats": nats}
        for label, curve in curves.items()
        for seconds, nats in curve
    )
    y = alt.Y("nats:Q", scale=alt.Scale(domain=NATS), title="nats per character")
    colours = alt.Scale(domain=list(curves), range=list(SERIES[: len(curves)]))
    lines = (
        alt.Chart(points)
        .mark_line(point=True, clip=True)
        .encode(
            x=alt.X("seconds:Q", title="seconds of training, without counting the n-grams"),
            y=y,
            color=alt.Color("recipe:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
        )
    )
    title = "tinyshakespeare: loss on the whole last tenth, scored with the clock stopped"
    save({path.stem: finished(lines.properties(height=360, title=title), title)}, path.parent)
