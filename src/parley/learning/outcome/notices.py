"""Name owners whose answers no owner that keeps to the terms would give: a test of every owner over a whole run, with a
stated rate of false alarms.

The learner knows how large an exact answer can be and how its noise is distributed, and nothing else. So lies that stay
within the bound (a sign that is turned, labels that are exchanged) cannot be told from an honest owner of another law:
nobody is named for them, and what they can do is bounded instead (`parley audit --poison`).
"""

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

SENTENCES: dict[Reason, str] = {
    "an answer": "one of its answers is larger than bound plus noise can explain",
    "all answers": "its answers together are larger than bound plus noise can explain",
    "spread": "its answers are farther from most others than the stated spread plus noise can explain",
}


@dataclass(frozen=True)
class Notice:
    """An owner whose answers are not explained, why, and in how many of the study's runs; of a release there is one."""

    owner: str
    reason: Reason
    runs: int

    @property
    def sentence(self) -> str:
        return SENTENCES[self.reason]

    def to_json(self) -> dict[str, Any]:
        """One of the objects under `notices` in `parley train --json`."""
        return {**vars(self), "sentence": self.sentence}


class Watch:
    """What is heard of every owner in a run, added up round after round: a number or two for each replicate.

    Formal guarantee: where all owners keep to the terms, any is named with probability at most `FALSE_ALARMS` in a run,
    whatever their tables and whatever was asked. Each test has a third of it. (1) A single answer outside of what bound
    and noise explain: the union bound over all answers (`reaches`). (2) The norm of exact answers is at most the bound
    (for rows drawn in secret this fails with half of the share), so what exceeds it is at most the norm of their noise,
    and the noise of all rounds together is one long vector. (3) With a stated spread s, the sum over rounds of two
    honest owners' differences is at most T s, in any number, and the sum of their noises, of which the tail is exact
    (normal) or Chernoff's (Laplace); so it is of one round, where all rounds together have a larger difference with at
    most the same probability (the union bound). Who lies farther than either from more others than may lie is named: an
    honest owner is not, whatever the liars say, for it agrees with all other honest ones. What lies outside of what
    explains an answer names its owner, and counts as if it were at the edge."""

    def __init__(self, setup: Setup, before: Mapping[str, Floats] | None = None) -> None:
        """A watch that heard nothing yet, or `before` (`memory`), of one run."""
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
        self._apart: dict[tuple[str, str], _Apart] = {}
        if before:
            self._remember(before)

    def hear(self, answers: Sequence[Answer]) -> None:
        """Take in a round's answers. Sums of several owners' answers say nothing of a single one. Of answers that
        travelled in part (`top_k`) that part counts: neither it nor its noise is larger than the whole. (No spread can
        be stated beside those.)"""
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
                before = self._apart.get((one, other), _Apart(0, np.zeros(()), np.zeros(())))
                self._apart[one, other] = before.later(values[one] - values[other])

    def memory(self) -> dict[str, Floats]:
        """What was heard in one run: of every owner how many answers, whether any was outside, and how much lay beyond
        [N, 3]; with a stated spread of every pair its rounds, largest and summed differences [N (N - 1)/2, 2 + p]."""
        if not self._extents:
            return {}
        rows = [
            [float(count), float(self._outside.get(name, False)), float(self._beyond.get(name, 0.0))]
            for name, count in self._answers.items()
        ]
        found = {"owners": np.array(rows)}
        if self._spread is not None:
            nothing = _Apart(0, np.zeros(next(iter(self._stages.values())).question.size), np.zeros(()))
            pairs = [self._apart.get(pair, nothing) for pair in combinations(self._stages, 2)]
            rows = [[float(pair.rounds), float(pair.largest), *pair.sums.tolist()] for pair in pairs]
            found["pairs"] = np.array(rows).reshape(len(pairs), 2 + nothing.sums.size)
        return found

    def _remember(self, before: Mapping[str, Floats]) -> None:
        for name, (count, outside, beyond) in zip(self._stages, before["owners"], strict=True):
            self._answers[name] = int(count)
            if count:
                self._outside[name], self._beyond[name] = np.asarray(outside > 0), np.asarray(beyond)
        for pair, row in zip(combinations(self._stages, 2), before.get("pairs", ()), strict=False):
            if row[0]:
                self._apart[pair] = _Apart(int(row[0]), row[2:], row[1])

    def notices(self) -> tuple[Notice, ...]:
        """The owners named, with reasons, in the order of the terms."""
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
        """In which replicates all answers together are larger than bound and noise explain."""
        stage = self._stages[name]
        if stage.question.own_noise is not None:  # inside of the only answer
            return np.zeros_like(self._outside[name])
        noise = _run_noise(stage, self._answers[name], len(self._stages))
        return np.asarray(self._beyond[name] > noise ** (1 if stage.question.norm == "l1" else 2))

    def _too_far(self, name: str) -> NDArray[np.bool_]:
        """In which replicates it lies too far from more other owners than the terms allow liars."""
        disagrees = np.zeros(self._beyond[name].shape, dtype=int)
        for pair, apart in self._apart.items():
            if name in pair and self._spread is not None:
                turns = min(len(self._stages[each].rounds) for each in pair)
                whole = apart.rounds * self._spread + self._difference(pair, apart.rounds, 1)
                disagrees += (apart.total > whole) | (apart.largest > self._spread + self._difference(pair, 1, turns))
        return disagrees > self._liars

    def _difference(self, pair: tuple[str, str], rounds: int, times: int) -> float:
        """The bound on the worst number of the sum of two owners' noises over so many rounds, in so many such sums; it
        fails with a share of the false alarms."""
        stages, owners = [self._stages[name] for name in pair], len(self._stages)
        size = stages[0].question.size
        share = FALSE_ALARMS / TEST_COUNT / 2 / (owners * (owners - 1) / 2) / times
        laws = [stage.series.mechanism for stage in stages]
        return sum_tail(laws, rounds, share / size, size) + rounds * sum(law.rounding(size) for law in laws)


