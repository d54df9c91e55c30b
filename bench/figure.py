"""The race as a picture."""

from pathlib import Path

from bukva.report.style import COLOURS, canvas, level, plain, save

Curve = list[tuple[float, float]]  # seconds, nats per character
TOP = 3.0  # nats per character: what is above is over in a moment


def draw_race(theirs: Curve, ours: list[Curve], target: float, path: Path) -> None:
    """Loss against seconds of training: the plain recipe, and ours by each seed."""
    figure = canvas(height=5)
    axes = figure.add_subplot()
    plain(
        axes,
        "tinyshakespeare: the whole val split, scored on the way with the clock stopped",
        "seconds of training",
        "nats per character",
    )
    axes.plot(*zip(*theirs, strict=True), "o-", ms=3, lw=2, color=COLOURS["bigram"], label="nanoGPT's recipe, plain")
    for index, curve in enumerate(ours):
        label = f"ours, {len(ours)} seeds" if index == 0 else None
        axes.plot(*zip(*curve, strict=True), "o-", ms=3, lw=1, color=COLOURS["gpt"], label=label)
    level(axes, target, "target")
    axes.set_xlim(left=0)
    axes.set_ylim(top=TOP)
    axes.legend(frameon=False)
    save(figure, path)
