"""One noise for the sum of all answers, and what it means for coalitions: the strictest member decides its size."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.errors import GuaranteeError, TermsError
from parley.privacy.accounting import SharedLaw, Span, Spans, bits_delta, most_epsilon, shared_law
from parley.privacy.accounting.series import SERIES
from parley.protocol.aggregation.mean import Members, NoiseOfCoalitions, or_one, pieces, sums_of_others
from parley.protocol.queries import Answer, Question
from parley.protocol.stages import Resolver, Schedule, Stage, StagePlan, make_stage, uses
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class SharedLaws:
    """The laws of one noise for all, by stage. `questions` holds every owner's, by stage, as one noise covers all."""

    terms: Terms
    schedule: Schedule
    plans: Sequence[StagePlan]
    questions: Sequence[Sequence[Question]]

    def __post_init__(self) -> None:
        every = [question for questions in self.questions for question in questions]
        if any(question.together > 1 or question.most_releases > 1 for question in every):
            raise GuaranteeError(
                "privacy.noise: hosts draw noise for each answer separately, but these terms need noise for several "
                "answers together, or in every local step. Set privacy.noise = 'each-owner'"
            )

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """Return the law of a stage's noise (0: training, 1: score) if owners promised this epsilon in all; default:
        the terms'. The total variation of its random bits is paid from delta first. Terms whose delta does not suffice
        for their epsilon are refused; a hypothetical `epsilon` is lowered to the largest for which delta suffices."""
        if (stage, epsilon) in self._laws:
            return self._laws[stage, epsilon]
        delta = Fraction(str(self.terms.privacy.delta))
        numbers = self._numbers
        most, common = most_epsilon(delta, numbers), self.terms.common_epsilon
        if not common <= most:
            raise TermsError(
                f"privacy.delta: expected at least {2 * float(bits_delta(common, numbers)):.1e}, found "
                f"{float(delta):g}. Hosts draw noise from finitely many random bits, which needs some delta. With "
                "fewer rounds or a smaller epsilon, a smaller delta suffices"
            )
        promised = common if epsilon is None else min(epsilon, most)
        if (stage, promised) not in self._laws:
            left = delta - bits_delta(promised, numbers)
            budget = (self.terms.score_epsilon, Fraction(0)) if stage else (promised - self.terms.score_epsilon, left)
            copies, plan = self.terms.privacy.shared_records, self.plans[stage]
            question = self.questions[stage][0]
            self._laws[stage, promised] = shared_law(
                plan.mechanism,
                *budget,
                self.most_uses(plan),
                self._sizes[stage],
                self._spans[stage],
                copies,
                question.rate,
                pieces(self.terms, question),
                self.terms.noise.draws,
                self.terms.noise.paired,
            )
        self._laws[stage, epsilon] = self._laws[stage, promised]
        return self._laws[stage, promised]

    @cached_property
    def _laws(self) -> dict[tuple[int, Fraction | None], SharedLaw]:
        return {}

    @cached_property
    def _spans(self) -> list[Spans]:
        return [Spans.from_spans(self._span(question) for question in questions) for questions in self.questions]

    @cached_property
    def _sizes(self) -> list[int]:
        return [questions[0].size for questions in self.questions]

    @cached_property
    def _numbers(self) -> int:
        """The most numbers that are opened about one person."""
        return sum(self._openings(plan) * size for plan, size in zip(self.plans, self._sizes, strict=True))

    def _most_answers(self, plan: StagePlan) -> int:
        if plan.kind == "score":
            return 1
        return max(len(self.schedule.rounds_of(part.name)) for part in self.terms.owners)

    def _openings(self, plan: StagePlan) -> int:
        """Return in how many openings one person with records at several owners can be."""
        return (
            1
            if plan.kind == "score"
            else min(self.schedule.horizon, self.terms.privacy.shared_records * self._most_answers(plan))
        )

    def most_uses(self, plan: StagePlan) -> int:
        """Return in how many of an owner's answers one record can be, at most over all owners."""
        return 1 if plan.kind == "score" else self._most_training_uses

    @cached_property
    def _most_training_uses(self) -> int:
        return max(uses(self.terms.learning, self.schedule.rounds_of(part.name)) for part in self.terms.owners)

    def _span(self, question: Question) -> Span:
        largest = max(float(np.max(np.abs(question.extent.low))), float(np.max(np.abs(question.extent.high))))
        roundings = 2 if question.rate < 1 else pieces(self.terms, question)
        return Span(question.records, question.sensitivity, question.extent.size, largest, roundings)