@dataclass(frozen=True, eq=False)
class _Apart:
    """How far two owners' answers were apart, in rounds that heard both: added up [..., p], and the largest number of
    any round [...]."""

    rounds: int
    sums: Floats
    largest: Floats

    @property
    def total(self) -> Floats:
        """The largest number of the sum [...]."""
        return np.asarray(np.abs(self.sums).max(axis=-1))

    def later(self, apart: Floats) -> "_Apart":
        """Add one more round [..., p]."""
        return _Apart(self.rounds + 1, self.sums + apart, np.maximum(self.largest, np.abs(apart).max(axis=-1)))


def exact_extent(setup: Setup, name: str) -> Extent:
    """Bound an owner's exact answers in all rounds of a run. For rows drawn in secret the bound fails with half of the
    owner's share of the false alarms."""
    stage, owners = setup.part(name).training, len(setup.schedule.names)
    return stage.question.likely_extent(FALSE_ALARMS / TEST_COUNT / owners / 2 / len(stage.rounds))


def unnoticed(setup: Setup, name: str) -> Extent:
    """Bound an owner's answers that go unnoticed in every round of a run."""
    stage = setup.part(name).training
    rounds, reach = len(stage.rounds), reaches(setup, FALSE_ALARMS / TEST_COUNT)[name]
    often = rounds if stage.question.norm == "l1" else math.sqrt(rounds)
    whole = exact_extent(setup, name).size + _run_noise(stage, rounds, len(setup.schedule.names)) / often
    return replace(reach, size=min(reach.size, whole))


def _run_noise(stage: Stage, answers: int, owners: int) -> float:
    """Bound the norm of the noise in so many answers of one owner, failing with its share of the false alarms."""
    law, size = stage.series.mechanism, stage.question.size
    share = FALSE_ALARMS / TEST_COUNT / owners / (2 if stage.question.draws else 1)
    if isinstance(law, KNOWN_TAIL_LAWS):
        return norm_tail(law, share, size * answers) + 2 * answers * law.rounding(size)
    return (answers if law.norm == "l1" else math.sqrt(answers)) * law.norm_tail(share / answers, size)


def norm_tail(law: Mechanism, probability: float, numbers: int) -> float:
    """Bound the norm of so many noise numbers, failing with this probability: gamma distributed, or in L2 the root of a
    chi-squared number."""
    if law.norm == "l1":
        return NOISE_SLACK * law.noise_scale * float(gammainccinv(numbers, probability))
    return NOISE_SLACK * law.noise_scale * math.sqrt(2 * float(gammainccinv(numbers / 2, probability)))


def sum_tail(laws: Sequence[Mechanism], rounds: int, probability: float, size: int) -> float:
    """How far the sum of `rounds` noises of each of these laws goes, either way, in one of `size` numbers, failing with
    this probability.

    Formal guarantee: normal noise adds up to normal noise. Else Chernoff's bound at the best of some exponents, each of
    which holds: ln E exp(t Y) = -ln(1 - (t b)^2) of Laplace noise of scale b, and on whole numbers no more, because
    (cosh x - 1)/x^2 grows. Of a law that a program added, the union bound over its noises.

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
