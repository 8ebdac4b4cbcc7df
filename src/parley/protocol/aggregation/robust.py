"""Rules for when some owners lie: every answer is limited to its bound and noise, then a majority decides.

Formal guarantee: a rule sees only noisy answers. Whatever is computed from those costs no privacy, so every owner's
epsilon is the same as under the mean.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from parley.privacy.mechanisms import Bounded, Extent, FastNoise, Mechanism
from parley.protocol.aggregation.mean import EachOwner, EachOwnerNoise
from parley.protocol.queries import Answer
from parley.protocol.stages import Resolver, Stage
from parley.validate import Floats, Integers

MAX_ITERATIONS = 200  # hardly any takes a tenth
MAX_NEWTON_DIMENSION = 16  # of an answer: in more of them plain steps need no help
RELATIVE_STEP_TOLERANCE = 1e-7  # of how far the answers scatter: a step so short is the last


def weighted_median(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """Return the median of answers [..., N, p] in each coordinate, owners counted by their weights [N]: [..., p].

    Half of the weight lies at or below it and half at or above; if that holds on an interval, its middle is taken.
    Owners with less than half of the weight, whatever they send, leave it between two honest answers. Weaknesses: with
    owners of different laws it is nobody's mean, and in a skewed crowd it leans to the majority. Normal noise counts up
    to pi/2 times as much as in the mean for equal owners, more for unequal ones: 4 times if one has nearly half of the
    weight beside many small ones. A liar just beside the middle in many coordinates is never conspicuous.

    >>> weighted_median(np.array([[1.0], [2.0], [9.0]]), np.array([1, 1, 1]))
    array([2.])
    >>> weighted_median(np.array([[1.0], [2.0], [9.0]]), np.array([1, 1, 2]))
    array([5.5])
    """
    order = np.argsort(values, axis=-2, kind="stable")
    ascending = np.take_along_axis(values, order, axis=-2)
    below = 2 * np.cumsum(weights[order], axis=-2)
    total = weights.sum()
    low, high = (np.argmax(reached, axis=-2)[..., None, :] for reached in (below >= total, below > total))
    ends = np.take_along_axis(ascending, low, axis=-2) + np.take_along_axis(ascending, high, axis=-2)
    return np.asarray(ends[..., 0, :] / 2)


def trimmed_mean(values: Floats, weights: Integers, liars: int) -> Floats:
    """Return the mean of answers [..., N, p] in each coordinate without both ends, owners counted by weights [N]: [...,
    p].

    Each end loses the weight of the `liars` heaviest owners; an owner at the edge may count in part. So nothing is left
    of any `liars` owners, or what is left lies between honest answers. Weaknesses: a liar within the honest answers is
    averaged like them. Cutting unequal tails of different laws moves the mean. With hardly more than twice as many
    owners as liars it is the median, noise and all.

    >>> trimmed_mean(np.array([[0.0], [1.0], [3.0], [90.0]]), np.array([1, 1, 1, 1]), 1)
    array([2.])
    """
    order = np.argsort(values, axis=-2, kind="stable")
    own = weights[order]
    above, total = np.cumsum(own, axis=-2), int(weights.sum())
    cut = int(np.sort(weights)[len(weights) - liars :].sum())
    counts = np.clip(np.minimum(above, total - cut) - np.maximum(above - own, cut), 0, None)
    kept = np.take_along_axis(values, order, axis=-2) * (counts / (total - 2 * cut))
    return np.asarray(kept.sum(axis=-2))


def geometric_median(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """Return the point [..., p] with the least sum of distances to answers [..., N, p], weighted by owners' records
    [N].

    It follows Weiszfeld's iteration as mended by Vardi and Zhang 2000, with Newton's step where that is better. Unlike
    the coordinate-wise median it turns with the coordinates. Whatever owners with a share a < 1/2 of the weight send,
    its distance from any point is at most 2 (1 - a)/(1 - 2 a) times that of the farthest honest answer. Weaknesses: the
    bound grows with the honest answers' scatter, and noise in p coordinates scatters by root p. With owners of
    different laws it leans towards where they crowd. A liar pulls with its whole weight in any direction.

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
    for _ in range(MAX_ITERATIONS):
        after = _step(crowd[moving], shares, point[moving], 1e-14 * scatter[moving])
        if point.shape[-1] <= MAX_NEWTON_DIMENSION:
            after = _nearer(crowd[moving], shares, after, _newton(crowd[moving], shares, point[moving]))
        far = _sizes(after - point[moving]) > RELATIVE_STEP_TOLERANCE * scatter[moving]
        point[moving] = after
        moving = moving[far]
        if not len(moving):
            break
    return np.asarray(point.reshape(*values.shape[:-2], values.shape[-1]))


