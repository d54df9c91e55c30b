"""Text that breaks Markdown or a font, where a report does not expect it."""

from hypothesis import strategies as st

TEXTS = [
    "a|b", "\\|", "\\\\|`", "`", "``a`", " a ", "   ", "|", "a\nb", "\r\n", "**a** _b_ ~~c~~", "<b>a</b>", "&amp; &",
    "$a$ $b$", "[a](b)", "![a](b)", "# a", "- a", "1. a", "---", "\\", "a\\", "\u00ad\u200b\u00a0\u2028", "\u0301",
    "红楼梦", "مرحبا", "नमस्ते", "😀\U000e0001\ue000",
]  # fmt: skip
MARKS = "\\`|*_~<>&$#[]! -\n"
parts = st.sampled_from([*TEXTS, *MARKS]) | st.characters(exclude_categories=["Cs"])
strange_texts = st.lists(parts, max_size=9).map("".join)
