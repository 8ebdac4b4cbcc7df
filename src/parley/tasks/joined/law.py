"""How far a person moves the second moments over matched people, and the one noise that hides it.

All in whole grid steps. A matched person's row is z = [part of the first owner, ..., part of the last, unit]: an
owner's part has norm at most its clip c_o and numbers of size at most L = 2^digits, and `unit` stands for the value 1.
The hosts open the upper triangle of the sum of z z' plus noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt

from parley.errors import TermsError
from parley.privacy.accounting import bits_delta, most_epsilon
from parley.privacy.accounting.series import SERIES
from parley.privacy.mechanisms.shared_noise import (
    MAX_EXPONENT,
    MAX_SUM,
    MIN_EXPONENT,
    Law,
    Recipe,
    SharedNoise,
    make_recipe,
    recipe_scale,
)
from parley.validate import upper

MAX_COLUMNS = 4000  # of a joined row: 8 million opened numbers
MECHANISM = "gaussian"


def joined_sensitivity(clips: Sequence[int], unit: int, digits: int) -> int:
    """Return how far one person moves the upper triangle of the sum of z z', in L2, rounded up.

    Formal guarantee: let R^2 = sum of c_o^2 + unit^2. The result is at least the square root of R^4 + sum of min(L,
    c_o)^2 c_o^2.

    Proof. Table sizes are public. The person's row in each changed table becomes that of one and the same newcomer, who
    was in none of the changed tables, or of nobody. So at most one joined row z leaves the sum, and at most one z'
    enters it. Let v(z) hold z_i z_j for i <= j. For any two rows

        v(z).v(z') = ((z.z')^2 + sum of z_i^2 z'_i^2)/2,

    because the whole matrix has every entry off the diagonal twice. With z' = z, |z|^2 <= R^2, and in the last sum the
    numbers of one owner add up to at most max z_i^2 times sum of z_i^2, at most min(L, c_o)^2 c_o^2. So |v(z)|^2 is at
    most (R^4 + S + unit^4)/2, with S the sum of min(L, c_o)^2 c_o^2. Both rows end in `unit`, so v(z).v(z') is at least
    unit^4/2.
    Together |v(z) - v(z')|^2 <= R^4 + S + unit^4 - unit^4. A row that enters or leaves alone moves the sum by |v(z)|,
    which is no more, since unit^4 <= R^4 + S. The matrix's Frobenius norm, sqrt 2 R^2, is never smaller: S <= R^4.

    One person replaced by two people, each already matched in other tables, is outside this unit.

    >>> joined_sensitivity([10, 10], 10, 4)
    332
    """
    squares = [clip * clip for clip in clips]
    radius, limit = sum(squares) + unit * unit, 1 << 2 * digits
    squared = radius * radius + sum(min(limit, square) * square for square in squares)
    return isqrt(squared - 1) + 1


def whole_clip(squared: Fraction, unit: int) -> int:
    """Return an owner's clip in grid steps, from its square in units, rounded up.

    >>> whole_clip(Fraction(2), 10)
    15
    """
    return isqrt(ceil(squared * unit * unit) - 1) + 1


@dataclass(frozen=True)
class JoinedLaw:
    """The grid and the noise of one opening.

    Formal guarantee: `noise` on every opened number makes the opening (epsilon, delta)-DP for a person in all tables
    together, random bits included. No sum of up to `rows` products and noise leaves 63 bits.
    """

    unit: int  # grid steps of the value 1, at most 2^digits - 1
    digits: int
    clips: tuple[int, ...]  # each owner's, in grid steps
    moved: int
    epsilon: Fraction
    delta: Fraction
    noise: SharedNoise

    @property
    def deviation(self) -> float:
        """The deviation of the noise in one number of the sum, where values are at most 1."""
        return float(self.noise.recipe.variance**0.5 / self.unit**2)


def joined_law(
    epsilon: Fraction, delta: Fraction, squared_clips: Sequence[Fraction], digits: int, columns: int, rows: int
) -> JoinedLaw:
    """Return the least noise for sums of z z' over at most `rows` people, z of `columns` numbers and the constant.

    The recipes' scales are powers of two times one number. So the grid is chosen to fit: the unit is the largest whole
    number, below 2^digits, at which the scale still covers what a person moves.
    """
    if not columns <= MAX_COLUMNS:
        raise TermsError(
            f"owners.columns: the listed columns become {columns:,} numbers of a row; expected at most "
            f"{MAX_COLUMNS:,}. List fewer columns, names or bins"
        )
    size = (columns + 1) * (columns + 2) // 2
    if not epsilon <= most_epsilon(delta, size):
        raise TermsError(
            f"privacy.delta: expected at least {2 * float(bits_delta(epsilon, size)):.1e} beyond join.delta, because "
            "hosts draw noise from finitely many random bits"
        )
    left = delta - bits_delta(epsilon, size)
    covers = SERIES[MECHANISM].covered(epsilon, left, 1)  # steps that a person may move, by one step of scale

    def clips(unit: int) -> tuple[int, ...]:
        return tuple(whole_clip(square, unit) for square in squared_clips)

    def unit_of(exponent: int) -> int:
        """Return the largest unit that this recipe covers; 0 if none."""
        covered, low, high = Fraction(recipe_scale(Law.GAUSSIAN, exponent)) * covers, 0, (1 << digits) - 1
        while low < high:
            middle = (low + high + 1) // 2
            fits = joined_sensitivity(clips(middle), middle, digits) <= covered
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    units = {exponent: unit_of(exponent) for exponent in range(MIN_EXPONENT, MAX_EXPONENT + 1)}
    usable = {exponent: unit for exponent, unit in units.items() if unit}
    if not usable:
        raise TermsError("privacy.noise: the noise does not fit in 63 bits; set a smaller join.digits")
    exponent = min(usable, key=lambda each: recipe_scale(Law.GAUSSIAN, each) / usable[each] ** 2)
    recipe, unit = make_recipe(Law.GAUSSIAN, exponent), usable[exponent]
    _require_bits(recipe, digits, columns, rows)
    moved = joined_sensitivity(clips(unit), unit, digits)
    noise = SharedNoise(recipe, float(unit * unit), upper(Fraction(moved)), size, 1, moved / unit**2, "l2")
    return JoinedLaw(unit, digits, clips(unit), moved, epsilon, delta, noise)


def _require_bits(recipe: Recipe, digits: int, columns: int, rows: int) -> None:
    """Refuse sums of products that may leave 63 bits together with the noise."""
    if not (rows << 2 * digits) + recipe.reach < MAX_SUM:
        most = max(MAX_SUM - recipe.reach - 1, 0) >> 2 * digits
        raise TermsError(
            f"join.digits = {digits}: sums over {rows:,} people and their noise do not fit in 63 bits. With {digits} "
            f"digits and {columns:,} columns, the smallest table may have at most {most:,} rows; use fewer digits or "
            "rows"
        )
