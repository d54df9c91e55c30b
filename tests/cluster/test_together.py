"""A machine that trains with others knows which it is, computes its share only, and records nothing of it elsewhere."""

import os

import psutil
import pytest

from bukva.base.errors import BukvaError, LostError
from bukva.cluster import running, together
from bukva.cluster.job import Job, News
from bukva.cluster.slot import Slot

JOB = Job("try", ("train_gpt.processes=2",), "1" * 40, "origin.git", "", 1, 1, {})


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


def test_a_machine_that_trains_alone_is_the_first_and_names_no_network_card():
    together.name_interface()
    assert together.own_rank() == 0
    assert "GLOO_SOCKET_IFNAME" not in os.environ


def test_the_network_card_is_that_by_which_the_first_machine_is_reached():
    os.environ.update(together.variables("127.0.0.1:1234", nodes=2, rank=1))
    together.name_interface()
    [card] = [
        name for name, places in psutil.net_if_addrs().items() if "127.0.0.1" in [place.address for place in places]
    ]
    assert os.environ["GLOO_SOCKET_IFNAME"] == os.environ["NCCL_SOCKET_IFNAME"] == card


def test_the_network_card_that_the_user_has_named_stays():
    os.environ.update(together.variables("127.0.0.1:1234", nodes=2, rank=1), GLOO_SOCKET_IFNAME="mine")
    together.name_interface()
    assert os.environ["GLOO_SOCKET_IFNAME"] == "mine"


def test_a_share_needs_the_data_then_the_stage_and_its_records_stay_in_the_clone(tmp_path, monkeypatch):
    clone, calls = tmp_path / "slot-0", []
    (clone / ".bukva" / "journal").mkdir(parents=True)
    os.environ["MLFLOW_TRACKING_URI"] = "http://mlflow"

    def note(*what):
        calls.append((*what, os.environ["BUKVA_ROOT"], os.environ.get("MLFLOW_TRACKING_URI")))

    monkeypatch.setattr(together, "run_dvc", lambda *_, pull, until: note("dvc", pull, until))
    monkeypatch.setattr(together, "run_stage", lambda name, *_: note("stage", name))
    monkeypatch.chdir(tmp_path)
    said = together.train_share(JOB, Slot(0, clone, tmp_path / "project"), lambda _: None)
    assert said == "has trained its share"
    assert calls == [("dvc", True, "split", str(clone), None), ("stage", "train-gpt", str(clone), None)]
    assert not (clone / ".bukva").exists()


@pytest.mark.parametrize(
    ("printed", "status", "error"),
    [
        ("ERROR: failed to reproduce 'train-gpt': failed to run: a b, exited with 75", 255, LostError),
        ("ERROR: failed to reproduce 'train-gpt': failed to run: a b, exited with 1", 255, BukvaError),
        ("the splits are too short", 1, BukvaError),
        ("process 1 of 2 lost the connection to the others.", 75, LostError),
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
    expected = "train-gpt: a sentence" if "reproduce" in printed else printed
    assert str(raised.value) == expected
    assert [news.values["text"] for news in said] == ["train-gpt: a sentence", printed]
