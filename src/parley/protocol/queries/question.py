"""A kind of question, resolved for one owner: everything that the terms and public knowledge fix beforehand."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from parley.data import Design, Preparation, Summable
from parley.data.design import UNIT_ROUNDOFF, summation_slack
from parley.data.split import Places
from parley.errors import GuaranteeError, Malformed, OutsideBox, TermsError
from parley.losses import EmpiricalRisk, Limits, Objective, RecordBound
from parley.losses.local_update import LocalUpdate, local_update
from parley.privacy.accounting import Series, in_pieces, make_series, mechanism_norm
from parley.privacy.accounting.series import SERIES
from parley.privacy.mechanisms import Bounded, Extent, Mechanism, Noise, Norm
from parley.privacy.mechanisms.exact_samplers import Words
from parley.privacy.mechanisms.mechanism import require_bounded
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries.query import Query, check_parameter
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True)
class ReleasePlan:
    """`count` releases by one mechanism under one budget."""

    mechanism: str
    epsilon: Fraction
    delta: Fraction
    count: int
    copies: int = 1  # owners who may hold a record
    pieces: int = 1  # answers of one epoch over which a person's rows may be spread
    alpha: float | None = None  # of stable noise


@dataclass(frozen=True, eq=False)
class Context:
    """What every party computes alike: the terms, how columns become features, and what is minimised."""

    terms: Terms
    preparation: Preparation
    public: Design | None  # the terms' public sample, prepared
    objective: Objective

    @property
    def risk(self) -> EmpiricalRisk:
        """The objective as a mean of records' losses; else a `GuaranteeError`, as nothing bounds a gradient."""
        if not isinstance(self.objective, EmpiricalRisk):
            raise GuaranteeError(
                f"model.kind = {self.terms.model.kind!r}: this model is not trained by gradients of records, so Parley "
                "cannot bound an owner's answers; choose another model or algorithm"
            )
        return self.objective

    @cached_property
    def parameters(self) -> int:
        """P: how many numbers a model has."""
        return self.objective.parameters(self.preparation)

    @cached_property
    def limits(self) -> Limits:
        """What the terms allow one record and every parameter."""
        return Limits.from_terms(self.terms, self.preparation)

    @property
    def norm(self) -> Norm:
        """The norm in which the terms' mechanism needs values bounded."""
        return mechanism_norm(self.terms.privacy.mechanism)

    @cached_property
    def record_bound(self) -> RecordBound:
        """The bound on one record's gradient, or a `TermsError` if nothing limits it."""
        return limited(self.risk.record_bound(self.preparation, self.limits, self.norm))

    @cached_property
    def local_update(self) -> LocalUpdate:
        """The local updates of owners without own steps; a `TermsError` if nothing limits a record's effect."""
        return local_update(self.terms, self.risk, self.preparation, self.limits, self.norm)

    def local_update_of(self, owner: str) -> LocalUpdate:
        """Return one owner's local update, with its own number of steps where owners differ."""
        if not self.terms.uneven:
            return self.local_update
        return local_update(self.terms, self.risk, self.preparation, self.limits, self.norm, owner)


