"""Whether an owner could answer if it were asked: for its own people (`/ready` on the metrics page) and, as
grpc.health.v1, for whoever may call.

Formal guarantee: what is said depends on the files of ledger, table and certificates and on the last answers, never on
a record.
"""

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from parley.durable import no_room, store_address
from parley.errors import LedgerError, UnknownTerms
from parley.network.exchange.messages import SERVICE
from parley.network.serving.acceptance import Acceptances
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
FRESH = 1.0  # seconds for which a verdict stands: who asks often reads no files for it
TROUBLE = 300.0  # seconds for which trouble with a question is remembered, unless one is answered


class Readiness:
    """Looks at what an owner needs, without touching a record or the ledger's lock."""

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
        self._looked, self._why = -FRESH, list[str]()
        self._unfit: set[str] = set()
        self._trouble: float | None = None

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
            if time.monotonic() - self._looked >= FRESH:
                self._why = [
                    sentence
                    for look in (self._ledger, self._room, self._rows, self._identity, self._memory)
                    for sentence in look()
                ]
                self._looked = time.monotonic()
            return self._why

    def _ledger(self) -> list[str]:
        try:
            if self._owner.ledger.hash_at(1) is None:
                return ["the ledger has no rows"]
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
        lately = self._trouble is not None and time.monotonic() - self._trouble < TROUBLE
        return ["a question could not be answered; the log says why"] if lately else []


def room_problems(books: Path | None, kind: str) -> list[str]:
    """A sentence if nothing could be written where a ledger or a journal lies."""
    why = None if books is None else no_room(books)
    return [] if why is None else [f"nothing can be written where the {kind} lies ({why})"]


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
