"""The same agreement with noise drawn elsewhere."""

from typing import Literal

from parley.terms import Terms
from parley.terms.catalogue import HOST_DELTAS, MECHANISMS, TWO_HOSTS, UNNAMED_HOSTS
from parley.terms.sections import OWN_NOISE


def kind_of(terms: Terms) -> Literal["each_owner", "shared", "two_hosts"]:
    """Return where noise is drawn by these terms."""
    if not terms.noise.summed:
        return "each_owner"
    return "two_hosts" if terms.noise == TWO_HOSTS else "shared"


def each_owner_terms(terms: Terms) -> Terms:
    """Return the same agreement with each owner's own noise, at its own epsilon."""
    if not terms.noise.summed:
        return terms
    delta = terms.privacy.delta if MECHANISMS[terms.privacy.mechanism].approximate else 0.0
    return terms.changed(privacy={**OWN_NOISE, "delta": delta}, hosts=())


def shared_terms(terms: Terms, delta: float | None = None) -> Terms:
    """Return the same agreement with one noise for all; unnamed hosts get placeholders, pure epsilon a small delta."""
    if terms.noise.summed:
        if terms.noise.hosts == len(UNNAMED_HOSTS):
            return terms
        return terms.changed(privacy={"draw": None}, hosts=UNNAMED_HOSTS)
    promised = terms.privacy.delta or delta or HOST_DELTAS[0]
    return terms.changed(privacy={"noise": "shared", "delta": promised}, hosts=UNNAMED_HOSTS)
