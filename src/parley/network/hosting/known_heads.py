"""Where journals ended, as earlier versions noted it in a file beside them (`NAME.heads`). This version notes it in the
state folder (`journal`)."""

import json
from collections.abc import Mapping
from pathlib import Path

from parley.errors import BrokenChainError
from parley.network.hosting.journal import Journal
from parley.owner.ledger.account import Head


def require_known_heads(path: Path, journals: Mapping[str, Journal]) -> None:
    """Refuse journals, by the names in the file, that are older than what it says; without a file nothing is known."""
    if not path.exists():
        return
    try:
        known = {name: Head(end["entries"], end["hash"]) for name, end in json.loads(path.read_text("utf-8")).items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BrokenChainError(f"{path}: it does not say where journals ended; put it back") from None
    for name, journal in journals.items():
        if name in known and not journal.holds(known[name]):
            raise BrokenChainError(
                f"{journal.path}: this journal is of an earlier time, or another one; put the latest one back"
            )
