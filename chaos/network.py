"""Machines with a network card each: network namespaces of Linux, joined by a bridge. Only root can make them."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

BRIDGE = "bukva0"
ADDRESS = "10.77.7."  # of the bridge and, behind it, of each machine


def is_possible() -> bool:
    """Whether this process may make them, and has the programs."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "nsenter")))


class Machine:
    """A namespace.

    name: of the namespace.
    address: of its card.
    """

    def __init__(self, number: int) -> None:
        self.name, self.address = f"{BRIDGE}-{number}", f"{ADDRESS}{number}"
        self._cable = f"{BRIDGE}v{number}"  # the other end of its card

    def command(self, *command: str) -> tuple[str, ...]:
        """A command that runs there."""
        return "nsenter", f"--net=/run/netns/{self.name}", *command

    def set_card(self, state: str) -> None:
        """Take its card "down", or bring it "up"."""
        _ip("-n", self.name, "link", "set", "eth0", state)

    def create(self) -> None:
        """Make the namespace, and a card that is connected to the bridge."""
        _ip("netns", "add", self.name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("link", "set", self._cable, "master", BRIDGE, "up")
        _ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.set_card("up")

    def remove(self) -> None:
        """Remove both; a process that is still there keeps the namespace, but not the card."""
        for command in (("link", "delete", self._cable), ("netns", "delete", self.name)):
            subprocess.run(["ip", *command], capture_output=True)


@contextlib.contextmanager
def network(size: int) -> Iterator[list[Machine]]:
    """So many machines, which reach each other until the end of the block."""
    machines = [Machine(2 + number) for number in range(size)]
    _ip("link", "add", BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{ADDRESS}1/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for machine in machines:
            machine.create()
        yield machines
    finally:
        for machine in machines:
            machine.remove()
        _ip("link", "delete", BRIDGE)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