def krum(values: Floats, weights: Integers, liars: int) -> Floats:
    """Return the answer [..., p] with the least sum of squared distances to its N - `liars` - 2 nearest others.

    Of answers [..., N, p] (Blanchard et al. 2017). Every owner counts once, so a heavy one is no better protected from
    a neighbour that copies it. The result is one owner's answer, liar or not, close to a majority; if noise is unequal,
    mostly a quiet owner's. Weaknesses: nothing is averaged, so noise counts several times as much as in the mean, for
    many equal owners up to N times. In many coordinates noise drowns distances and lies of its size. With different
    laws, one law is taken for all.

    >>> krum(np.array([[0.0], [1.0], [1.1], [1.2], [50.0]]), np.ones(5, dtype=np.int64), 1)
    array([1.1])
    """
    owners = values.shape[-2]
    scores = []
    for own in range(owners):
        squared = np.sum((values - values[..., own : own + 1, :]) ** 2, axis=-1)
        squared[..., own] = np.inf
        scores.append(np.sort(squared, axis=-1)[..., : max(1, owners - liars - 2)].sum(axis=-1))
    best = np.argmin(np.stack(scores, axis=-1), axis=-1)
    return np.take_along_axis(values, best[..., None, None], axis=-2)[..., 0, :]


def _step(values: Floats, shares: Floats, point: Floats, nothing: Floats) -> Floats:
    """Take one step from points [..., p]; answers nearer than `nothing` count as the point itself."""
    away = values - point[..., None, :]
    distances = _sizes(away)
    at_point = distances <= nothing[..., None]
    pulls = np.where(at_point, 0.0, shares / np.where(at_point, 1.0, distances))
    total = pulls.sum(axis=-1)
    drawn = np.einsum("...n,...np->...p", pulls, away)
    strength, weight_at_point = _sizes(drawn), np.where(at_point, shares, 0.0).sum(axis=-1)
    # who stands at an answer stays there unless the others pull harder than it weighs
    free = np.where(strength > weight_at_point, 1 - weight_at_point / np.where(strength > 0, strength, 1.0), 0.0)
    return np.asarray(point + drawn * (free / np.where(total > 0, total, 1.0))[..., None])


def _newton(values: Floats, shares: Floats, point: Floats) -> Floats:
    """Take Newton's step from points [m, p]: a distance r has curvature (1 - u u')/r, u its direction."""
    away = values - point[:, None]
    far = np.maximum(_sizes(away), 1e-300)
    pulls, u = shares / far, away / far[..., None]
    total = pulls.sum(axis=-1)
    curvature = total[:, None, None] * np.eye(point.shape[-1]) * (1 + 1e-9) - np.einsum("mn,mni,mnj->mij", pulls, u, u)
    return np.asarray(point + np.linalg.solve(curvature, np.einsum("n,mni->mi", shares, u)[..., None])[..., 0])


def _nearer(values: Floats, shares: Floats, one: Floats, other: Floats) -> Floats:
    """Return the points [m, p] with the lesser sum of distances."""
    costs = [np.einsum("n,mn->m", shares, _sizes(values - point[:, None])) for point in (one, other)]
    return np.where((costs[1] < costs[0])[:, None], other, one)


def _sizes(vectors: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(vectors**2, axis=-1)))


MAX_NOISE_NUMBERS = 2_000_000  # of noise that are drawn
MIN_NOISE_DRAWS, MAX_NOISE_DRAWS = 64, 20_000  # draws of all owners' noise
Rule = Callable[[Floats, Integers, int], Floats]  # answers [..., N, p], records [N], how many may lie: [..., p]

HONEST_LIMITED_PROBABILITY = 1e-3  # in so many honest runs at most some answer is changed by its bound


