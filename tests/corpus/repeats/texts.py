"""Texts with repeats, and slow and obvious searches for them."""

import numpy as np


def text_of(n, n_kinds, seed):
    """(n,) random characters: no run of 12 stands in two places by chance if n_kinds is 29 and n a few thousand."""
    return np.random.default_rng(seed).integers(0, n_kinds, n).astype(np.uint16)


def joined(*texts):
    """Texts one after the other, and their (n_texts, 2) spans."""
    stops = np.cumsum([len(text) for text in texts])
    return np.concatenate(texts), np.stack([stops - [len(text) for text in texts], stops], axis=1)


def windows(codes, spans, n):
    """Every window of n characters within a span: its characters -> the places where it stands."""
    found = {}
    for start, stop in spans:
        for at in range(start, stop - n + 1):
            found.setdefault(tuple(codes[at : at + n].tolist()), []).append(at)
    return found


def maximal_runs(codes, a_spans, text, b_spans, n):
    """{(start in codes, start in text, length)} of equal runs of n characters or more that cannot be longer."""
    runs = set()
    for a_start, a_stop in a_spans:
        for b_start, b_stop in b_spans:
            for a in range(a_start, a_stop):
                for b in range(b_start, b_stop):
                    if a > a_start and b > b_start and codes[a - 1] == text[b - 1]:
                        continue
                    length = 0
                    while a + length < a_stop and b + length < b_stop and codes[a + length] == text[b + length]:
                        length += 1
                    if length >= n:
                        runs.add((int(a), int(b), length))
    return runs


def changed(text, share, rng):
    """A third of the changed characters is replaced, a third left out, a third put before another."""
    result = []
    for code in text.tolist():
        draw = rng.random() / share if share else 1
        if draw >= 1 / 3:
            if draw < 1:
                result.append(int(rng.integers(0, 29)))
            if draw >= 2 / 3:
                result.append(code)
    return np.array(result, np.uint16)
