"""Who sees every answer of a run, knows both tables, and adds up how much the answers speak for one of them.

How small the noise of a run must be for what was seen: a lower bound on epsilon for noise of the claimed law.

A guarantee of (eps, delta) is about rare events as well, which a few thousand runs never see; so hits alone prove
little where delta is small. But noise of one law has one free number, its size, and common events tell it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom

from parley.audit.distinguishing import rates, thresholds
from parley.audit.exact.trial import asked_at
from parley.errors import SettingError
from parley.network.exchange import Exchange
from parley.privacy.accounting.compose import composed, pld_interval
from parley.privacy.accounting.pairs import delta_at
from parley.privacy.accounting.releases import amplified
from parley.privacy.accounting.sampled import sampled_epsilon
from parley.privacy.accounting.series import Series
from parley.privacy.events import Event, GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries import Answer, Query, Tables
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage
from parley.validate import Floats

SMALLEST, LARGEST, STEPS = 1 / 16, 16.0, 7  # times less noise than is claimed: from where to where, and how finely


@dataclass(frozen=True)
class Rates:
    """How often an attacker says b, at least where it is b and at most where it is not, at some confidence."""

    right: float
    wrong: float

    @property
    def apart(self) -> float:
        """How far the laws of two tables lie apart in total variation, at least."""
        return self.right - self.wrong

    @classmethod
    def of(cls, pilot: tuple[Floats, Floats], counted: tuple[Floats, Floats], confidence: float) -> "Rates":
        """By the threshold on the statistic that other runs, `pilot`, are told apart best by; each side's runs as a
        and as b."""
        at = thresholds(np.concatenate(pilot))
        above = [1 - np.searchsorted(np.sort(side), at, side="left") / len(side) for side in pilot]
        best = at[int(np.argmax(above[1] - above[0]))]
        hits = [int(np.count_nonzero(side >= best)) for side in counted]
        ends = [rates(k, len(side), (1 - confidence) / 2) for k, side in zip(hits, counted, strict=True)]
        return cls(float(ends[1][0]), float(ends[0][1]))


def epsilon_by_size(found: Rates, series: Series, claimed: float, delta: float) -> float:
    """The epsilon of all answers of a series at delta if its noise has the claimed law and so small a size that what
    was found is possible; 0: any size will do.

    Formal guarantee: noise of the claimed size has laws at most delta(0) apart in total variation; of Gaussian noise
    that nobody draws rows under, P_b(S) <= Phi(Phi^-1(P_a(S)) + mu). So the result exceeds `claimed`, where noise has
    the claimed size and covers the sensitivity, with no more probability than the rates are wrong with. Where the law
    is another one, nothing is said.
    """
    event, copies = series.event.times(1 if series.joint else series.count), series.shared_records
    if not found.apart > 0:
        return 0.0
    if isinstance(event, GaussianEvent) and event.sampling == 1:
        shift = float(ndtri(found.right) - ndtri(found.wrong))
        return copies * gaussian_epsilon(1 / shift, delta / copies) if delta > 0 else 0.0
    try:
        times = _less_noise(event, found.apart)
        if isinstance(event, GaussianEvent):
            usual, less = (
                sampled_epsilon(event.multiplier / f, event.sampling, delta / copies, event.count) for f in (1.0, times)
            )
            return claimed * less / usual
    except SettingError:  # no grid holds so many or so small losses
        return 0.0
    return claimed * times if event.sampling < 1 else copies * times * event.count / event.multiplier


def _less_noise(event: Event, apart: float) -> float:
    """By how much the noise must be smaller than is claimed so that laws can lie so far apart, rounded down; 0: by less
    than is looked at."""
    if not apart > _total_variation(event, SMALLEST):
        return 0.0
    if _total_variation(event, LARGEST) < apart:
        return LARGEST
    low, high = (1.0, LARGEST) if apart > _total_variation(event, 1.0) else (SMALLEST, 1.0)
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if apart > _total_variation(event, middle) else (low, middle)
    return low


def _total_variation(event: Event, times: float) -> float:
    """How far apart the laws of all releases lie at most, with so many times less noise."""
    if isinstance(event, GaussianEvent):
        loud = replace(event, multiplier=event.multiplier / times)
        return float(delta_at(composed([loud], pld_interval([loud])), 0.0, event.count))
    # the worst that pure releases can do: coins that say the truth with probability e^eps/(1 + e^eps)
    truth, half = float(expit(amplified(times / event.multiplier, event.sampling))), event.count // 2
    return float(binom.sf(half, event.count, truth) - binom.sf(half, event.count, 1 - truth))


@dataclass(frozen=True, eq=False)
class Attacker:
    """The likelihood-ratio test by the claimed law of the noise: no other is sharper where that law is drawn, and
    whatever is drawn, it is a test.

    Where an owner draws something in secret beside its noise, there is no such formula: answers are projected on
    `directions`, how far they differ on average, by round, found on other runs.
    """

    setup: Setup
    name: str
    a: Tables
    b: Tables
    others: Mapping[str, Tables]
    stage: int = 0
    directions: Mapping[int, Floats] = field(default_factory=dict)
    middles: Mapping[int, float] = field(default_factory=dict)  # how far along them answers lie on average

    @property
    def _stage(self) -> Stage:
        return self.setup.part(self.name).stages[self.stage]

    def listens(self, number: int) -> bool:
        """Whether a round belongs to the stage that is attacked."""
        return number in self._stage.rounds

    @property
    def guesses(self) -> bool:
        """Whether it needs directions: where something is drawn in secret, or answers are not a sum with noise."""
        return self._stage.question.draws or isinstance(self._stage.series.mechanism, RandomisedResponse)

    def directed(self, a: Mapping[int, Floats], b: Mapping[int, Floats], asked: Mapping[int, Query]) -> "Attacker":
        """The same with directions by round: between the mean answers about a and about b; where rows are drawn,
        between the exact ones to the mean question, which know no noise."""
        found = {number: b[number] - a[number] for number in a}
        if self._stage.question.rate < 1:
            rows = np.arange(len(self.a.train))
            about = {
                n: [self._stage.question.about(q, each, rows) for each in (self.a, self.b)] for n, q in asked.items()
            }
            found = {number: at_b - at_a for number, (at_a, at_b) in about.items()}
        middles = {number: float((a[number] + b[number]) @ found[number] / 2) for number in found}
        return replace(self, directions=found, middles=middles)

    def speaks(self, questions: Mapping[str, Query], value: Floats, replicates: tuple[int, ...]) -> Floats:
        """By how much the owner's answer to these questions speaks for b and against a [*replicates]."""
        query = questions[self.name]
        if self.guesses:
            return self._along(value, query.round)
        at_a, at_b, scale = self._without_noise(questions, replicates)
        if self.setup.part(self.name).stage(query.round).series.mechanism.norm == "l1":
            return np.asarray((np.abs(value - at_a) - np.abs(value - at_b)).sum(axis=-1) / scale)
        return np.asarray(((at_b - at_a) * (2 * value - at_a - at_b)).sum(axis=-1) / (2 * scale**2))

    def _along(self, value: Floats, number: int) -> Floats:
        """How far an answer lies along its direction; by the ratio of the two mixtures where rows are drawn and the
        noise is Gaussian: a canary that moves answers by half of the direction, one way or the other, is drawn or
        not."""
        along = np.asarray(value @ self.directions[number]) - self.middles[number]
        series, rate = self._stage.series, self._stage.question.rate
        if not (rate < 1 and series.mechanism.norm == "l2" and not isinstance(series.mechanism, SharedNoise)):
            return along
        variance, half = series.mechanism.noise_scale**2, float(np.sum(self.directions[number] ** 2)) / 8
        at_b, at_a = (np.logaddexp(np.log1p(-rate), np.log(rate) + (s * along / 2 - half) / variance) for s in (1, -1))
        return np.asarray(at_b - at_a)

    def noise(self, questions: Mapping[str, Query], value: Floats, replicates: tuple[int, ...]) -> Floats:
        """What an answer about table a is off the exact one; the answer itself, where there is no such formula."""
        return value if self.guesses else value - self._without_noise(questions, replicates)[0]

    def _without_noise(
        self, questions: Mapping[str, Query], replicates: tuple[int, ...]
    ) -> tuple[Floats, Floats, float]:
        """(what is answered exactly about a, about b, the scale of the noise on it)."""
        query = questions[self.name]
        noise = self.setup.part(self.name).stage(query.round).series.mechanism
        at_a, at_b = (self._exact(self.name, query, tables, replicates) for tables in (self.a, self.b))
        if not isinstance(noise, SharedNoise):
            return at_a, at_b, noise.noise_scale
        sizes = {name: self.setup.part(name).stage(query.round).question.records for name in questions}
        total = sum(sizes.values())
        rest = np.zeros_like(at_a)
        for name, asked in questions.items():
            if name != self.name:
                rest += sizes[name] / total * self._exact(name, asked, self.others[name], replicates)
        share = sizes[self.name] / total
        return share * at_a + rest, share * at_b + rest, noise.over(total).noise_scale

    def _exact(self, name: str, query: Query, tables: Tables, replicates: tuple[int, ...]) -> Floats:
        return self.setup.part(name).stage(query.round).question.bounded(query, tables, replicates).value


