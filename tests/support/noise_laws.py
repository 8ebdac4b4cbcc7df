"""Noise laws that only tests need."""

import math

import numpy as np
from scipy.stats import chi2

from parley.privacy.accounting.pairs import Law
from parley.privacy.mechanisms.shared_noise import Law as SharedLaw
from parley.privacy.mechanisms.tabled_recipe import TabledRecipe

LAPLACE = Law(lambda z: -np.abs(z) - math.log(2), lambda z: 0.5 * np.exp(-z), reach=50.0)


def law_of(recipe: TabledRecipe):
    """(the smallest number, the probabilities from there on) of a number with one low part, in closed form."""
    if recipe.recipe.law == SharedLaw.LAPLACE:
        q = np.exp(-1 / recipe.recipe.scale)
        return -600, (1 - q) / (1 + q) * q ** np.abs(np.arange(-600, 601))
    step, places = recipe.recipe.step, np.arange(-92, 93)
    top = np.exp(-(places**2) / 200)
    law = np.zeros(184 * step + 1)
    law[::step] = top / top.sum()
    for _ in range(14):
        law = np.convolve(law, np.full(step, 1 / step))
    return -92 * step - 7 * (step - 1), law


def low_law(recipe: TabledRecipe):
    """The same of a low part: of 14 uniform numbers, or of the low digits of two geometric ones."""
    top = recipe.recipe.top
    if recipe.recipe.law == SharedLaw.GAUSSIAN:
        law = np.ones(1)
        for _ in range(14):
            law = np.convolve(law, np.full(top, 1 / top))
        return -7 * (top - 1), law
    one = np.exp(-np.arange(top) / recipe.recipe.scale)
    one /= one.sum()
    return -(top - 1), np.convolve(one, one[::-1])


def whole_law(recipe):
    """The law of the whole sum: one number of the recipe's law and a second low part."""
    start, law = law_of(recipe)
    low_start, low = low_law(recipe)
    return start + low_start, np.convolve(law, low)


def p_value(drawn, start, law):
    """Of Pearson's chi-square, cells of less than 25 expected draws taken together at either end."""
    if drawn.min() < start or drawn.max() >= start + law.size:
        return 0.0
    expected = law * drawn.size
    kept = np.flatnonzero(expected >= 25)
    counts = np.bincount(drawn - start, minlength=law.size)
    ends = [each for each in (slice(0, kept[0]), slice(kept[-1] + 1, None)) if law[each].size]
    cells = [*(slice(k, k + 1) for k in range(kept[0], kept[-1] + 1)), *ends]
    seen, due = (np.array([a[c].sum() for c in cells], dtype=float) for a in (counts, expected))
    return float(chi2.sf(((seen - due) ** 2 / due).sum(), len(cells) - 1))
