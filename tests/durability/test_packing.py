"""What is packed comes out again, and nothing else is unpacked."""

import pytest
import torch
from equality import same
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

from bukva.durability import packing
from bukva.durability.packing import pack, unpack

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers() | st.text(), inner, max_size=3),
)


@given(TREES)
def test_a_packed_tree_is_unpacked_whole(tree):
    same(unpack(pack(tree)), tree)


def test_tensors_of_every_kind_are_unpacked_whole():
    tree = {
        0: torch.arange(6).view(2, 3).T,
        "half": torch.randn(3).bfloat16(),
        "empty": torch.empty(0, 5),
        "alone": torch.tensor(2.5, dtype=torch.float64),
        "twice": [torch.ones(2)] * 2,
    }
    same(unpack(pack(tree)), tree)


def test_a_tuple_becomes_a_list():
    assert unpack(pack({"betas": (0.9, 0.99)})) == {"betas": [0.9, 0.99]}


def test_another_version_is_rejected(monkeypatch):
    monkeypatch.setattr(packing, "VERSION", 99)
    content = pack([1])
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"^version 99, not 2$"):
        unpack(content)


@pytest.mark.parametrize("content", [b"", b"anything", b"\x80\x04. a pickle"])
def test_bytes_that_are_not_safetensors_are_rejected(content):
    with pytest.raises(SafetensorError):
        unpack(content)
