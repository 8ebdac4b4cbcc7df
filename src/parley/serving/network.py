"""What a daemon on a network keeps an eye on while it runs: its certificate, the authority's list, and the lines to its port."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from parley.identity.revocation import Revocations
from parley.identity.settings import Identity
from parley.serving.connections import Connections
from parley.serving.credentials import Credentials
from parley.serving.log import Log


class Network:
    """An identity that is followed, and lines that are bounded."""

    def __init__(self, identity: Identity, name: str, log: Log, longest: Callable[[], int]) -> None:
        """`longest` is the length of the longest question that anybody may ask at the moment."""
        self.credentials = Credentials(identity, name, log)
        self.revocations = Revocations(identity, lambda sentence: log("warning", reason=sentence))
        self.connections = Connections(log, longest)

    @property
    def ends(self) -> datetime:
        """When nobody can connect any more: the certificate's end, or its authority's."""
        return min(self.credentials.certificate.not_valid_after_utc, self.credentials.authority.not_valid_after_utc)

    def time_left(self) -> dict[str, float]:
        """Seconds until each thing ends."""
        ends = {
            "certificate": self.credentials.certificate.not_valid_after_utc,
            "authority": self.credentials.authority.not_valid_after_utc,
            "revocation-list": self.revocations.until,
        }
        now = datetime.now(UTC)
        return {of: (end - now).total_seconds() for of, end in ends.items() if end is not None}

    @contextmanager
    def watched(self, port: int) -> Iterator[None]:
        """Lines to this port are bounded meanwhile."""
        over, self.connections.port = threading.Event(), port
        thread = threading.Thread(target=self.connections.watch, args=(over,), name="parley-lines", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