def plain_mean(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """Return the mean of answers [..., N, p] weighted by records [N]; one liar can move it by its bound and noise."""
    return np.asarray(np.einsum("n,...np->...p", weights / weights.sum(), values))


RULES: Mapping[str, Rule] = {
    "mean": plain_mean,
    "median": weighted_median,
    "trimmed-mean": trimmed_mean,
    "krum": krum,
    "geometric-median": geometric_median,
}


@dataclass(frozen=True, eq=False)
class Robust(EachOwner):
    """Every owner adds its own noise; the learner limits answers to bound and noise, then applies a rule that `liars`
    owners cannot decide. Limiting changes honest answers, of all owners together, with probability at most
    `HONEST_LIMITED_PROBABILITY` in all of training, and as much in the score. `setup` gives the bounds; None: answers
    stay as they are."""

    rule: str
    liars: int
    setup: Resolver | None = None

    @property
    def averages(self) -> bool:
        """Whether answers are averaged, so that the mean of some owners' can stand for theirs."""
        return self.rule == "mean"

    def combine(self, answers: Sequence[Answer]) -> Floats:
        """Combine a round's answers."""
        values = [self._within(answer, self._reaches) for answer in answers]
        return self.ruled(np.stack(values, axis=-2), np.array([answer.records for answer in answers]))

    def pooled(self, answers: Sequence[Answer]) -> Floats:
        """Return the mean of scores over all owners' records, each limited to what explains it."""
        return super().pooled([replace(answer, value=self._within(answer, self._score_reaches)) for answer in answers])

    def ruled(self, values: Floats, records: Integers) -> Floats:
        """Apply the rule to answers [..., N, p] of owners with these records [N]."""
        return RULES[self.rule](values, records, self.liars)

    def _within(self, answer: Answer, explained: Mapping[str, Extent]) -> Floats:
        """Limit an answer to what explains it; a mean of several owners' answers stays as it is."""
        reach = explained.get(answer.owner)
        return answer.value if reach is None else reach.nearest(answer.value)

    def noise(self, setup: Resolver, names: Collection[str] | None = None, stage: int = 0) -> EachOwnerNoise:
        """Return the combined answer's noise: in training the mean's times the rule's price; scores are averaged."""
        plain = super().noise(setup, names, stage)
        return plain if stage else replace(plain, variances=plain.variances * self.price(setup))

    def price(self, setup: Resolver) -> float:
        """Return the rule's factor on the mean's training noise, for round 1's owners; others count as alike."""
        stages = [setup.part(name).training for name in setup.schedule.at(1)]
        laws = tuple(each.series.mechanism for each in stages)
        records = tuple(each.question.records for each in stages)
        return noise_price(RULES[self.rule], laws, records, stages[0].question.size, self.liars)

    @cached_property
    def _reaches(self) -> Mapping[str, Extent]:
        return {} if self.setup is None else reaches(self.setup, HONEST_LIMITED_PROBABILITY)

    @cached_property
    def _score_reaches(self) -> Mapping[str, Extent]:
        if self.setup is None or self.setup.terms.privacy.score_epsilon is None:
            return {}
        return reaches(self.setup, HONEST_LIMITED_PROBABILITY, stage=1)


def reaches(setup: Resolver, probability: float, stage: int = 0) -> dict[str, Extent]:
    """Return where owners' answers of a stage (training or score) lie, by name, except with this probability in a run
    of all.

    Formal guarantee: the union bound over all answers of all owners, each outside with at most an equal share of the
    probability (`Extent.noisy`), whatever its table and whatever was asked.
    """
    stages = {name: setup.part(name).stages[stage] for name in setup.schedule.names}
    share = probability / sum(len(each.rounds) for each in stages.values())
    distinct_stages = {
        id(each): each for each in stages.values()
    }  # owners of whom the terms say the same have one stage
    extents = {key: _reach(each, share) for key, each in distinct_stages.items()}
    return {name: extents[id(each)] for name, each in stages.items()}


@lru_cache(maxsize=256)
def noise_price(
    rule: Callable[[Floats, Integers, int], Floats],
    laws: tuple[Mechanism, ...],
    records: tuple[int, ...],
    size: int,
    liars: int,
) -> float:
    """Return by what factor a rule multiplies the variance of the mean's noise, for owners whose exact answers agree.
    The rule runs on noise drawn with a fixed seed, so any law, unequal owners and joint rules are one case. The error
    is about root(2/(draws x size)), under 1 % for few owners. The median of normal noise costs pi/2 for many equal
    owners and 1.35 for three; of many owners' Laplace noise 1/2, better than the mean. With one owner of 49 records
    beside 51 owners of one, and noise of one size, normal noise costs 3.6 and Laplace noise 3.2."""
    draws = int(np.clip(MAX_NOISE_NUMBERS // (len(laws) * size), MIN_NOISE_DRAWS, MAX_NOISE_DRAWS))
    noise, nothing = FastNoise(0), np.zeros((draws, size))
    drawn = [law.release(Bounded(nothing, law.sensitivity, law.norm), noise) for law in laws]
    shares = np.array(records) / sum(records)
    mean = float(np.sum(shares**2 * np.array([law.variance for law in laws])))
    return float(np.mean(rule(np.stack(drawn, axis=-2), np.array(records), liars) ** 2)) / mean


def _reach(stage: Stage, probability: float) -> Extent:
    """Return where one answer lies except with this probability; a secret draw takes half of it."""
    question, share = stage.question, probability / (2 if stage.question.draws else 1)
    return question.likely_extent(share).noisy(stage.series.mechanism, question.size, share)
