"""What a daemon on a network keeps an eye on while it runs: its certificate, the authority's list, and the connections
to its port."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from parley.errors import ExchangeError
from parley.network.identity.revocation import Revocations
from parley.network.identity.settings import Identity
from parley.network.serving.connections import Connections
from parley.network.serving.credentials import Credentials
from parley.network.serving.front import Front
from parley.network.serving.log import Log


class Network:
    """An identity that is followed, and connections that are bounded."""

    def __init__(self, identity: Identity, name: str, log: Log, longest: Callable[[], int]) -> None:
        """`longest` is the length of the longest question that anybody may ask at the moment."""
        self.credentials = Credentials(identity, name, log)
        self.revocations = Revocations(identity, lambda sentence: log("warning", reason=sentence))
        self.connections = Connections(log, longest)
        self._front: Front | None = None

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

    def open(self, where: str, port: int) -> int:
        """Take connections at this address ("host:port") for the gRPC server on this machine's own `port`, once it is
        `taking`; the port."""
        self._front = Front(where, port, self.connections)
        return self._front.port

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Connections are taken meanwhile, and bounded."""
        if self._front is None:
            raise ExchangeError("network: opened nowhere yet")
        self._front.start()
        try:
            yield
        finally:
            self._front.close()
