"""Asking owners how much they differ: one gradient of each at the public sample's best fit. If a model follows, one
file gives two agreements, whose budgets add up to it.

In the directions of the covariance G of record gradients, owner i's answer has variance v_ij = (k + 1/n_i) g_j + s_i^2:
the owner's own mean, n_i rows and noise. Owners that differ by k G have best parameters that scatter as estimates from
1/k rows do. Let a_ij = g_j/v_ij, the weights of the likelihood's derivative, and r_ij the distance to the weighted mean
of all owners. T(k) = sum a_ij r_ij^2/v_ij has a known mean and variance for normal and Laplace noise. The estimate is
the k at which T(k) equals its mean. The interval ends where T(k) reaches the ends of a scaled chi-square law with that
mean and variance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv

from parley.errors import DataError, TermsError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State
from parley.learning.deployed import Asked, DeployedRun, ask_here, prepare_run
from parley.learning.owners import accepting_owners, require_room
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.protocol.queries import Answer, GradientQuery
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.terms.catalogue import MECHANISMS
from parley.validate import Floats, below

DELTA_SHARE = Fraction(1, 10)  # of delta, for this question, where learning needs one too


def heterogeneity_agreement(terms: Terms) -> Terms:
    """Return the agreement about heterogeneity, the same for every party: one round of gradients at the public sample's
    best fit, each owner with its own noise by the terms' mechanism and clip. It costs each owner
    `privacy.difference_epsilon`, and a tenth of delta if the mechanism needs one."""
    privacy = terms.privacy
    if privacy.difference_epsilon is None:
        raise TermsError(
            "privacy.difference_epsilon: missing; set the part of each owner's epsilon to spend on the heterogeneity "
            "estimate, such as 0.1 of an epsilon of 1.0"
        )
    content: dict[str, Any] = {
        "title": f"Differences for: {terms.title}" if terms.title else "Differences",
        "model": terms.model.model_dump(exclude_none=True),
        "learning": {
            "algorithm": "gradient-descent",
            "horizon": 1,
            "start": "public",
            "learner": terms.learning.learner,
        },
        "privacy": {
            "mechanism": privacy.mechanism,
            "delta": float(_delta(terms)),
            "shared_records": privacy.shared_records,
            "records_per_person": privacy.records_per_person,
            **({} if privacy.clip is None else {"clip": privacy.clip}),
            **({} if privacy.person is None else {"person": privacy.person}),
        },
        "owners": [
            {
                "name": part.name,
                "records": part.records,
                "epsilon": privacy.difference_epsilon,
                **({"data": part.data} if part.data else {}),
            }
            for part in terms.owners
        ],
    }
    return Terms.from_dict(content, "differences")


def terms_after_heterogeneity(terms: Terms) -> Terms:
    """Return the terms to learn by, with budgets of at most exactly what is left."""
    spent = terms.difference_epsilon
    left = {part.name: {"epsilon": below(Fraction(str(part.epsilon)) - spent)} for part in terms.owners}
    rest = below(Fraction(str(terms.privacy.delta)) - _delta(terms))
    return terms.changed(privacy={"difference_epsilon": None, "delta": rest}, owners=left)


def _delta(terms: Terms) -> Fraction:
    if not MECHANISMS[terms.privacy.mechanism].approximate:
        return Fraction(0)
    return Fraction(str(below(Fraction(str(terms.privacy.delta)) * DELTA_SHARE)))


CONFIDENCE = 0.9
GRID_POINTS = 61  # values of k that are looked at first
VARIANCE_MULTIPLES = (1e-4, 1e5)  # of the variance of an own estimate, beside 0
LAPLACE_KURTOSIS = 3.0  # excess kurtosis of Laplace noise
MAX_PARAMETERS = 2000  # parameters whose covariance is written out


@dataclass(frozen=True)
class BetweenOwners:
    """Between-owner variance over that of an own estimate from `rows` rows, the median owner's."""

    mean: float
    low: float
    high: float
    rows: float

    def sentence(self) -> str:
        """Say how much owners differ."""
        if self.low <= 0 and self.high > 2:
            size = "by an unknown amount (this epsilon is too small to show the amount)"
        else:
            size = (
                "hardly"
                if self.high < 0.25
                else "a little"
                if self.mean < 1
                else "clearly"
                if self.mean < 8
                else "much"
            )
        unit = (
            f"the variance of an owner's own estimate from {self.rows:,.0f} rows ({CONFIDENCE:.0%}: {self.low:.3g} to "
            f"{self.high:.3g})"
        )
        return f"Owners differ {size}: the variance between owners is {self.mean:.3g} times {unit}."

    def to_json(self) -> dict[str, Any]:
        return {"mean": self.mean, "low": self.low, "high": self.high, "rows": self.rows}


