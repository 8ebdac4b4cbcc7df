"""Where a peer listens for its neighbours: gRPC over mutual TLS, watched like a daemon's port."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from parley.network.identity.settings import Identity
from parley.network.peering.service import PeerService
from parley.network.serving.call_slots import CallSlots
from parley.network.serving.daemon import SENDING, open_files
from parley.network.serving.log import Log
from parley.network.serving.maintenance import maintain
from parley.network.serving.network import Network
from parley.network.serving.reminders import identity_reminders
from parley.network.serving.server import WORKERS, Endpoint, make_server, on_network

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
        workers = WORKERS + CALLS_EACH * neighbours
        pool = ThreadPoolExecutor(workers, thread_name_prefix="parley-peer")
        after.callback(pool.shutdown)
        server = make_server(pool)
        port = on_network(server, Endpoint(service, slots, lambda: True, log), network, address)
        after.enter_context(network.taking())
        after.callback(lambda: server.stop(GRACE).wait())
        server.start()
        looking = threading.Thread(
            target=maintain,
            args=(network, slots, identity_reminders(identity), over, log),
            name="parley-maintenance",
            daemon=True,
        )
        looking.start()
        after.callback(looking.join)
        after.callback(over.set)
        yield port
