"""The exact law of one answer, over every secret draw of the rows that matter and the noise that is added.

For noise of L1 kind, P(z) is proportional to the sum over draws B of P(B) exp(-|z - f(B)|_1/scale), with one constant
for both tables. So |ln| of the ratio of two such sums at any z is a lower bound on the answer's epsilon, and its
maximum is that epsilon for this pair of tables. No confidence is needed, and holes that random draws never meet are
seen.

A share is how much of an answer's claimed cost two tables use; above 1 breaks the claim. With noise on top, it is their
distance over `sensitivity` (for Laplace noise the share of epsilon itself). With secret draws, drawing a row or not may
move an answer by half the sensitivity, and tables that differ only in undrawn rows must agree to the bit. With noise
inside, it is |ln| of the ratio of densities over epsilon.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from parley.audit.canary import CanarySearch, PresentRows
from parley.data.split import Places
from parley.errors import TermsError
from parley.privacy.events import GaussianEvent
from parley.privacy.mechanisms import Bounded, GridGeometric, Laplace, Mechanism, Norm
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.privacy.mechanisms.geometric import WholeGeometric
from parley.privacy.mechanisms.name_counts import NamedCounts
from parley.privacy.mechanisms.shared_noise import WORD_BITS, SharedNoise
from parley.privacy.sharing.matching.dummies import CountLaw
from parley.protocol.queries import Query, Question, Tables
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats, upper

MAX_GRID_POINTS = 2**16  # points of the noise's grid at which laws are compared
UNBOUNDED_RADIUS = 1e6  # where no box holds parameters
MAX_DRAWN_ROWS = 10  # that may be drawn: all of their subsets are
LOSS_STEP = 1e-9  # to multiples of which log-ratios of counts are rounded down


@dataclass(frozen=True, eq=False)
class AnswerLaw:
    """The answers by draw [draws, d], their probabilities, and the scale of noise on a grid of `unit` (0: none)."""

    values: Floats
    chances: Floats
    scale: float
    unit: float = 0.0

    def log(self, seen: Floats) -> Floats:
        """Return ln P of answers [m, d], up to a constant that no table changes."""
        scaled_distances = np.abs(seen[:, None, :] - self.values[None]).sum(axis=2) / self.scale
        return np.asarray(logsumexp(np.log(self.chances) - scaled_distances, axis=1))


def largest_log_ratio(a: AnswerLaw, b: AnswerLaw) -> float:
    """Return the largest |ln P_a(z)/P_b(z)| over the whole grid if an answer is one number on a grid that is not too
    fine, else where exponents bend and beyond. With one draw each it is exact in any dimension.

    >>> one, two = (AnswerLaw(np.array([[value]]), np.ones(1), 2.0) for value in (0.0, 3.0))
    >>> largest_log_ratio(one, two)
    1.5
    """
    seen = _comparison_points(np.concatenate([a.values, b.values]), max(a.unit, b.unit))
    return float(np.abs(a.log(seen) - b.log(seen)).max())


def _comparison_points(values: Floats, unit: float) -> Floats:
    """Return the answers [m, d] at which to compare."""
    low, high = values.min(axis=0), values.max(axis=0)
    width = (high - low).max()
    if values.shape[1] == 1 and unit and width / unit < MAX_GRID_POINTS:
        return np.asarray(low + unit * np.arange(-1, round(width / unit) + 2))[:, None]
    bends = [np.unique(np.concatenate([column, [column.min() - width, column.max() + width]])) for column in values.T]
    if math.prod(len(each) for each in bends) <= MAX_GRID_POINTS:
        return np.array(list(product(*bends)))
    return np.concatenate([values, [low - width, high + width]])


def answer_law(question: Question, query: Query, tables: Tables, mechanism: Mechanism) -> AnswerLaw:
    """Return the law of the answer to a query: for secret draws, over all draws of the training rows with a target."""
    rows = tables.train
    if not question.draws:
        return _with_noise(question.bounded(query, tables).value[None], np.ones(1), mechanism)
    if not isinstance(rows, PresentRows) or len(rows.rows) > MAX_DRAWN_ROWS:
        raise TermsError(
            f"rows: expected at most {MAX_DRAWN_ROWS} rows with a target, because the audit tries every possible draw "
            "of rows"
        )
    values, chances = [], []
    for kept in subsets(len(rows.rows)):
        values.append(question.about(query, tables, rows.places[kept]))
        chances.append(float(question.rate ** kept.sum() * (1 - question.rate) ** (~kept).sum()))
    return _with_noise(np.array(values), np.array(chances), mechanism)


def _with_noise(values: Floats, chances: Floats, mechanism: Mechanism) -> AnswerLaw:
    if isinstance(mechanism, GridGeometric | WholeGeometric):
        unit, steps = mechanism.grid(values.shape[1])
        return AnswerLaw(np.rint(values / unit) * unit, chances, steps * unit, unit)
    if isinstance(mechanism, Laplace):
        return AnswerLaw(values, chances, mechanism.scale)
    raise TermsError("mechanism: expected laplace or geometric noise; the audit cannot compare other noise exactly")


def subsets(rows: int) -> Iterator[NDArray[np.bool_]]:
    """Yield every draw of `rows` rows, as a mask."""
    for bits in range(2**rows):
        yield (bits >> np.arange(rows) & 1).astype(bool)


@dataclass(frozen=True)
class ExactVerdict:
    """What one answer of this kind is claimed to cost, and what it costs for the pair of tables found."""

    kind: str
    claimed_epsilon: float
    epsilon: float

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claim, up to rounding of logarithms."""
        return self.epsilon <= self.claimed_epsilon * (1 + 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return an object under `exact` in `parley audit --json`."""
        return {**vars(self), "holds": self.holds}


def exact_verdicts(setup: Setup, name: str) -> list[ExactVerdict]:
    """Return the exact cost of each stage's first answer, at the start or corner where it costs most, for the canaries
    found there. Only Laplace or geometric noise in tasks that predict a column by a loss is covered."""
    found = []
    for place, stage in enumerate(setup.part(name).stages):
        if setup.terms.task == PREDICTION and isinstance(stage.series.mechanism, Laplace | GridGeometric):
            searches = (CanarySearch(setup, name, place, at) for at in (None, *corners(setup)))
            costs = [cost for search in searches for cost in _costs(search, stage)]
            found.append(ExactVerdict(stage.question.asks.kind, upper(stage.series.spent_after(1)), max(costs)))
    return found


def size_verdicts(stages: Iterable[Stage]) -> Iterator[ExactVerdict]:
    """Yield what all answers of a stage cost by their noise's size over the sensitivity, where a closed form exists:
    not if rows are drawn or hosts draw the noise."""
    for stage in stages:
        series = stage.series
        if series.rate < 1 or isinstance(series.mechanism, SharedNoise):
            continue
        event, copies = series.event.times(1 if series.joint else series.count), series.shared_records
        if isinstance(event, GaussianEvent):
            epsilon = copies * gaussian_epsilon(event.multiplier / event.count**0.5, float(series.delta / copies))
        else:
            epsilon = copies * event.count / event.multiplier
        yield ExactVerdict(f"{stage.question.asks.kind}: size of the noise", upper(series.epsilon), epsilon)


def _costs(search: CanarySearch, stage: Stage) -> Iterator[float]:
    """Yield exact costs of answers, for public batches of every batch in the first epoch: the canary is in one."""
    a, b = search.tables()
    for number in stage.rounds[: stage.question.disjoint]:
        query = search.query(number)
        law_a, law_b = (answer_law(stage.question, query, tables, stage.series.mechanism) for tables in (a, b))
        yield largest_log_ratio(law_a, law_b)


def corners(setup: Setup) -> Iterator[Floats]:
    """Yield parameters [P] at the largest size allowed: all signs alike, and alternating."""
    radius = UNBOUNDED_RADIUS if setup.limits.radius is None else setup.limits.radius
    ones = np.ones(setup.parameters)
    for signs in (ones, -ones, np.where(np.arange(setup.parameters) % 2, 1.0, -1.0)):
        yield radius * signs


Draws = tuple[Sequence[Places], Sequence[tuple[int, int]]]  # draws, and which of them differ in one row: (less, more)
MAX_ENUMERATED_ROWS = 5  # of which all draws are looked at


def answered_share(question: Question, queries: Sequence[Query], a: Tables, b: Tables) -> float:
    """Return the share that answers with noise on top use; several are about disjoint rows or share one noise."""
    moved = [_distance(question, question.bounded(q, a), question.bounded(q, b)) for q in queries]
    return math.hypot(*moved) / question.reach if question.together > 1 else sum(moved) / question.sensitivity


def drawn_share(question: Question, query: Query, a: Tables, b: Tables, canary: Sequence[int]) -> float:
    """Return the share that answers about secretly drawn rows use, over all draws; `canary`: places of its rows."""
    draws, pairs = every_draw(len(a.train))
    at_a, at_b = (drawn_answers(question, query, tables, draws) for tables in (a, b))
    in_it = np.array([bool(set(places.tolist()) & set(canary)) for places in draws])
    if not np.array_equal(at_a[~in_it], at_b[~in_it]):
        return math.inf  # who is not drawn is seen
    replaced = sizes(at_a - at_b, question.norm).max() / question.sensitivity
    return max(float(replaced), *(largest_step(question, at, pairs, len(canary)) for at in (at_a, at_b)))


def density_share(question: Question, seen: Floats, a: Tables, b: Tables, epsilon: float) -> float:
    """Return the share that an answer with noise inside uses if it comes out as `seen` [size]."""
    return abs(question.log_density(a, seen) - question.log_density(b, seen)) / epsilon


def every_draw(rows: int) -> Draws:
    """Return all draws of `rows` rows, and each two that differ in one row.

    >>> every_draw(2)[1]
    [(0, 1), (0, 2), (1, 3), (2, 3)]
    """
    draws = [np.flatnonzero(kept) for kept in subsets(rows)]
    return draws, [(b, b | 1 << i) for b in range(1 << rows) for i in range(rows) if not b >> i & 1]


def drawn_answers(question: Question, query: Query, tables: Tables, draws: Sequence[Places]) -> Floats:
    """Return the exact answers in each of these draws [draws, size]."""
    return np.array([question.about(query, tables, places) for places in draws])


def largest_step(question: Question, answers: Floats, pairs: Sequence[tuple[int, int]], rows: int = 1) -> float:
    """Return how far drawing one of a person's `rows` or not moves an answer at most, over half of the sensitivity.

    Formal guarantee that is tested: at most 1 (`queries.gradient`).
    """
    moved = sizes(np.array([answers[more] - answers[less] for less, more in pairs]), question.norm)
    return float(moved.max() / (question.sensitivity / (2 * rows)))


def sizes(vectors: Floats, norm: Norm) -> Floats:
    """Return the norms of vectors [n, d]; no square vanishes or overflows."""
    if norm == "l1":
        return np.asarray(np.abs(vectors).sum(axis=1))
    unit = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    unit[~(unit > 0)] = 1.0
    return np.asarray(unit[:, 0] * np.sqrt(np.square(vectors / unit).sum(axis=1)))


def _distance(question: Question, a: Bounded, b: Bounded) -> float:
    """Return the distance between two exact answers, counts of names included: a row also counts by its name."""
    moved = [a.value.ravel() - b.value.ravel()]
    if isinstance(a, NamedCounts) and isinstance(b, NamedCounts):
        for one, other in ((one or {}, other or {}) for one, other in zip(a.named, b.named, strict=True)):
            counts = [one.get(name, 0) - other.get(name, 0) for name in {*one, *other}]
            moved.append(np.array(counts) / question.records)
    return float(sizes(np.concatenate(moved)[None], question.norm)[0])


def count_epsilon(law: CountLaw, moves: Sequence[int], delta: float) -> float:
    """Return the epsilon at `delta` of counts of which each moves by its number in `moves` and has dummies of its own.

    The law of the log-ratio is added up over all values; log-ratios are rounded down to multiples of `LOSS_STEP`. So
    the result is at most the true epsilon, and infinite only if more than delta of the values rule one of the two out.
    """
    both = [_log_ratios(law, [sign * move for move in moves]) for sign in (1, -1)]

    def excess(epsilon: float) -> float:
        return max(
            sum(chance * -math.expm1(min(0.0, epsilon - steps * LOSS_STEP)) for steps, chance in each.items())
            for each in both
        )

    low, high = 0.0, LOSS_STEP * max(steps for each in both for steps in each if steps < math.inf)
    if not excess(low) > delta:
        return 0.0
    if excess(high) > delta:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    return low


def _log_ratios(law: CountLaw, moves: Sequence[int]) -> dict[float, float]:
    """Return the probabilities of ln(P/Q) under P, in steps: P without the moves, Q with them."""
    chances, total = law.chances, {0.0: 1.0}
    for move in moves:
        added, both = defaultdict[float, float](float), defaultdict[float, float](float)
        for k, chance in enumerate(chances):
            other = chances[k - move] if 0 <= k - move < len(chances) else 0
            if chance:
                ratio = (math.log(chance) - math.log(other)) / LOSS_STEP if other else math.inf
                added[float(np.floor(ratio))] += chance / 2**WORD_BITS
        for (one, likely), (another, also) in product(total.items(), added.items()):
            both[one + another] += likely * also
        total = both
    return total
