"""Passages: each work has preceding text of the same work as context."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from works import save_in_characters, split, works_of

from bukva.corpus.splits import spans
from bukva.text.held_out import HeldOut
from bukva.text.ids import load_lengths, load_splits
from bukva.text.tokenizers import CharTokenizer

TAIL = split(0.6, 0.2, 0.2, "tail")
CONTIGUOUS = split(0.6, 0.2, 0.2, "contiguous")
CHARS = CharTokenizer([chr(i) for i in range(7 * 23)])  # an id is a position in the joined corpus


def saved(folder, chars, split):
    """Divide and save works whose ids are their positions in the joined corpus."""
    save_in_characters(folder, np.arange(sum(chars), dtype=np.uint16), spans(works_of(chars), split))
    return load_splits(folder), load_lengths(folder)


@settings(max_examples=20)
@given(
    chars=st.lists(st.integers(0, 23), min_size=1, max_size=7),
    split=st.sampled_from([TAIL, CONTIGUOUS]),
    n_context=st.integers(1, 11),
)
def test_every_id_but_the_first_of_a_split_is_scored_once_after_its_own_text(tmp_path_factory, chars, split, n_context):
    splits, lengths = saved(tmp_path_factory.mktemp("split"), chars, split)
    starts = np.cumsum([0, *chars])
    for name in ("val", "test"):
        passages = HeldOut(splits, lengths, CHARS).passages(name, n_context)
        scored = [int(i) for passage in passages for i in passage.scored]
        assert scored == splits[name][1:].tolist()
        for passage in passages:
            first, context = int(passage.scored[0]), passage.ids[: passage.n_context].tolist()
            start = int(starts[passage.work])
            if first > start:  # the id at position i of the joined corpus is i
                assert context == list(range(max(start, first - n_context), first))
            else:
                assert context == [splits[name][splits[name].tolist().index(first) - 1]]
