"""How a process is set up before torch is imported, and how its idle threads give way."""

import itertools
import os
from types import SimpleNamespace

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
        ({}, True, SPINS),
        ({}, False, SPINS_IF_BLIND),
        ({"GOMP_SPINCOUNT": "7"}, True, "7"),
        ({"OMP_WAIT_POLICY": "passive"}, True, None),
    ],
)
def test_spins_are_long_where_crowding_is_reported_and_the_user_has_not_set_them(
    monkeypatch, tmp_path, environment, reported, expected
):
    monkeypatch.setattr(os, "environ", dict(environment))
    if reported:
        (tmp_path / "11").mkdir()
        (tmp_path / "11" / "schedstat").write_text("3 5 7\n")
    monkeypatch.setattr(threads, "WAITING", tmp_path)
    limit_spinning()
    assert os.environ.get("GOMP_SPINCOUNT") == expected


@pytest.mark.parametrize(("n_threads", "n_cores"), [(1, 2), (2, 2), (2, 5), (3, 3), (3, 11)])
def test_a_surplus_is_just_enough_for_more_threads_than_cores(monkeypatch, n_threads, n_cores):
    monkeypatch.setattr(threads, "n_cores", lambda: n_cores)
    torch.set_num_threads(n_threads)
    surplus = Surplus()
    surplus.keep(True)
    teams = list(surplus.threads)
    surplus.keep(True)
    assert surplus.threads == teams, "it is kept, not added to"
    if n_threads == 1:
        assert teams == [], "a single thread waits for nobody"
    else:
        counted = [n_threads + n * (n_threads - 1) > n_cores for n in (len(teams), len(teams) - 1)]
        assert counted == [True, False]
    surplus.keep(False)
    assert not any(thread.is_alive() for thread in teams)


def test_a_surplus_is_kept_while_threads_wait_for_cores(monkeypatch):
    waited, clock = itertools.accumulate([0.0, 0.01, 0.4, 0.06, 0.04, 0.3]), itertools.count(0.0, 0.5)
    kept = []
    monkeypatch.setattr(threads, "_waited_seconds", lambda: next(waited))
    time = SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None)
    monkeypatch.setattr(threads, "time", time)
    monkeypatch.setattr(Surplus, "keep", lambda _, wanted: kept.append(wanted))
    with pytest.raises(StopIteration):  # the end of the made-up times
        threads._look()
    assert kept == [False, True, True, False, True]


@pytest.mark.skipif(not any(threads.WAITING.glob("*/schedstat")), reason="this system does not report waiting")
def test_the_system_reports_how_long_threads_have_waited():
    assert threads._waited_seconds() >= 0  # it falls when a thread ends


def test_a_surplus_changes_no_bit_of_a_sum():
    torch.set_num_threads(2)
    x = torch.randn(997, 1009, generator=torch.Generator().manual_seed(5))
    surplus, sums = Surplus(), []
    for wanted in (False, True):
        surplus.keep(wanted)
        sums.append((x @ x.T).softmax(-1).sum())
    surplus.keep(False)
    assert torch.equal(*sums)


@pytest.mark.parametrize(("before", "after"), [({}, "1"), ({"THP_MEM_ALLOC_ENABLE": "0"}, "0")])
def test_stages_use_large_pages_unless_the_environment_says_otherwise(monkeypatch, before, after):
    monkeypatch.setattr(os, "environ", dict(before))
    use_large_pages()
    assert os.environ["THP_MEM_ALLOC_ENABLE"] == after
