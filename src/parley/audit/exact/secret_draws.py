"""Draws of rows that differ in one row: how far that row moves an answer about rows that were drawn in secret."""

from collections.abc import Sequence

import numpy as np

from parley.audit.exact.enumeration import subsets
from parley.data.batches import Places
from parley.privacy.mechanisms import Norm
from parley.protocol.queries import Query, Question, Tables
from parley.validate import Floats

Draws = tuple[Sequence[Places], Sequence[tuple[int, int]]]  # draws, and which of them differ in one row: (less, more)


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
