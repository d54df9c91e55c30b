"""Communication between the processes of a training. tests/dvc runs the stage in several processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bukva.core.errors import BukvaError
from bukva.core.processes import free_port
from bukva.training import distributed
from bukva.training.distributed import launch

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(autouse=True)
def _not_launched(monkeypatch):
    for name in ("TORCHELASTIC_RUN_ID", "PET_NNODES"):
        monkeypatch.delenv(name, raising=False)


PROGRAM = """
import json, torch
from bukva.training.distributed import join
with join(2) as group:
    first, frozen, last = (torch.nn.Parameter(torch.ones(shape)) for shape in ((2, 3), (5,), (2,)))
    first.grad, last.grad = torch.full((2, 3), 1.0 + group.rank), torch.tensor([10.0, 20.0 * group.rank])
    nats, norm = group.sum_gradients([first, frozen, last], torch.tensor(4.0 + group.rank))
    print(json.dumps({
        "group": [group.rank, group.size, group.local_rank, group.local_size],
        "gradients": [first.grad.tolist(), frozen.grad, last.grad.tolist()],
        "nats": float(nats),
        "norm": float(norm),
        "sum": group.sum(0.1 * (1 + group.rank)),
        "broadcast": [
            group.broadcast(content if group.is_leader else b"another").decode() for content in (b"content", b"")
        ],
    }))
"""


@pytest.mark.slow
def test_two_processes_sum_gradients_and_share_numbers_and_bytes():
    common = {"PYTHONPATH": str(SRC), "TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port(0)), "OMP_NUM_THREADS": "1"}  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    results = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert [one.pop("group") for one in results] == [[0, 2, 0, 2], [1, 2, 1, 2]]
    assert results[0] == results[1] == {
        "gradients": [[[3.0] * 3] * 2, None, [20.0, 20.0]],
        "nats": 9.0,
        "norm": pytest.approx((6 * 3.0**2 + 2 * 20.0**2) ** 0.5),
        "sum": pytest.approx(0.3),
        "broadcast": ["content", ""],
    }  # fmt: skip


def test_more_processes_than_the_cores_can_run_or_unequal_shares_are_an_error(monkeypatch):
    monkeypatch.setattr(distributed, "n_cores", lambda: 2)
    words = (
        r"train_gpt.processes: this machine would run 9 processes, which is too many for its 2 usable cores. Use at "
        r"most 8 processes per machine"
    )
    with pytest.raises(BukvaError, match=words):
        launch(9)
    monkeypatch.setenv("PET_NNODES", "3")
    words = (
        r"train_gpt.processes: 4 processes cannot be divided equally among 3 machines \(PET_NNODES\). Use a multiple"
    )
    with pytest.raises(BukvaError, match=words):
        launch(4)
