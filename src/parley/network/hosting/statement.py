"""What a host's journal says of each agreement: how many rounds were opened, how many are aborted, which have no end
yet."""

from typing import Any

from parley.errors import LedgerError
from parley.network.hosting.assignment import assignment_of
from parley.network.hosting.journal import Journal
from parley.network.identity.settings import HostSettings
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.protocol.setup import resolve


def statement(settings: HostSettings) -> dict[str, Any]:
    """The journal's rows counted, its chain recomputed from the first row on. Reads beside a running daemon, which does
    not wait for it."""
    if not settings.journal.exists():
        raise LedgerError(f"{settings.journal}: no journal lies there; put it back, or begin with parley host init")
    journal, acceptances = Journal(settings.journal, writes=False), Acceptances(settings.accepted)
    try:
        accepted = [
            acceptance for terms_hash in acceptances.hashes() if (acceptance := acceptances.get(terms_hash)) is not None
        ]
        agreements = [_agreement(journal, acceptance) for acceptance in accepted]
        head = journal.head
    finally:
        journal.close()
    return {"host": settings.name, "agreements": agreements, "rows": head.entries, "head": head.hash}


def _agreement(journal: Journal, acceptance: Acceptance) -> dict[str, Any]:
    terms = acceptance.terms
    counts = journal.counts(terms.hash)
    return {
        "terms": terms.hash,
        "title": terms.title,
        "learner": terms.learning.learner,
        "begun": "begin" in counts,  # else it was accepted with another journal: nothing is opened by it
        "rounds": assignment_of(resolve(terms)).rounds,
        "opened": counts.get("opened", 0),
        "void": counts.get("void", 0),
        "waiting": journal.waiting(terms.hash),
    }
