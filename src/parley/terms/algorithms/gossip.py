"""What terms must say where there is no centre: who hears whom."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithm_rules import AlgorithmRules
from parley.terms.checkable import CheckableTerms
from parley.terms.topology import EXPECTED, Edges

MOST_PEERS = 256


class GossipRules(AlgorithmRules):
    """Every owner has a point of its own, and a graph says who hears whom."""

    keys: ClassVar[Mapping[str, str]] = {"learning.topology": "others have a centre"}

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) a graph that is missing, has strangers in it or falls apart, and sums instead of answers.

        What a file of edges said is not repeated: it may be the wrong file.
        """
        topology, names = terms.learning.topology, [owner.name for owner in terms.owners]
        if topology is None:
            raise ValueError(f"learning.topology|expected beside 'gossip': {EXPECTED}")
        if terms.noise.summed:
            raise ValueError(
                "privacy.noise|expected 'each-owner' beside gossip: owners mix single answers, and of a sum nobody "
                "sees them"
            )
        if len(names) > MOST_PEERS:
            raise ValueError(
                f"learning.algorithm|expected at most {MOST_PEERS} owners beside gossip: everybody keeps everybody's "
                f"point"
            )
        if isinstance(topology, str):
            return
        if not {end for pair in topology for end in pair} <= {*names}:
            raise ValueError("learning.topology|expected pairs of owners, found a name that is none of theirs")
        reached = _reached(names[0], topology)
        away = [name for name in names if name not in reached]
        if away:
            raise ValueError(
                f"learning.topology|expected a connected graph: nothing leads from {names[0]!r} to {away[0]!r}; add a "
                f"pair"
            )


def _reached(first: str, joined: Edges) -> set[str]:
    """Everybody to whom some way leads."""
    near: dict[str, list[str]] = {}
    for one, other in joined:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    reached, ahead = {first}, [first]
    while ahead:
        new = {*near.get(ahead.pop(), ())} - reached
        reached |= new
        ahead += new
    return reached


ALGORITHM = GossipRules()
