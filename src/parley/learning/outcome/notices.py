"""Name owners whose answers break the terms: a test of every owner over a whole run, with a stated false-alarm rate.
Lies within the bound (turned signs, exchanged labels) look like an honest owner of another law and name nobody. What
they can do is bounded instead: `parley audit --poison`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv, ndtri

from parley.privacy.mechanisms import Extent, Gaussian, GridGeometric, Laplace, Mechanism
from parley.protocol.aggregation.robust import reaches
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage
from parley.validate import Floats

FALSE_ALARMS = 1e-3  # of honest runs, at most, in which anybody at all is named
TEST_COUNT = 3  # that share it: single answers, all answers together, the stated spread
NOISE_SLACK = (
    1 + 1e-3
)  # of noise: samplers draw long vectors, and whole numbers, with a little more of it than the law has

KNOWN_TAIL_LAWS = (Laplace, GridGeometric, Gaussian)  # laws whose sums have tails that are known

Reason = Literal["an answer", "all answers", "spread"]

SENTENCE_BY_REASON: dict[Reason, str] = {
    "an answer": "one of this owner's answers is larger than bound plus noise can explain",
    "all answers": "this owner's answers together are larger than bound plus noise can explain",
    "spread": "this owner's answers are farther from most owners' answers than the stated spread plus noise can "
    "explain",
}


@dataclass(frozen=True)
class Notice:
    """An owner with unexplained answers, the reason, and in how many of the study's runs (1 for a release)."""

    owner: str
    reason: Reason
    runs: int

    @property
    def sentence(self) -> str:
        return SENTENCE_BY_REASON[self.reason]

    def to_json(self) -> dict[str, Any]:
        """Return one of the objects under `notices` in `parley train --json`."""
        return {**vars(self), "sentence": self.sentence}


