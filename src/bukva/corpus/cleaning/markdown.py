"""Markdown that may hold any text: what people call their works, and what rules removed from them."""

import re
from collections.abc import Iterable, Sequence

from bukva.corpus.cleaning.removals import visible

SPECIAL = re.compile(r"[\\`*_~\[\]<>|&$#]")


def plain(text: str) -> str:
    """Any text on one line, shown as it is."""
    return SPECIAL.sub(r"\\\g<0>", visible(text))


def code(text: str) -> str:
    """Any text as code in a cell of a table, its white space included; an empty text is an empty cell."""
    shown = visible(text).replace("|", "\\|")
    if not shown:
        return ""
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    first, last = shown[0], shown[-1]
    is_cut = first == last == " " and not shown.isspace()  # Markdown takes a space from both ends
    pad = " " if "`" in (first, last) or is_cut else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown; columns of numbers begin with `#`, and stand to the right."""
    titles = [column.removeprefix("#") for column in columns]
    rule = ["---:" if column.startswith("#") else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rule, *rows))
