"""Ports for daemons that have to know of each other before they start."""

import socket


def free_port() -> int:
    """A port that stays bound here, so the system gives it to nobody else; a daemon that is told it can listen there
    all the same (SO_REUSEADDR on both sides)."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port = int(holder.getsockname()[1])
    holder.detach()  # bound until this process ends
    return port