class Watch:
    """A running record of every owner's answers: a number or two for each replicate.

    Formal guarantee: if all owners keep to the terms, anybody is named in a run with probability at most
    `FALSE_ALARMS`, whatever their tables and the questions. Each of three tests has a third of it. (1) An answer lies
    outside what bound and noise explain: union bound over all answers (`reaches`). (2) The norm of an exact answer is
    at most the bound (for rows drawn in secret this fails with half of the share). So the excess is at most the norm of
    the noise, and the noise of all rounds is one long vector. (3) With a stated spread s, two honest owners'
    differences, summed over rounds, are in any number at most T s plus the sum of their noises, whose tail is exact
    (normal) or Chernoff's (Laplace). The same holds for one round, with a union bound over rounds. An owner is named if
    it exceeds either limit against more others than may lie. An honest owner is not, whatever liars say, because it
    agrees with all other honest ones. An answer outside what explains it names its owner, and counts as if it were at
    the edge.
    """

    def __init__(self, setup: Setup, before: Mapping[str, Floats] | None = None) -> None:
        """Start empty, or from the `memory` of one run."""
        self._stages = {name: setup.part(name).training for name in setup.schedule.names}
        single = not setup.terms.noise.summed
        self._extents = reaches(setup, FALSE_ALARMS / TEST_COUNT) if single else {}
        self._bounds = {name: exact_extent(setup, name).size for name in self._extents}
        self._outside: dict[str, NDArray[np.bool_]] = {}
        self._beyond: dict[str, Floats] = {}
        self._answers = dict.fromkeys(self._stages, 0)
        section = setup.terms.aggregation
        self._spread = None if section is None else section.spread
        self._liars = 0 if section is None else section.byzantine
        self._apart: dict[tuple[str, str], _Differences] = {}
        if before:
            self._remember(before)

    def hear(self, answers: Sequence[Answer]) -> None:
        """Record a round's answers; sums over several owners are ignored. Of answers that travelled in part (`top_k`)
        that part counts: neither it nor its noise exceeds the whole."""
        values: dict[str, Floats] = {}
        for answer in answers:
            name = answer.owner
            if name in self._extents:
                value = self._stages[name].question.seen(answer.value)
                outside = ~self._extents[name].inside(value)
                values[name] = self._extents[name].nearest(value) if outside.any() else value
                order = 1 if self._stages[name].question.norm == "l1" else 2
                sizes = np.linalg.norm(values[name], order, axis=-1)
                self._outside[name] = self._outside.get(name, False) | outside
                self._beyond[name] = self._beyond.get(name, 0.0) + np.maximum(sizes - self._bounds[name], 0.0) ** order
                self._answers[name] += 1
        if self._spread is not None:
            for one, other in combinations(values, 2):
                before = self._apart.get((one, other), _Differences(0, np.zeros(()), np.zeros(())))
                self._apart[one, other] = before.later(values[one] - values[other])

    def memory(self) -> dict[str, Floats]:
        """Return the record of one run. For each owner: answers, whether any was outside, and the excess [N, 3]. With a
        stated spread, for each pair: rounds, largest and summed differences [N (N - 1)/2, 2 + p]."""
        if not self._extents:
            return {}
        rows = [
            [float(count), float(self._outside.get(name, False)), float(self._beyond.get(name, 0.0))]
            for name, count in self._answers.items()
        ]
        arrays = {"owners": np.array(rows)}
        if self._spread is not None:
            nothing = _Differences(0, np.zeros(next(iter(self._stages.values())).question.size), np.zeros(()))
            pairs = [self._apart.get(pair, nothing) for pair in combinations(self._stages, 2)]
            rows = [[float(pair.rounds), float(pair.largest), *pair.sums.tolist()] for pair in pairs]
            arrays["pairs"] = np.array(rows).reshape(len(pairs), 2 + nothing.sums.size)
        return arrays

    def _remember(self, before: Mapping[str, Floats]) -> None:
        for name, (count, outside, excess) in zip(self._stages, before["owners"], strict=True):
            self._answers[name] = int(count)
            if count:
                self._outside[name], self._beyond[name] = np.asarray(outside > 0), np.asarray(excess)
        for pair, row in zip(combinations(self._stages, 2), before.get("pairs", ()), strict=False):
            if row[0]:
                self._apart[pair] = _Differences(int(row[0]), row[2:], row[1])

    def notices(self) -> tuple[Notice, ...]:
        """Return the owners named, with reasons, in the order of the terms."""
        found = []
        for name in self._outside:
            tests: dict[Reason, NDArray[np.bool_]] = {
                "an answer": self._outside[name],
                "all answers": self._too_large(name),
                "spread": self._too_far(name),
            }
            found += [Notice(name, reason, int(named.sum())) for reason, named in tests.items() if named.any()]
        return tuple(sorted(found, key=lambda notice: list(self._stages).index(notice.owner)))

    def _too_large(self, name: str) -> NDArray[np.bool_]:
        """Mark replicates in which all answers together exceed what bound and noise explain."""
        stage = self._stages[name]
        if stage.question.own_noise is not None:  # inside of the only answer
            return np.zeros_like(self._outside[name])
        noise = _run_noise(stage, self._answers[name], len(self._stages))
        return np.asarray(self._beyond[name] > noise ** (1 if stage.question.norm == "l1" else 2))

    def _too_far(self, name: str) -> NDArray[np.bool_]:
        """Mark replicates in which it lies too far from more owners than may lie."""
        disagrees = np.zeros(self._beyond[name].shape, dtype=int)
        for pair, difference in self._apart.items():
            if name in pair and self._spread is not None:
                turns = min(len(self._stages[each].rounds) for each in pair)
                whole = difference.rounds * self._spread + self._difference(pair, difference.rounds, 1)
                disagrees += (difference.total > whole) | (
                    difference.largest > self._spread + self._difference(pair, 1, turns)
                )
        return disagrees > self._liars

    def _difference(self, pair: tuple[str, str], rounds: int, times: int) -> float:
        """Bound the largest number in `times` sums of two owners' `rounds` noises; fails with a share of the alarms."""
        stages, owners = [self._stages[name] for name in pair], len(self._stages)
        size = stages[0].question.size
        share = FALSE_ALARMS / TEST_COUNT / 2 / (owners * (owners - 1) / 2) / times
        laws = [stage.series.mechanism for stage in stages]
        return sum_tail(laws, rounds, share / size, size) + rounds * sum(law.rounding(size) for law in laws)


