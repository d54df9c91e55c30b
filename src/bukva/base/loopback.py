"""Where servers for one person on this machine listen: no other machine reaches them."""

import socket

HOST = "127.0.0.1"


def free_port(port: int) -> int:
    """This port, or the next one on which no process listens."""
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)):
                return port
        port += 1
