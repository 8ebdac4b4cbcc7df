"""An attacker who sees every answer of a run and knows both tables, and the bound on epsilon by the size of the noise.
(eps, delta) covers rare events, which a few thousand runs never see, so hits alone prove little if delta is small. But
noise of a known law has one free number, its size, and common events reveal it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom

from parley.audit.canary import CanarySearch, compressed
from parley.audit.distinguishing import rates, thresholds
from parley.audit.exact.cell_pool import DECLARED_FRAME
from parley.audit.exact.pair_search import PairSearch, answerable, exact_answer, farthest, plain_trial
from parley.audit.exact.trial import Asked, StageQuestions, Trial, Unit, asked_at
from parley.data.sources import Table
from parley.errors import SettingError, TermsError
from parley.network.exchange import Exchange
from parley.owner.owner import Owner
from parley.privacy.accounting.compose import compose_loss_distributions, pld_interval
from parley.privacy.accounting.pairs import delta_at
from parley.privacy.accounting.releases import amplified
from parley.privacy.accounting.sampled import sampled_epsilon
from parley.privacy.accounting.series import Series
from parley.privacy.events import Event, GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries import Answer, Query, Tables
from parley.protocol.setup import Setup, resolve
from parley.protocol.stages import Stage
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats

LEAST_NOISE_FACTOR, LARGEST_NOISE_FACTOR, BISECTIONS = (
    1 / 16,
    16.0,
    7,
)  # times less noise than is claimed: from where to where, and how finely


@dataclass(frozen=True)
class Rates:
    """How often an attacker says b: at least if it is b, and at most if it is not, at some confidence."""

    right: float
    wrong: float

    @property
    def apart(self) -> float:
        """The least total variation between the laws of the two tables."""
        return self.right - self.wrong

    @classmethod
    def from_runs(cls, pilot: tuple[Floats, Floats], counted: tuple[Floats, Floats], confidence: float) -> "Rates":
        """Count `counted` runs of each side by the threshold that separates `pilot` runs best."""
        at = thresholds(np.concatenate(pilot))
        above = [1 - np.searchsorted(np.sort(side), at, side="left") / len(side) for side in pilot]
        best = at[int(np.argmax(above[1] - above[0]))]
        hits = [int(np.count_nonzero(side >= best)) for side in counted]
        ends = [rates(k, len(side), (1 - confidence) / 2) for k, side in zip(hits, counted, strict=True)]
        return cls(float(ends[1][0]), float(ends[0][1]))


def epsilon_by_size(found: Rates, series: Series, claimed: float, delta: float) -> float:
    """Return the epsilon of all answers of a series at delta if its noise has the claimed law, and a size so small that
    what was found is possible; 0: any size will do.

    Formal guarantee: noise of the claimed size has laws at most delta(0) apart in total variation; for Gaussian noise
    without drawn rows, P_b(S) <= Phi(Phi^-1(P_a(S)) + mu). So if noise has the claimed size and covers the sensitivity,
    the result exceeds `claimed` with at most the probability that the rates are wrong. Nothing is claimed for another
    law.
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


