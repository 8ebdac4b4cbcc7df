"""Whitening: coordinates in which second moments of public rows, or the curvature of their cost, are near the identity.

Formal guarantee: a linear map that public rows and the terms fix, and what it gives is clipped to the extremes of the
public rows; so a record's prepared row is a function of that record alone, and bounds are those of `preparation`.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from parley.data.design import Design
from parley.data.preparation import Preparation
from parley.errors import DataError
from parley.validate import LARGEST, Floats

Curvatures = Callable[[Preparation, Design], Floats]  # of rows, prepared so [n]: by how much each bends their cost


def whitened(fitted: Preparation, design: Design, redraw: int | None, curvatures: Curvatures | None) -> Preparation:
    """The preparation with its columns turned so that moments of the public rows, or the curvature of their cost, are
    near the identity; with `redraw`, those of rows drawn from them with replacement."""
    standard, places, weight = design.X[:, : len(fitted.labels)], np.arange(len(design)), np.ones(len(design))
    if redraw is not None:
        places = np.random.default_rng(redraw).integers(len(design), size=len(design))
    if fitted.model.whitening == "public-curvature":
        if curvatures is None:
            raise ValueError("whitening by curvature needs the loss")
        weight = _weights(curvatures(fitted, design.where(places)))
        if fitted.model.has_intercept:
            mean = weight @ standard[places] / len(places)
            fitted, standard = replace(fitted, centre=fitted.centre + fitted.scale * mean), standard - mean
    return turned(fitted, standard, whitening(standard[places], weight))


def turned(fitted: Preparation, standard: Floats, rotation: Floats) -> Preparation:
    """The preparation with its columns turned, and what they give clipped to what it is of these rows."""
    scores = standard @ rotation
    low, high = (np.clip(ends, -LARGEST, LARGEST) for ends in (scores.min(axis=0), scores.max(axis=0)))
    return replace(fitted, rotation=rotation, component_low=low, component_high=high)


def whitening(standard: Floats, weight: Floats) -> Floats:
    """A symmetric W [features, features] that gives features z W of rows [rows, features], which count by their weights
    [rows], second moments near the identity.

    (M + r)^-1/2, M the moments and r their mean a feature times features/rows: directions whose spread so few rows
    cannot tell from chance are not blown up. Rows of different weights count as (sum w)^2/sum w^2.
    """
    total, features = float(weight.sum()), standard.shape[1]
    weighed = standard * np.sqrt(weight)[:, None]
    values, vectors = np.linalg.eigh(weighed.T @ weighed / total)
    ridge = max(features * float(weight @ weight) / total**2 * float(values.mean()), 1e-6)
    return np.ascontiguousarray(vectors / np.sqrt(np.maximum(values, 0.0) + ridge) @ vectors.T)


def _weights(curvatures: Floats) -> Floats:
    """What rows count by where their moments stand for the curvature of their cost: 1 on average.

    That cost has the Hessian h sum w z z'/n, h the mean curvature. Centred at their mean by these weights, the features
    are apart from the constant, whose part is h; turned by `whitening` theirs is h times the identity, up to r.
    """
    mean = float(curvatures.mean())
    if not mean > 0:
        raise DataError("model.whitening: the cost of the public sample has no curvature at its best fit; use 'public'")
    return np.asarray(curvatures / mean)
