"""Simulated machines with separate network cards: Linux network namespaces joined by a bridge. This needs root."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator

BRIDGE = "bukva0"
ADDRESS = "10.77.7."  # prefix of the addresses of the bridge and of the machines


def is_possible() -> bool:
    """Return whether this process runs as root and the required programs are installed."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "nsenter")))


class Machine:
    """A simulated machine: a namespace, and a network card with an address that is connected to the bridge."""

    def __init__(self, number: int) -> None:
        self.name, self.address = f"{BRIDGE}-{number}", f"{ADDRESS}{number}"
        cable = f"{BRIDGE}v{number}"  # interface at the bridge
        ip("netns", "add", self.name)
        ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", cable, "master", BRIDGE, "up")
        ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "lo", "up")
        self.set_card("up")

    def command(self, *command: str) -> tuple[str, ...]:
        """Return the command line that runs a command on this machine."""
        return "nsenter", f"--net=/run/netns/{self.name}", *command

    def set_card(self, state: str) -> None:
        """Set the network card "up" or "down"."""
        ip("-n", self.name, "link", "set", "eth0", state)


@contextlib.contextmanager
def network(size: int) -> Iterator[list[Machine]]:
    """Create `size` machines that can reach each other, and remove them after the block."""
    if not size:
        yield []
        return
    numbers = range(2, 2 + size)
    _remove(numbers)  # a killed program leaves its network
    ip("link", "add", BRIDGE, "type", "bridge")
    try:
        ip("addr", "add", f"{ADDRESS}1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        yield [Machine(number) for number in numbers]
    finally:
        _remove(numbers)


def _remove(numbers: Iterable[int]) -> None:
    for number in numbers:  # a process that still runs keeps its namespace, but not the card
        ip("link", "delete", f"{BRIDGE}v{number}", check=False)
        ip("netns", "delete", f"{BRIDGE}-{number}", check=False)
    ip("link", "delete", BRIDGE, check=False)


def ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)
