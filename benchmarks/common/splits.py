"""One split of a table: public rows, owners' rows and rows to test on, for Parley as files, for others as numbers."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import parley
from common import books
from common.boosted import boosted_public
from common.linear import TINY, Rows, chosen_ridge, losses, ridge, whitening
from parley.protocol.setup import Setup, resolve
from parley.validate import Floats

DELTA = 1e-6


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a book, in this order: public ones, each owner's, and those to test on; and a folder of its own."""

    book: books.Book
    public: int
    owners: int
    each: int
    folder: Path
    raw: bool

    @cached_property
    def coded(self) -> pd.DataFrame:
        """By hand, from the public rows."""
        return self.book.one_hot(self.public)

    @cached_property
    def given(self) -> pd.DataFrame:
        """What Parley's files hold."""
        columns = [*self.book.numbers, *self.book.names, self.book.target]
        return self.book.rows[columns] if self.raw else self.coded

    @cached_property
    def files(self) -> tuple[Path, list[Path]]:
        """(the public sample's, owners')"""
        names = ["public", *(f"owner-{i}" for i in range(self.owners))]
        places = [self.folder / f"{name}.parquet" for name in names]
        for file, rows in zip(places, [slice(self.public), *self.owned], strict=True):
            self.given.iloc[rows].to_parquet(file)
        return places[0], places[1:]

    @property
    def owned(self) -> list[slice]:
        begins = range(self.public, self.public + self.owners * self.each, self.each)
        return [slice(begin, begin + self.each) for begin in begins]

    @property
    def tested(self) -> slice:
        return slice(self.public + self.owners * self.each, None)

    @cached_property
    def base(self) -> Setup:
        """How rivals' columns are bounded, centred and scaled."""
        self.coded.iloc[: self.public].to_parquet(self.folder / "coded.parquet")
        model = {"kind": self.book.kind, "target": self.book.target, "intercept": True}
        return resolve(
            parley.Terms.from_dict(
                {
                    "model": {**model, "public": str(self.folder / "coded.parquet")},
                    "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
                    "owners": [{"name": "all", "records": self.owners * self.each, "epsilon": 1.0}],
                }
            )
        )

    def rows(self, places: slice) -> Rows:
        design = self.base.preparation.design(self.coded.iloc[places], "rows")
        return Rows(design.X, design.y, self.book.classes)

    @cached_property
    def sample(self) -> Rows:
        return self.rows(slice(self.public))

    @cached_property
    def train(self) -> Rows:
        return self.rows(slice(self.public, self.tested.start))

    @cached_property
    def test(self) -> Rows:
        return self.rows(self.tested)

    @cached_property
    def public_model(self) -> Floats:
        return chosen_ridge(self.sample)

    @cached_property
    def turn(self) -> Floats:
        """Coordinates in which the public Hessian at the public model is near the identity."""
        return whitening(self.sample, self.public_model)

    @cached_property
    def least(self) -> float:
        return float(self.test.cost(ridge(self.train, TINY)))

    @cached_property
    def own_alone(self) -> float:
        """The mean over owners of what each reaches with its own rows."""
        return float(np.mean([self.excess(chosen_ridge(self.rows(places))) for places in self.owned]))

    @cached_property
    def boosted(self) -> float:
        """Of trees of the public sample, which take columns as they are."""
        columns = [*self.book.numbers, *self.book.names, self.book.target]
        public, test = (self.book.rows[columns].iloc[places] for places in (slice(self.public), self.tested))
        said = boosted_public(self.book, public, test)
        return self.said_excess(self.log_odds(said) if self.book.classes else said)

    def excess(self, theta: Floats) -> float:
        """Mean over models [..., p], times 1000."""
        return 1000 * (float(self.test.cost(theta).mean()) - self.least)

    def said_excess(self, said: Floats) -> float:
        """The same of what models say [..., n] in the target's own units, or in log-odds."""
        made = self.base.preparation
        margins = (said - made.target_centre) / made.target_scale
        return 1000 * (float(losses(margins, self.test.y, self.test.classes).mean()) - self.least)

    def log_odds(self, chance: Floats) -> Floats:
        chance = np.clip(chance, 1e-9, 1 - 1e-9)
        return np.asarray(np.log(chance) - np.log1p(-chance))

    def figure(self, excess: float) -> dict[str, Any]:
        """An excess, and the test cost itself: log loss, or the root mean square error over the target's deviation."""
        cost = excess / 1000 + self.least
        if not self.book.classes:
            unit = self.base.preparation.target_scale / float(self.book.rows[self.book.target].std())
            cost = unit * cost**0.5
        return {"excess": excess, "cost": cost}
