"""The figure of the race."""

from pathlib import Path

from bukva.report.style import GPT_COLOUR, PALETTE, canvas, level, plain, save

Curve = list[tuple[float, float]]  # seconds, nats per character
TOP = 3.0  # nats per character; both sides are above it for a moment only


def draw_race(plain_curve: Curve, ours: list[Curve], target: float, path: Path) -> None:
    """Loss by seconds of training: the plain recipe, and ours with each seed."""
    figure = canvas(height=5)
    axes = figure.add_subplot()
    plain(
        axes,
        "tinyshakespeare: loss on the whole val split, scored with the clock stopped",
        "seconds of training",
        "nats per character",
    )
    axes.plot(*zip(*plain_curve, strict=True), "o-", ms=3, lw=2, color=PALETTE[0], label="nanoGPT's recipe, plain")
    for index, curve in enumerate(ours):
        label = f"ours, {len(ours)} seeds" if index == 0 else None
        axes.plot(*zip(*curve, strict=True), "o-", ms=3, lw=1, color=GPT_COLOUR, label=label)
    level(axes, target, "target")
    axes.set_xlim(left=0)
    axes.set_ylim(top=TOP)
    axes.legend(frameon=False)
    save(figure, path)
