"""Text that breaks Markdown or a font, where a report does not expect it."""

import pandas as pd
from hypothesis import strategies as st

TEXTS = [
    "a|b", "\\|", "\\\\|`", "`", "``a`", " a ", "   ", "|", "a\nb", "\r\n", "**a** _b_ ~~c~~", "<b>a</b>", "&amp; &",
    "$a$ $b$", "[a](b)", "![a](b)", "# a", "- a", "1. a", "---", "\\", "a\\", "\u00ad\u200b\u00a0\u2028", "\u0301",
    "红楼梦", "مرحبا", "नमस्ते", "😀\U000e0001\ue000",
]  # fmt: skip
MARKS = "\\`|*_~<>&$#[]! -\n"
parts = st.sampled_from([*TEXTS, *MARKS]) | st.characters(exclude_categories=["Cs"])
strange_texts = st.lists(parts, max_size=9).map("".join)


def works_of(rows):
    """The table of works from rows of category, author, work, year and characters."""
    return pd.DataFrame(rows, columns=["category", "author", "work", "year", "chars"]).astype({"chars": "int64"})


ONE = works_of([("-", "-", "book", None, 101)])
STRANGE = works_of([(text, text[::-1], text, None, 7 + number) for number, text in enumerate(TEXTS) if text.strip()])
CATEGORIES = ["prose", "poems", "letters"]
MANY = works_of(
    (CATEGORIES[n % 3], f"author {n % 37:02}", f"work {n}", str(1701 + n) if n % 5 else None, 11 + n)
    for n in range(373)
)
