"""The messages about splits: sizes that were missed, repeats, and a different kind of text at the end of a work."""

from itertools import pairwise

import numpy as np
from works import split, works_of

from bukva.corpus.split_report import (
    UNLIKE,
    bigram_bits,
    findings,
    missed_shares,
    short_ends,
)
from bukva.corpus.splits import share_table, spans
from bukva.text.characters import code_points
from tests.support.imports import ROOT

EXACT, BY_WORK = split(0.8, 0.1, 0.1), split(0.8, 0.1, 0.1, "by_work")


def missed(sizes, divided, asked=None):
    table = works_of(sizes)
    return missed_shares(table, share_table(spans(table, divided)), asked or divided)


def test_shares_that_miss_what_was_asked_by_more_than_a_tenth_are_named_with_the_reason():
    assert missed([1000, 100, 100], BY_WORK) == (
        "val has 8.33 % of the characters instead of 10 %; test has 8.33 % of the characters instead of 10 %: whole "
        "works cannot be divided exactly (split.strategy=by_work)"
    )
    assert missed([9], EXACT).endswith("instead of 10 %: parts of short works are rounded (split.strategy=tail)")
    assert missed([1000, 100, 100], EXACT) == ""
    assert missed([1000, 100, 100], BY_WORK, split(0.82, 0.091, 0.089, "by_work")) == ""  # less than a tenth below


def test_shares_that_cutting_made_smaller_are_named_with_how_much_was_cut():
    table, chosen = works_of([700, 150, 150]), split(0.7, 0.15, 0.15, "by_work", "remove")
    shares = share_table(spans(table, chosen), np.array([[0, 0, 300]]))  # 400 characters of the first work are cut
    why = "400 characters in 1 work were cut out of train because they repeat val or test (split.duplicates)"
    assert missed_shares(table, shares, chosen).endswith(f": {why}")
    uneven = split(0.4, 0.3, 0.3, "by_work", "remove")
    rest = "whole works cannot be divided exactly (split.strategy=by_work)"
    assert missed_shares(table, shares, uneven).endswith(f": {why}, and {rest}")


def test_ends_of_short_works_that_make_most_of_val_are_named_with_their_number():
    def said(sizes, strategy="tail"):
        chosen = split(0.8, 0.1, 0.1, strategy)
        return short_ends(share_table(spans(works_of(sizes), chosen)), chosen)

    tweets = [300] * 20  # val has 30 characters of each
    words = "most of val consists of the ends of 20 works, with fewer than 32 characters each, so a score on val says "
    assert said(tweets) == said([*tweets, 5_900])
    assert said(tweets).startswith(words)
    assert said([*tweets, 6_100]) == said([320] * 20) == said(tweets, "by_work") == said(tweets, "contiguous") == ""


def test_a_split_that_train_knows_or_that_is_unlike_train_is_named_with_figures():
    report = {
        "train": {"bigram_bits": 3.5},
        "val": {"in_train": {"32": 0.251}, "bigram_bits": 3.749},
        "test": {"in_train": {"32": 0.249}, "bigram_bits": 3.751},
    }
    seen, unlike = findings(report)
    assert seen.startswith("25.1 % of the windows of 32 characters in val also occur in train, so a score on val")
    assert unlike.startswith(
        "most of test is unlike train: test has 3.75 bits per character under a bigram model of train, but 15 of 16 "
        "parts of train have at most 3.50; check whether works end with a license, notes or an index"
    )
    for part in report.values():
        del part["bigram_bits"]
    assert [*findings(report)] == [seen]


WORKS = sorted((ROOT / "data/sample").rglob("*.txt"))
NOTES = "".join(
    f"{n}. Стр. {n * 37 % 991}, строка {n * 7 % 31}. См.: Собр. соч. в {n % 20 + 1} т., т. {n % 9 + 1}, "
    f"с. {n * 13 % 557} (изд. {1801 + n % 99} г.).\n"
    for n in range(1, 400)
)


def span(start, stop):
    return np.array([[start, stop]])


def above_train(*texts):
    """Return the bits per character of val and test minus those of train, for works that are divided as by `tail`."""
    starts = np.cumsum([0, *map(len, texts)])
    edges = [starts[:-1] + np.array([len(text) * share // 20 for text in texts]) for share in (0, 18, 19, 20)]
    spans = [np.stack(pair, axis=1) for pair in pairwise(edges)]
    bits = bigram_bits(code_points("".join(texts)), spans[0], {"val": spans[1], "test": spans[2]})
    return {name: bits[name] - bits["train"] for name in ("val", "test")}


def test_notes_or_another_language_at_the_end_of_a_text_are_unlike_it():
    book = "".join(work.read_text(encoding="utf-8") for work in WORKS if "prose" in work.parts)[:100_000]
    n = len(book) // 18
    assert above_train(book)["test"] < UNLIKE / 2
    excess = above_train(book + (NOTES * 9)[:n])
    assert excess["test"] > 2 * UNLIKE
    assert excess["val"] < UNLIKE
    assert above_train(book + ("Any person may copy this file, or give it away again. " * 999)[: 2 * n])["val"] > UNLIKE


def test_a_text_too_short_to_judge_has_no_bits():
    text = code_points("Раз, два, три. " * 100)
    assert bigram_bits(text, span(0, 1000), {"val": span(1000, 1399)}) == {}
    assert bigram_bits(text, span(0, 799), {"val": span(900, 1300)}) == {}
    assert set(bigram_bits(text, span(0, 800), {"val": span(900, 1300)})) == {"train", "val"}