@dataclass(frozen=True, eq=False)
class Tables:
    """One owner's prepared rows: those to learn from, and those held out for scoring."""

    train: Summable
    held_out: Summable


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """The rules of one kind of query for one owner. An answer is a mean over `records` rows, `size` numbers.

    Formal guarantee: `bounded` returns values within `extent` whose L1 or L2 sensitivity (`norm`) is at most
    `sensitivity` for every table of the agreed size, as they are computed.
    """

    asks: ClassVar[type[Query]]

    parameters: int
    records: int
    size: int
    norm: Norm
    sensitivity: float
    extent: Extent
    bound: RecordBound | None  # on one record's share; None: a row counts for at most one
    # on the answer as a whole, where that hides its owner's whole table (`AnswerClip`)
    answer_clip: "AnswerClip | None" = field(default=None, kw_only=True)

    @property
    def disjoint(self) -> int:
        """M: the answers to rounds 1 to M, M + 1 to 2 M, ... are about disjoint rows; 1: every answer is about all."""
        return 1

    @property
    def together(self) -> int:
        """How many answers, from round 1 on, share noise calibrated for all of them; 1: each has its own."""
        return 1

    @property
    def reach(self) -> float:
        """How far replacing a record moves `together` answers jointly, in `norm`."""
        return self.sensitivity

    def fitted(self, numbers: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """Return as many of the numbers that another table's owner was asked at as this question takes."""
        return numbers

    @property
    def batched(self) -> bool:
        """Whether an answer is about only some of the rows."""
        return self.disjoint > 1 or self.rate < 1

    @property
    def rate(self) -> float:
        """The probability with which a row enters an answer by a secret draw; 1: no draw hides anybody."""
        return 1.0

    @property
    def draws(self) -> bool:
        """Whether `bounded` needs a secret seed."""
        return self.rate < 1

    @property
    def releases_by_parity(self) -> tuple[int, int]:
        """How many noisy values the answer to an even round is made of, and to an odd one; each is charged as a
        release."""
        return 1, 1

    @property
    def most_releases(self) -> int:
        """The most noisy values that one answer is made of."""
        return max(self.releases_by_parity)

    def releases(self, number: int) -> int:
        """Return how many noisy values the answer to round `number` is made of."""
        return self.releases_by_parity[number % 2]

    def noisy_extent(self, mechanism: Mechanism, probability: float) -> Extent:
        """Return where an answer with this noise lies, except with this probability."""
        return self.extent.noisy(mechanism, self.size, probability)

    def likely_extent(self, probability: float) -> Extent:
        """Return where exact answers lie except with this probability: in `extent`, or less if rows are drawn."""
        return self.extent

    @property
    def centred(self) -> bool:
        """Whether exact answers, all other records given, lie in a ball of half the sensitivity, as sums of clipped
        records do; else only their distances are bounded."""
        return False

    @property
    def own_noise(self) -> Mechanism | None:
        """The question's own noise, covering the whole training budget; None: the terms' mechanism does."""
        return None

    def shared_series(self, epsilon: Fraction, delta: Fraction) -> Series | None:
        """Return the releases of its answers with its own noise of hosts; None: the terms' laws fix that noise."""
        return None

    @property
    def shares_bits(self) -> bool:
        """Whether owners share words bit by bit with hosts, who compute on them; else words that hosts add up."""
        return False

    def shared_words(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], seed: bytes, noise: SharedNoise
    ) -> Words:
        """Return what an owner shares with hosts for a checked query: its bounded answer as a sum in whole grid
        units."""
        return noise.encode(self.bounded(query, tables, replicates, seed))

    @property
    def public_numbers(self) -> dict[str, float]:
        """The numbers that parties must resolve alike for this owner's answers to mean what the learner thinks."""
        return {} if self.bound is None else {"bound": self.bound.value}

    def series(self, plan: ReleasePlan) -> Series:
        """Return the releases of its answers, with noise that an owner draws itself."""
        if self.own_noise is not None:
            return SERIES[plan.mechanism](self.own_noise, plan.epsilon, plan.delta, plan.count)
        arguments = (plan.mechanism, plan.epsilon, plan.delta, plan.count, self.sensitivity, plan.copies)
        if plan.pieces == 1:
            return make_series(*arguments, self.rate, self.size, plan.alpha)
        return in_pieces(*arguments, self.size, plan.pieces, plan.alpha)

    @classmethod
    @abstractmethod
    def resolve(cls, context: Context, owner: str) -> Self:
        """Return the rules that terms and public knowledge fix for this owner; a `TermsError` if they limit nothing."""

    @abstractmethod
    def exact(self, query: Any, tables: Tables) -> Floats:
        """Return the answer [..., size] to a checked query, without noise."""

    def words(self) -> str:
        """Describe one answer for a person who is asked to accept: 'each ...'."""
        return f"a mean over {self.records:,} records as vectors of {self.size} numbers"

    def sent(self, query: Query, released: Floats) -> Floats:
        """Return what travels of a released answer [..., size]; usually all of it."""
        return released

    def sent_size(self, query: Query) -> int:
        """Return how many numbers travel."""
        return self.size

    def seen(self, sent: Floats) -> Floats:
        """Return the released numbers that travelled [..., size], 0 elsewhere; refuse (`Malformed`) impossible ones."""
        return sent

    def scaled_share(self, tables: Tables, theta: Floats) -> float:
        """Return the share of records that the bound scales down at [P]. Private: for studies and pilots."""
        bound = self.bound
        if bound is None or not bound.clips:
            return 0.0
        large = tables.train.sum(
            lambda block: np.array([np.count_nonzero(self.record_sizes(block, theta) > bound.value)])
        )
        return float(large[0] / len(tables.train))

    def record_sizes(self, design: Design, theta: Floats) -> Floats:
        """Return the norm of each record's share before bounding [n], at a parameter [P]. Private, too."""
        return np.ones(len(design))

    def require_sound_arithmetic(self) -> None:  # noqa: B027 - most questions are sound on every machine
        """Refuse (`GuaranteeError`) a machine whose arithmetic breaks the guarantee, before budget is reserved."""

    def check(self, query: Query, replicates: tuple[int, ...]) -> None:
        """Refuse a query of another kind or with an invalid parameter, before any record is touched."""
        if type(query) is not self.asks:
            raise Malformed(f"query: the terms set the kind {self.asks.kind!r} for this round, found {query.kind!r}")

    def bounded(self, query: Query, tables: Tables, replicates: tuple[int, ...] = (), seed: bytes = b"") -> Bounded:
        """Return the exact answer to a checked query with its sensitivity, repeated where replicates share the query.
        `seed` holds 32 secret bytes from which draws follow, if there are any."""
        value, shape = self.exact(query, tables), (*replicates, self.size)
        if self.answer_clip is not None:
            value = self.answer_clip.clipped(value)
        return Bounded(
            value if value.shape == shape else np.broadcast_to(value, shape).copy(), self.sensitivity, self.norm
        )

    def released(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], mechanism: Mechanism, noise: Noise
    ) -> Callable[[], Floats]:
        """Compute the exact answer to a checked query, and return what then draws its noise. A question whose answer is
        made of several `releases` draws all of them there."""
        bounded = self.bounded(query, tables, replicates, noise.seed() if self.draws else b"")
        if noise.safe:  # now rather than when the ledger is being written to; a study's mechanism does the same
            require_bounded(bounded, mechanism.norm, mechanism.sensitivity)
        return partial(mechanism.release, bounded, noise)

    def about(self, query: Query, tables: Tables, places: Places) -> Floats:
        """Return the exact answer [size] to a query of one parameter if these rows are drawn; a `GuaranteeError` where
        none are drawn in secret."""
        raise GuaranteeError(f"{self.asks.kind}: owners draw no rows in secret for this question")

    def log_density(self, tables: Tables, seen: Floats) -> float:
        """Return the log density of its exact answer at `seen` [size], up to a constant that no table changes; a
        `GuaranteeError` if no noise is inside the answer (`own_noise`)."""
        raise GuaranteeError(f"{self.asks.kind}: the exact answer to this question contains no noise")

    def simulated(
        self, query: Query, tables: Tables, replicates: tuple[int, ...], rng: np.random.Generator, quiet: bool = False
    ) -> Bounded:
        """Return an answer as owners may give it, from a pilot's rows; `quiet`: without noise inside of it."""
        return self.bounded(query, tables, replicates)


