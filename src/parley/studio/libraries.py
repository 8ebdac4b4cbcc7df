"""What takes its time to load: by one thread, once, before anything that needs it is answered.

Two threads that import a package from both ends each get half of it, and one of them fails. So whatever a page imports
when it is asked is loaded here first; pages that need none of it do not wait.
"""

import threading
from dataclasses import dataclass
from importlib import import_module

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

NEEDED = (
    "data.headers",
    "data.sources",
    "decisions.from_files.known_columns",
    "decisions.outlook.forecast",
    "decisions.games.break_even",
    "decisions.games.negotiate",
    "learning.owners",
    "owner.ledger",
    "report.words.forecast",
    "report.words.negotiation",
    "report.words.training",
    "report.words.outlook",
    "tasks.column_statistics.run",
)
QUICK = ("/", "/welcome", "/enter", "/play", "/files", "/train", "/audit", "/jobs")  # pages without any of it

_loading = threading.Lock()


def load_libraries() -> None:
    """Load them, or wait until another thread has."""
    with _loading:
        for name in NEEDED:
            import_module(f"parley.{name}")


@dataclass(frozen=True)
class Loaded:
    """The studio, whose answers wait for what they need."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "/")
        if scope["type"] == "http" and path not in QUICK and not path.startswith("/static/"):
            await run_in_threadpool(load_libraries)
        await self.app(scope, receive, send)
