"""Draw the charts of the counting study, and format its table for the terminal.

`bukva counting` prints the table and writes the charts as PNG files.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from bukva.core.files import atomic_folder, write_json
from bukva.report.charts import COLORS, GPT_COLOR, Spec, colors, save, to_spec, visible

COUNTED, MIDDLE, LEARNED = "#f28e2b", "#f7f7f7", "#5fa8dc"  # color scale; black text is legible on each color
NEITHER = "#cfcfcf"
LEAST, MOST = 0.25, 0.75  # shares of counting at the ends of the color scale; few characters are outside this range
COLUMNS = 60  # characters per row of the passage
WORD = 12  # a space in the last WORD columns of a row ends the row
COLUMN = 14  # width of a column in pixels


def counting_report(numbers: dict[str, Any], folder: Path) -> None:
    """Write counting.json and a PNG of each chart to `folder`. An existing folder is replaced atomically.

    `numbers` is the return value of counting_study.study.
    """
    positions, training = numbers["by_position"], numbers["training"]
    names = [row["position"] for row in positions]
    steps = [*(str(point["step"]) for point in training["points"]), "trained"]
    letter = "letter" if numbers["unit"] == "character" else numbers["unit"]
    charts = {
        "passage": passage(numbers),
        "share_over_training": shares(numbers, [*training["points"], training["trained"]], steps, "updates"),
    }
    if positions:  # a text without letters, for example of digits, has no words
        title = f"{letter} of the word (after: what follows the word)"
        charts["share_by_position"] = shares(numbers, positions, names, title)
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / "counting.json", numbers)
        save(charts, unfinished)


def table(numbers: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table for the terminal with the score of each predictor.

    `numbers` is the content of counting.json.
    """
    names = {
        "bigram": "bigram, counted",
        "ngrams": f"n-grams of order {numbers['orders'][-1]}, counted",
        "network": "GPT without its n-grams",
        "together": "GPT with its n-grams",
    }
    yield f"Bits per character over the same {numbers['scores']['chars']:,} characters of val:"
    for name, label in names.items():
        yield f"  {label:28} {numbers['scores'][name]:.3f}"
    if not numbers["by_position"]:
        yield "The text has no words, so the chart by position in the word is left out."


def passage(numbers: dict[str, Any]) -> Spec:
    """Draw a passage of text that shows how much counting and learning contributed to the prediction of each character.

    The background color of a character shows the share of counting, which is the fraction of the gain over uniform
    guessing that is credited to the n-grams. The height of the bar below the character shows the n-gram order that
    contributed most. `numbers` is the content of counting.json.
    """
    orders = numbers["orders"]
    cells = pd.DataFrame(
        {
            "row": row,
            "left": left,
            "right": right,
            "middle": (left + right) / 2,
            "foot": row + 0.74,
            "order": row + 0.74 + 0.2 * (orders.index(char["order"]) + 1) / len(orders),
            "text": visible(char["char"]),
            "ink": "black" if char["char"].isprintable() and char["char"] != " " else COLORS["counted"],
            "share": char["share"],
        }
        for row, left, right, char in layout(numbers["passage"]["chars"])
    )
    n_rows = 1 + int(cells["row"].max())
    x = alt.X("left:Q", scale=alt.Scale(domain=[0, COLUMNS], nice=False), axis=None)
    top, foot = (
        alt.Y(f"{name}:Q", scale=alt.Scale(domain=[n_rows, 0], nice=False), axis=None) for name in ("row", "foot")
    )
    from_learned = alt.Scale(domain=[LEAST, 0.5, MOST], range=[LEARNED, MIDDLE, COUNTED], clamp=True, interpolate="rgb")
    share = alt.Color("share:Q", scale=from_learned, legend=None)
    base = alt.Chart(cells)
    background = base.encode(x=x, x2="right:Q", y=top, y2="foot:Q")
    chart = alt.layer(
        background.mark_rect(fill=NEITHER, stroke="white"),
        background.mark_rect(stroke="white").encode(color=share),  # not drawn where the share is None
        base.mark_rect(fill="#404040", stroke="white").encode(x=x, x2="right:Q", y=foot, y2="order:Q"),
        base.mark_text(font="monospace", fontSize=14, baseline="middle", dy=13).encode(
            x="middle:Q", y="row:Q", text="text:N", color=alt.Color("ink:N", scale=None)
        ),
    )
    sentence = (
        f"Contributions to the prediction of each {numbers['unit']}: orange counting, blue learning, white both equally"
    )
    title = alt.TitleParams(
        sentence,
        subtitle=f"gray: less likely than by chance; bar: the n-gram order that contributed most "
        f"({', '.join(map(str, orders))}; a higher bar is a longer order)",
        anchor="start",
    )
    return to_spec(chart.properties(width=COLUMN * COLUMNS, height=34 * n_rows, title=title), sentence, wide=False)


