"""Whether named tensors agree in type and shape."""

import pytest
import torch

from bukva.models.tensors import describe, first_mismatch

WANTED = {"a": torch.ones(2, 3), "b": torch.ones(5)}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.ones(2, 3), "float32 (2, 3)"),
        (torch.ones((), dtype=torch.bfloat16), "bfloat16 ()"),
        (None, "absent"),
        ("text", "str"),
        ([1], "list"),
    ],
    ids=str,
)
def test_a_value_is_described_by_type_and_shape(value, words):
    assert describe(value) == words


def test_tensors_of_the_same_types_and_shapes_agree():
    assert first_mismatch({name: tensor + 1 for name, tensor in WANTED.items()}, WANTED) == ""
    assert first_mismatch({}, {}) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"b": torch.ones(7)}, "b is float32 (7,), not float32 (5,)"),
        ({"b": torch.ones(5).double()}, "b is float64 (5,), not float32 (5,)"),
        ({"c": torch.ones(1)}, "c is float32 (1,), not absent"),
        ({"a": 5, "b": 5}, "a is int, not float32 (2, 3)"),
    ],
)
def test_the_first_mismatch_is_named(changes, words):
    assert first_mismatch(WANTED | changes, WANTED) == words


def test_a_missing_tensor_is_named():
    assert first_mismatch({"b": WANTED["b"]}, WANTED) == "a is absent, not float32 (2, 3)"
