"""One training on several machines: the first runs the experiment, each other its share of stage train-gpt.

Which machine this is, stands in the variables of torchrun, which the engine has set (or Slurm's script).
"""

import os
import shutil
import socket

import psutil

from bukva.cluster.job import Job, Say
from bukva.cluster.running import run_dvc, run_stage
from bukva.cluster.slot import Slot

SHARED = "train-gpt"  # the stage with train_gpt.processes
DATA = "split"  # the last of the stages whose outputs it reads, which each machine has itself
MEETING_SECONDS = 3600  # for the first machine to come to that stage


def variables(meeting: str, nodes: int, rank: int) -> dict[str, str]:
    """What torchrun wants to know.

    Args:
        meeting: HOST:PORT of the first machine, where the others find it.
        nodes: how many machines.
        rank: of this machine, from 0.
    """
    host, _, port = meeting.rpartition(":")
    return {
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
        "PET_RDZV_CONF": f"timeout={MEETING_SECONDS}",
    }


def own_rank() -> int:
    """The rank of this machine; 0 for one that trains alone."""
    return int(os.environ.get("PET_NODE_RANK", "0"))


def name_interface() -> None:
    """Let gloo and NCCL use the network card by which this machine reaches the first one, unless the user named one."""
    if "PET_MASTER_ADDR" not in os.environ:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])))  # sends nothing
        own = way.getsockname()[0]
    cards = (name for name, places in psutil.net_if_addrs().items() if own in (place.address for place in places))
    if card := next(cards, ""):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", card)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", card)


def train_share(job: Job, slot: Slot, say: Say) -> str:
    """Compute the share of this machine; returns a sentence.

    Its records stay in the clone: those of the experiment are written on the first machine.

    Raises:
        BukvaError: a stage failed.
        LostError: another machine was lost.
        StoppedError: SIGTERM came.
    """
    os.environ["BUKVA_ROOT"] = str(slot.folder)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    os.chdir(slot.folder)  # DVC refuses to read it from elsewhere
    shutil.rmtree(slot.folder / ".bukva", ignore_errors=True)  # of a former trial
    run_dvc(job, slot.folder, say, pull=True, until=DATA)
    run_stage(SHARED, job, slot.folder, say)
    return "has trained its share"
