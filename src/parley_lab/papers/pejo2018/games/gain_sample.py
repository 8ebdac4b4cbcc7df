"""Gains measured over several divisions of the users: a table of their means, and tables drawn again for error bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import SettingError
from parley.validate import Floats
from parley_lab.papers.pejo2018.games.gain_table import GainTable


@dataclass(frozen=True, eq=False)
class GainSample:
    """Of two players alike: `gains[own][other]` are those measured at a pair of strategies [measurements, divisions]:
    both players' where strategies are the same."""

    names: tuple[str, ...]
    privacy: Floats
    gains: tuple[tuple[Floats, ...], ...]

    @classmethod
    def of(cls, measured: Sequence[tuple[tuple[str, float], tuple[str, float], Sequence[float]]]) -> "GainSample":
        """From ((own name, own p), (other's name, other's p), gains over divisions); all pairs of strategies must be
        there."""
        strategies = sorted(
            {own for own, _, _ in measured} | {other for _, other, _ in measured}, key=lambda s: (s[1], s[0])
        )
        cells: dict[tuple[tuple[str, float], tuple[str, float]], list[list[float]]] = {}
        for own, other, gains in measured:
            cells.setdefault((own, other), []).append([float(gain) for gain in gains])
        if not strategies or any((a, b) not in cells for a in strategies for b in strategies):
            raise SettingError("points: expected gains at every pair of the measured strategies")
        if len({len(gains) for _, _, gains in measured}) > 1 or not len(measured[0][2]):
            raise SettingError(
                "points: expected as many divisions of the users, one or more, at every pair of strategies"
            )
        rows = tuple(tuple(np.array(cells[a, b]) for b in strategies) for a in strategies)
        return cls(tuple(name for name, _ in strategies), np.array([p for _, p in strategies]), rows)

    @classmethod
    def of_points(cls, points: Sequence[dict[str, Any]]) -> "GainSample":
        """From the points of figure 5 for one mechanism."""
        return cls.of([(_named(one["p"]), _named(one["p_other"]), one["improvements"]) for one in points])

    @property
    def divisions(self) -> int:
        """How often users were divided again."""
        return int(self.gains[0][0].shape[1])

    def table(self) -> GainTable:
        """The game table of the mean gains over divisions."""
        return self._of([[cell.mean() for cell in row] for row in self.gains])

    def drawn(self, count: int, seed: int = 0) -> list[GainTable]:
        """So many tables, every pair's divisions drawn again with replacement; none of a single division.

        Both players of a division come together: they learned together and are not independent. Pairs are drawn
        independently although they were measured on the same divisions: what divisions have in common does not cancel
        between pairs, so what rests on differences between them is shown no firmer than it is. Of two or three
        divisions there are few resamples to draw, and their deviation is that of the mean times (1 -
        1/divisions)^(1/2): a rough error bar, on the small side.
        """
        if self.divisions < 2:
            return []
        rng = np.random.default_rng(seed)
        return [self._of(self._drawn(rng)) for _ in range(count)]

    def _drawn(self, rng: np.random.Generator) -> list[list[float]]:
        n, divisions = len(self.names), self.divisions
        places = rng.integers(0, divisions, (n, n, divisions))
        return [[float(self.gains[a][b][:, places[min(a, b), max(a, b)]].mean()) for b in range(n)] for a in range(n)]

    def _of(self, means: Sequence[Sequence[float]]) -> GainTable:
        return GainTable.alike(self.privacy, np.array(means), self.names)


def _named(p: float) -> tuple[str, float]:
    return f"p = {p:g}", float(p)
