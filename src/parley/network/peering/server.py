"""Where a peer listens for its neighbours: gRPC over mutual TLS, watched like a daemon's port."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from parley.network.identity.settings import Identity
from parley.network.peering.service import PeerService
from parley.network.serving.call_slots import CallSlots
from parley.network.serving.daemon import SENDING, open_files
from parley.network.serving.log import Log
from parley.network.serving.maintenance import exit_if_dead, maintain
from parley.network.serving.network import Network
from parley.network.serving.reminders import identity_reminders
from parley.network.serving.server import WORKERS, Endpoint, make_server, on_network, start_serving, start_workers

CALLS_EACH = 4  # of one caller at once
LONGEST = 1024  # bytes of a question
GRACE = 2.0  # seconds for the last replies


@contextmanager
def listening(
    name: str, identity: Identity, address: str, service: PeerService, neighbours: int, log: Log
) -> Iterator[int]:
    """Answer neighbours at this address until the end of the context; the port."""
    open_files()
    network, slots = Network(identity, name, log, lambda: LONGEST), CallSlots(CALLS_EACH, SENDING)
    over = threading.Event()
    with ExitStack() as after:
        # a question may wait for what is not said yet, and keeps nobody else waiting
        pool = start_workers(WORKERS + CALLS_EACH * neighbours)
        after.callback(pool.shutdown)
        server = make_server(pool)
        endpoint = Endpoint(service, slots, lambda: True, log)
        port = after.enter_context(on_network(server, endpoint, network, address))
        after.callback(lambda: server.stop(GRACE).wait())
        alive = partial(exit_if_dead, start_serving([server]), network, log)
        looking = threading.Thread(
            target=maintain,
            args=(network, slots, identity_reminders(identity), over, log, alive),
            name="parley-maintenance",
            daemon=True,
        )
        looking.start()
        after.callback(looking.join)
        after.callback(over.set)
        yield port
