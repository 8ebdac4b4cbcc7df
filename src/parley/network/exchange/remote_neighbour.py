"""The peer of a neighbouring owner, as this owner's peer sees it."""

from parley.network.exchange import peer_messages as messages
from parley.network.exchange.messages import write_agreement
from parley.network.exchange.number_messages import Piece
from parley.network.exchange.peer_messages import Place, Run
from parley.network.exchange.remote import RemoteDaemon
from parley.validate import Floats


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
