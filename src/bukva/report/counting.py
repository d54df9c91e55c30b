"""Figures of who predicted what, counting or learning; their numbers are in counting.json."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bukva.core.files import atomic_file, atomic_folder, write_json
from bukva.report.style import GPT_COLOUR, RAW, SHOWN, canvas, plain, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COUNTED, MIDDLE, LEARNED = "#f28e2b", "#f7f7f7", "#5fa8dc"  # of the scale; black letters are legible on all of it
NEITHER = "#cfcfcf"
TOGETHER = "#b3273d"
COLOURS = {"counted": RAW, "learned": GPT_COLOUR, "together": TOGETHER}
SHARE_TITLE = "Share of the network (dotted: as much as counting)"
LEAST, MOST = 0.25, 0.75  # shares at the ends of the scale: few characters are beyond
COLUMNS = 60  # characters in a row of the passage
ROW, COLUMN = 0.34, 0.145  # inches


def counting_report(numbers: dict[str, Any], folder: Path) -> None:
    """Write the folder in one step: counting.json, the passage, and two figures."""
    with atomic_folder(folder) as unfinished:
        write_json(unfinished / "counting.json", numbers)
        passage_page(numbers, unfinished / "passage.html")
        passage(numbers, unfinished / "passage.png")
        share_by_position(numbers, unfinished / "share_by_position.png")
        share_over_training(numbers, unfinished / "share_over_training.png")


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


def passage(numbers: dict[str, Any], path: Path) -> None:
    """A passage: the background of a character is the share of counting, the bar below it the order."""
    from matplotlib.patches import Rectangle

    rows = list(_rows(numbers["passage"]["chars"]))
    figure = canvas(height=ROW * len(rows) + 1.35, width=COLUMN * COLUMNS + 0.3)
    text, legend = figure.subplots(2, 1, height_ratios=[ROW * len(rows), 0.75])
    text.set(xlim=(0, COLUMNS), ylim=(len(rows), 0))
    for y, row in enumerate(rows):
        x = 0
        for char in row:
            width = _width(char)
            text.add_patch(Rectangle((x, y + 0.06), width, 0.62, facecolor=colour(char["share"])))
            height = _height(char["order"], numbers["orders"])
            text.add_patch(Rectangle((x + 0.12, y + 0.74), width - 0.24, height, facecolor="0.25"))
            shown = SHOWN.get(char["char"], char["char"])
            is_letter = shown == char["char"]
            text.text(
                x + width / 2, y + 0.38, shown, ha="center", va="center", family="DejaVu Sans Mono",
                fontsize=11 if is_letter else 7, color="black" if is_letter else "0.55",
            )  # fmt: skip
            x += width
    text.set_title(f"Who predicted each {numbers['unit']}, counting or learning?", loc="left", fontsize=11)
    _legend(legend, numbers["orders"])
    for axes in (text, legend):
        axes.axis("off")
    save(figure, path)


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


def share_by_position(numbers: dict[str, Any], path: Path) -> None:
    """Bits of each predictor, and the share of the network, by position in the word."""
    rows = numbers["by_position"]
    letters = [row for row in rows if row["position"] != "after"]
    others = [row for row in rows if row["position"] == "after"]
    x = [*range(len(letters)), *(len(letters) + 0.6 for _ in others)]
    figure = canvas(height=4)
    scores, shares = figure.subplots(1, 2)
    unit = numbers["unit"]
    plain(scores, "Each by itself, and both together", "", f"bits per {unit}, on val")
    _three(scores, x, letters, others, numbers["orders"])
    scores.set_ylim(bottom=0)
    plain(shares, SHARE_TITLE, "", "")
    learned = [_learned(row) for row in rows]
    bars = shares.bar(x, learned, color=GPT_COLOUR, width=0.7)
    shares.bar_label(bars, [f"{share:.0%}" for share in learned], padding=2, fontsize=8)
    shares.grid(visible=False, axis="x")
    _percent(shares, learned)
    for axes in (scores, shares):
        axes.set_xticks(x, [row["position"] for row in rows], fontsize=9)
        axes.set_xlabel(f"{'letter' if unit == 'character' else unit} of the word (after: what follows the word)")
    save(figure, path)


def share_over_training(numbers: dict[str, Any], path: Path) -> None:
    """Bits of each predictor, and the share of the network, over the first updates and of the trained model."""
    points, trained = numbers["training"]["points"], numbers["training"]["trained"]
    steps = [point["step"] for point in points]
    end = 1.1 * steps[-1]
    figure = canvas(height=4)
    scores, shares = figure.subplots(1, 2)
    label = "step (optimizer updates; diamonds: trained)"
    plain(scores, "Each by itself, and both together", label, f"bits per {numbers['unit']}, on part of val")
    _three(scores, [*steps, end], points, [trained], numbers["orders"])
    scores.set_ylim(bottom=0)
    plain(shares, SHARE_TITLE, label, "")
    learned = [_learned(point) for point in points]
    shares.plot(steps, learned, "o-", color=GPT_COLOUR, ms=4, lw=2)
    shares.plot(end, _learned(trained), "D", color=GPT_COLOUR, ms=6)
    for x, share in ((steps[-1], learned[-1]), (end, _learned(trained))):
        shares.annotate(
            f"{share:.0%}", (x, share), (0, 8), textcoords="offset points", ha="center", fontsize=9, color=GPT_COLOUR
        )
    _percent(shares, [*learned, _learned(trained)])
    for axes in (scores, shares):
        axes.set_xticks([step for step in axes.get_xticks() if 0 <= step <= steps[-1]])
    save(figure, path)


def _learned(row: dict[str, Any]) -> float:
    """The share of the network; 0 where there is nothing to share."""
    return 0.0 if row["share"] is None else max(0.0, 1 - row["share"])


def _three(
    axes: "Axes", x: list[float], line: list[dict[str, Any]], marks: list[dict[str, Any]], orders: list[int]
) -> None:
    """The three predictors: rows that a line connects, and rows after them that it does not."""
    labels = {"counted": f"n-grams of order {orders[-1]}", "learned": "the network alone", "together": "both together"}
    for name, label in labels.items():
        bits = [row[name] for row in (*line, *marks)]
        axes.plot(x[: len(line)], bits[: len(line)], "o-", color=COLOURS[name], ms=4, lw=2, label=label)
        axes.plot(x[len(line) :], bits[len(line) :], "D", color=COLOURS[name], ms=6)
    axes.legend(frameon=False, fontsize=9)


def _percent(axes: "Axes", shares: list[float]) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.axhline(0.5, color="0.55", lw=1, ls=":")
    axes.set_ylim(0, max([0.6, *shares]) + 0.05)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


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


def _height(order: int, orders: list[int]) -> float:
    """Of the bar below a character: a third of the greatest for the lowest of three orders."""
    return 0.2 * (orders.index(order) + 1) / len(orders)


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


def _legend(axes: "Axes", orders: list[int]) -> None:
    """The scale from learned to counted, and the bars of the orders."""
    from matplotlib.patches import Rectangle

    axes.set(xlim=(0, COLUMNS), ylim=(2.6, 0))
    n_steps = 60
    for i in range(n_steps):
        share = LEAST + (MOST - LEAST) * i / (n_steps - 1)
        axes.add_patch(Rectangle((5.5 + i / 4, 0.2), 0.26, 0.6, facecolor=colour(share)))
    for x, text in ((0, "learned"), (21, "counted"), (31.5, "neither: less likely than by chance")):
        axes.text(x, 0.5, text, va="center", fontsize=9)
    axes.text(13, 0.5, "alike", va="center", ha="center", fontsize=9)
    axes.add_patch(Rectangle((30, 0.2), 1, 0.6, facecolor=NEITHER))
    axes.text(0, 1.8, "bar: the order of the n-grams that contributed most", va="center", fontsize=9)
    for i, order in enumerate(orders):
        axes.add_patch(Rectangle((30.12 + 4 * i, 1.7), 0.76, _height(order, orders), facecolor="0.25"))
        axes.text(31.5 + 4 * i, 1.8, f"{order}", va="center", fontsize=9)
