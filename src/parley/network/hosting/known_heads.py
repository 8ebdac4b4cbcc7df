"""Where journals ended when something last left by them, in a file beside them and not within: one that was put back to
an earlier time is noticed."""

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parley.durable import replace_text
from parley.errors import BrokenChainError
from parley.network.hosting.journal import Journal
from parley.owner.ledger.account import Head


class KnownHeads:
    """The ends of journals that are remembered in the file `path`, by name.

    Formal guarantee: after `remember(name, journal)` has returned, `require_latest` refuses a journal under this name
    whose chain never ended so, for as long as the file is kept. Whoever puts back the whole disk takes this file back,
    too: that is not noticed.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()

    def remember(self, journals: Mapping[str, Journal]) -> None:
        """Write down where these journals end, unless that is what stands there."""
        with self._lock:
            known = self._known()
            now = known | {name: vars(journal.head) for name, journal in journals.items()}
            if now != known:
                replace_text(self._path, json.dumps(now))

    def require_latest(self, name: str, journal: Journal) -> None:
        """Refuse a journal that is older than what is remembered of it."""
        known = self._known().get(name)
        if known is not None and not journal.holds(Head(known["entries"], known["hash"])):
            raise BrokenChainError(
                f"{journal.path}: this journal is of an earlier time, or another one; put the latest one back"
            )

    def _known(self) -> dict[str, Any]:
        if not self._path.exists():
            return {}
        try:
            return dict(json.loads(self._path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise BrokenChainError(f"{self._path}: it does not say where journals ended; put it back") from None
