"""What a daemon on a network keeps an eye on while it runs: its certificate, the authority's list, and the connections
to its port."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from parley.network.identity.revocation import Revocations
from parley.network.identity.settings import Identity
from parley.network.serving.connections import Connections
from parley.network.serving.credentials import Credentials
from parley.network.serving.front import Front, private_folder
from parley.network.serving.log import Log


class Network:
    """An identity that is followed, and connections that are bounded."""

    def __init__(self, identity: Identity, name: str, log: Log, longest: Callable[[], int]) -> None:
        """`longest` is the length of the longest question that anybody may ask at the moment."""
        self.credentials = Credentials(identity, name, log)
        self.revocations = Revocations(identity, lambda sentence: log("warning", reason=sentence))
        self.connections = Connections(log, longest)
        self._front: Front | None = None
        self._folder: Path | None = None

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

    @property
    def alive(self) -> bool:
        """Whether connections are still taken, once they were."""
        return self._front is None or self._front.alive

    def remove_folder(self) -> None:
        """Remove the socket's folder, where the process ends at once."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def open(self, where: str, bind: Callable[[Path], None]) -> Iterator[int]:
        """Take connections at this address ("host:port") meanwhile, bounded, for the gRPC server that `bind` lets
        listen on a Unix socket; the port."""
        with private_folder() as folder:
            self._folder = folder
            bind(folder / "grpc")
            self._front = Front(where, folder / "grpc", self.connections)
            self._front.start()
            try:
                yield self._front.port
            finally:
                self._front.close()
