"""Ratings divided among owners, and each owner's into those to learn from and those to be judged by; what it has of
them alone.

An owner alone uses nothing but its own ratings, without noise, and has the best that they give by any method that is
tried together: no gain is that of a better method. Figure 3 is P's own comparison: means of everybody's ratings, and
P's descent alone and together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from parley.tasks.ratings.algorithm import Items
from parley.tasks.ratings.factorization import Factorization, factorize, root_mean_square
from parley.tasks.ratings.rating_noise import Scale
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.table import Centred, Ratings, by_user, centre, divide, hold_out
from parley.validate import Floats
from parley_lab.papers.pejo2018.released_updates import Contribution, learned_from

RATING_SCALE = Scale()


@dataclass(frozen=True, eq=False)
class Division:
    """Raw ratings divided among owners, and each owner's into those to learn from and those to be judged by."""

    trains: tuple[Ratings, ...]
    tests: tuple[Ratings, ...]
    centred: Centred | None  # means of all ratings, as P takes them; None: of those that are learned from

    @property
    def everything(self) -> Ratings:
        """What is learned from, by anybody."""
        return union(self.trains)


@dataclass(frozen=True)
class Measured:
    """One owner's root mean square errors on its own held-out ratings."""

    baseline: float  # means alone
    alone: float
    together: float

    @property
    def improvement(self) -> float:
        """By how many percent the error falls by learning together."""
        return 100 * (self.alone - self.together) / self.alone


def make_division(ratings: Ratings, shares: Sequence[float], seed: int, all_means: bool = False) -> Division:
    """Users by shares, a fifth of every owner's ratings held out."""
    rng = np.random.default_rng([seed, *map(int, shares)])
    halves = [hold_out(part, 0.2, rng) for part in divide(ratings, shares, rng)]
    return Division(tuple(a for a, _ in halves), tuple(b for _, b in halves), centre(ratings) if all_means else None)


@dataclass(frozen=True)
class Alone:
    """One owner's errors by its own ratings, without privacy: means alone, and factors by each method."""

    means: float
    by: dict[str, float]

    @property
    def best(self) -> float:
        """The least error, with which the owner would stay."""
        return min(self.by.values())


def alone(division: Division, rule: Factorization, seed: int) -> list[Alone]:
    """Every owner's: "walked", P's descent, centred by the owner's own means; "solved", the same with its users solved
    in the end; "updates", the rounds by which updates are released, without noise or partner. In figure 3 P's descent
    and means of everybody only."""
    found = []
    for train, test in zip(division.trains, division.tests, strict=True):
        centred = division.centred or centre(train)
        joint = factorize([train.with_values(centred.residuals_of(train))], rule, seed)
        means = prediction_error(division, test, centred, np.zeros(len(test)))
        by = {"walked": prediction_error(division, test, centred, joint.players[0].predicted(joint.items, test))}
        if division.centred is None:
            by["solved"] = solved_error(item_vectors(centred, joint.items), train, test)
            by["updates"] = solved_error(learned_from([Contribution(train)], seed), train, test)
        found.append(Alone(means, by))
    return found


def item_vectors(centred: Centred, Q: Floats) -> Floats:
    """V = [b, Q], as users' factors are solved from it."""
    return np.column_stack([centred.item_means - RATING_SCALE.middle, Q])


def solved_errors(V: Floats, division: Division) -> list[float]:
    """Every owner's error if its users' factors are solved from their own ratings, given items' V by whatever
    method."""
    return [solved_error(V, *own) for own in zip(division.trains, division.tests, strict=True)]


def solved_error(V: Floats, train: Ratings, held_out: Ratings) -> float:
    """The error on held-out ratings of users whose factors are solved from their own ratings."""
    everybody = np.arange(len(train.user_names))
    own, judged = (by_user(part, everybody, RATING_SCALE.low, RATING_SCALE.high) for part in (train, held_out))
    return root_mean_square(Recommender(Items(V, np.zeros(len(V))), train.item_names).errors(own, judged))


class Repeats:
    """Several divisions of the users, and what every owner has alone in each: whatever is tried is measured against
    that."""

    def __init__(self, divisions: Sequence[Division], rule: Factorization) -> None:
        self._divisions = divisions
        self._apart = [alone(division, rule, split) for split, division in enumerate(divisions)]

    def measure(
        self, errors: Callable[[Division, int], Sequence[float]], progress: Callable[[], None]
    ) -> list[dict[str, object]]:
        """The summary of each owner of two: `errors` are theirs in one division, given which."""
        found = []
        for split, division in enumerate(self._divisions):
            progress()
            found.append(errors(division, split))
        runs = [
            [
                Measured(own[player].means, own[player].best, one[player])
                for own, one in zip(self._apart, found, strict=True)
            ]
            for player in range(2)
        ]
        return [summary(one) for one in runs]


def ticks(progress: Callable[[int, int], None], total: int) -> Callable[[], None]:
    """Report one more at every call."""
    done = iter(range(total))
    return lambda: progress(next(done), total)


def summary(runs: Sequence[Measured]) -> dict[str, object]:
    """Means over splits, with the standard error of the mean improvement; None of a single split."""
    gains = np.array([run.improvement for run in runs])
    error = float(gains.std(ddof=1) / len(gains) ** 0.5) if len(gains) > 1 else None
    means = {name: float(np.mean([getattr(run, name) for run in runs])) for name in ("baseline", "alone", "together")}
    return {**means, "improvement": float(gains.mean()), "error": error, "improvements": gains.tolist()}


def gains(prefix: str, before: Sequence[float], after: Sequence[float]) -> dict[str, object]:
    """Fields PREFIX and PREFIX_error: by how many percent errors fall from `before` to `after`, division by division,
    as a mean with its standard error."""
    found = np.array([100 * (a - b) / a for a, b in zip(before, after, strict=True)])
    error = float(found.std(ddof=1) / len(found) ** 0.5) if len(found) > 1 else None
    return {prefix: float(found.mean()), f"{prefix}_error": error}


def prediction_error(division: Division, test: Ratings, centred: Centred, predicted: Floats) -> float:
    """Of centred ratings where P's means of all are taken, else of the ratings themselves."""
    if division.centred is not None:
        return root_mean_square(centred.residuals_of(test) - predicted)
    found = centred.item_means[test.items] + centred.user_means[test.users] + predicted
    return root_mean_square(test.values - np.clip(found, RATING_SCALE.low, RATING_SCALE.high))


def union(parts: Sequence[Ratings]) -> Ratings:
    """All ratings in one table, whoever holds them."""
    users, items, values = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("users", "items", "values")
    )
    return replace(parts[0], users=users, items=items, values=values)