def _less_noise(event: Event, distance: float) -> float:
    """Return by which factor noise must be smaller for laws so far apart, rounded down; 0: below what is tried."""
    if not distance > _total_variation(event, LEAST_NOISE_FACTOR):
        return 0.0
    if _total_variation(event, LARGEST_NOISE_FACTOR) < distance:
        return LARGEST_NOISE_FACTOR
    low, high = (1.0, LARGEST_NOISE_FACTOR) if distance > _total_variation(event, 1.0) else (LEAST_NOISE_FACTOR, 1.0)
    for _ in range(BISECTIONS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if distance > _total_variation(event, middle) else (low, middle)
    return low


def _total_variation(event: Event, times: float) -> float:
    """Return the largest total variation of all releases with `times` times less noise."""
    if isinstance(event, GaussianEvent):
        louder_event = replace(event, multiplier=event.multiplier / times)
        return float(
            delta_at(compose_loss_distributions([louder_event], pld_interval([louder_event])), 0.0, event.count)
        )
    # the worst that pure releases can do: coins that say the truth with probability e^eps/(1 + e^eps)
    truth, half = float(expit(amplified(times / event.multiplier, event.sampling))), event.count // 2
    return float(binom.sf(half, event.count, truth) - binom.sf(half, event.count, 1 - truth))


@dataclass(frozen=True, eq=False)
class Attacker:
    """The likelihood-ratio test by the claimed law of the noise: the sharpest if that law is drawn, and a valid test
    for any. If an owner draws something else in secret, there is no such formula: answers are projected on
    `directions`, their mean difference by round, found on other runs."""

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

    def attacks_round(self, number: int) -> bool:
        """Return whether a round belongs to the attacked stage."""
        return number in self._stage.rounds

    @property
    def guesses(self) -> bool:
        """Whether directions are needed: rows are drawn in secret, or answers are not a sum with noise."""
        return self._stage.question.draws or isinstance(self._stage.series.mechanism, RandomisedResponse)

    def directed(self, a: Mapping[int, Floats], b: Mapping[int, Floats], asked: Mapping[int, Query]) -> "Attacker":
        """Return the attacker with directions by round, from mean answers about a to those about b; if rows are drawn,
        between the exact answers to the mean question, which contain no noise."""
        directions = {number: b[number] - a[number] for number in a}
        if self._stage.question.rate < 1:
            rows = np.arange(len(self.a.train))
            about = {
                n: [self._stage.question.about(q, each, rows) for each in (self.a, self.b)] for n, q in asked.items()
            }
            directions = {number: at_b - at_a for number, (at_a, at_b) in about.items()}
        middles = {number: float((a[number] + b[number]) @ directions[number] / 2) for number in directions}
        return replace(self, directions=directions, middles=middles)

    def speaks(self, questions: Mapping[str, Query], value: Floats, replicates: tuple[int, ...]) -> Floats:
        """Score how much an answer to these questions speaks for b against a [*replicates]."""
        query = questions[self.name]
        if self.guesses:
            return self._along(value, query.round)
        at_a, at_b, scale = self._without_noise(questions, replicates)
        if self.setup.part(self.name).stage(query.round).series.mechanism.norm == "l1":
            return np.asarray((np.abs(value - at_a) - np.abs(value - at_b)).sum(axis=-1) / scale)
        return np.asarray(((at_b - at_a) * (2 * value - at_a - at_b)).sum(axis=-1) / (2 * scale**2))

    def _along(self, value: Floats, number: int) -> Floats:
        """Project an answer on its round's direction."""
        along = np.asarray(value @ self.directions[number]) - self.middles[number]
        series, rate = self._stage.series, self._stage.question.rate
        if not (rate < 1 and series.mechanism.norm == "l2" and not isinstance(series.mechanism, SharedNoise)):
            return along
        variance, half = series.mechanism.noise_scale**2, float(np.sum(self.directions[number] ** 2)) / 8
        at_b, at_a = (np.logaddexp(np.log1p(-rate), np.log(rate) + (s * along / 2 - half) / variance) for s in (1, -1))
        return np.asarray(at_b - at_a)

    def noise(self, questions: Mapping[str, Query], value: Floats, replicates: tuple[int, ...]) -> Floats:
        """Return the noise in an answer about table a; the answer itself if no formula gives it."""
        return value if self.guesses else value - self._without_noise(questions, replicates)[0]

    def _without_noise(
        self, questions: Mapping[str, Query], replicates: tuple[int, ...]
    ) -> tuple[Floats, Floats, float]:
        """Return (the exact answer about a, that about b, the scale of the noise on it)."""
        query = questions[self.name]
        noise = self.setup.part(self.name).stage(query.round).series.mechanism
        at_a, at_b = (self._exact(self.name, query, tables, replicates) for tables in (self.a, self.b))
        if not isinstance(noise, SharedNoise):
            return at_a, at_b, noise.noise_scale
        sizes = {name: self.setup.part(name).stage(query.round).question.records for name in questions}
        total = sum(sizes.values())
        others_answer = np.zeros_like(at_a)
        for name, others_query in questions.items():
            if name != self.name:
                others_answer += sizes[name] / total * self._exact(name, others_query, self.others[name], replicates)
        share = sizes[self.name] / total
        return share * at_a + others_answer, share * at_b + others_answer, noise.over(total).noise_scale

    def _exact(self, name: str, query: Query, tables: Tables, replicates: tuple[int, ...]) -> Floats:
        return self.setup.part(name).stage(query.round).question.bounded(query, tables, replicates).value


class Overheard:
    """An exchange that an attacker overhears; every question is asked twice, since a retry must bring nothing new."""

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
        if name not in questions or not self._attacker.attacks_round(questions[name].round):
            return answers
        values = [self._own(answers)]
        # where one noise is drawn for all, a study draws it again, and hosts never do
        if not self._attacker.setup.terms.noise.summed and not np.array_equal(
            again := self._own(self._exchange.ask(questions)), values[0]
        ):
            values.append(again)
        if self._keeps:
            self.noises.append(self._attacker.noise(questions, values[0], self._replicates))
        if self._attacker.guesses:
            query = questions[name]
            mean = {key: np.mean(each.reshape(-1, each.shape[-1]), axis=0) for key, each in query.arrays.items()}
            self.means[query.round] = np.mean(values, axis=(0, 1))
            self.asked[query.round] = asked_at(query, query.round, mean)
        if not self._attacker.guesses or self._attacker.directions:
            for value in values:
                self.statistic += self._attacker.speaks(questions, value, self._replicates)
        return answers

    def _own(self, answers: Sequence[Answer]) -> Floats:
        """Return the audited owner's answer, or the sum that contains it."""
        return next(each.value for each in answers if self._attacker.name in each.owners)


CANARIES_FACTOR = 3  # times as many as a search begins with
LEAST_MODEL_RECORDS = 64  # records: of fewer, noise would lead a model far astray


class AuditedOwner(Owner):
    """An owner of a table that an audit made, in which hardly any row has a target."""

    def _tables(self, setup: Setup) -> Tables:
        tables = super()._tables(setup)
        return Tables(compressed(tables.train), compressed(tables.held_out))


@dataclass(frozen=True, eq=False)
class RunTables:
    """The audited owner with either table, and everybody else. If a row without a target contributes nothing, tables
    have the agreed size (`canary`). Otherwise they are as small as the terms allow, with the two extreme canaries whose
    answers lie farthest apart (`exact.pair_search`)."""

    setup: Setup
    own: tuple[Owner, Owner]
    others: Mapping[str, Owner]

    @classmethod
    def find(cls, terms: Terms, name: str, stage: int = 0) -> "RunTables":
        """Find the pair for this stage: training, or the score."""
        setup = resolve(terms)
        others = [part.name for part in terms.owners if part.name != name]
        if terms.task != PREDICTION:
            return _smallest_tables(setup, name, others)
        pair = CanarySearch(setup, name, stage).neighbours()
        other_owners = {other: AuditedOwner(other, CanarySearch(setup, other).empty_table) for other in others}
        return cls(setup, (AuditedOwner(name, pair.a), AuditedOwner(name, pair.b)), other_owners)


def _smallest_tables(setup: Setup, name: str, others: list[str]) -> RunTables:
    search = PairSearch(setup, name)
    for records in _sizes(setup, name, search.shape.records + 1):
        sizes = {part.name: {"records": records} for part in setup.terms.owners}
        try:
            small = setup.under(setup.terms.changed(owners=sizes))
            agreement = Asked(small, small.part(name).training.question)
        except TermsError:
            continue
        break
    else:
        raise TermsError(
            f"{name}: these terms allow none of the table sizes that the audit can attack, up to the agreed number of "
            "records"
        )
    base, a, b = _farthest_canaries(search, agreement)

    def table(unit: Unit) -> Table:
        return DECLARED_FRAME.write(search.shape.table(base, unit), Path())

    other_owners = {other: Owner(other, table(base.a)) for other in others}
    return RunTables(small, (Owner(name, table(a)), Owner(name, table(b))), other_owners)


def _sizes(setup: Setup, name: str, least: int) -> Iterator[int]:
    """Yield sizes to try: few records, since others hide the canary, but `LEAST_MODEL_RECORDS` if others have no
    target; last the agreed number."""
    agreed, batches = setup.terms.owner(name).records, setup.terms.learning.batches or 1
    few = LEAST_MODEL_RECORDS if setup.task.predicts else least
    yield from (size for size in (few, max(few, batches), 2 * max(few, batches)) if size < agreed)
    yield agreed


def _farthest_canaries(search: PairSearch, agreement: Asked) -> tuple[Trial, Unit, Unit]:
    """Find everybody else's rows and the two canaries whose answers lie farthest apart at the start of a run."""
    rng = np.random.default_rng(0)
    questions = StageQuestions(agreement.setup, search.name, 0)
    queries = list(questions.queries(agreement, questions.query(0).arrays, 0))
    for base in _tables_of_others(search, agreement, plain_trial(search, rng)):
        units, tables = answerable(search, base, agreement, rng, CANARIES_FACTOR)
        if len(units) < 2:
            continue
        # of L1 differences of one size noise hides those in a single number least
        distance, a, b = farthest([exact_answer(agreement, queries, each) for each in tables], "l2")
        if distance > 0:
            return base, units[a], units[b]
    raise TermsError(f"{search.name}: no record changes this owner's answers, so there is nothing to audit")


def _tables_of_others(search: PairSearch, agreement: Asked, plain: Trial) -> Iterator[Trial]:
    """Yield everybody else, without targets if allowed, with the canary at any place, since some may be held out."""
    count = agreement.setup.terms.owner(search.name).records - search.shape.records
    targets = [{agreement.setup.terms.model.target: None}] if agreement.setup.task.predicts else []
    for blank in (*targets, {}):
        other = tuple({**row, **blank} for row in plain.others[0])
        for place in range(min(count, 8) + 1):
            yield replace(plain, others=(other,) * count, place=place)


def with_one_other_owner(terms: Terms, name: str) -> Terms:
    """Return the terms with one owner for all others, whose number affects no answer except through the model."""
    others = [part for part in terms.owners if part.name != name]
    learning = terms.learning
    if len(others) < 2 or learning.topology is not None or learning.participation is not None:
        return terms
    merged_owner = {"records": sum(part.records for part in others), "epsilon": min(part.epsilon for part in others)}
    kept = [part.name for part in terms.owners if part.name in (name, others[0].name)]
    quorum = None if learning.quorum is None else {"quorum": min(learning.quorum, 2)}
    # what the learner makes of answers is no part of what they tell
    return terms.changed(learning=quorum, only=kept, owners={others[0].name: merged_owner}, aggregation={})
