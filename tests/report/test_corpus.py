"""The page and the figure of the corpus, for any text and any names."""

from collections import Counter

import pytest
from report.strange import MANY, ONE, STRANGE, TEXTS, works_of
from report.test_markdown import read

from bukva.config.data import author_word
from bukva.corpus.cleaning.removals import visible
from bukva.report.corpus import page
from bukva.report.corpus_figure import corpus_figure, draw_corpus

TEXT = "Ёлка,\nёлка и ель. " * 7
HAN = "".join(chr(0x4E00 + number) * (1 + number % 13) for number in range(307))


def cleaning_of(works, text, **changes):
    """reports/cleaning.json of works with this text, over and over."""
    chars, counts = int(works["chars"].sum()), Counter(text)
    alphabet = {char: n * chars // len(text) or 1 for char, n in counts.most_common(300)}
    return {
        "rule_set": "literary",
        "why": "because the test says so",
        "works": len(works),
        "chars_before": chars + 3,
        "chars": chars,
        "symbols": len(counts),
        "removed": [{"rule": "invisible", "chars": 3, "lines": 0, "places": 3}],
        "examples": {},
        "lost_most": {},
        "letters": {"Cyrillic": 90, "Latin": 10},
        "alphabet": alphabet,
        "openings": [],
        **changes,
    }


def section(text, heading):
    """The part of a page below a heading."""
    _, _, after = text.partition(f"## {heading}\n")
    return after.partition("\n## ")[0]


def test_a_small_corpus_is_described_like_this():
    rows = [("poems", "Blok", "a", "1908", 60), ("poems", "-", "b_c", None, 30), ("prose", "Blok", "d", "1911", 9)]
    works = works_of(rows)
    one = {"work": "poems/-/b_c", "line": 1234, "before": "и", "removed": "|", "after": " "}
    cleaning = cleaning_of(
        works,
        TEXT,
        why="from my_rules.yaml",
        removed=[
            {"rule": "line_ends", "chars": -2, "lines": 0, "places": 1},
            {"rule": "strokes", "chars": 5, "lines": 1, "places": 3},
        ],
        examples={"strokes": [one, {**one, "replacement": "`"}]},
        lost_most={"poems/-/b_c": {"chars": 4, "share": 0.1176}},
        symbols=3,
        alphabet={" ": 70, "\u0301": 28},
    )
    assert (
        page(cleaning, works, "author")
        == """\
# Corpus

|  |  |
| --- | --- |
| works | 3 |
| authors | 1; not given for 1 of the 3 works |
| categories | 2 |
| years | 1900s to 1910s; not given for 1 of the 3 works |
| characters | 99 (97.1 % of the 102 before cleaning) |
| symbols | 3 different characters |
| letters | Cyrillic 90.0 %, Latin 10.0 % |
| cleaning rules | literary, from my\\_rules.yaml |

All numbers but those of removed text are of the cleaned text. The figure corpus.png shows them.

## Characters by author

| author | works | characters | share |
| --- | ---: | ---: | ---: |
| Blok | 2 | 69 | 69.7 % |
| not given | 1 | 30 | 30.3 % |

## Characters by category

| category | works | characters | share |
| --- | ---: | ---: | ---: |
| poems | 2 | 90 | 90.9 % |
| prose | 1 | 9 | 9.1 % |

## Characters by decade

| decade | works | characters | share |
| --- | ---: | ---: | ---: |
| 1900s | 1 | 60 | 60.6 % |
| 1910s | 1 | 9 | 9.1 % |
| not given | 1 | 30 | 30.3 % |

## Removed by cleaning

Characters include line ends, and are negative where a rule added some; places are how often a rule acted.

| rule | characters | lines | places |
| --- | ---: | ---: | ---: |
| `line_ends` | -2 | 0 | 1 |
| `strokes` | 5 | 1 | 3 |
| all | 3 | 1 | 4 |

Examples, with the text before and after them in their line. `<U+000A>` is the end of a line.

### `strokes`

| work | line | before | removed | put there | after |
| --- | ---: | --- | --- | --- | --- |
| `poems/-/b_c` | 1,234 | `и` | `\\|` |  | ` ` |
| `poems/-/b_c` | 1,234 | `и` | `\\|` | `` ` `` | ` ` |

## Works that lost most

| work | characters | share of the work |
| --- | ---: | ---: |
| `poems/-/b_c` | 4 | 11.8 % |

## Symbols

| symbol | name | count | share |
| --- | --- | ---: | ---: |
| ` ` | U+0020 SPACE | 70 | 70.707 % |
| `◌\u0301` | U+0301 COMBINING ACUTE ACCENT | 28 | 28.283 % |
| others (1) |  | 1 | 1.010 % |
"""
    )


def test_a_large_corpus_has_tables_of_few_rows_that_add_up():
    cleaning = cleaning_of(MANY, HAN)
    found = page(cleaning, MANY, "author")
    for heading, most in (("Characters by author", 30), ("Symbols", 200)):
        _, *rows = read(section(found, heading))
        assert sum(int(row[2].replace(",", "")) for row in rows) == cleaning["chars"]
        assert len(rows) == most + 1
        assert rows[-1][0].startswith("others (")


def test_strange_examples_are_shown_as_they_are():
    keys = "work", "before", "removed", "after", "replacement"
    examples = [{"line": 7, **dict.fromkeys(keys, text)} for text in TEXTS]
    found = page(cleaning_of(STRANGE, TEXT, examples={"strange": examples}), STRANGE, "author")
    assert read(section(found, "Removed by cleaning").partition("### ")[2])[1:] == [
        [visible(text), "7", *[visible(text)] * 4] for text in TEXTS
    ]


def test_what_is_no_author_is_called_what_the_corpus_calls_it():
    assert (author_word("ruslit"), author_word("sample")) == ("author", "collection")
    corpus = cleaning_of(ONE, TEXT), ONE, "collection"
    assert "## Characters by collection" in page(*corpus)
    assert "by author" not in page(*corpus)
    assert corpus_figure(*corpus).axes[0].get_title("left") == "Characters by collection"


# ---- the figure


def test_the_bars_are_the_numbers_of_the_page():
    cleaning = cleaning_of(MANY, HAN)
    panels = corpus_figure(cleaning, MANY, "author").axes
    for kind, axes in zip(("author", "category", "decade"), panels, strict=False):
        assert axes.get_title("left") == f"Characters by {kind}"
        assert sum(max(bar.get_width(), bar.get_height()) for bar in axes.patches) == cleaning["chars"]
        assert len(axes.get_yticks()) == len(axes.patches) <= 21
    drawn = [bar.get_height() for axes in panels[3:] for bar in axes.patches]
    assert drawn == list(cleaning["alphabet"].values())[:100]
    assert all(axes.get_yscale() == "log" and axes.get_ylim()[0] < 1 for axes in panels[3:])


@pytest.mark.slow
def test_the_figure_of_any_text_has_the_same_bytes_each_time(tmp_path):
    corpus = cleaning_of(STRANGE, "".join(TEXTS)), STRANGE, "author"
    for name in ("a.png", "b.png"):
        draw_corpus(*corpus, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
