"""The ports that daemons of tests get are nobody else's: `make test` failed beside other daemons."""

import socket

import pytest
from consortium import free_port


def test_a_port_that_a_daemon_will_listen_on_is_given_to_nobody_else_meanwhile():
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # a daemon listens there, and again after a restart
        with socket.create_server(("127.0.0.1", port)) as daemon, socket.create_connection(("127.0.0.1", port)) as line:
            assert line.getpeername() == daemon.getsockname()
            with pytest.raises(OSError, match="in use"):
                socket.create_server(("127.0.0.1", port))
