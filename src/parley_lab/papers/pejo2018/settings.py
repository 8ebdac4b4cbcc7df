"""How P's exhibits are measured, and which games are played on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from parley.tasks.ratings.table import Ratings, divide, drop_rare, find_ratings
from parley_lab.papers.document import Asked, Parts, Shown
from parley_lab.papers.pejo2018.games.private_concern import Priors


@dataclass(frozen=True, eq=False)
class Settings:
    """How to measure (`memory` in bytes), what was measured `known` before, and which games to play on it."""

    asked: Asked
    splits: int
    users: int | None
    public: int
    mechanism: Sequence[str] | None
    memory: float
    known: dict[str, Any] | None
    game: bool
    discount: float | None
    priors: Priors | None

    @cached_property
    def ratings(self) -> Ratings:
        """Those of all users who rated enough, or of some."""
        ratings = drop_rare(find_ratings(self.asked.required_folder("the ratings")))
        if self.users is None or self.users >= len(ratings.user_names):
            return ratings
        rest = len(ratings.user_names) - self.users
        return drop_rare(divide(ratings, [self.users, rest], np.random.default_rng(0))[0])

    def shown(self, content: dict[str, Any], parts: Parts, drawn: tuple[Any, ...] = ()) -> Shown:
        """With how many ratings it was measured on."""
        content = {"counts": self.ratings.counts, "splits": self.splits, **content} if self.known is None else content
        note = "{ratings:,} ratings of {items:,} items by {users:,} users".format(**content["counts"])
        return Shown(content, parts, drawn, notes=[note])
