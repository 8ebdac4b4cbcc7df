"""The graph as one of its owners sees it: who is next to it, and how far the others are."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from parley.terms.topology import Edges


@dataclass(frozen=True)
class Graph:
    """Owners in the order of the terms, and who is joined to whom.

    >>> ring = Graph(tuple("abcd"), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")))
    >>> ring.neighbours("a"), ring.at("a", 2), ring.diameter
    (('b', 'd'), ('c',), 2)
    """

    names: tuple[str, ...]
    joined: Edges

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The owners next to this one on the graph."""
        return tuple(other for other in self.names if other in self._near[name])

    def at(self, name: str, distance: int) -> tuple[str, ...]:
        """Those that are so many edges away from this owner."""
        return tuple(other for other in self.names if self._distances[name][other] == distance)

    @cached_property
    def diameter(self) -> int:
        """How far apart two owners are at most."""
        return max(far for distances in self._distances.values() for far in distances.values())

    @cached_property
    def _near(self) -> Mapping[str, frozenset[str]]:
        return {
            name: frozenset(end for pair in self.joined if name in pair for end in pair) - {name} for name in self.names
        }

    @cached_property
    def _distances(self) -> Mapping[str, Mapping[str, int]]:
        return {name: self._from(name) for name in self.names}

    def _from(self, name: str) -> Mapping[str, int]:
        found, front, far = {name: 0}, {name}, 0
        while front and len(found) < len(self.names):
            far += 1
            front = {other for each in front for other in self._near[each]} - found.keys()
            found |= dict.fromkeys(front, far)
        return found
