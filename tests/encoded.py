"""Works of several alphabets, encoded by each tokenizer and split up by the stages' functions."""

import numpy as np
from works import saved
from works import split as section

from bukva.core.schema import Tokenize
from bukva.corpus.splits import tokenize
from bukva.text.held_out import HeldOut
from bukva.text.ids import load_lengths, load_splits, read_shares, save_splits

T = 6
KINDS = ["char", "byte", "bpe"]
SPLITS = {"tail": section(0.8, 0.1, 0.1, "tail"), "contiguous": section(0.7, 0.15, 0.15, "contiguous")}
WORKS = {"а": "мир и война, война и мир\n" * 29, "б": "", "в": "日本 — мир 😀 и war\n" * 23 + "мир", "г": "и"}


def held_out(folder, kind, split):
    """The held-out text as stage evaluate reads it; clean, tokens and split are in the folder."""
    saved(folder / "clean", WORKS)
    params = Tokenize(kind=kind, vocabulary="all", vocab_size=277)
    tokenizer, *_ = tokenize(folder / "clean", folder / "tokens", params, SPLITS[split])
    save_splits(folder / "split", np.load(folder / "tokens" / "ids.npy"), read_shares(folder / "tokens"))
    return HeldOut(load_splits(folder / "split"), load_lengths(folder / "split"), tokenizer)
