"""Charts of who predicted what, counting or learning; their numbers are in counting.json."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from bukva.core.files import atomic_file, atomic_folder, write_json
from bukva.report.charts import COLOURS, GPT, Spec, finished, save, visible

if TYPE_CHECKING:
    import altair as alt

COUNTED, MIDDLE, LEARNED = "#f28e2b", "#f7f7f7", "#5fa8dc"  # of the scale; black letters are legible on all of it
NEITHER = "#cfcfcf"
SHARE_TITLE = "share of the network (dashed: as much as counting)"
LEAST, MOST = 0.25, 0.75  # shares at the ends of the scale: few characters are beyond
COLUMNS = 60  # characters in a row of the passage
COLUMN = 14  # pixels


def counting_report(numbers: dict[str, Any], folder: Path) -> None:
    """Write the folder in one step: counting.json, the passage as a page, and a PNG of each chart."""
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / "counting.json", numbers)
        passage_page(numbers, unfinished / "passage.html")
        save(pictures(numbers), unfinished)


def pictures(numbers: dict[str, Any]) -> dict[str, Spec]:
    """The charts by name."""
    return {
        "passage": passage(numbers),
        "share_by_position": share_by_position(numbers),
        "share_over_training": share_over_training(numbers),
    }


def table(numbers: dict[str, Any]) -> Iterator[str]:
    """The scores as lines of text."""
    names = {
        "bigram": "bigram, counted",
        "ngrams": f"n-grams of order {numbers['orders'][-1]}, counted",
        "network": "GPT without its n-grams",
        "together": "GPT with its n-grams",
    }
    yield f"bits per character over the same {numbers['scores']['chars']:,} characters of val:"
    for name, label in names.items():
        yield f"  {label:28} {numbers['scores'][name]:.3f}"


def passage(numbers: dict[str, Any]) -> Spec:
    """A passage: the background of a character is the share of counting, the bar below it the order."""
    import altair as alt

    orders = numbers["orders"]
    cells = []
    for y, row in enumerate(_rows(numbers["passage"]["chars"])):
        x = 0
        for char in row:
            shown = visible(char["char"])
            cells.append(
                {
                    "row": y,
                    "text": shown,
                    "ink": "black" if shown == char["char"] else "#8c8c8c",
                    "colour": colour(char["share"]),
                    "left": x,
                    "right": x + _width(char),
                    "middle": x + _width(char) / 2,
                    "foot": y + 0.74,
                    "order": y + 0.74 + 0.2 * (orders.index(char["order"]) + 1) / len(orders),
                }
            )
            x += _width(char)
    table = pd.DataFrame(cells)
    n_rows = 1 + int(table["row"].max())
    x = alt.X("left:Q", scale=alt.Scale(domain=[0, COLUMNS], nice=False), axis=None)
    y = alt.Scale(domain=[n_rows, 0], nice=False)
    base = alt.Chart(table)
    chart = alt.layer(
        base.mark_rect(stroke="white").encode(
            x=x, x2="right:Q", y=alt.Y("row:Q", scale=y, axis=None), y2="foot:Q",
            color=alt.Color("colour:N", scale=None),
        ),
        base.mark_rect(fill="#404040", stroke="white").encode(
            x=x, x2="right:Q", y=alt.Y("foot:Q", scale=y, axis=None), y2="order:Q"
        ),
        base.mark_text(font="monospace", fontSize=14, baseline="middle", dy=13).encode(
            x="middle:Q", y="row:Q", text="text:N", color=alt.Color("ink:N", scale=None)
        ),
    )  # fmt: skip
    sentence = (
        f"Who predicted each {numbers['unit']}: orange was counted, blue was learned, white is known to both alike"
    )
    title = alt.TitleParams(
        sentence,
        subtitle=f"grey: less likely than by chance; bar: the order that contributed most ({_in_words(orders)})",
        anchor="start",
    )
    return finished(chart.properties(width=COLUMN * COLUMNS, height=34 * n_rows, title=title), sentence, wide=False)


def _in_words(orders: list[int]) -> str:
    return ", ".join(map(str, orders)) + ", higher is longer"


def passage_page(numbers: dict[str, Any], path: Path) -> None:
    """The same passage as a page that needs no other file; the numbers of a character are shown under the pointer."""
    orders = numbers["orders"]
    spans = "".join(_span(char, orders, numbers["unit"]) for char in numbers["passage"]["chars"])
    scale = ", ".join((colour(LEAST), colour(0.5), colour(MOST)))
    bars = " ".join(f'<span style="{_underline(order, orders)}">order {order}</span>' for order in orders)
    with atomic_file(path) as unfinished:
        unfinished.write_text(
            f"""<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Counted or learned</title>
