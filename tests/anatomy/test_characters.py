"""The scored characters: what they are, what stands before them, and how much context their windows give."""

import numpy as np
import pytest
from works import split as section

from bukva.anatomy.characters import BEFORE, read_characters, read_train
from bukva.base.text import from_code_points
from bukva.config.data import Tokenize
from bukva.corpus.collection import Document, write_collection
from bukva.corpus.splits.folder import load_lengths, load_splits, read_shares, save_splits
from bukva.encoding.works import tokenize
from bukva.evaluation.held_out import HeldOut
from bukva.scoring.window_rule import _windows, stride_of

T = 7
WORKS = {"а": "мир и война, война и мир\n" * 29, "б": "", "в": "日本 — мир 😀 и war\n" * 23 + "мир", "г": "и"}
SPLITS = {"tail": section(0.8, 0.1, 0.1, "tail"), "contiguous": section(0.7, 0.15, 0.15, "contiguous")}


@pytest.fixture(scope="module", params=[(kind, name) for kind in ("char", "byte", "bpe") for name in SPLITS])
def made(request, tmp_path_factory):
    """The folders, and the held-out text as stage evaluate reads it."""
    folder, (kind, name) = tmp_path_factory.mktemp("made"), request.param
    write_collection(folder / "clean", ((Document("c", "A", work), text) for work, text in WORKS.items()))
    params = Tokenize(kind=kind, vocabulary="all", unknown="error", vocab_size=277)
    tokenizer = tokenize(folder / "clean", folder / "tokens", params, SPLITS[name]).tokenizer
    save_splits(folder / "split", np.load(folder / "tokens/ids.npy"), read_shares(folder / "tokens"))
    return folder, HeldOut(load_splits(folder / "split"), load_lengths(folder / "split"), tokenizer, T)


def characters(folder, name="val"):
    return read_characters(folder / "split", folder / "tokens", name, T, stride_of(T))


def test_they_are_the_characters_that_have_scores_in_the_order_of_the_works_after_their_own_text(made):
    folder, text = made
    for name in ("val", "test"):
        found = characters(folder, name)
        assert np.bincount(found.work, minlength=len(WORKS)).tolist() == text.chars[name].tolist()
        assert found.text() == "".join(text.tokenizer.decode(passage.scored) for passage in text.passages(name, 1))
        assert found.text() == text.tokenizer.decode(text.splits[name])[1:]
        starts = np.searchsorted(found.work, found.work)  # of the work of each
        for i in range(len(found)):
            own = found.text(int(starts[i]), i)[-BEFORE:]
            assert from_code_points(found.before[i].astype(np.uint32)).endswith(own)
    train = from_code_points(read_train(folder / "split", folder / "tokens"))
    assert train == text.tokenizer.decode(text.splits["train"])


def test_context_is_what_the_window_holds_that_scores_the_character(made):
    folder, text = made
    passages = text.passages("val", T - stride_of(T) + 1)
    ids = np.concatenate([passage.ids for passage in passages])
    context = np.zeros(len(ids), np.int64)
    for start, first, stop in _windows(passages, T, stride_of(T)).tolist():
        for at in range(first, min(start + T + 1, stop)):
            context[at] = at - start
    expected = np.repeat(context, text.tokenizer.chars_of(ids) * (context > 0))
    assert characters(folder).context.tolist() == expected.tolist()
