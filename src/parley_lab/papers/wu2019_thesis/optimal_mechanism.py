"""The best mechanism for a query under a uniform prior: T's linear program, solved and proved in exact fractions.

True answers are the vertices of a graph, neighbours those that one record can turn into each other; of a count of n
records a path of n + 1. With d the distance on the graph and q = e^-eps, maximise the mean of x_yy over all channels x
with q x_yz <= x_y'z for neighbours y, y'.

- Primal: let G_yz = q^d(y,z) and w solve G w = 1. If w >= 0, then x_yz = q^d(y,z) w_z is a channel, private, and right
  with probability sum(w)/N. On a path it is the truncated geometric mechanism.
- Dual: u = w/N for the rows, and for each z multipliers on the edges of a tree of shortest paths from z: the edge that
  leads to y carries u_y and q times what the edges beyond y carry. All constraints of the dual hold with equality, and
  its value is sum(u): so nothing is better.

T's bound 2.3, 1/(1 + c (q + ... + q^n)), counts c answers at every distance. A count has two ends: from the middle no
answer is n away, so for n >= 2 the bound is not reached. It is on graphs that look alike from every vertex and have c
at every distance: cliques, rings of odd length, and the two answers of n = 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from parley.errors import SettingError
from parley_lab.papers.wu2019_thesis.channels import Channel

Graph: TypeAlias = Sequence[Sequence[int]]  # the neighbours of every vertex


def path_graph(records: int) -> Graph:
    """A count of so many records."""
    return [[z for z in (y - 1, y + 1) if 0 <= z <= records] for y in range(records + 1)]


def ring_graph(size: int) -> Graph:
    """A ring of so many answers, at least three."""
    return [[(y - 1) % size, (y + 1) % size] for y in range(size)]


def clique_graph(size: int) -> Graph:
    """Answers that one record can all turn into each other: a name."""
    return [[z for z in range(size) if z != y] for y in range(size)]


def distances(graph: Graph, start: int) -> list[int]:
    """How far every vertex of a connected graph is from one of them."""
    found = reached(graph, start)
    return [found[y] for y in range(len(graph))]


def reached(graph: Graph, start: int) -> dict[int, int]:
    """How far the vertices are that some way leads to."""
    found, places = {start: 0}, [start]
    for y in places:  # which grows
        for z in graph[y]:
            if z not in found:
                found[z] = found[y] + 1
                places.append(z)
    return found


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best channel of a graph, and the multipliers that prove it: `rows` [N], `edges` by (y, y', z)."""

    q: Fraction
    graph: Graph
    channel: Channel
    rows: Sequence[Fraction]
    edges: Mapping[tuple[int, int, int], Fraction]

    @property
    def value(self) -> Fraction:
        """The chance of a right guess under a uniform prior."""
        return sum((row[y] for y, row in enumerate(self.channel)), Fraction(0)) / len(self.channel)

    def proved(self) -> bool:
        """Whether the channel is one, and private, and the multipliers are feasible for the dual with the same value:
        then no private channel is better."""
        size, q = len(self.graph), self.q
        everywhere = [(y, z) for y in range(size) for z in range(size)]
        private = all(
            q * self.channel[y][z] <= self.channel[other][z] for y, z in everywhere for other in self.graph[y]
        )
        fair = all(sum(row) == 1 and min(row) >= 0 for row in self.channel)
        dual = min(self.edges.values()) >= 0 and all(self._reduced(y, z) <= 0 for y, z in everywhere)
        return private and fair and dual and sum(self.rows, Fraction(0)) == self.value

    def _reduced(self, y: int, z: int) -> Fraction:
        """What the dual leaves of the gain of reporting z for y."""
        gain = Fraction(int(y == z), len(self.graph))
        out = sum((self.edges.get((y, other, z), Fraction(0)) for other in self.graph[y]), Fraction(0))
        into = sum((self.edges.get((other, y, z), Fraction(0)) for other in self.graph[y]), Fraction(0))
        return gain - self.rows[y] - self.q * out + into


def optimum(graph: Graph, q: Fraction) -> Optimum:
    """The best channel of a graph with its proof; refused where the formula gives none, as of a star of four leaves at
    q = 1/2.

    >>> str(optimum(path_graph(2), Fraction(1, 2)).value)
    '5/9'
    """
    size = len(graph)
    if not 0 < q < 1:
        raise SettingError("q: expected a number between 0 and 1, e^-eps")
    if size < 2 or len(reached(graph, 0)) < size:
        raise SettingError("graph: expected two vertices or more, each reached from all others")
    far = [distances(graph, y) for y in range(size)]
    weights = solved([[q**d for d in row] for row in far], [Fraction(1)] * size)
    if min(weights) < 0:
        raise SettingError("graph: on this one no channel by distances alone is the best")
    channel = [[q ** far[y][z] * weights[z] for z in range(size)] for y in range(size)]
    rows = [weight / size for weight in weights]
    return Optimum(q, graph, channel, rows, _multipliers(graph, far, rows, q))


def _multipliers(
    graph: Graph, far: Sequence[Sequence[int]], rows: Sequence[Fraction], q: Fraction
) -> dict[tuple[int, int, int], Fraction]:
    """What the edges of a tree of shortest paths from every vertex carry."""
    found: dict[tuple[int, int, int], Fraction] = {}
    for z in range(len(graph)):
        carried = list(rows)
        for y in sorted(range(len(graph)), key=lambda vertex: -far[z][vertex]):
            if y != z:
                before = next(other for other in graph[y] if far[z][other] == far[z][y] - 1)
                found[before, y, z] = carried[y]
                carried[before] += q * carried[y]
    return found


def solved(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction]:
    """The solution of a square system, by elimination without rounding; refused where it has none or many."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(len(rows)):
        pivot = next((place for place in range(column, len(rows)) if rows[place][column] != 0), None)
        if pivot is None:
            raise SettingError("matrix: expected one that can be inverted")
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for place, row in enumerate(rows):
            if place != column and row[column] != 0:
                rows[place] = [a - row[column] * b for a, b in zip(row, rows[column], strict=True)]
    return [row[-1] for row in rows]


def published_bound(distance: int, border: int, q: Fraction) -> Fraction:
    """T's bound 2.3 on the chance of a right guess, answers up to `distance` apart, `border` at each distance.

    >>> str(published_bound(2, 1, Fraction(1, 2)))
    '4/7'
    """
    return 1 / (1 + border * sum((q**k for k in range(1, distance + 1)), Fraction(0)))
