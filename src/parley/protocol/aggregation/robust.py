"""Rules that hold where some owners lie: every answer is brought within its bound and noise, then a majority decides.

Formal guarantee: a rule looks at noisy answers alone. Whatever is computed from those costs no privacy, so every
owner's epsilon is what it is under the mean.
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

MOST_STEPS = 200  # hardly any takes a tenth
MOST_NUMBERS = 16  # of an answer: in more of them plain steps need no help
NEAR = 1e-7  # of how far the answers scatter: a step so short is the last


def weighted_median(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """In each coordinate the middle of answers [..., N, p], owners counted by their weights [N]: [..., p].

    Half of the weight lies at or below it and half at or above; where a whole interval does that, its middle is taken.
    Owners with less than half of the weight, wherever they say they are, leave it between two honest answers.

    Where it fails: of owners of different laws it is nobody's mean, and in a skewed crowd of them it leans towards
    where most lie; normal noise of equal owners counts up to pi/2 times as much as in the mean, of unequal ones more
    (of one with nearly half of the weight beside many small ones it is the one's own, 4 times as much); in many
    coordinates at once a liar in each of them just beside the middle is never conspicuous.

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
    """In each coordinate the mean of answers [..., N, p] without both ends, owners counted by their weights [N]:
    [..., p].

    As much weight is cut off at each end as the `liars` heaviest owners have, so whoever they are nothing is left of
    them, or what is left lies between honest answers; an owner at the edge may count in part. Owners of one size: the
    `liars` lowest and highest answers go.

    Where it fails: a liar that stays within the honest answers is averaged like one of them; cutting unequal tails of
    owners of different laws moves the mean; with hardly more than twice the liars it is the median, noise and all.

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
    """The point whose distances to answers [..., N, p], weighted by owners' records [N], add up to least: [..., p].

    By Weiszfeld's iteration, as Vardi and Zhang 2000 mend it where it meets an answer, with Newton's step wherever that
    is better.

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


def krum(values: Floats, weights: Integers, liars: int) -> Floats:
    """Of answers [..., N, p] the one with the least sum of squared distances to its N - `liars` - 2 nearest others:
    [..., p] (Blanchard et al. 2017).

    Every owner counts once: a heavier one is no better protected from a neighbour that copies it. What is taken was
    said by one owner, liar or not, that a majority stands close to; of owners with unequal noise mostly a quiet one.

    Where it fails: nothing is averaged, so noise counts several times as much as in the mean, of many equal owners up
    to N times; in many coordinates noise drowns distances, and a lie of its size passes; of owners of different laws
    one law is taken for all.

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


NUMBERS = 2_000_000  # of noise that are drawn
FEWEST, MOST = 64, 20_000  # draws of everybody's noise
Rule = Callable[[Floats, Integers, int], Floats]  # answers [..., N, p], records [N], how many may lie: [..., p]

TOUCHED = 1e-3  # in so many honest runs at most some answer is changed by its bound


def plain_mean(values: Floats, weights: Integers, liars: int = 0) -> Floats:
    """The mean of answers [..., N, p], weighted by records [N]: [..., p]. One liar moves it as far as it likes, within
    its own bound and noise."""
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
    """Every owner adds its own noise; the learner brings each answer within what bound and noise explain, and makes one
    of all by a rule that so many liars do not decide.

    An honest owner's answer is changed by its bound with probability at most `TOUCHED` in all of training, and as much
    in the score, all owners together. `setup`: whose bounds those are; None: answers are taken as they are.
    """

    rule: str
    liars: int
    setup: Resolver | None = None

    @property
    def averages(self) -> bool:
        """Whether answers are averaged, so that the mean of some owners' can stand for theirs."""
        return self.rule == "mean"

    def combine(self, answers: Sequence[Answer]) -> Floats:
        """What the learner makes of a round's answers."""
        values = [self._within(answer, self._reaches) for answer in answers]
        return self.ruled(np.stack(values, axis=-2), np.array([answer.records for answer in answers]))

    def pooled(self, answers: Sequence[Answer]) -> Floats:
        """The mean over all owners' records, of scores that are brought within what explains them."""
        return super().pooled([replace(answer, value=self._within(answer, self._score_reaches)) for answer in answers])

    def ruled(self, values: Floats, records: Integers) -> Floats:
        """What the rule makes of answers [..., N, p] of owners with so many records [N]."""
        return RULES[self.rule](values, records, self.liars)

    def _within(self, answer: Answer, explained: Mapping[str, Extent]) -> Floats:
        """An answer brought within what explains it; a mean of several owners' stands as it is."""
        reach = explained.get(answer.owner)
        return answer.value if reach is None else reach.nearest(answer.value)

    def noise(self, setup: Resolver, names: Collection[str] | None = None, stage: int = 0) -> EachOwnerNoise:
        """What noise the combined answer carries: in training the mean's, times the price of the rule; scores are
        averaged."""
        plain = super().noise(setup, names, stage)
        return plain if stage else replace(plain, variances=plain.variances * self.price(setup))

    def price(self, setup: Resolver) -> float:
        """How many times the mean's noise the rule lets through in training, of the owners that the first round asks;
        coalitions of others are taken to be like them."""
        stages = [setup.part(name).training for name in setup.schedule.at(1)]
        laws = tuple(each.series.mechanism for each in stages)
        records = tuple(each.question.records for each in stages)
        return noise_price(RULES[self.rule], laws, records, stages[0].question.size, self.liars)

    @cached_property
    def _reaches(self) -> Mapping[str, Extent]:
        return {} if self.setup is None else reaches(self.setup, TOUCHED)

    @cached_property
    def _score_reaches(self) -> Mapping[str, Extent]:
        if self.setup is None or self.setup.terms.privacy.score_epsilon is None:
            return {}
        return reaches(self.setup, TOUCHED, stage=1)


def reaches(setup: Resolver, probability: float, stage: int = 0) -> dict[str, Extent]:
    """Where every owner's answers of a stage (of training, or of the score) lie, by name, but for this probability in a
    whole run of all of them.

    Formal guarantee: the union bound over all answers of all owners, each outside with an equal share of the
    probability at most (`Extent.noisy`), whatever its table and whatever was asked.
    """
    stages = {name: setup.part(name).stages[stage] for name in setup.schedule.names}
    share = probability / sum(len(each.rounds) for each in stages.values())
    alike = {id(each): each for each in stages.values()}  # owners of whom the terms say the same have one stage
    found = {key: _reach(each, share) for key, each in alike.items()}
    return {name: found[id(each)] for name, each in stages.items()}


@lru_cache(maxsize=256)
def noise_price(
    rule: Callable[[Floats, Integers, int], Floats],
    laws: tuple[Mechanism, ...],
    records: tuple[int, ...],
    size: int,
    liars: int,
) -> float:
    """How many times the variance of the mean's noise a rule's noise has, of owners with these laws and records whose
    exact answers of `size` numbers agree.

    The rule itself is run on noise that is drawn by a fixed seed: any law, unequal owners and rules that look at all
    numbers at once are one case. It errs by about root(2/(draws x size)), under 1 % of few owners' answers. Known
    values: the median of many equal owners' normal noise costs pi/2, of three 1.35, of many owners' Laplace noise 1/2:
    there it is better than the mean. Of one owner with 49 records beside 51 with one, and noise of one size, it
    costs 3.6 and 3.2.
    """
    draws = int(np.clip(NUMBERS // (len(laws) * size), FEWEST, MOST))
    noise, nothing = FastNoise(0), np.zeros((draws, size))
    drawn = [law.release(Bounded(nothing, law.sensitivity, law.norm), noise) for law in laws]
    shares = np.array(records) / sum(records)
    mean = float(np.sum(shares**2 * np.array([law.variance for law in laws])))
    return float(np.mean(rule(np.stack(drawn, axis=-2), np.array(records), liars) ** 2)) / mean


def _reach(stage: Stage, probability: float) -> Extent:
    """Where one answer lies but for this probability: half of it for a secret draw, where there is one."""
    question, share = stage.question, probability / (2 if stage.question.draws else 1)
    return question.likely_extent(share).noisy(stage.series.mechanism, question.size, share)
