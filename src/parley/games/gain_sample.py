"""Gains measured over several divisions of the users: a table of their means, and tables drawn again for error bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import SettingError
from parley.games.gain_table import GainTable
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class GainSample:
    """Of two players alike: `gains[own][other]` are the gains measured at a pair of strategies, one for each division, of either player."""

    names: tuple[str, ...]
    privacy: Floats
    gains: tuple[tuple[Floats, ...], ...]

    @classmethod
    def of(cls, measured: Sequence[tuple[tuple[str, float], tuple[str, float], Sequence[float]]]) -> "GainSample":
        """From ((own name, own p), (other's name, other's p), gains over divisions); all pairs of strategies must be there."""
        strategies = sorted({own for own, _, _ in measured} | {other for _, other, _ in measured}, key=lambda s: (s[1], s[0]))
        cells: dict[tuple[tuple[str, float], tuple[str, float]], list[float]] = {}
        for own, other, gains in measured:
            cells.setdefault((own, other), []).extend(map(float, gains))
        if not strategies or any((a, b) not in cells for a in strategies for b in strategies):
            raise SettingError("points: expected gains at every pair of the measured strategies")
        rows = tuple(tuple(np.array(cells[a, b]) for b in strategies) for a in strategies)
        return cls(tuple(name for name, _ in strategies), np.array([p for _, p in strategies]), rows)

    @classmethod
    def of_points(cls, points: Sequence[dict[str, Any]]) -> "GainSample":
        """From the points of figure 5 for one mechanism."""
        return cls.of([(_named(one["p"]), _named(one["p_other"]), one["improvements"]) for one in points])

    @property
    def divisions(self) -> int:
        """How many gains the pair with fewest has."""
        return min(len(cell) for row in self.gains for cell in row)

    def table(self) -> GainTable:
        """Of the mean gains."""
        return self._of([[cell.mean() for cell in row] for row in self.gains])

    def drawn(self, count: int, seed: int = 0) -> list[GainTable]:
        """So many tables, every pair's gains drawn anew with replacement; none of a single division.

        Pairs are drawn independently although they were measured on the same divisions: what divisions have in common does not cancel
        between pairs, so what rests on differences between them is shown no firmer than it is.
        """
        if self.divisions < 2:
            return []
        rng = np.random.default_rng(seed)
        return [self._of([[rng.choice(cell, len(cell)).mean() for cell in row] for row in self.gains]) for _ in range(count)]

    def _of(self, means: Sequence[Sequence[float]]) -> GainTable:
        return GainTable.alike(self.privacy, np.array(means), self.names)


def _named(p: float) -> tuple[str, float]:
    return f"p = {p:g}", float(p)