def layout(chars: list[dict[str, Any]]) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Arrange characters in rows of at most COLUMNS columns. Each entry of `chars` has the text of one character.

    A row ends after a newline, after a space in its last WORD columns, or when the row is full.

    Yields:
        For each character: its row, its first column, the column after its last column, and its entry of `chars`.
    """
    row, left, before = 0, 0, ""
    for char in chars:
        width = max(1, len(char["char"]))  # a continuation byte has no text, but still gets one column
        is_full = left + width > COLUMNS or (left > COLUMNS - WORD and before.endswith(" "))
        if before.endswith("\n") or is_full:
            row, left = row + 1, 0
        yield row, left, left + width, char
        left, before = left + width, char["char"]


def shares(numbers: dict[str, Any], rows: list[dict[str, Any]], names: list[str], title: str) -> Spec:
    """Draw two panels: the loss of each predictor, and the share of the network.

    The share of the network is the fraction of the gain over uniform guessing that is credited to the network.

    Args:
        numbers: the return value of counting_study.study.
        rows: summaries of groups of characters (see counting_study.summary), one group for each entry of the x axis.
        names: the labels of `rows` on the x axis. The lines do not connect to the last row, because it is not part of
            the series.
        title: the title of the x axis.
    """
    x = alt.X("x:O", sort=names, title=title, axis=alt.Axis(labelAngle=0))
    predictors = (
        ("counted", f"n-grams of order {numbers['orders'][-1]}", COUNTED),
        ("learned", "the network alone", LEARNED),
        ("together", "both", GPT_COLOR),
    )
    scores = pd.DataFrame(
        {"x": name, "predictor": label, "colour": color, "bits": row[key]}
        for key, label, color in predictors
        for name, row in zip(names, rows, strict=True)
    )
    y = alt.Y("bits:Q", title=f"bits per {numbers['unit']}")
    drawn = alt.Chart(scores).encode(x=x, y=y, color=colors(scores, "predictor"))
    learned = [0.0 if row["share"] is None else max(0.0, 1 - row["share"]) for row in rows]
    share = alt.Y("share:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domainMin=0))
    bars = alt.Chart(pd.DataFrame({"x": names, "share": learned})).encode(x=x, y=share)
    written = bars.mark_text(dy=-8, fontSize=11, color="currentColor").encode(text=alt.Text("share:Q", format=".0%"))
    half = alt.Chart(pd.DataFrame({"share": [0.5]})).mark_rule(strokeDash=[4, 4], color=COLORS["counted"])
    panels = [
        (
            drawn.mark_line().transform_filter(f"datum.x != '{names[-1]}'") + drawn.mark_point(filled=True, opacity=1)
        ).properties(title="each predictor alone, and both together"),
        (bars.mark_bar(color=LEARNED) + written + half.encode(y="share:Q")).properties(
            title="share of the network (dashed: as much as counting)"
        ),
    ]
    panels = [panel.properties(width=440, height=260) for panel in panels]
    return to_spec(alt.hconcat(*panels), f"Scores and the share of the network by {title}.", wide=False)
