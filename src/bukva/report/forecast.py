"""The figure of a text that the model wrote: what it held likely at each character, and how certain it was."""

from pathlib import Path
from typing import Any

import numpy as np

from bukva.report.style import RAW, SHOWN, WEIGHTS, WIDTH, canvas, save


def forecast(numbers: dict[str, Any], path: Path) -> None:
    """Along a text that the model wrote: the five likeliest characters at each place, and the entropy."""
    found = numbers["forecast"]
    chars = found["chars"]
    top = len(chars[0]["top"])
    longest = max(len(text) for char in chars for text in (char["char"], *(text for text, _ in char["top"])))
    column = 0.3 if longest == 1 else 0.1 + 0.1 * longest  # inches
    figure = canvas(height=0.34 * (top + len(found["temperatures"])) + 1.9, width=max(WIDTH, column * len(chars)))
    upper, lower = figure.subplots(2, 1, height_ratios=[top, len(found["temperatures"])], sharex=True)
    chances = np.array([[share for _, share in char["top"]] for char in chars]).T  # (top, n)
    upper.imshow(chances, cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto")
    for (row, column), share in np.ndenumerate(chances):
        candidate = chars[column]["top"][row][0]
        upper.text(
            column, row, _visible(candidate), ha="center", va="center", fontsize=9,
            color="white" if share > 0.6 else "0.15",
            fontweight="bold" if candidate == chars[column]["char"] else "normal",
        )  # fmt: skip
        if candidate == chars[column]["char"]:
            upper.add_patch(_frame(column, row))
    upper.set_yticks(range(top), [f"{place}." for place in range(1, top + 1)], fontsize=8)
    upper.set_title(
        f"After «{_visible(found['prompt'])}»: the likeliest next {found['unit']}s; framed: the one drawn (below)",
        loc="left",
        fontsize=10,
    )
    entropy = np.array([char["entropy"] for char in chars]).T  # (temperatures, n)
    image = lower.imshow(entropy, cmap="Oranges", vmin=0, aspect="auto")
    for (row, column), value in np.ndenumerate(entropy):
        colour = "white" if value > 0.7 * entropy.max() else "0.15"
        lower.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=6.5, color=colour)
    lower.set_yticks(range(len(entropy)), [f"{temperature:g}" for temperature in found["temperatures"]], fontsize=8)
    lower.set_ylabel("temperature", fontsize=9)
    lower.set_xticks(range(len(chars)), [_visible(char["char"]) for char in chars], fontsize=10)
    lower.set_xlabel(
        f"the {found['unit']} drawn; above it: entropy of its distribution in bits, at four temperatures", fontsize=9
    )
    for axes in (upper, lower):
        axes.tick_params(length=0)
    figure.colorbar(image, ax=lower, pad=0.01, aspect=10)
    save(figure, path)


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, fill=False, edgecolor=RAW, lw=1.6)


def _visible(text: str) -> str:
    return "".join(SHOWN.get(char, char) for char in text)
