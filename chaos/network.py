"""Simulated machines with separate network cards: Linux network namespaces joined by a bridge. This needs root."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

BRIDGE = "bukva0"
ADDRESS = "10.77.7."  # prefix of the addresses of the bridge and of the machines


def is_possible() -> bool:
    """Return whether this process runs as root and the required programs are installed."""
    return os.geteuid() == 0 and all(map(shutil.which, ("ip", "nsenter")))


class Machine:
    """A simulated machine.

    name: name of the network namespace.
    address: address of the network card.
    """

    def __init__(self, number: int) -> None:
        self.name, self.address = f"{BRIDGE}-{number}", f"{ADDRESS}{number}"
        self._cable = f"{BRIDGE}v{number}"  # interface at the bridge that is connected to the card

    def command(self, *command: str) -> tuple[str, ...]:
        """Return the command line that runs a command on this machine."""
        return "nsenter", f"--net=/run/netns/{self.name}", *command

    def set_card(self, state: str) -> None:
        """Set the network card "up" or "down"."""
        _ip("-n", self.name, "link", "set", "eth0", state)

    def create(self) -> None:
        """Create the namespace, and a network card that is connected to the bridge."""
        _ip("netns", "add", self.name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("link", "set", self._cable, "master", BRIDGE, "up")
        _ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.name, "link", "set", "lo", "up")
        self.set_card("up")

    def remove(self) -> None:
        """Remove the card and the namespace. A process that is still running keeps the namespace, but not the card."""
        for command in (("link", "delete", self._cable), ("netns", "delete", self.name)):
            subprocess.run(["ip", *command], capture_output=True)


@contextlib.contextmanager
def network(size: int) -> Iterator[list[Machine]]:
    """Create `size` machines that can reach each other, and remove them after the block."""
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
