"""How much of what one answer may cost two neighbouring tables use: 1 is all that is claimed, more breaks the claim.

- Noise on top of an exact answer: the ratio of the two laws grows with how far the exact answers lie apart, and the
  claim is for `sensitivity`. Of Laplace noise the share is that of epsilon itself.
- Rows drawn in secret: besides, a row moves an answer by at most half of the sensitivity when it is drawn or not, and
  by nothing, to the bit, when it is not drawn in either table.
- Noise inside of the answer: the logarithm of the ratio of the two densities, over epsilon.
"""

import math
from collections.abc import Sequence

import numpy as np

from parley.audit.exact.enumeration import subsets
from parley.data.split import Places
from parley.privacy.mechanisms import Bounded, Norm
from parley.privacy.mechanisms.name_counts import NamedCounts
from parley.protocol.queries import Query, Question, Tables
from parley.validate import Floats

Draws = tuple[Sequence[Places], Sequence[tuple[int, int]]]  # draws, and which of them differ in one row: (less, more)
MOST_ROWS = 5  # of which all draws are looked at


def answered_share(question: Question, queries: Sequence[Query], a: Tables, b: Tables) -> float:
    """Of answers whose noise comes on top: those to all of `queries` together, of which more than one are about
    disjoint rows, or have one noise calibrated for all."""
    moved = [_distance(question, question.bounded(q, a), question.bounded(q, b)) for q in queries]
    return math.hypot(*moved) / question.reach if question.together > 1 else sum(moved) / question.sensitivity


def drawn_share(question: Question, query: Query, a: Tables, b: Tables, canary: Sequence[int]) -> float:
    """Of an answer about rows that are drawn in secret, over all draws: the canary's rows stand at these places."""
    draws, pairs = every_draw(len(a.train))
    at_a, at_b = (drawn_answers(question, query, tables, draws) for tables in (a, b))
    in_it = np.array([bool(set(places.tolist()) & set(canary)) for places in draws])
    if not np.array_equal(at_a[~in_it], at_b[~in_it]):
        return math.inf  # who is not drawn is seen
    replaced = sizes(at_a - at_b, question.norm).max() / question.sensitivity
    return max(float(replaced), *(largest_step(question, at, pairs, len(canary)) for at in (at_a, at_b)))


def density_share(question: Question, seen: Floats, a: Tables, b: Tables, epsilon: float) -> float:
    """Of an answer that has its noise inside, where it comes out as `seen` [size]."""
    return abs(question.log_density(a, seen) - question.log_density(b, seen)) / epsilon


def every_draw(rows: int) -> Draws:
    """All draws of so many rows, and each two that differ in one row.

    >>> every_draw(2)[1]
    [(0, 1), (0, 2), (1, 3), (2, 3)]
    """
    draws = [np.flatnonzero(kept) for kept in subsets(rows)]
    return draws, [(b, b | 1 << i) for b in range(1 << rows) for i in range(rows) if not b >> i & 1]


def growing_draws(order: Places) -> Draws:
    """Draws of the first 0, 1, 2, ... rows of an order, for tables of which there are too many draws."""
    return [np.sort(order[:m]) for m in range(len(order) + 1)], [(m, m + 1) for m in range(len(order))]


def drawn_answers(question: Question, query: Query, tables: Tables, draws: Sequence[Places]) -> Floats:
    """What is answered in each of these draws [draws, size], before any noise."""
    return np.array([question.about(query, tables, places) for places in draws])


def largest_step(question: Question, answers: Floats, pairs: Sequence[tuple[int, int]], rows: int = 1) -> float:
    """How far one row moves an answer at most that is drawn or not, over half of the sensitivity; `rows`: of a person.

    Formal guarantee that is tested: at most 1 (`queries.minibatch`).
    """
    moved = sizes(np.array([answers[more] - answers[less] for less, more in pairs]), question.norm)
    return float(moved.max() / (question.sensitivity / (2 * rows)))


def sizes(vectors: Floats, norm: Norm) -> Floats:
    """How much vectors [n, d] measure [n]; no square vanishes or overflows."""
    if norm == "l1":
        return np.asarray(np.abs(vectors).sum(axis=1))
    unit = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    unit[~(unit > 0)] = 1.0
    return np.asarray(unit[:, 0] * np.sqrt(np.square(vectors / unit).sum(axis=1)))


def _distance(question: Question, a: Bounded, b: Bounded) -> float:
    """How far two exact answers lie apart, counts of names included: a row counts once by its name, too."""
    moved = [a.value.ravel() - b.value.ravel()]
    if isinstance(a, NamedCounts) and isinstance(b, NamedCounts):
        for one, other in ((one or {}, other or {}) for one, other in zip(a.named, b.named, strict=True)):
            counts = [one.get(name, 0) - other.get(name, 0) for name in {*one, *other}]
            moved.append(np.array(counts) / question.records)
    return float(sizes(np.concatenate(moved)[None], question.norm)[0])
