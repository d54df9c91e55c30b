"""Print tables and sentences in the terminal, and describe the scores of a run in sentences."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from bukva.evaluation.compressors import ADAPTIVE, COMPRESSORS
from bukva.project.baseline import SPLIT
from bukva.project.stages import trained_models
from bukva.scoring.metrics import METRICS
from bukva.scoring.rows import Row, rows_of

DIGITS = 3  # decimal places of bits
Cells = tuple[list[str], list[list[str]]]  # of a table: its header, and its rows


def show(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    sentences: Iterable[str] = (),
    justify: Literal["left", "right"] = "right",
) -> None:
    """Print a table, and each of `sentences` on a new line. The first column is always aligned to the left."""
    console, rows, n = Console(highlight=False), list(rows), len(header)
    bare = [(Table(title=title, box=None, padding=(0, gap, 0, 0)), gap * n) for gap in (2, 1)]
    shapes = [(Table(title=title), 3 * n + 1), *bare]
    tried = [(shape, _widths([header, *rows], console.width - taken)) for shape, taken in shapes]
    table, widths = next((each for each in tried if None not in each[1]), tried[0])
    for i, (name, width) in enumerate(zip(header, widths, strict=True)):
        table.add_column(name, overflow="fold", justify=justify if i else "left", width=width)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for sentence in sentences:
        console.print(sentence, soft_wrap=True)


def _widths(lines: Iterable[Sequence[str]], room: int) -> list[int | None]:
    """Return the widths of columns that break no word. If the words do not fit into `room`, return `None` for each."""
    columns = list(zip(*lines, strict=True))
    widths = [max(cell_len(word) for cell in cells for word in cell.split() or [""]) for cells in columns]
    whole = [max(map(cell_len, cells)) for cells in columns]
    if sum(widths) > room:
        return [None] * len(widths)
    for _ in range(min(room, sum(whole)) - sum(widths)):  # the column that lacks most gets the next place
        widths[max(range(len(widths)), key=lambda i: whole[i] - widths[i])] += 1
    return [*widths]


def table(scores: dict[str, Any], *, with_test: bool = False, everything: bool = False) -> Cells:
    """Return a table of the bigram, the best n-gram model and the GPT, or of `everything` in reports/scores.json."""
    splits = [split for split in scores["gpt"] if split != "test" or with_test]
    by_key = {row.key: row for row in rows_of(scores, trained_models())}
    shown = [by_key[key] for key in (by_key if everything else ("bigram", scores["best_counted"], "gpt"))]
    metrics = {name: METRICS[name] for name in by_key["gpt"].metrics}
    header = ["model", *splits, *(f"{metric.label} ({SPLIT})" for metric in metrics.values())]
    return header, [
        [
            f"{row.label} ({COMPRESSORS[row.key].settings})" if row.key in COMPRESSORS else row.label,
            *cells(row, splits),
            *(each.show(row.metrics.get(name)) for name, each in metrics.items()),
        ]
        for row in shown
    ]


def cells(row: Row, splits: Iterable[str]) -> list[str]:
    """Format the bits per character of `row` for each of `splits`. A missing score becomes ""."""
    return [f"{row.bits[split]:z.3f}" if split in row.bits else "" for split in splits]


def signed(bits: float, digits: int = DIGITS) -> str:
    """Return a number of bits with its sign. Numbers that are rounded to 0 have a plus sign."""
    return f"{bits:+z.{digits}f}"


def better_or_worse(difference: float) -> str:
    """Return for example "0.062 bits better than" for -0.062, or "as good as" if the difference is rounded to 0."""
    size = f"{abs(difference):.{DIGITS}f}"
    return "as good as" if not float(size) else f"{size} bits {'better' if difference < 0 else 'worse'} than"


def percent(fraction: float | None) -> str:
    """Format a fraction as a percentage, such as "12.3 %". Return "" for `None`."""
    return "" if fraction is None else f"{100 * fraction:.1f} %"


def headline(scores: dict[str, Any]) -> str:
    """Return sentences that explain the GPT's score on val, and compare it with the best n-grams and the bigram."""
    rows = {row.key: row for row in rows_of(scores, trained_models())}
    own, metrics, counted = rows["gpt"].bits[SPLIT], rows["gpt"].metrics, rows[scores["best_counted"]]
    against_counting, against_bigram = (better_or_worse(own - row.bits[SPLIT]) for row in (counted, rows["bigram"]))
    return (
        f"The GPT needs {own:.3f} bits per character on {SPLIT}: it is as uncertain as a uniform guess among "
        f"{2**own:.1f} characters. That is {against_counting} the best model that only counts ({counted.label}), and "
        f"{against_bigram} the bigram."
        + "".join(f" {METRICS[name].show(score)} {METRICS[name].meaning}." for name, score in metrics.items())
    )


def context(scores: dict[str, Any]) -> str:
    """Return a sentence about the GPT's gain from a long context, and one about how all models were scored."""
    short, window = scores["context"][SPLIT], scores["window"]
    return (
        f"Context beyond {short['short_context']} {window['unit']}s improves the GPT by "
        f"{short['gain_bits_per_char']:z.3f} bits per character on {SPLIT}. All models were scored in windows of "
        f"{window['length']} {window['unit']}s with stride {window['stride']}, and with the preceding text of the same "
        f"work as context; {ADAPTIVE}."
    )


def times_shown(n: int) -> str:
    """Return a sentence that says how often the scores on a test text have been shown."""
    if not n:
        return "Scores on this test text have not been shown yet."
    return f"Scores on this test text have now been shown {'once' if n == 1 else f'{n} times'}."
