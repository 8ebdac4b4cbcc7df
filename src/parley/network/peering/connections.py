"""Connections to the peers of an owner's neighbours on the graph and to its own daemon, by the owner's settings."""

from collections.abc import Mapping

from parley.errors import SettingError
from parley.network.exchange import peer_messages as messages
from parley.network.exchange.messages import write_agreement
from parley.network.exchange.number_messages import Piece
from parley.network.exchange.peer_messages import Place, Run
from parley.network.exchange.remote import RemoteDaemon, RemoteOwner
from parley.network.identity.revocation_list import revoked_serials
from parley.network.identity.settings import Identity, OwnerSettings, PeerSettings, Pinned
from parley.network.peering.graph import Graph
from parley.validate import Floats

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - who listens on all addresses is reached on this machine's own


class RemoteNeighbour(RemoteDaemon):
    """A neighbour's peer: whoever holds the key of the owner's own certificate (`RemoteDaemon`)."""

    service = messages.SERVICE

    def hear(self, run: Run, place: Place, shape: tuple[int, int], timeout: float) -> Floats | None:
        """What it said at this place; None if it has not come to it yet."""
        content = self._call("Hear", messages.write_question(run.terms_hash, place), timeout)
        return messages.read_words(content, run, self.name, place, shape)

    def numbers(self, run: Run, first: int, timeout: float) -> Piece:
        """The public numbers that it resolved, from place `first` on."""
        asked = write_agreement(run.terms_hash, self.name, numbers=first)
        return messages.read_numbers(self._call("Stand", asked, timeout), self.name)


def peer_settings(settings: OwnerSettings) -> tuple[PeerSettings, Identity]:
    """What a peer needs of an owner's settings, or a sentence about what is missing."""
    if settings.peer is None:
        raise SettingError(
            "owner.toml: peer: missing; expected [peer] with `listen`, and [peer.neighbours] with their addresses"
        )
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
    return RemoteOwner(
        settings.name, f"{EVERYWHERE.get(host, host)}:{port}", identity, revoked=revoked_serials(identity)
    )


def neighbour_connections(
    settings: OwnerSettings, graph: Graph
) -> tuple[list[RemoteNeighbour], Mapping[str, str | None]]:
    """Connections to this owner's neighbours and to nobody else, and the keys that they must show; nobody is called
    yet."""
    peer, identity = peer_settings(settings)
    revoked, connections, keys = revoked_serials(identity), list[RemoteNeighbour](), dict[str, str | None]()
    for name in graph.neighbours(settings.name):
        if name not in peer.neighbours:
            raise SettingError(
                f"owner.toml: peer.neighbours: expected the address of {name!r}, a neighbour by these terms"
            )
        where = peer.neighbours[name]
        address, keys[name] = (where.address, where.fingerprint) if isinstance(where, Pinned) else (where, None)
        connections.append(RemoteNeighbour(name, address, identity, keys[name], revoked))
    return connections, keys
