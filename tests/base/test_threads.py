"""How a process is set up before torch is imported, and how its idle threads give way."""

import os

import pytest
import torch

from bukva.base import threads
from bukva.base.threads import SPINS, SPINS_IF_BLIND, Surplus, limit_spinning, use_large_pages


@pytest.fixture(autouse=True)
def _torch_threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("environment", "reported", "expected"),
    [
        ({}, True, (SPINS, "1")),
        ({}, False, (SPINS_IF_BLIND, "1")),
        ({"GOMP_SPINCOUNT": "7", "THP_MEM_ALLOC_ENABLE": "0"}, True, ("7", "0")),
        ({"OMP_WAIT_POLICY": "passive"}, True, (None, "1")),
    ],
)
def test_spins_are_long_and_pages_large_where_the_user_has_not_said_otherwise(
    monkeypatch, tmp_path, environment, reported, expected
):
    monkeypatch.setattr(os, "environ", dict(environment))
    if reported:
        (tmp_path / "11").mkdir()
        (tmp_path / "11" / "schedstat").write_text("3 5 7\n")
    monkeypatch.setattr(threads, "WAITING", tmp_path)
    limit_spinning()
    use_large_pages()
    assert (os.environ.get("GOMP_SPINCOUNT"), os.environ.get("THP_MEM_ALLOC_ENABLE")) == expected


def test_a_surplus_changes_no_bit_of_a_sum():
    torch.set_num_threads(2)
    x = torch.randn(997, 1009, generator=torch.Generator().manual_seed(5))
    surplus, sums = Surplus(), []
    for wanted in (False, True):
        surplus.keep(wanted)
        sums.append((x @ x.T).softmax(-1).sum())
    surplus.keep(False)
    assert torch.equal(*sums)
