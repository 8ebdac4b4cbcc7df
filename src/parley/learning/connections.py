"""Connections to owners and hosts that are elsewhere, as an addresses file names them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from parley.errors import SettingError
from parley.terms import Terms
from parley.validate import positive

if TYPE_CHECKING:
    from parley.learning.checkpoint import Checkpoint
    from parley.learning.deployed import DeployedRun
    from parley.network.exchange.federation import Federation
    from parley.network.exchange.host_connections import RemoteHost
    from parley.network.exchange.remote import Peer
    from parley.owner.owner import Agreement


def open_federation(
    run: "DeployedRun", begin: "Checkpoint", owners: Path, deadline: float, warn: Callable[[str], None]
) -> tuple["Federation", "Agreement | None"]:
    """Connections to everybody that a run asks, and the learner's own agreement if it is an owner with its table
    here."""
    from parley.network.exchange.federation import Federation

    terms = run.setup.terms
    peers, own = find_owners(terms, owners, warn)
    patience = positive(deadline, "--deadline")
    if not run.setup.schedule.waits:
        from parley.network.exchange.federation import AsynchronousFederation

        return AsynchronousFederation(run.setup, peers, patience, warn, begin.heads, begin.answers), own
    if not terms.noise.summed:
        return Federation(run.setup, peers, patience, warn, begin.heads, begin.answers), own
    from parley.network.hosting.federation import SharedFederation

    return SharedFederation(
        run.setup, peers, find_hosts(terms, owners), patience, warn, begin.heads, begin.answers
    ), own


def find_owners(terms: Terms, addresses: Path, warn: Callable[[str], None]) -> tuple[list["Peer"], "Agreement | None"]:
    """Everybody to ask, and the learner's own agreement if it is an owner with its table here."""
    from parley.network.exchange.remote import LocalOwner, remote_owner
    from parley.network.identity.settings import Pinned, load_addresses, load_owner
    from parley.network.identity.trust import check_identity, revoked_serials
    from parley.network.serving.acceptance import Acceptances
    from parley.network.serving.daemon import open_delivery, open_owner
    from parley.network.serving.network import identity_reminders
    from parley.network.serving.service import open_agreement

    known = load_addresses(addresses)
    revoked = frozenset[int]()
    if known.identity is not None:
        check_identity(known.identity, terms.learning.learner)
        revoked = revoked_serials(known.identity)
        for sentence in identity_reminders(known.identity)():
            warn(sentence)
    peers: list[Peer] = []
    agreement = None
    for name, address in known.owners.items():
        if isinstance(address, str | Pinned):
            peers.append(remote_owner(name, address, known.identity, revoked))
            continue
        settings = load_owner(address.own)
        if not name == settings.name == terms.learning.learner:
            raise SettingError(
                f"{addresses}: owners.{name}: only the learner's own table ({terms.learning.learner!r}) can be in "
                f"process"
            )
        owner = open_owner(settings)
        agreement = open_agreement(owner, Acceptances(settings.accepted), terms.hash)
        peers.append(LocalOwner(owner, open_delivery(settings)))
    return peers, agreement


def find_hosts(terms: Terms, addresses: Path) -> list["RemoteHost"]:
    """The hosts that the terms name, in their order."""
    from parley.network.exchange.host_connections import HostConnections
    from parley.network.identity.settings import load_addresses

    known = load_addresses(addresses)
    names = [host.name for host in terms.hosts]
    if sorted(known.hosts) != sorted(names) or known.identity is None:
        raise SettingError(f"{addresses}: hosts: expected the addresses of {names}, found {sorted(known.hosts)}")
    group = HostConnections(known.hosts, known.identity, f"{addresses}: hosts").group(terms.hosts)
    return [group.connections[host.name] for host in terms.hosts]
