"""How far a person moves joined moments, and the noise that hides it."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, pld
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import TermsError
from parley.privacy.accounting import bits_delta
from parley.privacy.mechanisms.shared_noise import MAX_SUM
from parley.privacy.sharing.matching.keyed_rows import KeyedRows, joined_moments
from parley.tasks.joined.law import MAX_COLUMNS, joined_law, joined_sensitivity, whole_clip

DIGITS = 10
LIMIT = 1 << DIGITS


def packed(z):
    return np.outer(z, z)[np.triu_indices(len(z))]


def searched(clips, widths, unit, starts=150, seed=0):
    """Return the largest found move from one joined row to another or to none: sign vectors on few columns, improved
    coordinate by coordinate."""
    rng = np.random.default_rng(seed)

    def part(clip, width):
        some = rng.choice(width, rng.integers(1, width + 1), replace=False)
        x = np.zeros(width)
        x[some] = rng.choice([-1.0, 1.0], len(some)) * rng.choice([1.0, rng.random()])
        return inside(x * clip, clip)

    def inside(x, clip):
        x = np.clip(x, -LIMIT, LIMIT - 1)
        return x * min(1.0, clip / max(np.linalg.norm(x), 1e-9))

    def row(parts):
        return np.append(np.concatenate(parts), unit)

    def moved(one, other):
        return np.linalg.norm(packed(row(one)) - (0.0 if other is None else packed(row(other))))

    best = 0.0
    for _ in range(starts):
        pair = [[part(c, w) for c, w in zip(clips, widths, strict=True)] for _ in range(2)]
        found = max(moved(*pair), moved(pair[0], None))
        for _ in range(40):
            side, owner = rng.integers(2), rng.integers(len(clips))
            kept = pair[side][owner]
            spread = rng.choice([0.01, 0.1, 1.0]) * clips[owner]
            pair[side][owner] = inside(
                kept + rng.normal(0, spread, len(kept)) * (rng.random(len(kept)) < 0.5), clips[owner]
            )
            if moved(*pair) > found:
                found = moved(*pair)
            else:
                pair[side][owner] = kept
        best = max(best, found)
    return best


CASES = [
    ((1000,), (1,), 1000),
    ((1000, 1000, 1000), (2, 2, 2), 1000),
    ((2400, 1700), (6, 3), 1023),
    ((1023, 300, 2000), (1, 4, 4), 700),
    ((200, 200), (3, 3), 1000),
]


@pytest.mark.parametrize(("clips", "widths", "unit"), CASES)
def test_no_pair_of_rows_moves_the_moments_further(clips, widths, unit):
    found = searched(clips, widths, unit)
    assert found <= joined_sensitivity(clips, unit, DIGITS)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda squares, unit: sum(squares) ** 2,  # without the constant
        lambda squares, unit: (sum(squares) + unit**2) ** 2,  # as if entries off the diagonal were scaled by sqrt 2
        lambda squares, unit: ((sum(squares) + unit**2) ** 2 + sum(s * s for s in squares) + unit**4) // 2,  # one row
    ],
)
def test_the_search_finds_moments_that_move_further_than_a_bound_that_forgets_something(mutant):
    clips, widths, unit = CASES[1]
    wrong = isqrt(mutant([clip * clip for clip in clips], unit))
    assert wrong < searched(clips, widths, unit) <= joined_sensitivity(clips, unit, DIGITS)


def test_the_bound_is_nearly_reached():
    clips, widths, unit = CASES[1]
    assert searched(clips, widths, unit) >= 0.95 * joined_sensitivity(clips, unit, DIGITS)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=5), st.integers(1, 1023))
def test_the_bound_is_rounded_up_and_never_above_the_frobenius_norm(clips, unit):
    squares = [clip * clip for clip in clips]
    bound, radius = joined_sensitivity(clips, unit, DIGITS), sum(squares) + unit * unit
    exact = radius**2 + sum(min(LIMIT**2, square) * square for square in squares)
    assert (bound - 1) ** 2 < exact <= bound**2
    assert exact <= 2 * radius**2


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_neighbouring_tables_have_moments_further_apart(seed):
    """A person is replaced by one newcomer in some tables: in one, in all, matched before, after, both or neither."""
    rng = np.random.default_rng(seed)
    owners, unit, digits = int(rng.integers(2, 4)), int(rng.integers(8, 16)), 4
    clips = [int(rng.integers(1, 40)) for _ in range(owners)]

    def values(clip, width):
        x = rng.integers(-16, 16, width)
        return x if x @ x <= clip * clip else np.trunc(x * clip / np.sqrt(x @ x)).astype(np.int64)

    widths = [int(rng.integers(1, 4)) for _ in range(owners)]
    held = [
        {int(k): values(c, w) for k in rng.choice(6, rng.integers(1, 6), replace=False)}
        for c, w in zip(clips, widths, strict=True)
    ]
    person, newcomer = int(rng.integers(0, 6)), int(rng.integers(0, 9))
    changed = [bool(rng.integers(2)) and person in rows and newcomer not in rows for rows in held]
    others = []
    for rows, moves, clip, width in zip(held, changed, clips, widths, strict=True):
        after = dict(rows)
        if moves:
            del after[person]
            after[newcomer] = values(clip, width)
        others.append(after)
    one, other = (
        joined_moments([_table(rows, w, digits) for rows, w in zip(each, widths, strict=True)], unit)
        for each in (held, others)
    )
    apart = one - other
    assert int(apart @ apart) <= joined_sensitivity(clips, unit, digits) ** 2


def _table(rows, width, digits):
    keys = np.array([[0, key] for key in rows], dtype=np.uint64)
    values = np.array(list(rows.values()), dtype=np.int64).reshape(len(rows), width)
    return KeyedRows(keys, values, digits)


@pytest.mark.parametrize(
    ("epsilon", "squares", "columns"), [("0.9", (6, 7), 120), ("0.05", (1, 2), 4), ("8", (3, 3), 40)]
)
def test_the_noise_keeps_what_is_left_of_epsilon_and_delta(epsilon, squares, columns):
    epsilon, delta = Fraction(epsilon), Fraction(1, 10**6)
    law = joined_law(epsilon, delta, [Fraction(s) for s in squares], 12, columns, 20_000)
    size = (columns + 1) * (columns + 2) // 2
    assert law.noise.size == size
    assert law.moved == joined_sensitivity([whole_clip(Fraction(s), law.unit) for s in squares], law.unit, 12)
    multiplier = law.noise.event.multiplier
    assert multiplier <= law.noise.recipe.scale / law.moved
    accountant = pld.PLDAccountant()
    accountant.compose(GaussianDpEvent(multiplier))
    spent = accountant.get_epsilon(float(delta - bits_delta(epsilon, size)))
    # the grid's unit is a whole number below 2^digits, so a little may be left over; dp-accounting rounds losses up
    assert float(epsilon) * 0.95 <= spent <= float(epsilon) * (1 + 1e-3)
    assert 2**11 * 1.2 < law.unit < 2**12


def test_a_clip_in_grid_steps_is_rounded_up():
    for unit in (7, 1000, 4095):
        for square in (Fraction(2), Fraction(9, 4), Fraction(1)):
            clip = whole_clip(square, unit)
            assert (clip - 1) ** 2 < square * unit**2 <= clip**2


def test_sums_that_do_not_fit_are_refused_with_the_most_rows_that_do():
    budget = Fraction(1), Fraction(1, 10**6), [Fraction(3), Fraction(3)]
    with pytest.raises(TermsError, match="the smallest table may have at most") as refusal:
        joined_law(*budget, 20, 40, 10**7)
    most = int(str(refusal.value).partition("at most ")[2].partition(" rows")[0].replace(",", ""))
    law = joined_law(*budget, 20, 40, most)
    assert (most << 40) + law.noise.recipe.reach < MAX_SUM <= ((most + 1) << 40) + law.noise.recipe.reach
    with pytest.raises(TermsError, match="do not fit in 63 bits"):
        joined_law(*budget, 20, 40, most + 1)


def test_too_many_columns_and_too_small_a_delta_are_refused():
    squares = [Fraction(3), Fraction(3)]
    with pytest.raises(TermsError, match=f"expected at most {MAX_COLUMNS:,}"):
        joined_law(Fraction(1), Fraction(1, 10**6), squares, 12, MAX_COLUMNS + 1, 100)
    with pytest.raises(TermsError, match=r"privacy.delta: expected at least"):
        joined_law(Fraction(1), Fraction(1, 10**15), squares, 12, 300, 100)
