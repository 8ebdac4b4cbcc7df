"""Connections to the studio, bounded in number and in time, so that nobody keeps its user out by being silent.

Whoever has not shown the cookie has `REQUEST_TIMEOUT_S` seconds from connecting, or from the last answer, until the
next answer has been read. At most `MAX_CONNECTIONS` are open: of those that are not being answered with the cookie, the
oldest makes room for the next.
"""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from parley.studio.guard import KNOWN

MAX_CONNECTIONS = 100
REQUEST_TIMEOUT_S = 10.0


class Connection(H11Protocol):
    """One connection."""

    began = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()
        others = [each for each in self.connections if isinstance(each, Connection) and not each.transport.is_closing()]
        if len(others) > MAX_CONNECTIONS:
            min((each for each in others if not each.serves), key=lambda each: each.began).transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    @property
    def serves(self) -> bool:
        """Whether somebody with the cookie is being answered."""
        return self.cycle is not None and not self.cycle.response_complete and KNOWN in self.scope

    def _begin(self) -> None:
        self._cancel()
        if not self.transport.is_closing():
            self.began = self.loop.time()
            self._timer = self.loop.call_later(REQUEST_TIMEOUT_S, self._expire)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        if not self.serves:
            self.transport.abort()
