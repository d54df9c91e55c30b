"""The limits of containers on cores are respected."""

import math
import os

import pytest

from bukva.core import machine
from bukva.core.machine import cpu_quota, n_cores


@pytest.fixture
def limited(tmp_path, monkeypatch):
    """Return a function that simulates a tree of control groups with this process in it, on a machine with 8 cores."""
    monkeypatch.setattr(machine, "MEMBERSHIP", tmp_path / "membership")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def make(membership, files):
        (tmp_path / "membership").write_text(membership)
        for name, content in files.items():
            (tmp_path / "cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "cgroup" / name).write_text(f"{content}\n")

    return make


V1 = "9:name=systemd:/\n4:memory:/docker/0a1b\n2:cpu,cpuacct:/docker/0a1b\n0::/docker/0a1b\n"


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000"}, 1.5),  # v2: a container sees its own group as the root
        ("0::/\n", {"cpu.max": "max 100000"}, math.inf),
        ("0::/a.slice/b.service\n", {"a.slice/cpu.max": "400000 100000", "a.slice/b.service/cpu.max": "3 1"}, 3),
        ("0::/../..\n", {"cpu.max": "2 1"}, 2),  # a group above the root that this process sees
        (V1, {"cpu/docker/0a1b/cpu.cfs_quota_us": 200000, "cpu/docker/0a1b/cpu.cfs_period_us": 100000}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": 50000, "cpu/cpu.cfs_period_us": 100000}, 0.5),  # the path is from the host
    ],
)  # fmt: skip
def test_the_quota_is_the_lowest_of_the_groups_of_this_process(limited, membership, files, quota):
    limited(membership, files)
    assert cpu_quota() == quota


def test_cores_are_the_quota_to_the_nearest_and_at_least_one(limited, monkeypatch):
    assert (cpu_quota(), n_cores()) == (math.inf, 8)  # a system without control groups has no limits
    for quota, cores in ((20, 1), (100, 1), (140, 1), (160, 2), (300, 3), (900, 8)):
        limited("0::/\n", {"cpu.max": f"{quota} 100"})
        assert n_cores() == cores
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert n_cores() == 2
