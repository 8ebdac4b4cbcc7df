"""Names leave only above a threshold that one person cannot reach but with probability delta: exact probabilities of
the samplers' law."""

import dataclasses
import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from parley.privacy.mechanisms import FastNoise, Gaussian, Laplace, SafeNoise
from parley.privacy.mechanisms.exact_samplers import widened_scale
from parley.privacy.mechanisms.name_counts import (
    LONGEST_NAME,
    MAX_NAMES,
    NUMBERS_PER_NAME,
    NamedCounts,
    Stability,
    decode_name,
    encode_name,
)

WIDTH = 2 + MAX_NAMES * NUMBERS_PER_NAME
RECORDS, PERSON, COLUMNS, EPSILON, DELTA = 2000, 3, 4, Fraction(1, 2), Fraction(1, 10**6)


def made(kind, records=RECORDS, person=PERSON, columns=COLUMNS, epsilon=EPSILON, delta=DELTA):
    sensitivity = 2 * person * columns / records
    base = (
        Laplace.calibrate(epsilon, sensitivity)
        if kind == "laplace"
        else Gaussian.calibrate(epsilon, float(delta), sensitivity)
    )
    return Stability.calibrate(base, epsilon, delta, records, person, columns, WIDTH)


def chance(stability, rows):
    """The exact probability that a name held by so many rows leaves, by the law that the safe sampler draws from."""
    share = rows / stability.records
    if isinstance(stability.base, Gaussian):
        return Decimal(float(ndtr(-(stability.threshold - share) / stability.base.sigma)))
    steps, exponent = widened_scale(stability.base.scale, stability.base.sensitivity, stability.drawn)
    unit = Fraction(2) ** exponent
    least = math.ceil(Fraction(stability.threshold) / unit) - round(Fraction(share) / unit)
    with localcontext() as context:
        context.prec = 60

        def at_least(j):
            """P(K >= j), P(K = j) proportional to exp(-|j|/steps)."""
            if j <= 0:
                return 1 - at_least(1 - j)
            return (Decimal(-j) / steps).exp() / (1 + (Decimal(-1) / steps).exp())

        return at_least(least)


def decisive(stability, epsilon=EPSILON, person=PERSON, columns=COLUMNS):
    """What names of one table only add to delta, exactly."""
    worst = person * chance(stability, stability.floor + person)  # so many names, none held by more rows than that
    return (1 + Decimal(float(epsilon)).exp()) * columns * worst


def too_low(stability):
    return dataclasses.replace(stability, threshold=stability.threshold / 2)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("epsilon", "person", "columns"), [(EPSILON, PERSON, COLUMNS), (Fraction(2), 1, 1), (Fraction(1, 20), 1, 15)]
)
def test_names_of_one_person_leave_with_probability_delta_at_most(kind, epsilon, person, columns):
    stability = made(kind, 20_000, person, columns, epsilon)
    added = decisive(stability, epsilon, person, columns)
    assert added <= Decimal(float(DELTA))
    assert added >= Decimal(float(DELTA)) / 4  # and the threshold is no higher than that needs
    assert decisive(too_low(stability), epsilon, person, columns) > Decimal(float(DELTA))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_which_names_leave_is_as_private_as_promised(kind):
    """Every event of the released names, for neighbours that lose a rare name, gain another and share a third."""
    stability = made(kind, person=1, columns=1)
    rare, common = stability.floor + 1, int(stability.threshold * RECORDS)
    tables = ({"rare": rare, "new": 0, "common": common}, {"rare": 0, "new": rare, "common": common})

    def worst(mechanism):
        def law(table):
            odds = {n: float(chance(mechanism, rows)) if rows > mechanism.floor else 0.0 for n, rows in table.items()}
            return {
                left: math.prod(odds[n] if n in left else 1 - odds[n] for n in odds)
                for size in range(4)
                for left in itertools.combinations(odds, size)
            }

        first, second = map(law, tables)
        return sum(max(0.0, p - math.exp(float(EPSILON)) * second[event]) for event, p in first.items())

    assert worst(stability) <= float(DELTA)
    assert worst(too_low(stability)) > 10 * float(DELTA)


