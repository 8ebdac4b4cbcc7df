"""Who can read what owners share, where hosts draw one noise for all: in words, and what to be warned of."""

from collections.abc import Collection
from typing import Any

from parley.terms import Host, Terms
from parley.terms.warning import TermsWarning
from parley.validate import printable


def roles(terms: Terms, host: Host) -> list[str]:
    """What else a host is under these terms."""
    owners = {owner.name for owner in terms.owners}
    return ["learner"] * (host.name == terms.learning.learner) + ["owner"] * (host.name in owners)


def facts(terms: Terms) -> list[dict[str, Any]]:
    """The hosts, for programs; none where every owner draws its own noise."""
    return [{"name": host.name, "roles": roles(terms, host), "key": host.key} for host in terms.hosts]


def words(terms: Terms) -> str:
    """The hosts by name, and what else each of them is."""
    return listed([_named(terms, host) for host in terms.hosts])


def role_warnings(terms: Terms) -> list[TermsWarning]:
    """Hosts that have an interest in what they could read together."""
    found = []
    learners = [host for host in terms.hosts if "learner" in roles(terms, host)]
    owners = [host for host in terms.hosts if "owner" in roles(terms, host) and host not in learners]
    two = terms.noise.hosts == 2
    many, more, other = ("two", "the other", "the other host") if two else ("three", "one more", "any other host")
    if learners:
        others = listed([printable(host.name) for host in terms.hosts if host not in learners], "or")
        found.append(
            TermsWarning(
                "hosts",
                f"The learner, {printable(learners[0].name)}, is one of the {many} hosts: with {more}, {others}, it "
                "reads every owner's exact sums, without noise.",
            )
        )
    if owners:
        names = listed([printable(host.name) for host in owners])
        who = "Owners are" if len(owners) > 1 else "An owner is"
        found.append(
            TermsWarning(
                "hosts",
                f"{who} among the hosts ({names}). The guarantee holds while no two hosts act together, and a host "
                f"that is an owner too is not one of the owners who may: with {other} it reads every owner's exact "
                "sums.",
            )
        )
    return found


def key_warnings(terms: Terms, pinned: Collection[str], place: str) -> list[TermsWarning]:
    """Hosts that are known by their names alone; `pinned` are those whose keys this party's own settings give, in
    `place`."""
    unknown = [printable(host.name) for host in terms.hosts if host.key is None and host.name not in pinned]
    if not unknown:
        return []
    return [
        TermsWarning(
            "hosts.key",
            f"Neither the terms nor {place} say which key {listed(unknown)} must show. Whoever holds the authority's "
            "key can certify itself under these names, be sent what two hosts are sent, and read exact sums without "
            "noise. Compare fingerprints over the phone (parley certs show) and put them into the terms, or into "
            f"{place}.",
        )
    ]


def listed(names: Collection[str], word: str = "and") -> str:
    """Names as one reads them out.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def _named(terms: Terms, host: Host) -> str:
    also = roles(terms, host)
    return printable(host.name) + (
        f" ({listed([f'the {role}' if role == 'learner' else f'an {role}' for role in also])})" if also else ""
    )
