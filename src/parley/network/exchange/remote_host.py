"""A host on another machine, as owners, the learner and the other hosts see it."""

from parley.errors import Malformed
from parley.network.exchange import host_messages as messages
from parley.network.exchange.messages import LARGEST_MESSAGE, write_agreement
from parley.network.exchange.number_messages import Piece
from parley.network.exchange.remote import RemoteDaemon
from parley.network.exchange.share_bundle import Opening, ShareBundle


class RemoteHost(RemoteDaemon):
    """A host on another machine, called through its daemon."""

    service = messages.SERVICE

    def deliver(self, bundle: ShareBundle, timeout: float) -> None:
        """Hand over a share bundle; the same one again changes nothing."""
        messages.read_done(self._call("Deliver", messages.write_share_bundle(bundle), timeout), self.name)

    def open(self, terms: str, number: int, content: str, size: int, timeout: float) -> Opening:
        """The host's part of the noisy sum for this question."""
        return messages.read_opening(
            self._call("Open", messages.write_question(terms, number, content), timeout), self.name, size
        )

    def numbers(self, terms: str, learner: str, timeout: float, first: int) -> Piece:
        """The public numbers that it resolved, from place `first` on."""
        return messages.read_numbers(
            self._call("Stand", write_agreement(terms, learner, numbers=first), timeout), self.name
        )

    def propose(self, terms: str, number: int, content: str, timeout: float) -> str:
        """What the host holds for this round, as it wrote it into its journal."""
        return messages.read_proposal(
            self._call("Propose", messages.write_question(terms, number, content), timeout), self.name
        )

    def record(self, terms: str, number: int, timeout: float) -> str:
        """The digest of what it recorded."""
        return messages.read_record(
            self._call("Record", messages.write_question(terms, number, "0" * 64), timeout), self.name
        )

    def carry(self, terms: str, channel: str, number: int, payload: bytes, timeout: float) -> None:
        """Send one numbered message of a channel to the host."""
        content = messages.write_frame(terms, channel, number, payload)
        if len(content) > LARGEST_MESSAGE:
            raise Malformed(f"noise: a message of {len(content)} bytes is longer than one may be")
        messages.read_done(self._call("Carry", content, timeout), self.name)
