"""Where servers for one person on this machine listen: no other machine reaches them."""

import socket

HOST = "127.0.0.1"


def listen(port: int) -> socket.socket:
    """A socket that listens on this port, or on the next one on which no process listens."""
    while True:
        try:
            return socket.create_server((HOST, port))
        except OSError:
            port += 1


def free_port(port: int) -> int:
    """This port, or the next one on which no process listens."""
    with listen(port) as found:
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    """Whether a process listens on this port."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
