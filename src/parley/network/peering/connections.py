"""Where an owner's neighbours on the graph are, which key each must show, and where its own daemon is: by the owner's settings."""

from collections.abc import Mapping

from parley.errors import SettingError
from parley.network.exchange.remote import RemoteOwner
from parley.network.exchange.remote_neighbour import RemoteNeighbour
from parley.network.identity.revocation_list import revoked_serials
from parley.network.identity.settings import Identity, OwnerSettings, PeerSettings, Pinned
from parley.network.peering.graph import Graph

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - who listens on all addresses is reached on this machine's own


def peer_settings(settings: OwnerSettings) -> tuple[PeerSettings, Identity]:
    """What a peer needs of an owner's settings, or a sentence about what is missing."""
    if settings.peer is None:
        raise SettingError("owner.toml: peer: missing; expected [peer] with `listen`, and [peer.neighbours] with their addresses")
    if settings.identity is None:
        raise SettingError("owner.toml: identity: missing; a peer shows the owner's own certificate (parley certs)")
    return settings.peer, settings.identity


def own_daemon(settings: OwnerSettings) -> RemoteOwner:
    """The connection to the owner's own daemon; nobody is called yet."""
    peer, identity = peer_settings(settings)
    address = peer.daemon or settings.listen
    if address is None:
        raise SettingError("owner.toml: listen: missing; the owner's own peer reaches the daemon there")
    host, _, port = address.rpartition(":")
    return RemoteOwner(settings.name, f"{EVERYWHERE.get(host, host)}:{port}", identity, revoked=revoked_serials(identity))


def neighbour_connections(settings: OwnerSettings, graph: Graph) -> tuple[list[RemoteNeighbour], Mapping[str, str | None]]:
    """Connections to this owner's neighbours and to nobody else, and the keys that they must show; nobody is called
    yet."""
    peer, identity = peer_settings(settings)
    revoked, connections, keys = revoked_serials(identity), list[RemoteNeighbour](), dict[str, str | None]()
    for name in graph.neighbours(settings.name):
        if name not in peer.neighbours:
            raise SettingError(f"owner.toml: peer.neighbours: expected the address of {name!r}, a neighbour by these terms")
        where = peer.neighbours[name]
        address, keys[name] = (where.address, where.fingerprint) if isinstance(where, Pinned) else (where, None)
        connections.append(RemoteNeighbour(name, address, identity, keys[name], revoked))
    return connections, keys
