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
from parley.protocol.aggregation.robust_rules import geometric_median, krum, trimmed_mean, weighted_median
from parley.protocol.queries import Answer
from parley.protocol.stages import Resolver, Stage
from parley.validate import Floats, Integers

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