class Overheard:
    """An exchange whose questions are asked twice, and whose answers an attacker listens to: a retry must bring
    nothing new."""

    def __init__(self, exchange: Exchange, attacker: Attacker, replicates: int, keeps: bool = False) -> None:
        self._exchange, self._attacker, self._replicates = exchange, attacker, (replicates,)
        self.statistic: Floats = np.zeros(replicates)
        self.means: dict[int, Floats] = {}  # of the owner's answers, by round
        self.asked: dict[int, Query] = {}  # and what they are about, on average
        self._keeps = keeps
        self.noises: list[Floats] = []  # of the owner's answers about table a, round after round, if it keeps them

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        answers = self._exchange.ask(questions)
        name = self._attacker.name
        if name not in questions or not self._attacker.listens(questions[name].round):
            return answers
        heard = [self._own(answers)]
        # where one noise is drawn for all, a study draws it anew, and hosts never do
        if not self._attacker.setup.terms.noise.summed and not np.array_equal(
            again := self._own(self._exchange.ask(questions)), heard[0]
        ):
            heard.append(again)
        if self._keeps:
            self.noises.append(self._attacker.noise(questions, heard[0], self._replicates))
        if self._attacker.guesses:
            query = questions[name]
            mean = {key: np.mean(each.reshape(-1, each.shape[-1]), axis=0) for key, each in query.arrays.items()}
            self.means[query.round] = np.mean(heard, axis=(0, 1))
            self.asked[query.round] = asked_at(query, query.round, mean)
        if not self._attacker.guesses or self._attacker.directions:
            for value in heard:
                self.statistic += self._attacker.speaks(questions, value, self._replicates)
        return answers

    def _own(self, answers: Sequence[Answer]) -> Floats:
        """The audited owner's answer, or the sum that it is a part of."""
        return next(each.value for each in answers if self._attacker.name in each.owners)
