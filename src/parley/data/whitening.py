"""Whitening: coordinates in which second moments of public rows, or the curvature of their cost, are near the identity.

Formal guarantee: the map is linear, fixed by public rows and the terms, and its result is clipped to the extremes of
the public rows. So a record's prepared row is a function of that record alone, and bounds are those of `preparation`.
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
    """Turn columns so that public rows' moments, or their cost's curvature, are near the identity; `redraw`: of drawn
    rows."""
    standard, places, weight = design.X[:, : len(fitted.labels)], np.arange(len(design)), np.ones(len(design))
    if redraw is not None:
        places = np.random.default_rng(redraw).integers(len(design), size=len(design))
    if fitted.model.whitening == "public-curvature":
        if curvatures is None:
            raise ValueError("whitening by curvature needs the function `curvatures`")
        weight = _weights(curvatures(fitted, design.where(places)))
        if fitted.model.has_intercept:
            mean = weight @ standard[places] / len(places)
            fitted, standard = replace(fitted, centre=fitted.centre + fitted.scale * mean), standard - mean
    return rotated(fitted, standard, whitening(standard[places], weight))


def rotated(fitted: Preparation, standard: Floats, rotation: Floats) -> Preparation:
    """Return the preparation with its columns turned, clipped to the range that these rows reach."""
    scores = standard @ rotation
    low, high = (np.clip(ends, -LARGEST, LARGEST) for ends in (scores.min(axis=0), scores.max(axis=0)))
    return replace(fitted, rotation=rotation, component_low=low, component_high=high)


def whitening(standard: Floats, weight: Floats) -> Floats:
    """Return a symmetric W [features, features] such that z W for rows z [rows, features], weighted by [rows], has
    second moments near the identity. W = (M + r)^-1/2, M the moments and r their mean per feature times features/rows:
    directions whose spread could be chance are not magnified. Rows of different weights count as (sum w)^2/sum w^2."""
    total, features = float(weight.sum()), standard.shape[1]
    weighed = standard * np.sqrt(weight)[:, None]
    values, vectors = np.linalg.eigh(weighed.T @ weighed / total)
    ridge = max(features * float(weight @ weight) / total**2 * float(values.mean()), 1e-6)
    return np.ascontiguousarray(vectors / np.sqrt(np.maximum(values, 0.0) + ridge) @ vectors.T)


def _weights(curvatures: Floats) -> Floats:
    """Return row weights, 1 on average, by which moments stand for the curvature of the cost. Its Hessian is h sum w z
    z'/n, h the mean curvature. Centred by these weights, the features separate from the constant, whose part is h;
    after `whitening` theirs is h times the identity, up to r."""
    mean = float(curvatures.mean())
    if not mean > 0:
        raise DataError("model.whitening: the cost of the public sample has no curvature at the best fit; use 'public'")
    return np.asarray(curvatures / mean)