@dataclass(frozen=True, eq=False)
class _Differences:
    """Differences of two owners' answers in rounds that heard both: summed [..., p], and the largest [...]."""

    rounds: int
    sums: Floats
    largest: Floats

    @property
    def total(self) -> Floats:
        """The largest number of the sum [...]."""
        return np.asarray(np.abs(self.sums).max(axis=-1))

    def later(self, apart: Floats) -> "_Differences":
        """Add one round [..., p]."""
        return _Differences(self.rounds + 1, self.sums + apart, np.maximum(self.largest, np.abs(apart).max(axis=-1)))


def exact_extent(setup: Setup, name: str) -> Extent:
    """Bound an owner's exact answers in all rounds. For rows drawn in secret the bound fails with half of the owner's
    share of the false alarms."""
    stage, owners = setup.part(name).training, len(setup.schedule.names)
    return stage.question.likely_extent(FALSE_ALARMS / TEST_COUNT / owners / 2 / len(stage.rounds))


def unnoticed_extent(setup: Setup, name: str) -> Extent:
    """Bound the answers with which an owner goes unnoticed in every round of a run."""
    stage = setup.part(name).training
    rounds, reach = len(stage.rounds), reaches(setup, FALSE_ALARMS / TEST_COUNT)[name]
    often = rounds if stage.question.norm == "l1" else math.sqrt(rounds)
    whole = exact_extent(setup, name).size + _run_noise(stage, rounds, len(setup.schedule.names)) / often
    return replace(reach, size=min(reach.size, whole))


def _run_noise(stage: Stage, answers: int, owners: int) -> float:
    """Bound the norm of the noise in one owner's answers, failing with its share of the false alarms."""
    law, size = stage.series.mechanism, stage.question.size
    share = FALSE_ALARMS / TEST_COUNT / owners / (2 if stage.question.draws else 1)
    if isinstance(law, KNOWN_TAIL_LAWS):
        return norm_tail(law, share, size * answers) + 2 * answers * law.rounding(size)
    return (answers if law.norm == "l1" else math.sqrt(answers)) * law.norm_tail(share / answers, size)


def norm_tail(law: Mechanism, probability: float, numbers: int) -> float:
    """Bound the norm of `numbers` noise numbers, failing with this probability (gamma law, or chi-squared in L2)."""
    if law.norm == "l1":
        return NOISE_SLACK * law.noise_scale * float(gammainccinv(numbers, probability))
    return NOISE_SLACK * law.noise_scale * math.sqrt(2 * float(gammainccinv(numbers / 2, probability)))


def sum_tail(laws: Sequence[Mechanism], rounds: int, probability: float, size: int) -> float:
    """Bound the absolute sum of `rounds` noises of each law, in one of `size` numbers, failing with this probability.

    Formal guarantee: normal noises add up to normal noise. Otherwise it is Chernoff's bound at the best of some
    exponents, each of which holds: ln E exp(t Y) = -ln(1 - (t b)^2) for Laplace noise of scale b, and no more on whole
    numbers, because (cosh x - 1)/x^2 grows. For laws that a program added, it is the union bound over the noises.

    >>> from parley.privacy.mechanisms import Gaussian
    >>> round(sum_tail([Gaussian(3.0, 1.0), Gaussian(4.0, 1.0)], 100, 0.05, 1), 1)
    98.1
    """
    if not all(isinstance(law, KNOWN_TAIL_LAWS) for law in laws):
        return rounds * sum(law.tail(probability / (rounds * len(laws)), size) for law in laws)
    if all(law.norm == "l2" for law in laws):
        return -math.sqrt(rounds * sum(law.variance for law in laws)) * NOISE_SLACK * float(ndtri(probability / 2))
    scales = NOISE_SLACK * np.array([law.noise_scale for law in laws])
    exponents = np.linspace(0.002, 0.998, 499) / scales.max()
    cumulants = -rounds * np.log1p(-((exponents[:, None] * scales) ** 2)).sum(axis=1)
    return float(np.min((cumulants + math.log(2 / probability)) / exponents))
