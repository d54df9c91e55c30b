"""The figure of the race."""

from pathlib import Path

from bukva.report.style import PALETTE, canvas, level, plain, save

Curve = list[tuple[float, float]]  # seconds, nats per character
TOP = 3.0  # nats per character; both sides are above it for a moment only


def draw_race(curves: dict[str, Curve], levels: dict[str, float], path: Path) -> None:
    """Loss by seconds of training, and what is known without any."""
    figure = canvas(height=5)
    axes = figure.add_subplot()
    plain(
        axes,
        "tinyshakespeare: loss on the whole last tenth, scored with the clock stopped",
        "seconds of training",
        "nats per character",
    )
    for (label, curve), colour in zip(curves.items(), PALETTE, strict=False):
        axes.plot(*zip(*curve, strict=True), "o-", ms=3, lw=2, color=colour, label=label)
    for label, nats in levels.items():
        level(axes, nats, label)
    axes.set_xlim(left=0)
    axes.set_ylim(top=TOP)
    axes.legend(frameon=False)
    save(figure, path)
