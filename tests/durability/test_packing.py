"""What is packed comes out again, and nothing else is unpacked."""

import pytest
import torch
from equality import same
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError

from bukva.durability.packing import pack, unpack

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(), inner, max_size=3),
)


@settings(max_examples=30)
@given(TREES)
def test_a_packed_tree_is_unpacked_whole(tree):
    same(unpack(pack(tree)), tree)


def test_tensors_of_every_kind_are_unpacked_whole_and_a_tuple_as_a_list():
    tree = {
        0: torch.arange(6).view(2, 3).T,
        "half": torch.randn(3).bfloat16(),
        "empty": torch.empty(0, 5),
        "alone": torch.tensor(2.5, dtype=torch.float64),
        "twice": [torch.ones(2)] * 2,
        "betas": (0.9, 0.99),
    }
    same(unpack(pack(tree)), tree | {"betas": [0.9, 0.99]})


@pytest.mark.parametrize("content", [b"", b"anything", b"\x80\x04. a pickle"])
def test_bytes_that_are_not_safetensors_are_rejected(content):
    with pytest.raises(SafetensorError):
        unpack(content)
