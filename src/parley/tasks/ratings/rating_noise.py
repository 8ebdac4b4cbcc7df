"""Private ratings (P section 3): hide some, or add noise to each or to every cell; training on the result is free.
Sound mechanisms add noise to raw ratings, as large as the range demands. Published ones add less, to centred ratings,
of which one rating moves many; `Claim.real` is what they give."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from parley.errors import GuaranteeError, SettingError
from parley.privacy.accounting import exact, in_pieces
from parley.privacy.mechanisms import Bounded, Laplace, Noise
from parley.tasks.ratings.factorization import Factorization
from parley.tasks.ratings.table import Ratings
from parley.validate import Floats, positive

RatingMechanism = Literal["hide", "bounded", "unbounded", "bounded-published", "unbounded-published"]
MECHANISMS: tuple[RatingMechanism, ...] = get_args(RatingMechanism)
BYTES_PER_RATING = 48  # of memory that a rating takes from start to end: places, value, and their shuffled copy
CELLS_PER_PIECE = 2**20  # of the matrix that are given noise at a time


@dataclass(frozen=True)
class Scale:
    """The public range [low, high]; ratings outside are moved to the nearer end."""

    low: float = 1.0
    high: float = 5.0

    @property
    def range(self) -> float:
        return self.high - self.low

    @property
    def middle(self) -> float:
        """The stand-in for a missing rating."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Claim:
    """The epsilon that a mechanism claims, and the one it gives; None: no epsilon at all."""

    named: float | None
    real: float | None

    def words(self) -> str:
        """Return the claim in words.

        >>> Claim(1.0, 13.37).words(), Claim(None, None).words()
        ('up to ε = 13.4, not 1', 'no ε')
        """
        if self.real is None:
            return "no ε"
        return f"ε = {self.real:.3g}" if self.real == self.named else f"up to ε = {self.real:.3g}, not {self.named:.3g}"


@dataclass(frozen=True)
class Thinning:
    """What unbounded DP drops after the noise: ratings within `near` of the middle, and all except a share `keep` of
    those at an end. P does not give these values; with them its table 3 is matched to within a quarter."""

    near: float = 0.6
    keep: float = 0.2

    def surviving(self, noise_scale: float, half: float) -> float:
        """Return the probability that an empty cell becomes a rating."""
        return math.exp(-self.near / noise_scale) - (1 - self.keep) * math.exp(-half / noise_scale)


def published_scale(epsilon: float, rule: Factorization, scale: Scale) -> float:
    """Return S_JL/eps as P prints it (eq. 6, with its minus): 1.197/eps for P's settings.

    >>> round(published_scale(1.0, Factorization(), Scale()), 4)
    1.197
    """
    largest = scale.range * rule.box - rule.penalty * rule.box
    return rule.factors * rule.passes * rule.step * largest / positive(epsilon, "epsilon")


def claim(mechanism: RatingMechanism, epsilon: float, rule: Factorization, scale: Scale) -> Claim:
    """Return the claimed and the real epsilon of a mechanism.

    Formal guarantee: `real` bounds the epsilon for replacing the value of one rating; for the unbounded mechanisms, for
    one rating added, removed, or replaced by another anywhere. Sound: the noise is calibrated (`bounded`, `unbounded`).
    Published: replacing one rating moves all residuals together by at most four ranges (proof in `table.centre`), and
    Laplace noise of scale b on a vector that moves by D in L1 costs D/b, floating-point rounding not counted. This
    holds for one owner whose means are its own and never leave. Means that owners compute together, or hand out, carry
    no noise and give no epsilon at all.

    A rating added or removed moves its own cell by half a range, its item's mean and through it the means of those who
    rated it by a range each, and its user's mean by two (what is left of a rating is within a range of 0): 4.5 ranges.
    Replacing it by one of another user and item does both: 9 ranges.
    """
    if mechanism == "hide":
        return Claim(None, None)
    if mechanism in ("bounded", "unbounded"):
        return Claim(epsilon, epsilon)
    ranges = 4.0 if mechanism == "bounded-published" else 9.0
    return Claim(epsilon, ranges * scale.range / published_scale(epsilon, rule, scale))


def hide(ratings: Ratings, share: float, rng: np.random.Generator) -> Ratings:
    """Drop a random share of the ratings. This gives no epsilon: ratings that stay are not protected."""
    if not 0 <= share < 1:
        raise SettingError(f"share = {share}: expected a number of at least 0 and below 1")
    return ratings.pick(np.sort(rng.permutation(len(ratings))[round(share * len(ratings)) :]))


def bounded(ratings: Ratings, epsilon: float, scale: Scale, noise: Noise) -> Ratings:
    """Add Laplace noise to every raw rating.

    Formal guarantee: eps-DP for replacing the value of one rating. Values are first moved into the public range, so one
    moves the vector by at most the range in L1. Which cells hold a rating is not hidden.
    """
    values = Bounded(np.clip(ratings.values, scale.low, scale.high), scale.range, "l1")
    return ratings.with_values(Laplace.calibrate(exact(epsilon), scale.range).release(values, noise))