@pytest.mark.parametrize("noise", [SafeNoise(), FastNoise(3)], ids=["safe", "fast"])
def test_names_leave_as_often_as_their_law_says(noise):
    stability = made("laplace", records=400, person=1, columns=1, epsilon=Fraction(20), delta=Fraction(1, 10))
    rows = round(stability.threshold * 400)
    counts = NamedCounts(
        np.zeros(WIDTH), stability.sensitivity, "l1", ({"a": rows, "b": 2 * rows, "c": stability.floor},)
    )
    tried = 400
    names = [released(stability.release(counts, noise)) for _ in range(tried)]
    expected = float(chance(stability, rows))
    assert abs(np.mean(["a" in found for found in names]) - expected) < 4 * math.sqrt(expected * (1 - expected) / tried)
    assert all("b" in found for found in names)
    assert not any("c" in found for found in names)  # not above the floor, so no candidate


def released(answer):
    found = {decode_name(place[1:]): place[0] for place in answer[2:].reshape(-1, NUMBERS_PER_NAME)}
    return {name: share for name, share in found.items() if name is not None}


def test_an_answer_is_as_long_whatever_it_holds_and_has_the_largest_names_in_alphabetical_order():
    stability = made("gaussian", records=10**6, person=1, columns=2, epsilon=Fraction(5))
    many = {f"name {k:03}": 3000 + 60 * k for k in range(150)}
    counts = NamedCounts(np.zeros(2 * WIDTH), stability.sensitivity, "l2", (many, None))
    answer = stability.release(counts, SafeNoise())
    assert answer.shape == (2 * WIDTH,)
    assert (
        stability.release(NamedCounts(np.zeros(2 * WIDTH), stability.sensitivity, "l2", ({}, None)), SafeNoise()).shape
        == answer.shape
    )
    names = list(released(answer[:WIDTH]))
    assert names == sorted(names)
    assert set(names) >= {f"name {k:03}" for k in range(100, 150)}
    assert len(names) == MAX_NAMES
    assert np.abs(answer[WIDTH + 2 :]).max() < 1e-3  # nothing but noise in a column whose names were not asked


def test_as_many_names_as_rows_are_no_candidates():
    stability = made("laplace", person=1, columns=2)
    ids = {f"id {k}": 1 for k in range(RECORDS)}
    every = dataclasses.replace(stability, threshold=-math.inf)  # which would let every candidate out
    answer = every.release(
        NamedCounts(np.zeros(2 * WIDTH), stability.sensitivity, "l1", (ids, {"x": RECORDS})), FastNoise(0)
    )
    assert released(answer[:WIDTH]) == {}
    assert list(released(answer[WIDTH:])) == ["x"]


def test_where_no_threshold_can_hold_no_name_leaves():
    for stability in (
        made("laplace", records=2),
        made("laplace", epsilon=Fraction(2000)),
        made("laplace", delta=Fraction(1, 10**299)),
    ):
        answer = stability.release(
            NamedCounts(np.zeros(COLUMNS * WIDTH), stability.sensitivity, "l1", ({"x": stability.records},) * COLUMNS),
            FastNoise(0),
        )
        assert not any(released(part) for part in answer.reshape(COLUMNS, -1))


@pytest.mark.parametrize("name", ["x", "Ärztin", "a" * LONGEST_NAME, "日本", " leading and trailing "])
def test_a_name_comes_back_from_its_numbers(name):
    assert decode_name(encode_name(name)) == name
    assert ((encode_name(name) >= 0) & (encode_name(name) < 1)).all()


@pytest.mark.parametrize("name", ["", "a" * (LONGEST_NAME + 1), "nul\0", "\ud800"])
def test_a_name_without_numbers_has_none(name):
    assert encode_name(name) is None


@pytest.mark.parametrize("numbers", [[0.5] * 7, [1.0] + [0.0] * 7, [-1.0] * 8, [0.1] * 8, [255 * 2.0**-48] * 8])
def test_numbers_that_are_no_name_are_none(numbers):
    assert decode_name(numbers) is None
