"""A different kind of text at the end of a work is detected; chapters and plays are not reported."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from imports import ROOT

from bukva.corpus.splits.unlike import FEWEST, PARTS, SHORTEST, UNLIKE, bigram_bits
from bukva.text.characters import code_points

WORKS = sorted((ROOT / "data/sample").rglob("*.txt"))
NOTES = "".join(
    f"{n}. Стр. {n * 37 % 991}, строка {n * 7 % 31}. См.: Собр. соч. в {n % 20 + 1} т., т. {n % 9 + 1}, "
    f"с. {n * 13 % 557} (изд. {1801 + n % 99} г.).\n"
    for n in range(1, 400)
)


def span(start, stop):
    return np.array([[start, stop]])


def slow_bits(windows, counted):
    """Return the bits per character of the median window, by counts of pairs in a dictionary."""
    pairs = Counter(window[at : at + 2] for window in counted for at in range(len(window) - 1))
    firsts, seconds = Counter(), Counter()
    for pair, n in pairs.items():
        firsts[pair[0]] += n
        seconds[pair[1]] += n
    bits = []
    for window in windows:
        total = 0.0
        for at in range(len(window) - 1):
            first, second = window[at : at + 2]
            alone = (seconds[second] + 0.5) / (seconds.total() + 0.5 * (len(seconds) + 1))
            total -= math.log2((pairs[first + second] + 2 * alone) / (firsts[first] + 2))
        bits.append(total / (len(window) - 1))
    return float(np.median(bits))


def test_bits_are_those_of_a_slow_model_and_each_part_of_train_is_left_out_of_its_counts():
    text = (WORKS[0].read_text(encoding="utf-8") * 2)[: PARTS * FEWEST * SHORTEST + 2 * FEWEST * SHORTEST]
    n_train, n = PARTS * FEWEST * SHORTEST, FEWEST * SHORTEST
    held_out = {"val": span(n_train, n_train + n), "test": span(n_train + n, n_train + 2 * n)}
    bits = bigram_bits(code_points(text), span(0, n_train), held_out)
    windows = [text[start : start + SHORTEST] for start in range(0, len(text), SHORTEST)]
    parts = [windows[part * FEWEST : (part + 1) * FEWEST] for part in range(PARTS)]
    train = sorted(
        slow_bits(part, [window for other in parts if other is not part for window in other]) for part in parts
    )
    assert bits["train"] == pytest.approx(train[-2], abs=1e-9)
    for name, (start, _) in ((name, spans[0]) for name, spans in held_out.items()):
        own = windows[start // SHORTEST : start // SHORTEST + FEWEST]
        assert bits[name] == pytest.approx(slow_bits(own, [w for part in parts for w in part]), abs=1e-9)


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


def test_no_work_of_the_sample_and_not_all_of_them_together_are_unlike_themselves():
    texts = [work.read_text(encoding="utf-8") for work in WORKS]
    long = [text for text in texts if len(text) // 20 >= FEWEST * SHORTEST]
    assert len(long) > 20
    for excess in (above_train(*texts), *map(above_train, long)):
        assert max(excess.values()) < UNLIKE


def test_a_text_too_short_to_judge_has_no_bits():
    text = code_points("Раз, два, три. " * 100)
    assert bigram_bits(text, span(0, 1000), {"val": span(1000, 1399)}) == {}
    assert bigram_bits(text, span(0, 799), {"val": span(900, 1300)}) == {}
    assert set(bigram_bits(text, span(0, 800), {"val": span(900, 1300)})) == {"train", "val"}
    assert bigram_bits(text, np.empty((0, 2), np.int64), {"val": span(900, 1300)}) == {}
