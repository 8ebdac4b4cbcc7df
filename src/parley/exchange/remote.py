"""An owner on another machine, as a learner sees it."""

from typing import Any, Protocol

import grpc

from parley.errors import Refusal, Unavailable
from parley.exchange import messages
from parley.exchange.messages import LARGEST_MESSAGE, SERVICE, Standing, Told
from parley.exchange.settings import Identity
from parley.owner import Owner
from parley.queries import Query
from parley.validate import printable

OPTIONS = (
    ("grpc.max_receive_message_length", LARGEST_MESSAGE),
    ("grpc.keepalive_time_ms", 10_000),  # a machine that vanished without a word is noticed
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)
# What may pass by itself; asking the same question again is right and costs nothing more.
_PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
}


class Peer(Protocol):
    """An owner that can be asked: over a network, or in the learner's own process."""

    @property
    def name(self) -> str: ...
    def ask(self, query: Query, records: int, size: int, timeout: float) -> Told: ...
    def stand(self, terms: str, learner: str, timeout: float) -> Standing: ...
    def close(self) -> None: ...


class RemoteOwner:
    """Speaks to one owner's daemon, and to no other: its certificate must carry the owner's name, whatever the address is."""

    def __init__(self, name: str, address: str, identity: Identity | None) -> None:
        self.name = name
        if address.startswith("unix:") or identity is None:
            self._channel = grpc.insecure_channel(address, options=OPTIONS)
        else:
            named = ("grpc.ssl_target_name_override", name)
            self._channel = grpc.secure_channel(address, channel_credentials(identity), options=(*OPTIONS, named))
        self._methods = {method: self._channel.unary_unary(f"/{SERVICE}/{method}") for method in ("Ask", "Stand")}

    def ask(self, query: Query, records: int, size: int, timeout: float) -> Told:
        """Its answer; a `Refusal` if it will not, `Unavailable` if asking again may help."""
        return messages.read_answer(self._call("Ask", messages.write_query(query), timeout), query, self.name, records, size)

    def stand(self, terms: str, learner: str, timeout: float) -> Standing:
        """Where the agreement stands at this owner."""
        return messages.read_standing(self._call("Stand", messages.write_agreement(terms, learner), timeout), self.name)

    def close(self) -> None:
        """Let go of the line; calls under way end."""
        self._channel.close()

    def _call(self, method: str, content: bytes, timeout: float) -> bytes:
        try:
            return bytes(self._methods[method](content, timeout=timeout))
        except grpc.RpcError as error:
            sentence = f"{self.name}: {printable(str(error.details() or error.code().name), 200)}"
            raise (Unavailable if error.code() in _PASSING else Refusal)(sentence) from None
        except ValueError:  # the channel was closed under the call
            raise Unavailable(f"{self.name}: not waited for any longer") from None


class OwnOwner:
    """The learner's own table, in its own process: the same ledger, the same noise, because what it computes travels to the others."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.name = owner.name

    def ask(self, query: Query, records: int, size: int, timeout: float) -> Told:
        answer, account = self._owner.settle(query)
        return Told(answer, Standing.of(account))

    def stand(self, terms: str, learner: str, timeout: float) -> Standing:
        return Standing.of(self._owner.ledger.account(terms))

    def close(self) -> None:
        """Its answers come from this process: there is no line to let go of."""


def channel_credentials(identity: Identity) -> Any:
    """TLS that shows the learner's certificate and trusts the consortium's authority alone."""
    return grpc.ssl_channel_credentials(
        root_certificates=identity.authority.read_bytes(),
        private_key=identity.key.read_bytes(),
        certificate_chain=identity.certificate.read_bytes(),
    )