@dataclass(frozen=True, eq=False)
class OwnersAnswers:
    """Mean gradients [N, P] of `records` rows [N] with noise variances [N]; G [P, P]; `peaked`: Laplace noise."""

    answers: Floats
    records: Floats
    noise: Floats
    covariance: Floats
    peaked: bool

    def between(self) -> BetweenOwners:
        """Return the estimate with its interval; G must not be zero."""
        unit = float(np.abs(self.covariance).max())
        scaled = replace(
            self, answers=self.answers / np.sqrt(unit), noise=self.noise / unit, covariance=self.covariance / unit
        )  # nor do extreme units
        return scaled._between()

    def _between(self) -> BetweenOwners:
        rows = float(np.median(self.records))
        grid = np.append(0.0, np.geomspace(*VARIANCE_MULTIPLES, GRID_POINTS)) / rows
        known = np.array([self._statistic(k) for k in grid]).T
        tail = (1 - CONFIDENCE) / 2
        low, best, high = (rows * self._falls_to(share, grid, known) for share in (1 - tail, None, tail))
        return BetweenOwners(best, min(low, best), max(high, best), rows)

    def _falls_to(self, share: float | None, grid: Floats, known: Floats) -> float:
        """Return the first k at which T falls to its mean, or to this quantile of its law; 0 if it starts there."""

        def above(total: Floats, mean: Floats, spread: Floats) -> Floats:
            return np.asarray(total - (mean if share is None else spread / mean * gammaincinv(mean**2 / spread, share)))

        down = np.flatnonzero(above(*known) <= 0)
        if not down.size or down[0] == 0:
            return 0.0 if down.size else float(grid[-1])
        low, high = grid[down[0] - 1], grid[down[0]]
        return float(brentq(lambda k: float(above(*np.array(self._statistic(k)))), low, high, xtol=1e-9 * high))

    @cached_property
    def _axes(self) -> tuple[Floats, Floats, Floats]:
        """(g [P], the directions as columns [P, P], the answers along them [N, P])."""
        g, axes = np.linalg.eigh(self.covariance)
        return np.maximum(g, 0.0), axes, (self.answers - self.answers.mean(axis=0)) @ axes

    def _statistic(self, k: float) -> tuple[float, float, float]:
        """Return (T, its mean, its variance) if owners differ by k."""
        g, axes, z = self._axes
        v = (k + 1 / self.records[:, None]) * g + self.noise[:, None]
        common = 1 / np.sum(1 / v, axis=0)  # the variance of the mean of all
        b = g / v**2
        b = b / b.max()  # T in other units: no square of it vanishes
        total = np.sum(b * (z - common * np.sum(z / v, axis=0)) ** 2)
        left = v - common
        chance = np.sum(b**2 * left**2) + np.sum(common**2 * (np.sum(b, axis=0) ** 2 - np.sum(b**2, axis=0)))
        tails = (
            LAPLACE_KURTOSIS * np.sum(self.noise**2 * np.sum(((b * (left / v) ** 2) @ axes.T**2) ** 2, axis=1))
            if self.peaked
            else 0.0
        )
        return float(total), float(np.sum(b * left)), float(2 * chance + tails)


@dataclass(frozen=True)
class OwnAnswers(Algorithm):
    """One round without a step; the state keeps every owner's own answer."""

    names: tuple[str, ...]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        return cls(setup.objective, 1, setup.limits.radius, setup.schedule.names)

    def start(self, origin: Floats, replicates: tuple[int, ...] = ()) -> State:
        theta = np.broadcast_to(origin, (*replicates, origin.shape[-1]))
        count = len(self.names)
        return State(
            1, theta, {"own": np.zeros((*replicates, count, origin.shape[-1])), "heard": np.zeros((*replicates, count))}
        )

    def query(self, state: State, asker: Asker) -> GradientQuery:
        return GradientQuery.ask(asker.terms_hash, asker.learner, state.round, state.theta)

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        own, heard = state.memory["own"].copy(), state.memory["heard"].copy()
        for answer in answers:
            place = self.names.index(answer.owner)
            own[..., place, :], heard[..., place] = answer.value, 1.0
        return replace(state, round=state.round + 1, memory={"own": own, "heard": heard})