<style>
body {{ font: 15px/1.5 sans-serif; color: #000; background: #fff; max-width: 50em; margin: 2em auto; padding: 0 1em }}
pre {{ font: 18px/2 "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre-wrap }}
.scale {{ display: inline-block; width: 12em; height: 1em; vertical-align: middle;
  background: linear-gradient(to right, {scale}) }}
h1 {{ font-size: 1.4em }}
.neither {{ background: {NEITHER}; padding: 0 .4em }}
</style>
<h1>Who predicted each {numbers["unit"]}, counting or learning?</h1>
<p>learned <span class="scale"></span> counted (white: both alike) &nbsp; <span class="neither">neither</span>: less
likely than if every {numbers["unit"]} were equally likely.<br>
The line below a character is the order of the n-grams that contributed most: {bars}.<br>
Point at a character for its numbers.</p>
<pre>{spans}</pre>
</html>
""",
            encoding="utf-8",
        )


def share_by_position(numbers: dict[str, Any]) -> Spec:
    """Bits of each predictor, and the share of the network, by position in the word."""
    import altair as alt

    rows, unit = numbers["by_position"], numbers["unit"]
    label = f"{'letter' if unit == 'character' else unit} of the word (after: what follows the word)"
    names = [row["position"] for row in rows]
    x = alt.X("x:O", sort=names, title=label, axis=alt.Axis(labelAngle=0))
    scores = _three(rows, names, x, numbers["orders"], f"bits per {unit}, on val")
    return _panels(scores, _shares(rows, names).mark_bar(color=LEARNED).encode(x=x), "by position in the word")


def share_over_training(numbers: dict[str, Any]) -> Spec:
    """Bits of each predictor, and the share of the network, over the first updates and of the trained model."""
    import altair as alt

    points, trained = numbers["training"]["points"], numbers["training"]["trained"]
    rows, names = [*points, trained], [*(str(point["step"]) for point in points), "trained"]
    x = alt.X("x:O", sort=names, title="updates", axis=alt.Axis(labelAngle=0))
    scores = _three(rows, names, x, numbers["orders"], f"bits per {numbers['unit']}, on part of val")
    return _panels(scores, _shares(rows, names).mark_bar(color=LEARNED).encode(x=x), "over the training")


def _three(rows: list[dict[str, Any]], names: list[str], x: "alt.X", orders: list[int], label: str) -> "alt.Chart":
    """The three predictors by what the rows are called; a line ends before the last, which follows from none."""
    import altair as alt

    predictors = {"counted": f"n-grams of order {orders[-1]}", "learned": "the network alone", "together": "both"}
    table = pd.DataFrame(
        {"x": name, "predictor": meaning, "bits": row[key]}
        for key, meaning in predictors.items()
        for name, row in zip(names, rows, strict=True)
    )
    colours = alt.Scale(domain=list(predictors.values()), range=[COUNTED, LEARNED, GPT])
    base = alt.Chart(table).encode(
        x=x,
        y=alt.Y("bits:Q", title=label),
        color=alt.Color("predictor:N", scale=colours, legend=alt.Legend(title=None, orient="top")),
    )
    return base.mark_line(strokeWidth=2).transform_filter(f"datum.x != '{names[-1]}'") + base.mark_point(
        filled=True, size=50, opacity=1
    )


def _shares(rows: list[dict[str, Any]], names: list[str]) -> "alt.Chart":
    """The share of the network; 0 where there is nothing to share."""
    import altair as alt

    learned = [0.0 if row["share"] is None else max(0.0, 1 - row["share"]) for row in rows]
    y = alt.Y("share:Q", title=None, axis=alt.Axis(format="%"), scale=alt.Scale(domainMin=0))
    return alt.Chart(pd.DataFrame({"x": names, "share": learned})).encode(y=y)


def _panels(scores: "alt.Chart", shares: "alt.Chart", what: str) -> Spec:
    import altair as alt

    half = alt.Chart(pd.DataFrame({"share": [0.5]})).mark_rule(strokeDash=[4, 4], color=COLOURS["counted"])
    written = shares.mark_text(dy=-8, fontSize=11, color="currentColor").encode(text=alt.Text("share:Q", format=".0%"))
    panels = alt.hconcat(
        scores.properties(width=440, height=260, title="each by itself, and both together"),
        (shares + written + half.encode(y="share:Q")).properties(width=440, height=260, title=SHARE_TITLE),
    )
    return finished(panels, f"Scores and the share of the network {what}.", wide=False)


def colour(share: float | None) -> str:
    """The background of a character: from learned over as much of both to counted; NEITHER without a share."""
    if share is None:
        return NEITHER
    place = (min(max(share, LEAST), MOST) - LEAST) / (MOST - LEAST)  # 0 to 1
    ends, part = ((LEARNED, MIDDLE), 2 * place) if place < 0.5 else ((MIDDLE, COUNTED), 2 * place - 1)
    first, last = ([int(end[i : i + 2], 16) for i in (1, 3, 5)] for end in ends)
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(first, last, strict=True))


def _rows(chars: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows of at most COLUMNS columns, which end after a newline or a space."""
    row: list[dict[str, Any]] = []
    for char in chars:
        if row and sum(map(_width, row)) + _width(char) > COLUMNS:
            spaces = [i for i, earlier in enumerate(row) if earlier["char"] == " "]
            cut = spaces[-1] + 1 if spaces else len(row)
            yield row[:cut]
            row = row[cut:]
        row.append(char)
        if char["char"].endswith("\n"):
            yield row
            row = []
    if row:
        yield row


def _width(char: dict[str, Any]) -> int:
    """Columns of an id: those of its text, or one for a later byte of a character, which has none."""
    return max(1, len(char["char"]))


def _underline(order: int, orders: list[int]) -> str:
    return f"border-bottom:{1 + 2 * orders.index(order)}px solid #444"


def _span(char: dict[str, Any], orders: list[int], unit: str) -> str:
    share = "" if char["share"] is None else f", {char['share']:.0%} counted"
    title = (
        f"bits: counts {char['counted']:.2f}, network {char['learned']:.2f}, together {char['together']:.2f}{share}; "
        f"order {char['order']}; {char['context']} {unit}s of context are in train"
    )
    shown = "⏎\n" if char["char"] == "\n" else html.escape(char["char"])
    style = f"background:{colour(char['share'])};{_underline(char['order'], orders)}"
    return f'<span style="{style}" title="{title}">{shown}</span>'