@dataclass(frozen=True, eq=False)
class OneNoise(NoiseOfCoalitions):
    """The noise of a coalition's mean where one is drawn for all: v_S = max_{l in S} demand_l / n_S^2. `demands` is the
    variance of a sum's noise for each owner's own epsilon (twice as much where each of two hosts draws one). An empty
    coalition has variance 0."""

    records: Floats  # n_l [N]
    demands: Floats  # [..., N]

    @property
    def variances(self) -> Floats:
        """The variance each owner's answers would carry if it were alone [..., N]."""
        return self.demands / self.records**2

    def variance(self, members: Members) -> Floats:
        """Return v_S of coalitions [..., N].

        >>> noise = OneNoise(np.array([1.0, 3.0]), np.array([16.0, 32.0]))
        >>> noise.variance(np.array([[False, False], [True, False], [True, True]])).tolist()
        [0.0, 16.0, 2.0]
        """
        return np.asarray(np.max(members * self.demands, axis=-1) / or_one(self.size(members)) ** 2)

    def prefixes(self, order: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return (n, v) of the first 1, 2, ..., N owners of orders [..., N], each [..., N], in O(N)."""
        size = np.cumsum(self.records[order], axis=-1)
        return size, np.maximum.accumulate(self.demands[order], axis=-1) / size**2

    def quietest_first(self) -> NDArray[np.int64]:
        """Order the owners by demand: **the coalition of least cost is a prefix of this order** for any cost c/n + K v,
        c and K >= 0. Proof. An owner that demands no more than the strictest member adds records and no noise, so the
        cost falls."""
        return np.argsort(self.demands, kind="stable")

    def without_each(self, members: Members) -> tuple[Floats, Floats]:
        """Return (n, v) of S without l for every owner l, each [..., N], in O(N)."""
        size = sums_of_others(members * self.records)
        return size, _largest_of_others(members * self.demands) / or_one(size) ** 2

    def with_each(self, members: Members, own: Floats) -> tuple[Floats, Floats]:
        """Return (n, v) of S with l for every owner l, who alone would have variance own_l [..., N]."""
        size = sums_of_others(members * self.records) + self.records
        demand = np.maximum(_largest_of_others(members * self.demands), own * self.records**2)
        return size, demand / size**2


class Shared:
    """Owners share sums with hosts, and nobody sees a single answer. Three hosts draw one noise; two add one each, or
    draw one together."""

    @property
    def averages(self) -> bool:
        """Whether answers are averaged; there is only a sum."""
        return True

    def combine(self, answers: Sequence[Answer]) -> Floats:
        """Return the one answer of a round."""
        if len(answers) != 1:
            raise GuaranteeError(
                "privacy.noise: shared noise gives one answer per round (the sum over owners), but this round has "
                f"{len(answers)} answers"
            )
        return answers[0].value

    pooled = combine

    def stages(self, setup: Resolver, name: str) -> Iterator[Stage]:
        """Yield an owner's stages, each with its part of the one noise that hosts draw."""
        for place, plan in enumerate(setup.plans(name)):
            question = setup.question(plan, name)
            own = question.shared_series(plan.epsilon, plan.delta)
            if own is not None:
                yield make_stage(question, plan.rounds, own)
                continue
            law = setup.law(place)
            noise = law.over(question.records, question.sensitivity)
            series = SERIES[plan.mechanism](noise, plan.epsilon, law.delta, setup.most_uses(plan), rate=question.rate)
            yield make_stage(question, plan.rounds, series)

    def noise(self, setup: Resolver, names: Collection[str] | None = None, stage: int = 0) -> OneNoise:
        """Return the noise of the sum of these owners' answers in a stage; default: all owners."""
        parts = [setup.part(name) for name in (setup.schedule.names if names is None else names)]
        records = np.array([float(part.stages[stage].question.records) for part in parts])
        own = [Fraction(str(setup.terms.owner(part.name).epsilon)) for part in parts]
        return OneNoise(records, np.array([setup.law(stage, epsilon).sum_variance for epsilon in own]))


@dataclass(frozen=True, eq=False)
class DistributedNoise:
    """Noise in shares that owners add to a sum hiding single answers; for comparison, terms cannot name it. In a
    coalition of k owners of whom t may pool their draws, v_S is k/(k - t) times that of one noise. The shares of the
    other k - t must make up the whole noise, so each is a (k - t)-th of it; if only the curious would be left,
    everybody adds all of it. Normal numbers and differences of gamma numbers (Laplace) both split like this.

    >>> noise = DistributedNoise(OneNoise(np.ones(4), np.full(4, 9.0)))
    >>> noise.variance(np.tri(3, 4, dtype=bool)).tolist()
    [9.0, 4.5, 1.5]
    """

    one: OneNoise
    curious: int = 1

    @property
    def all_together(self) -> float:
        """The variance of the combined answer of all owners."""
        return float(self.variance(np.ones(len(self.one.records), dtype=bool)))

    def variance(self, members: Members) -> Floats:
        """Return the variance v_S of the combined answer of each coalition [..., N]."""
        owners = members.sum(axis=-1)
        return np.asarray(self.one.variance(members) * owners / np.maximum(owners - self.curious, 1))


def _largest_of_others(x: Floats) -> Floats:
    """Return, for each entry, the largest other entry along the last axis; all are at least 0."""
    nothing = np.zeros((*x.shape[:-1], 1))
    before = np.maximum.accumulate(np.concatenate([nothing, x[..., :-1]], axis=-1), axis=-1)
    after = np.maximum.accumulate(np.concatenate([nothing, x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.maximum(before, after)
