"""What this peer has said, for its neighbours to read: each place once, and the same for ever."""

import threading

from parley.errors import GuaranteeError, OutOfOrder
from parley.network.exchange.peer_messages import Place
from parley.validate import Floats


class Board:
    """Vectors by place. A neighbour is at most one step ahead or behind, or after a crash at the start of its round, so
    the round before this one is kept and what is older is let go."""

    def __init__(self, first: int = 1) -> None:
        self._first, self._said = first, dict[Place, Floats]()
        self._changed = threading.Condition()
        # everybody that is fewer edges away found the public numbers of all its neighbours to be its own
        self.agreed = 0

    def say(self, place: Place, vectors: Floats) -> None:
        """From now on this is what was said there. Something else than before is refused: a neighbour may have heard
        it."""
        with self._changed:
            before = self._said.setdefault(place, vectors.copy())
            if before.tobytes() != vectors.tobytes():
                raise GuaranteeError(f"round {place[0]}: this peer said something else there before; nothing was sent")
            self._changed.notify_all()

    def read(self, place: Place, patience: float) -> Floats | None:
        """What was said there, waited for so many seconds; None if nothing was yet. What was let go is refused."""
        with self._changed:
            self._changed.wait_for(lambda: place in self._said or place[0] < self._first, patience)
            if place in self._said:
                return self._said[place]
            if place[0] < self._first:
                raise OutOfOrder(
                    f"round {place[0]} is over here, where round {self._first} is the oldest kept: put the latest "
                    "checkpoint back; if it is lost, let all peers move theirs away and begin again, which costs "
                    "nothing while the owners keep all answers"
                )
            return None

    def forget(self, before: int) -> None:
        """Let go of rounds before this one."""
        with self._changed:
            self._first = max(self._first, before)
            for place in [place for place in self._said if place[0] < self._first]:
                del self._said[place]
            self._changed.notify_all()