def check_in_box(theta: Any, shape: tuple[int, ...], radius: float | None) -> None:
    """Refuse an invalid parameter, or one outside the agreed box."""
    if not check_parameter(theta, shape) <= (float("inf") if radius is None else radius):
        raise OutsideBox(f"theta: expected every coordinate to be at most {radius:g} in absolute value, as agreed")


def rows_and_slack(context: Context, owner: str, width: int | None = None) -> tuple[int, float, float]:
    """Return (n, rounding, norm) of means over an owner's training rows: the public divisor of sums, then the largest
    rounding and the largest norm in units of a record's bound. With people held out, of N > n rows none, some or all
    count: the sum of N bounded shares over n has norm at most N/n and N/n times the rounding of a mean."""
    rows, places = context.terms.train_rows(owner), context.terms.train_places(owner)
    slack = summation_slack(places, context.preparation.width if width is None else width)
    return rows, slack * (places / rows), places / rows


def limited(bound: RecordBound | None) -> RecordBound:
    """Return the bound; refuse a missing one, and one that leaves nothing to learn."""
    if bound is None:
        raise TermsError(
            "privacy.clip: expected a number, or bounds for every feature and the target (from model.bounds or from a "
            "public sample). Without a clip and without bounds, the effect of one record is unlimited"
        )
    if not bound.value > 0:
        raise TermsError(
            "model.bounds: the bounds (declared or from a public sample) allow each feature only the value 0, so there "
            "is nothing to learn; widen the bounds"
        )
    return bound


