"""Splits on disk, and splits that are too short."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from works import save_in_characters, splits, works_of

from bukva.base.errors import BukvaError
from bukva.config.messages import WAY_BACK
from bukva.corpus.splits.folder import check_lengths, load_lengths, load_splits
from bukva.corpus.splits.strategies import spans


@settings(max_examples=20)
@given(
    chars=st.lists(st.integers(0, 40), min_size=1, max_size=5),
    chosen=splits("tail", "contiguous"),
    dtype=st.sampled_from(["uint8", "uint32"]),
)
def test_splits_survive_a_round_trip(tmp_path_factory, chars, chosen, dtype):
    ids = np.arange(sum(chars)).astype(dtype)
    by_split = spans(works_of(chars), chosen)
    folder = tmp_path_factory.getbasetemp() / "split"
    save_in_characters(folder, ids, by_split)
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.npy" for name in ["lengths", *by_split])
    loaded = load_splits(folder)
    assert list(loaded) == list(by_split)  # a split of a former run is removed
    lengths = load_lengths(folder)
    for name, span in by_split.items():
        assert lengths[name].tolist() == (span[:, 1] - span[:, 0]).tolist()
        assert loaded[name].dtype == np.dtype(dtype)
        assert loaded[name].tolist() == [id_ for start, stop in span for id_ in ids[start:stop].tolist()]


@pytest.mark.parametrize(("n", "advice"), [(8, "7 or less, "), (3, "2 or less, "), (2, ""), (0, "")])
def test_a_split_shorter_than_a_window_is_rejected_and_a_window_has_2_characters_or_more(n, advice):
    with pytest.raises(BukvaError) as error:
        check_lengths({"train": 1_000_000, "val": n}, 8, "model.block_size")
    assert str(error.value) == (
        f"params.yaml, model.block_size: a window of 8 characters and the next one is longer than val, which has {n}; "
        f"use {advice}a larger split.val or more text.\n{WAY_BACK}"
    )
    if advice:
        check_lengths({"train": n, "val": n}, int(advice[0]), "model.block_size")  # the suggestion is valid
