"""A tree for each feature whose leaves are its bins: numbers between public cut points, names each by itself.

Formal guarantee: cut points come from the public sample or from declared bounds; no private row decides one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parley.data.encoding import Encoding, Places
from parley.data.forest import Forest
from parley.errors import DataError
from parley.validate import Floats


@dataclass(frozen=True)
class _Question:
    """Whether a column is at most a number; one of the answers ends in a leaf, the other goes on."""

    column: int
    at: float
    ends: bool  # the answer that ends


def cut(
    encodings: Sequence[Encoding], count: int, ends: tuple[Floats, Floats], known: Floats | None, outcomes: int
) -> Forest:
    """One tree for each feature, of at most `count` bins for numbers: at quantiles of public columns `known` [columns,
    n], else in equal steps between the columns' ends."""
    trees, first = list[list[_Question]](), 0
    for encoding in encodings:
        questions = [_Question(first + i, 0.5, ends=False) for i, number in enumerate(encoding.scaled) if not number]
        for place in (first + i for i, number in enumerate(encoding.scaled) if number):
            if isinstance(encoding, Places):
                cuts = [i + 0.5 for i in range(len(encoding.names) + encoding.fills)]
            elif known is not None:
                cuts = quantile_cuts(known[place], count)
            else:
                cuts = _steps(encoding.column, count, float(ends[0][place]), float(ends[1][place]))
            questions += [_Question(place, at, ends=True) for at in cuts]
        trees.append(questions)
        first += len(encoding.scaled)
    return _chained(trees, outcomes)


def quantile_cuts(values: Floats, count: int) -> list[float]:
    """Cut points that leave about as many public values in each bin; a value that fills one has it to itself. They lie
    between values, never on one.

    >>> quantile_cuts(np.array([1.0, 1.0, 1.0, 2.0, 3.0, 4.0]), 3)
    [1.5, 2.5]
    >>> quantile_cuts(np.array([1.0, 2.0, 2.0, 2.0, 2.0, 4.0]), 3)
    [1.5, 3.0]
    """
    present, often = np.unique(values, return_counts=True)
    if len(present) < 2:
        return []
    at = np.searchsorted(present, np.quantile(values, np.arange(1, count) / count, method="lower"))
    common = at[often[at] * count >= len(values)]
    after = np.unique(np.concatenate([at, common - 1]))
    after = after[(after >= 0) & (after < len(present) - 1)]
    return [float(present[i] / 2 + present[i + 1] / 2) for i in after]


def _steps(column: str, count: int, low: float, high: float) -> list[float]:
    """Cut points in equal steps between declared ends."""
    if not np.isfinite([low, high]).all():
        raise DataError(
            f"model.columns: expected model.bounds.{column}, or a public sample, beside 'bins': where a column is cut "
            "must not depend on private rows"
        )
    return [low + (high - low) * (part / count) for part in range(1, count)]


def _chained(trees: Sequence[Sequence[_Question]], outcomes: int) -> Forest:
    """Trees that ask one question after the other: a node is followed by its leaf, then by the next question."""
    column, threshold, left, right, roots = list[int](), list[float](), list[int](), list[int](), list[int]()
    leaves = 0
    for questions in trees:
        roots.append(len(column))
        for asked in questions:
            leaf, following = len(column) + 1, len(column) + 2
            column += [asked.column, -1]
            threshold += [asked.at, 0.0]
            left += [leaf if asked.ends else following, leaves]
            right += [following if asked.ends else leaf, 0]
            leaves += 1
        column, threshold = [*column, -1], [*threshold, 0.0]
        left, right = [*left, leaves], [*right, 0]
        leaves += 1
    whole = (np.array(each, dtype=np.intp) for each in (column, left, right, roots))
    columns, lefts, rights, first = whole
    return Forest(columns, np.array(threshold), lefts, rights, first, np.zeros((outcomes, leaves)))
