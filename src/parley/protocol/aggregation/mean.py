"""The plain mean, weighted by the owners' public sizes (W eq. 4), and the noise it carries for any coalition."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.privacy.accounting import Series
from parley.privacy.mechanisms import Bounded, FastNoise, Gaussian, Laplace, Mechanism
from parley.protocol.queries import Answer, Question, ReleasePlan
from parley.protocol.stages import Resolver, Stage, StagePlan, all_releases, make_stage
from parley.terms import Terms
from parley.validate import Floats

Members = NDArray[np.bool_]  # which owners a coalition has [N]; many coalitions [..., N]


class NoiseOfCoalitions(ABC):
    """The noise of coalitions' combined answers, of any kind."""

    records: Floats  # n_l [N]

    @abstractmethod
    def variance(self, members: Members) -> Floats:
        """Return the variance v_S of the combined answer of each coalition [..., N]."""

    @property
    def all_together(self) -> float:
        """The variance of the combined answer of all owners."""
        return float(self.variance(np.ones(len(self.records), dtype=bool)))

    def size(self, members: Members) -> Floats:
        """Return the number of records n_S of each coalition [..., N]."""
        return np.asarray(members @ self.records)


@dataclass(frozen=True, eq=False)
class EachOwnerNoise(NoiseOfCoalitions):
    """The noise of a weighted mean where each owner draws its own: v_S = sum_{l in S} (n_l/n_S)^2 var_l. Variances are
    per coordinate; an empty coalition has variance 0."""

    records: Floats
    variances: Floats  # var_l of each owner's answers [..., N]

    def variance(self, members: Members) -> Floats:
        """Return v_S of coalitions [..., N].

        >>> noise = EachOwnerNoise(np.array([1.0, 3.0]), np.array([16.0, 4.0]))
        >>> noise.variance(np.array([[False, False], [True, False], [False, True], [True, True]])).tolist()
        [0.0, 16.0, 4.0, 3.25]
        """
        weight = members * self.records / or_one(self.size(members))[..., None]
        return np.asarray(np.vecdot(weight**2, self.variances))

    def shares(self, size: Floats) -> Floats:
        """Return what each owner's noise adds to v in a coalition of `size` records [..., N]: (n_l/n_S)^2
        var_l."""
        return np.asarray((self.records / size) ** 2 * self.variances)

    def prefixes(self, order: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return (n, v) of the first 1, 2, ..., N owners of orders [..., N], each [..., N], in O(N)."""
        size = np.cumsum(self.records[order], axis=-1)
        return size, np.cumsum((self.records**2 * self.variances)[order], axis=-1) / size**2

    def quietest_first(self) -> NDArray[np.int64]:
        """Order the owners by n_l var_l: **the coalition of least cost is a prefix of this order** for any cost c/n + K
        v, c and K >= 0. Proof. A cost is at most f where sum n^2 var <= (f n^2 - c n)/K, a strictly convex parabola in
        n. At the least f it touches the points (sum n, sum n^2 var) of all coalitions from below, so at a corner of
        their lower convex hull. The hull's slopes are the n_l var_l in ascending order, so its corners are the
        prefixes. With K = 0 everybody together costs least, a prefix, too."""
        return np.argsort(self.records * self.variances, kind="stable")

    def without_each(self, members: Members) -> tuple[Floats, Floats]:
        """Return (n, v) of S without l for every owner l, each [..., N], in O(N), with no difference of large
        sums."""
        size = sums_of_others(members * self.records)
        return size, sums_of_others(members * self.records**2 * self.variances) / or_one(size) ** 2

    def with_each(self, members: Members, own: Floats) -> tuple[Floats, Floats]:
        """Return (n, v) of S with l for every owner l, whose own answers then have variance own_l [..., N]."""
        others, variance = self.without_each(members)
        size = others + self.records
        return size, variance * (others / size) ** 2 + own * (self.records / size) ** 2


class EachOwner:
    """Every owner adds its own noise, and the answers, which anybody may see, are averaged."""

    @property
    def averages(self) -> bool:
        """Whether answers are averaged, so that the mean of some owners' can stand for theirs."""
        return True

    def combine(self, answers: Sequence[Answer]) -> Floats:
        """Combine a round's answers."""
        return weighted_mean(answers)

    def pooled(self, answers: Sequence[Answer]) -> Floats:
        """Return the mean of scores over all owners' records."""
        return weighted_mean(answers)

    def stages(self, setup: Resolver, name: str) -> Iterator[Stage]:
        """Yield an owner's stages, each with the owner's own noise."""
        for plan in setup.plans(name):
            question = setup.question(plan, name)
            yield make_stage(question, plan.rounds, own_series(setup.terms, plan, question))

    def noise(self, setup: Resolver, names: Collection[str] | None = None, stage: int = 0) -> EachOwnerNoise:
        """Return the noise of these owners' combined answer in a stage (0: training, 1: score); default: all
        owners."""
        stages = [setup.part(name).stages[stage] for name in (setup.schedule.names if names is None else names)]
        records = np.array([float(each.question.records) for each in stages])
        return EachOwnerNoise(records, np.array([each.series.mechanism.variance for each in stages]))


def own_series(terms: Terms, plan: StagePlan, question: Question) -> Series:
    """Return the releases of a stage with the noise that an owner draws itself."""
    count = 1 if plan.kind == "score" else all_releases(terms.learning, question, plan.rounds)
    copies = terms.privacy.shared_records
    return question.series(
        ReleasePlan(plan.mechanism, plan.epsilon, plan.delta, count, copies, pieces(terms, question), plan.alpha)
    )


def pieces(terms: Terms, question: Question) -> int:
    """Return over how many answers of one epoch, or that share one noise, a person's rows may be spread."""
    return min(terms.privacy.records_per_person, max(question.disjoint, question.together))


def weighted_mean(answers: Sequence[Answer]) -> Floats:
    """Return sum_l (n_l/n) answer_l.

    >>> a, b = Answer("q", "a", 1, np.array([4.0])), Answer("q", "b", 3, np.array([0.0]))
    >>> weighted_mean([a, b])
    array([1.])
    """
    if any(answer.heard is not None for answer in answers):
        return _mean_of_heard(answers)
    total = sum(answer.records for answer in answers)
    combined = np.zeros_like(answers[0].value)
    for answer in answers:
        combined += (answer.records / total) * answer.value
    return combined


def _mean_of_heard(answers: Sequence[Answer]) -> Floats:
    """Return the mean over the answers that arrived in each run of a study."""
    records = [answer.records * np.asarray(True if answer.heard is None else answer.heard) for answer in answers]
    total = np.asarray(sum(records))
    parts = (np.asarray(size / total)[..., None] * answer.value for size, answer in zip(records, answers, strict=True))
    return np.asarray(sum(parts))


def or_one(size: Floats) -> Floats:
    """Return a size to divide by: 1 where it is 0, as an empty coalition's sums are 0 anyway."""
    return np.where(size > 0, size, 1.0)


def sums_of_others(x: Floats) -> Floats:
    """Return, for each entry, the sum of all other entries along the last axis."""
    nothing = np.zeros((*x.shape[:-1], 1))
    before = np.cumsum(np.concatenate([nothing, x[..., :-1]], axis=-1), axis=-1)
    after = np.cumsum(np.concatenate([nothing, x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return np.asarray(before + after)


SCALABLE_LAWS = (Laplace, Gaussian)  # laws of which noise of scale s is s times noise of scale 1


@dataclass(frozen=True, eq=False)
class NoiseGroup:
    """Owners whose noise has one law up to its scale. Their mean carries sum_l (n_l/n_S) Y_l, Y_l of each owner's own
    scale, which is sum_l weight_l Y'_l with all Y'_l distributed like the first owner's noise."""

    names: tuple[str, ...]
    records: int  # n_S
    shares: Floats  # n_l/n_S
    weights: Floats
    mechanism: Mechanism  # the first owner's

    def release(self, value: Floats, noise: FastNoise) -> Floats:
        """Return the noisy mean of answers whose exact mean is `value`; `noise` is combined by `weights`."""
        law = self.mechanism
        return law.release(Bounded(value, law.sensitivity, law.norm), noise)


def noise_groups(stages: Mapping[str, Stage]) -> list[NoiseGroup]:
    """Return these owners in as few groups as possible: one law up to its scale (`SCALABLE_LAWS`), else the same
    law."""
    names_by_law: dict[object, list[str]] = {}
    for name, stage in stages.items():
        law = stage.series.mechanism
        names_by_law.setdefault(type(law) if isinstance(law, SCALABLE_LAWS) else law, []).append(name)
    return [_noise_group(names, [stages[name] for name in names]) for names in names_by_law.values()]


def _noise_group(names: list[str], stages: list[Stage]) -> NoiseGroup:
    records = np.array([stage.question.records for stage in stages])
    scales = np.array([stage.series.mechanism.noise_scale for stage in stages])
    shares = records / records.sum()
    return NoiseGroup(
        tuple(names), int(records.sum()), shares, shares * (scales / scales[0]), stages[0].series.mechanism
    )
