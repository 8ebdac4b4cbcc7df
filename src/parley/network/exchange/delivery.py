"""How an owner's shares reach the hosts: each share bundle to its own host, before the learner hears that it was
debited."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np

from parley.errors import GuaranteeError, SettingError, TooLate
from parley.network.exchange.share_bundle import HOSTS, ShareBundle, pack
from parley.owner.ledger.account import Account
from parley.owner.owner import Owner
from parley.protocol.queries import Answer, Query
from parley.terms import Host

PATIENCE = 20.0  # seconds for one host to take a share bundle


class HostConnection(Protocol):
    """A host that takes share bundles."""

    def deliver(self, bundle: ShareBundle, timeout: float) -> None: ...
    def close(self) -> None: ...


class Group(Protocol):
    """The hosts of some terms (`HostGroup`)."""

    @property
    def connections(self) -> Mapping[str, HostConnection]: ...


class HostGroups(Protocol):
    """How hosts are reached (`HostConnections`)."""

    def group(self, hosts: Sequence[Host]) -> Group: ...
    def close(self) -> None: ...


class Delivery:
    """An owner's connections to hosts."""

    def __init__(self, connections: HostGroups) -> None:
        self._connections = connections
        self._pool = ThreadPoolExecutor(HOSTS, thread_name_prefix="parley-delivery")

    def require(self, hosts: Sequence[Host]) -> None:
        """Refuse before anything is debited if it is not known where a host is, or which key it has."""
        self._connections.group(hosts)

    def send(self, hosts: Sequence[Host], bundles: Sequence[ShareBundle]) -> None:
        """Each host its share bundle, all at once. For a round that is settled already it came in vain, which the
        learner will see."""
        connections = self._connections.group(hosts).connections
        calls = [
            self._pool.submit(connections[host.name].deliver, bundle, PATIENCE)
            for host, bundle in zip(hosts, bundles, strict=True)
        ]
        failures = [
            error for call in calls if (error := call.exception()) is not None and not isinstance(error, TooLate)
        ]
        for error in failures:
            raise error

    def close(self) -> None:
        """Close all connections to hosts, and end the threads that use them."""
        self._connections.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def answer_or_deliver(owner: Owner, query: Query, delivery: Delivery | None) -> tuple[Answer, Account]:
    """The owner's noisy answer; by terms with one noise for all an answer without numbers, once its shares are with the
    hosts."""
    terms = owner.agreement(query.terms_hash).setup.terms
    if not terms.noise.hosts:
        return owner.answer_with_account(query)
    if delivery is None:
        raise SettingError(
            "owner.toml: hosts: missing; by these terms shares are sent to hosts, over a network with certificates"
        )
    delivery.require(terms.hosts)
    contribution, account = owner.contribute(query)
    if contribution.shares is None:
        raise GuaranteeError(f"{owner.name}: an owner that only studies shares nothing with hosts")
    delivery.send(terms.hosts, pack(query, owner.name, contribution.noise, contribution.shares))
    return Answer(query.id, owner.name, contribution.noise.records, np.empty(0)), account
