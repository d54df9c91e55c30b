"""The scored characters: what they are, what stands before them, and how much context their windows give."""

import itertools

import numpy as np
import pytest
from encoded import KINDS, SPLITS, WORKS, T, held_out

from bukva.interpret.predicted import BEFORE, read_characters, read_train
from bukva.models.window_rule import _windows, stride_of
from bukva.text.characters import from_code_points


@pytest.fixture(scope="module", params=itertools.product(KINDS, SPLITS), ids=" ".join)
def made(request, tmp_path_factory):
    """The folders, and the held-out text as stage evaluate reads it."""
    folder = tmp_path_factory.mktemp("made")
    return folder, held_out(folder, *request.param)


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