@dataclass(frozen=True)
class AnswerClip:
    """Answers scaled down to norm at most `value`, in `norm`.

    Formal guarantee: whatever numbers [d] an answer has, the computed result has norm at most `value`, exactly, for
    every `value` that terms can name (1e-50 to 1e50). So the answers of any two tables, of the same public size or not,
    differ by at most 2 `value`: the sensitivity where consortia are neighbours if one owner's whole table is replaced.
    In the mean of all owners it counts by that owner's weight, n_l/n. Proof. With u = max |v_i| the shares v_i/u are at
    most 1, so no power overflows, and their norm s is at least 1. The computed s has a relative error of at most (d +
    8) 2^-53, in any order of its sum; underflow is below 2^-1000 of it. Answers with s > C'/u are scaled by C'/s, C'
    being C less a relative (d + 16) 2^-53. That exceeds the roundings of s, both divisions and the product, including
    results below 2^-1022, off by at most 2^-1075. An answer with a number that is not finite is 0.
    """

    value: float
    norm: Norm

    @property
    def sensitivity(self) -> float:
        """How far replacing all of an owner's rows moves its answer."""
        return 2 * self.value

    @property
    def extent(self) -> Extent:
        """Where answers lie."""
        return Extent(-self.value, self.value, self.value, self.norm)

    def clipped(self, values: Floats) -> Floats:
        """Scale down the answers [..., d]; one that is not finite becomes 0.

        >>> AnswerClip(5.0, "l2").clipped(np.array([[30.0, 40.0], [0.0, 1.0]])).round(9).tolist()
        [[3.0, 4.0], [0.0, 1.0]]
        """
        values = np.where(np.isfinite(values).all(axis=-1, keepdims=True), values, 0.0)
        largest = np.max(np.abs(values), axis=-1, keepdims=True, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)
        shares, most = values / unit, self.value * (1 - (values.shape[-1] + 16) * UNIT_ROUNDOFF)
        total = np.abs(shares).sum(axis=-1, keepdims=True) if self.norm == "l1" else _lengths(shares)
        with np.errstate(over="ignore"):  # an answer so small that the limit is beyond all numbers stays as it is
            large = total > most / unit
        return np.where(large, shares * (most / np.maximum(total, 1.0)), values)


def with_answer_clip(question: Question, clip: float) -> Question:
    """Return the question with answers clipped as a whole: its sensitivity is that of an owner's whole table."""
    answer_clip = AnswerClip(clip, question.norm)
    return replace(question, answer_clip=answer_clip, sensitivity=answer_clip.sensitivity, extent=answer_clip.extent)


def _lengths(shares: Floats) -> Floats:
    return np.asarray(np.sqrt(np.sum(shares**2, axis=-1, keepdims=True)))
