"""Whether a daemon could answer if it were asked: for its own people (`/ready` on the metrics page, after a call that
the daemon makes to itself) and, as grpc.health.v1, for whoever may call.

Formal guarantee: what is said depends on the files of ledger, table and certificates, on the last answers and on
whether the daemon answers itself, never on a record.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from parley.durable import store_address, why_not_writable
from parley.errors import LedgerError, UnknownTerms
from parley.network.exchange.messages import SERVICE
from parley.network.exchange.remote import CHANNEL_OPTIONS, channel_credentials
from parley.network.identity.settings import Identity
from parley.network.serving.acceptance import Acceptances
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner

HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
VERDICT_VALID_S = 1.0  # seconds for which a verdict stands: who asks often reads no files for it
SELF_CALL_TIMEOUT_S = 3.0  # seconds that the daemon has to answer itself
TROUBLE_MEMORY_S = 300.0  # seconds for which trouble with a question is remembered, unless one is answered


class Readiness:
    """Looks at what an owner needs (`looks`, each of which says what is in the way), without touching a record or the
    ledger's lock."""

    def __init__(
        self,
        owner: Owner,
        acceptances: Acceptances,
        table: Path,
        ends: Callable[[], datetime | None],
    ) -> None:
        """`ends` says when the identity ends, None without one."""
        self._owner, self._acceptances, self._table, self._ends = owner, acceptances, table, ends
        self._lock = threading.Lock()
        self._looked, self._why = -VERDICT_VALID_S, list[str]()
        self._unfit: set[str] = set()
        self._trouble: float | None = None
        self.looks: list[Callable[[], list[str]]] = [
            self._ledger,
            self._room,
            self._rows,
            self._identity,
            self._memory,
        ]

    def on_event(self, event: str, facts: dict[str, Any]) -> None:
        """Note what an event of the log says about being ready."""
        if event == "not-ready":
            self._unfit.add(facts["terms"])
        elif event == "trouble":
            self._trouble = time.monotonic()
        elif event == "answer":
            self._trouble = None
            self._unfit.discard(facts["terms"])

    def problems(self) -> list[str]:
        """One sentence for each thing that is in the way; none if it could answer."""
        with self._lock:
            if time.monotonic() - self._looked >= VERDICT_VALID_S:
                self._why = [sentence for look in self.looks for sentence in look()]
                self._looked = time.monotonic()
            return self._why

    def _ledger(self) -> list[str]:
        try:
            if self._owner.ledger.hash_at(1) is None:
                return ["the ledger has no rows"]
            if isinstance(self._owner.ledger, Ledger) and self._owner.ledger.witnessed.contradiction() is not None:
                return ["the ledger was put back to an earlier time; read the runbook"]
            for terms in self._acceptances.hashes():
                self._owner.ledger.account(terms)
        except LedgerError:
            return ["the ledger was moved, replaced or cannot be read"]
        except UnknownTerms:
            return ["terms were accepted that the ledger does not know"]
        except OSError:
            return ["the accepted terms cannot be read"]
        return []

    def _room(self) -> list[str]:
        return room_problems(self._owner.ledger.path, "ledger") if isinstance(self._owner.ledger, Ledger) else []

    def _rows(self) -> list[str]:
        table, stored = self._owner.table, store_address(self._table) is not None
        if not stored and not os.access(self._table, os.R_OK):
            return ["the table cannot be read"]
        if not table.unchanged():
            return [f"the table's {'files' if stored or self._table.is_dir() else 'file'} changed since it was opened"]
        if not all(os.access(file, os.R_OK) for file in table.files):
            return ["the table cannot be read"]
        return ["the table does not fit accepted terms"] if self._unfit else []

    def _identity(self) -> list[str]:
        ends = self._ends()
        return [] if ends is None or ends > datetime.now(UTC) else ["the certificate or its authority's has expired"]

    def _memory(self) -> list[str]:
        lately = self._trouble is not None and time.monotonic() - self._trouble < TROUBLE_MEMORY_S
        return ["a question could not be answered; read the reason in the log"] if lately else []


def room_problems(books: Path | None, kind: str) -> list[str]:
    """A sentence if nothing could be written where a ledger or a journal lies."""
    why = None if books is None else why_not_writable(books)
    return [] if why is None else [f"nothing can be written where the {kind} lies ({why})"]


class SelfCall:
    """A call that a daemon makes to itself the way others come: by its own port with its own certificate, or by the
    socket for relays where it has no port."""

    def __init__(self, service: str, name: str, identity: Identity | None) -> None:
        self._service, self._name, self._identity = service, name, identity
        self._lock, self._address = threading.Lock(), ""
        self._channel: Any = None
        self._looked, self._why = -VERDICT_VALID_S, list[str]()

    def at(self, address: str) -> None:
        """Call there from now on: "host:port", or "unix:PATH"."""
        host, _, port = address.rpartition(":")
        everywhere = {"0.0.0.0": "127.0.0.1", "[::]": "127.0.0.1" if socket.has_dualstack_ipv6() else "[::1]"}  # noqa: S104
        with self._lock:
            self._address, self._looked = f"{everywhere.get(host, host)}:{port}", -VERDICT_VALID_S

    def problems(self) -> list[str]:
        """One sentence if no answer came; a verdict stands for `VERDICT_VALID_S` seconds, and one call is made at a
        time."""
        with self._lock:
            if time.monotonic() - self._looked >= VERDICT_VALID_S:
                # a connection that was there may have ended with its certificate: then a new one is tried
                answered = (self._channel is not None and self._answered()) or self._answered()
                self._why = [] if answered else ["the daemon does not answer calls to its own address"]
                self._looked = time.monotonic()
            return self._why

    def _answered(self) -> bool:
        if not self._address:
            return False
        try:
            if self._channel is None:
                self._channel = self._connect()
            self._channel.unary_unary(f"/{self._service}/Health")(b"", timeout=SELF_CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                return True  # so says the daemon itself
            self._drop()
            return False
        except OSError:
            return False
        return True

    def _connect(self) -> Any:
        options = (*CHANNEL_OPTIONS, ("grpc.enable_http_proxy", 0), ("grpc.ssl_target_name_override", self._name))
        if self._address.startswith("unix:") or self._identity is None:
            return grpc.insecure_channel(self._address)
        return grpc.secure_channel(self._address, channel_credentials(self._identity), options=options)

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def close(self) -> None:
        """Let go of the connection, and make no further call."""
        with self._lock:
            self._address = ""
            self._drop()


def check(content: bytes, ready: bool, name: str = SERVICE) -> bytes | None:
    """The reply of grpc.health.v1 to this request; None for a service that is not here, or what is no request."""
    try:
        service = health_pb2.HealthCheckRequest.FromString(content).service
    except DecodeError:
        return None
    if service not in ("", name):
        return None
    status = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
    return bytes(health_pb2.HealthCheckResponse(status=status).SerializeToString())