@dataclass(frozen=True, eq=False)
class HeterogeneityResult:
    """The estimated heterogeneity, the terms that follow, and the cost."""

    asked: Terms
    between: BetweenOwners
    clipped: float  # share of the public rows whose gradients the clip scales down
    ready: Terms
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley heterogeneity --json` prints and --save keeps."""
        return {
            "title": self.asked.title,
            "differences": self.between.to_json(),
            "words": self.between.sentence(),
            "clipped": self.clipped,
            "epsilon": self.asked.owners[0].epsilon,
            "delta": self.asked.privacy.delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "spent": dict(self.spent),
            "left": {owner.name: owner.epsilon for owner in self.ready.owners},
            "left_delta": self.ready.privacy.delta,
            "released": self.released,
            "terms_hash": self.asked.hash,
            "ready_hash": self.ready.hash,
            "seconds": self.seconds,
        }


def accepting_heterogeneity(
    terms: Terms,
    folder: Path,
    lifetime: float | None,
    lifetime_delta: float | None,
    first: Callable[[], None] = lambda: None,
    other_books: str | None = None,
) -> list[Owner]:
    """Return the owners whose ledgers accepted the agreement; new ledgers have room for all of `terms`."""
    require_room(terms, folder, lifetime, lifetime_delta, "this answer")
    return accepting_owners(heterogeneity_agreement(terms), folder, lifetime, lifetime_delta, first, other_books)


def ask_heterogeneity(
    terms: Terms, owners: Sequence[Owner], seed: int | None = None, progress: Progress = lambda done, total: None
) -> HeterogeneityResult:
    """Ask owners on this machine how much they differ. Owners with durable ledgers release: each must have accepted
    `heterogeneity_agreement(terms)`. Owners without take part in a study."""
    agreed_terms = heterogeneity_agreement(terms)

    def begin(setup: Setup) -> tuple[Algorithm, Floats]:
        return OwnAnswers.make(setup), public_scatter(setup).theta

    return heterogeneity_result(terms, ask_here(agreed_terms, owners, begin, 1, seed, progress))


def prepare_heterogeneity(asked: Terms, checkpoint: Path) -> DeployedRun:
    """Prepare a learner's run with owners elsewhere under `heterogeneity_agreement(terms)`."""
    deployed = prepare_run(asked, checkpoint)
    public_scatter(deployed.setup)  # what cannot be told is refused before anybody is asked
    return replace(deployed, algorithm=OwnAnswers.make(deployed.setup))


def heterogeneity_result(terms: Terms, asked: Asked) -> HeterogeneityResult:
    """Return the result of one round under `heterogeneity_agreement(terms)`."""
    setup, final, known = asked.setup, asked.final, public_scatter(asked.setup)
    answered_places = np.flatnonzero(_single_run(final.memory["heard"], 1))
    if len(answered_places) < 2:
        raise DataError("heterogeneity: fewer than two owners answered; expected answers from at least two owners")
    parts = [setup.part(setup.schedule.names[place]).training for place in answered_places]
    owners_answers = OwnersAnswers(
        answers=_single_run(final.memory["own"], 2)[answered_places],
        records=np.array([float(part.question.records) for part in parts]),
        noise=np.array([part.series.mechanism.variance for part in parts]),
        covariance=known.covariance,
        peaked=not MECHANISMS[setup.terms.privacy.mechanism].approximate,
    )
    ready = terms_after_heterogeneity(terms)
    return HeterogeneityResult(
        setup.terms, owners_answers.between(), known.clipped, ready, asked.spent, asked.released, asked.seconds
    )


def _single_run(array: Floats, axes: int) -> Floats:
    """Return the one run of a study, or the release."""
    return array.reshape(array.shape[array.ndim - axes :])


@dataclass(frozen=True, eq=False)
class PublicScatter:
    """The public best fit [P], its rows' clipped gradient covariance [P, P], and the share of rows clipped."""

    theta: Floats
    covariance: Floats
    clipped: float


def public_scatter(setup: Setup) -> PublicScatter:
    """Return the public scatter that answers are judged by; a `DataError` without one."""
    if setup.public is None:
        raise DataError("heterogeneity: needs a public sample, whose rows show how much the rows of one owner vary")
    if setup.parameters > MAX_PARAMETERS:
        raise DataError(
            f"heterogeneity: the model has {setup.parameters:,} parameters; expected at most {MAX_PARAMETERS:,}"
        )
    theta, bound = starting_point(setup), next(iter(setup.parts.values())).training.question.bound
    gradients, clipped = setup.risk.record_gradients(setup.public, theta), 0.0
    if bound is not None and bound.clips:
        sizes = setup.risk.record_norms(setup.public, theta, bound.norm)
        gradients = gradients * np.minimum(1.0, bound.value / np.maximum(sizes, 1e-300))[:, None]
        clipped = float(np.mean(sizes > bound.value))
    covariance = np.atleast_2d(np.cov(gradients.T))
    if not np.abs(covariance).max() > 0:
        raise DataError("heterogeneity: the gradients of all public rows are equal; use a larger public sample")
    return PublicScatter(theta, covariance, clipped)
