"""Synthetic loan books of one country's credit unions.

Rates follow the market's law (`synthetic_lending`) plus normal shifts of the level and of every coefficient (of
standardised columns) for each region and union. Regions also differ in scores, incomes and homes. Rates scatter by
about 2.2 points around the best linear model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from parley.data import synthetic_lending
from parley.validate import Floats

REGIONS = ("coast", "hills", "lakes", "plains", "river", "valley")
BANK = "national-bank"
UNIONS, MIN_MEMBERS, MAX_MEMBERS = (
    39,
    150,
    2000,
)  # credit unions, and how many members the smallest and the largest have
LARGE_BANK_LOANS = 20_000  # customers of a large bank
PUBLIC_ROWS = 300
REGION_SHIFT, UNION_SHIFT = 0.06, 0.04  # standard deviations of the shift of each coefficient, in points of the rate
REGION_LEVEL, UNION_LEVEL = 0.5, 0.3  # of the level of rates
PUBLIC_SHIFT = 0.2  # the same of the public sample, which is from a neighbouring country
MEMBER_SHIFT = 0.4  # of regions to other members, in standard deviations of a column
TARGET_COLUMNS = ["grade", "int_rate"]


@dataclass(frozen=True, eq=False)
class Law:
    """The law of one owner's loans: which members it attracts, and its shift of the market's rate."""

    leaning: Floats  # [columns]: members are taken with odds exp(leaning . z)
    shift: Floats  # [columns], of the coefficients
    level: float

    def loans(self, count: int, seed: Sequence[int]) -> pd.DataFrame:
        """Draw a table of loans from this law."""
        rng = np.random.default_rng(seed)
        book = synthetic_lending(2 * count, seed=int(rng.integers(2**31)))
        z = standardised(book)
        chosen = np.sort(np.argsort(-(z @ self.leaning + rng.gumbel(size=len(book))))[:count])
        table = book.iloc[chosen].drop(columns="grade").reset_index(drop=True)
        return table.assign(int_rate=(table["int_rate"] + self.level + z[chosen] @ self.shift).round(2))


@dataclass(frozen=True, eq=False)
class Union:
    """One owner: its name, its number of loans, and their law, which nobody knows."""

    name: str
    records: int
    law: Law

    def loans(self, seed: int) -> pd.DataFrame:
        """Return the table that this owner holds."""
        return self.law.loans(self.records, (seed, self._key, 0))

    def future(self, count: int, seed: int) -> pd.DataFrame:
        """Return unseen loans of the same law, the truth about a model."""
        return self.law.loans(count, (seed, self._key, 1))

    @property
    def _key(self) -> int:
        return int.from_bytes(self.name.encode(), "big") % 2**61


def make_unions(seed: int, count: int = UNIONS) -> list[Union]:
    """Return unions in six regions, with sizes even on a log scale, and an average bank."""
    rng = np.random.default_rng((seed, 1))
    columns = len(_market()[0])
    regions = {name: _law(rng, columns, REGION_SHIFT, REGION_LEVEL, MEMBER_SHIFT) for name in REGIONS}
    sizes = np.exp(rng.permuted(np.linspace(np.log(MIN_MEMBERS), np.log(MAX_MEMBERS), count))).round().astype(int)
    unions = []
    for place, size in enumerate(sizes):
        region, number = REGIONS[place % len(REGIONS)], place // len(REGIONS) + 1
        common, own = regions[region], _law(rng, columns, UNION_SHIFT, UNION_LEVEL, 0.0)
        law = Law(common.leaning, common.shift + own.shift, common.level + own.level)
        unions.append(Union(f"{region}-{number}", int(size), law))
    everywhere = list(regions.values())
    bank = Law(
        np.zeros(columns), np.mean([r.shift for r in everywhere], axis=0), float(np.mean([r.level for r in everywhere]))
    )
    return [*unions, Union(BANK, LARGE_BANK_LOANS, bank)]


def large_banks(seed: int) -> list[Union]:
    """Return three large banks of the same country, which differ as single unions do."""
    rng = np.random.default_rng((seed, 3))
    laws = [_law(rng, len(_market()[0]), UNION_SHIFT, UNION_LEVEL, 0.0) for _ in range(3)]
    return [Union(f"large-{place}", LARGE_BANK_LOANS, law) for place, law in enumerate(laws, start=1)]


def public_sample(seed: int) -> pd.DataFrame:
    """Return a small public sample from a neighbouring country with a law of its own."""
    law = _law(np.random.default_rng((seed, 2)), len(_market()[0]), PUBLIC_SHIFT, REGION_LEVEL, MEMBER_SHIFT)
    return law.loans(PUBLIC_ROWS, (seed, 4))


def standardised(book: pd.DataFrame) -> Floats:
    """Return a loan book as numbers [n, columns], standardised by the market; names become 0/1."""
    mean, deviation = _market()
    return np.asarray((_numbers(book) - mean) / deviation)


def _law(rng: np.random.Generator, columns: int, shift: float, level: float, leaning: float) -> Law:
    lean = leaning * rng.standard_normal(columns) / np.sqrt(columns)
    return Law(lean, shift * rng.standard_normal(columns), level * float(rng.standard_normal()))


@cache
def _market() -> tuple[Floats, Floats]:
    numbers = _numbers(synthetic_lending(50_000, seed=0))
    return numbers.mean(axis=0), numbers.std(axis=0)


def _numbers(book: pd.DataFrame) -> Floats:
    return pd.get_dummies(book.drop(columns=TARGET_COLUMNS)).to_numpy(dtype=float)