def unbounded(
    ratings: Ratings,
    users: NDArray[np.int64],
    epsilon: float,
    scale: Scale,
    noise: Noise,
    rng: np.random.Generator,
    thinning: Thinning = Thinning(),  # noqa: B008 - frozen
    memory: float = 2e9,
) -> Ratings:
    """Add noise to every cell of the matrix of these users, then thin it. Users and items are public, fixed before
    anybody saw ratings.

    Formal guarantee: eps-DP for one rating added, removed, or replaced by another of these users anywhere. An empty
    cell holds the middle of the scale and a rating is at most half the range from it, so the two cells move by at most
    the range together, in L1. Noise is drawn for pieces of some users each, of which such a change touches two
    (`in_pieces`). Thinning depends on noisy values alone.
    """
    items = len(ratings.item_names)
    height = max(CELLS_PER_PIECE // items, 1)
    series = in_pieces("laplace", exact(epsilon), Fraction(0), 1, scale.range, 1, height * items, 2)
    require_memory(len(users), items, series.mechanism.noise_scale, scale.range / 2, thinning, memory)
    cell = _grid(ratings, scale)
    row = np.full(len(ratings.user_names), -1)
    row[users] = np.arange(len(users))
    if (row[ratings.users] < 0).any():
        raise SettingError("users: the list must contain every user who has a rating")
    order = np.argsort(row[ratings.users], kind="stable")
    sorted_rows = row[ratings.users][order]
    parts: list[tuple[NDArray[np.int64], Floats]] = []
    for first in range(0, len(users), height):
        inside = order[slice(*np.searchsorted(sorted_rows, [first, first + height]))]
        flat = np.full(min(height, len(users) - first) * items, scale.middle)
        flat[(row[ratings.users[inside]] - first) * items + ratings.items[inside]] = cell[inside]
        noisy = series.mechanism.release(Bounded(flat, scale.range, "l1"), noise)
        places, values = thin(noisy, scale, thinning, rng)
        parts.append((places + first * items, values))
    return _from_cells(ratings, users, parts)


def published_noise(
    residuals: Ratings,
    users: NDArray[np.int64] | None,
    noise_scale: float,
    rng: np.random.Generator,
    thinning: Thinning,
) -> Ratings:
    """Add the published noise to centred ratings, or to every cell of `users`. For studies only."""
    half = Scale(-2.0, 2.0)
    if users is None:
        return residuals.with_values(
            np.clip(residuals.values + rng.laplace(scale=noise_scale, size=len(residuals)), half.low, half.high)
        )
    flat = np.full(len(users) * len(residuals.item_names), 0.0)
    row = np.full(len(residuals.user_names), -1)
    row[users] = np.arange(len(users))
    flat[row[residuals.users] * len(residuals.item_names) + residuals.items] = residuals.values
    kept = thin(flat + rng.laplace(scale=noise_scale, size=len(flat)), half, thinning, rng)
    return _from_cells(residuals, users, [kept])


def thin(noisy: Floats, scale: Scale, thinning: Thinning, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """Return (places, values) that unbounded DP keeps of noisy cells (P section 3.2.2, steps 3 and 4)."""
    inside = np.clip(noisy, scale.low, scale.high)
    ends = (inside == scale.low) | (inside == scale.high)
    kept = np.flatnonzero(
        (np.abs(inside - scale.middle) > thinning.near) & (~ends | (rng.random(len(inside)) < thinning.keep))
    )
    return kept, inside[kept]


def expected_ratings(users: int, items: int, noise_scale: float, half: float, thinning: Thinning) -> float:
    """Return how many ratings unbounded DP makes of an empty matrix; true ratings add few."""
    return users * items * thinning.surviving(noise_scale, half)


def require_memory(users: int, items: int, noise_scale: float, half: float, thinning: Thinning, memory: float) -> None:
    """Refuse unbounded DP that would need more than `memory` bytes."""
    count = expected_ratings(users, items, noise_scale, half, thinning)
    if not count * BYTES_PER_RATING <= memory:
        raise GuaranteeError(
            f"unbounded DP would create about {count:,.0f} ratings in a matrix of {users:,} x {items:,} cells and need "
            f"{count * BYTES_PER_RATING / 1e9:,.3g} GB of memory. The limit is {memory / 1e9:,.3g} "
            "GB; raise the limit, use bounded DP, or release updates instead of ratings"
        )


def _grid(ratings: Ratings, scale: Scale) -> Floats:
    """Return values within the range; refuse cells that are rated twice."""
    cells = ratings.users.astype(np.int64) * len(ratings.item_names) + ratings.items
    if len(np.unique(cells)) < len(cells):
        raise SettingError("ratings: a user rated an item twice; keep one rating of each item per user")
    return np.clip(ratings.values, scale.low, scale.high)


def _from_cells(ratings: Ratings, users: NDArray[np.int64], parts: list[tuple[NDArray[np.int64], Floats]]) -> Ratings:
    flat, items = np.concatenate([places for places, _ in parts]), len(ratings.item_names)
    kept_ratings = Ratings(
        users[flat // items].astype(np.int32),
        (flat % items).astype(np.int32),
        np.concatenate([values for _, values in parts]),
        ratings.user_names,
        ratings.item_names,
    )
    if not len(kept_ratings):
        raise SettingError("unbounded DP: no ratings remain; drop fewer ratings")
    return kept_ratings
