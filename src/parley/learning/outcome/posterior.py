"""The certainty of a model made of noisy second moments: a normal law over noise and the draw of the records."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from parley.data import Preparation
from parley.data.basis import product_names
from parley.errors import SettingError
from parley.validate import Floats


@dataclass(frozen=True)
class CoefficientInterval:
    """One coefficient in its column's own units, with the interval for the population's. `outcome` names the class."""

    name: str
    outcome: str | None
    estimate: float
    low: float
    high: float
    std: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """A normal law around the model theta, for each outcome, in the units of prepared columns. It covers the owners'
    known noise and the draw of the records, by the release's residual variance, but not clipped records. `repaired`:
    the moments drowned in noise and were lifted to be positive definite."""

    theta: Floats  # [q, p]
    covariance: Floats  # [q, p, p]
    residual: Floats  # [q]: deviation of targets around the model
    records: float  # that it is about; fewer than there are where owners count unequally
    repaired: bool

    def deviations(self, rows: Floats) -> Floats:
        """Return standard deviations [n, q] of predictions for prepared rows [n, p]."""
        variance = np.einsum("ni,qij,nj->nq", rows, self.covariance, rows)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def intervals(self, preparation: Preparation, level: float = 0.9) -> tuple[CoefficientInterval, ...]:
        """Return intervals for every population coefficient at this level."""
        if not 0 < level < 1:
            raise SettingError(f"level = {level}: expected a probability between 0 and 1")
        names, change, base = in_own_units(preparation)
        classes = preparation.classes if preparation.model.predicts == "classes" else (None,)
        reach, intervals = float(ndtri((1 + level) / 2)), []
        for theta, covariance, outcome in zip(self.theta, self.covariance, classes, strict=True):
            value, std = (
                change @ theta + base,
                np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", change, covariance, change), 0.0)),
            )
            intervals += [
                CoefficientInterval(name, outcome, float(v), float(v - reach * s), float(v + reach * s), float(s))
                for name, v, s in zip(names, value, std, strict=True)
            ]
        return tuple(intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the posterior for a model's file, without theta."""
        return {
            "covariance": self.covariance.tolist(),
            "residual": self.residual.tolist(),
            "records": self.records,
            "repaired": self.repaired,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any], theta: Floats, outcomes: int) -> "Posterior":
        """Read what `to_json` gave, with the model's theta [P]; a ValueError if it does not fit."""
        matrix = theta.reshape(outcomes, -1)
        covariance, residual = (
            np.array(content["covariance"], dtype=np.float64),
            np.array(content["residual"], dtype=np.float64),
        )
        width, records = matrix.shape[1], float(content["records"])
        sound = covariance.shape == (outcomes, width, width) and residual.shape == (outcomes,)
        if not sound or not np.isfinite(covariance).all() or not np.isfinite(residual).all() or not records > 0:
            raise ValueError("the posterior belongs to another model")
        return cls(matrix, covariance, residual, records, bool(content["repaired"]))


def in_own_units(preparation: Preparation) -> tuple[tuple[str, ...], Floats, Floats]:
    """Return (names, M, m): a model theta [p] is M theta + m in the columns' own units, the constant last. Clipping is
    ignored. Features of a basis, and leaves, have no units and stay as they are."""
    labels, constant = preparation.labels, preparation.model.has_intercept
    names: tuple[str, ...] | None = None
    if preparation.forest is not None:
        names = preparation.forest.labels(labels)
    elif preparation.basis is not None:
        names = _basis_names(preparation, preparation.basis)
    if names is not None:
        m = np.append(np.zeros(len(names)), [preparation.target_centre] * constant)
        return (*names, *["(constant)"] * constant), preparation.target_scale * np.eye(len(m)), m
    turn = np.eye(len(labels)) if preparation.rotation is None else preparation.rotation
    linear = preparation.target_scale * turn / preparation.scale[:, None]
    M = np.zeros((len(labels) + constant, preparation.width))
    M[: len(labels), : turn.shape[1]] = linear
    m = np.zeros(len(M))
    if constant:
        M[-1, : turn.shape[1]], M[-1, -1] = -preparation.centre @ linear, preparation.target_scale
        m[-1] = preparation.target_centre
    return (*labels, *["(constant)"] * constant), M, m


def _basis_names(preparation: Preparation, basis: Floats) -> tuple[str, ...]:
    kind = None if preparation.model.basis is None else preparation.model.basis.kind
    if kind == "polynomial":
        turned = (f"component {place + 1}" for place in range(basis.shape[1]))
        return product_names(preparation.labels if preparation.rotation is None else list(turned), basis)
    return tuple(f"{'near point' if kind is None else 'wave'} {place + 1}" for place in range(len(basis)))
