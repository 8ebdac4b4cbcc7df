"""The geometric median of owners' answers, weighted by their records: Weiszfeld's iteration, as Vardi and Zhang 2000
mend it where it meets an answer, with Newton's step wherever that is better."""

import numpy as np

from parley.protocol.aggregation.median import weighted_median
from parley.validate import Floats, Integers

MOST_STEPS = 200  # hardly any takes a tenth
MOST_NUMBERS = 16  # of an answer: in more of them plain steps need no help
NEAR = 1e-7  # of how far the answers scatter: a step so short is the last


def geometric_median(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """The point whose distances to answers [..., N, p], weighted by owners' records [N], add up to least: [..., p].

    It turns with the coordinates, as the median of each coordinate does not. Owners with a share a < 1/2 of the weight
    keep it within 2 (1 - a)/(1 - 2 a) times how far the honest answers lie from any one point.

    Where it fails: that bound grows with the scatter of honest answers, and in p coordinates noise scatters by root p;
    of owners of different laws it leans towards where they crowd; a liar pulls with its whole weight in a direction of
    its choice, however far away it claims to be.

    >>> geometric_median(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]]), np.array([1, 1, 1])).round(6)
    array([0., 0.])
    """
    shares, crowd = weights / weights.sum(), values.reshape(-1, *values.shape[-2:])
    point = weighted_median(crowd, weights)
    # how far most of the weight lies from there: no liar makes it large
    scatter = weighted_median(_sizes(crowd - point[:, None])[..., None], weights)[:, 0]
    # At an answer nothing moves where the others pull no harder than it weighs. It is looked for first: the iteration
    # gets there slowly.
    rests = np.zeros(len(crowd), dtype=bool)
    for own in range(len(shares)):
        at = crowd[:, own]
        still = ~rests & np.all(_step(crowd, shares, at, 1e-14 * scatter) == at, axis=-1)
        point[still], rests = at[still], rests | still
    moving = np.flatnonzero(~rests)  # replicates that have not come to rest: each goes its own way
    for _ in range(MOST_STEPS):
        after = _step(crowd[moving], shares, point[moving], 1e-14 * scatter[moving])
        if point.shape[-1] <= MOST_NUMBERS:
            after = _nearer(crowd[moving], shares, after, _newton(crowd[moving], shares, point[moving]))
        far = _sizes(after - point[moving]) > NEAR * scatter[moving]
        point[moving] = after
        moving = moving[far]
        if not len(moving):
            break
    return np.asarray(point.reshape(*values.shape[:-2], values.shape[-1]))


def _step(values: Floats, shares: Floats, point: Floats, nothing: Floats) -> Floats:
    """One step of the iteration from points [..., p]; answers nearer than `nothing` are where it stands."""
    away = values - point[..., None, :]
    far = _sizes(away)
    here = far <= nothing[..., None]
    pulls = np.where(here, 0.0, shares / np.where(here, 1.0, far))
    total = pulls.sum(axis=-1)
    drawn = np.einsum("...n,...np->...p", pulls, away)
    strength, held = _sizes(drawn), np.where(here, shares, 0.0).sum(axis=-1)
    # who stands at an answer stays there unless the others pull harder than it weighs
    free = np.where(strength > held, 1 - held / np.where(strength > 0, strength, 1.0), 0.0)
    return np.asarray(point + drawn * (free / np.where(total > 0, total, 1.0))[..., None])


def _newton(values: Floats, shares: Floats, point: Floats) -> Floats:
    """Newton's step from points [m, p]: the curvature of a distance r is (1 - u u')/r, u its direction."""
    away = values - point[:, None]
    far = np.maximum(_sizes(away), 1e-300)
    pulls, u = shares / far, away / far[..., None]
    total = pulls.sum(axis=-1)
    curvature = total[:, None, None] * np.eye(point.shape[-1]) * (1 + 1e-9) - np.einsum("mn,mni,mnj->mij", pulls, u, u)
    return np.asarray(point + np.linalg.solve(curvature, np.einsum("n,mni->mi", shares, u)[..., None])[..., 0])


def _nearer(values: Floats, shares: Floats, one: Floats, other: Floats) -> Floats:
    """Of two points [m, p] the one with the lesser sum of distances."""
    costs = [np.einsum("n,mn->m", shares, _sizes(values - point[:, None])) for point in (one, other)]
    return np.where((costs[1] < costs[0])[:, None], other, one)


def _sizes(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(vectors**2, axis=-1)))
