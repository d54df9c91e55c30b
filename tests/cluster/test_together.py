"""A machine that trains with others knows which it is, computes its share only, and records nothing of it elsewhere."""

import os

import pytest

from bukva.base.errors import BukvaError, LostError
from bukva.cluster import running, together
from bukva.cluster.job import News


@pytest.fixture(autouse=True)
def environment():
    """What a test sets does not stay."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(("PET_", "GLOO_", "NCCL_")):
            del os.environ[name]
    yield
    os.environ.clear()
    os.environ.update(before)


def test_the_variables_are_those_of_torchs_launcher():
    from torch.distributed import run

    os.environ.update(together.variables("10.0.0.1:1234", nodes=3, rank=2))
    arguments = run.get_args_parser().parse_args(["program"])
    assert (arguments.nnodes, arguments.node_rank) == ("3", 2)
    assert (arguments.master_addr, arguments.master_port) == ("10.0.0.1", 1234)
    assert arguments.rdzv_conf == "timeout=3600"
    assert together.own_rank() == 2


@pytest.mark.parametrize(
    ("printed", "status", "error"),
    [
        ("ERROR: failed to reproduce 'train-gpt': failed to run: a b, exited with 75", 255, LostError),
        ("ERROR: failed to reproduce 'train-gpt': failed to run: a b, exited with 1", 255, BukvaError),
    ],
)
def test_a_stage_that_has_lost_another_machine_may_be_tried_again(tmp_path, monkeypatch, printed, status, error):
    class Silent:
        def news(self) -> list[object]:
            return []

    said: list[News] = []
    script = f"echo 'train-gpt: a sentence'; echo \"{printed}\"; exit {status}"
    with pytest.raises(BukvaError) as raised:
        running._run(["sh", "-c", script], tmp_path, said.append, Silent())
    assert type(raised.value) is error
    assert str(raised.value) == "train-gpt: a sentence"
    assert [news.values["text"] for news in said] == ["train-gpt: a sentence", printed]
