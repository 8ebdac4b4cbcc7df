"""The law of one answer, exactly: every secret draw of the rows that matter, with the noise that is added. No
confidence is needed, and holes that random draws never meet are seen.

For noise of L1 kind, P(z) is in proportion to sum over draws B of P(B) exp(-|z - f(B)|_1/scale), and two tables'
answers have the same proportion. So the logarithm of the ratio of two such sums, at any z, is a lower bound on the
answer's epsilon, and its largest is that epsilon for this pair of tables.

How much of what one answer may cost two neighbouring tables use: 1 is all that is claimed, more breaks the claim.

- Noise on top of an exact answer: the ratio of the two laws grows with how far the exact answers lie apart, and the
  claim is for `sensitivity`. Of Laplace noise the share is that of epsilon itself.
- Rows drawn in secret: besides, a row moves an answer by at most half of the sensitivity when it is drawn or not, and
  by nothing, to the bit, when it is not drawn in either table.
- Noise inside of the answer: the logarithm of the ratio of the two densities, over epsilon.
"""

import math
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
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries import Query, Question, Tables
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats, upper

MAX_GRID_POINTS = 2**16  # points of the noise's grid at which laws are compared
UNBOUNDED_RADIUS = 1e6  # where no box holds parameters
MAX_DRAWN_ROWS = 10  # that may be drawn: all of their subsets are


@dataclass(frozen=True, eq=False)
class AnswerLaw:
    """What is answered in each draw [draws, d], with which probability [draws], and the scale of the noise on it, which
    lies on multiples of `unit` (0: on all numbers)."""

    values: Floats
    chances: Floats
    scale: float
    unit: float = 0.0

    def log(self, seen: Floats) -> Floats:
        """ln P of answers [m, d], up to a constant that no table changes."""
        far = np.abs(seen[:, None, :] - self.values[None]).sum(axis=2) / self.scale
        return np.asarray(logsumexp(np.log(self.chances) - far, axis=1))


def largest_log_ratio(a: AnswerLaw, b: AnswerLaw) -> float:
    """The largest |ln P_a(z)/P_b(z)| over the points that are looked at: all of the grid, where an answer is one
    number on a grid that is not too fine; else where exponents bend, and beyond. One draw each: exact in any
    dimension.

    >>> one, two = (AnswerLaw(np.array([[value]]), np.ones(1), 2.0) for value in (0.0, 3.0))
    >>> largest_log_ratio(one, two)
    1.5
    """
    seen = _points(np.concatenate([a.values, b.values]), max(a.unit, b.unit))
    return float(np.abs(a.log(seen) - b.log(seen)).max())


def _points(values: Floats, unit: float) -> Floats:
    """Where to compare: answers [m, d]."""
    low, high = values.min(axis=0), values.max(axis=0)
    width = (high - low).max()
    if values.shape[1] == 1 and unit and width / unit < MAX_GRID_POINTS:
        return np.asarray(low + unit * np.arange(-1, round(width / unit) + 2))[:, None]
    bends = [np.unique(np.concatenate([column, [column.min() - width, column.max() + width]])) for column in values.T]
    if math.prod(len(each) for each in bends) <= MAX_GRID_POINTS:
        return np.array(list(product(*bends)))
    return np.concatenate([values, [low - width, high + width]])


def answer_law(question: Question, query: Query, tables: Tables, mechanism: Mechanism) -> AnswerLaw:
    """The law of the answer to a query: of training where rows are drawn in secret, over all draws of those that have
    a target; a question asks for one draw."""
    rows = tables.train
    if not question.draws:
        return _with_noise(question.bounded(query, tables).value[None], np.ones(1), mechanism)
    if not isinstance(rows, PresentRows) or len(rows.rows) > MAX_DRAWN_ROWS:
        raise TermsError(
            f"rows: expected at most {MAX_DRAWN_ROWS} rows with a target, because every draw of them is enumerated"
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
    raise TermsError("mechanism: expected laplace or geometric noise; no other noise can be compared exactly")


def subsets(rows: int) -> Iterator[NDArray[np.bool_]]:
    """Yield every draw of so many rows, as a mask."""
    for bits in range(2**rows):
        yield (bits >> np.arange(rows) & 1).astype(bool)


@dataclass(frozen=True)
class ExactVerdict:
    """What one answer of this kind is claimed to cost, and what it costs for the pair of tables that was found."""

    kind: str
    claimed_epsilon: float
    epsilon: float

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the claim, up to rounding of logarithms."""
        return self.epsilon <= self.claimed_epsilon * (1 + 1e-9)

    def to_json(self) -> dict[str, Any]:
        """One of the objects under `exact` in `parley audit --json`."""
        return {**vars(self), "holds": self.holds}


def exact_verdicts(setup: Setup, name: str) -> list[ExactVerdict]:
    """The exact cost of the first answer of each stage of an owner, wherever it is asked costs most, each time for the
    pair of canaries that is found there; stages with other noise than Laplace's, and those of tasks that predict no
    column by a loss, are left out."""
    found = []
    for place, stage in enumerate(setup.part(name).stages):
        if setup.terms.task == PREDICTION and isinstance(stage.series.mechanism, Laplace | GridGeometric):
            searches = (CanarySearch(setup, name, place, at) for at in (None, *corners(setup)))
            costs = [cost for search in searches for cost in _costs(search, stage)]
            found.append(ExactVerdict(stage.question.asks.kind, upper(stage.series.spent_after(1)), max(costs)))
    return found


def size_verdicts(stages: Iterable[Stage]) -> Iterator[ExactVerdict]:
    """What all answers of a stage cost by the size of their noise beside the sensitivity; nothing where that has no
    closed form: where rows are drawn, or hosts draw the noise."""
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
    """Yield the exact cost of answers. For batches that all know, each batch of the first epoch is tried, because the
    canary is in one of them."""
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
    """The share of the claim that answers with added noise use. Several queries are about disjoint rows, or have one
    noise calibrated for all."""
    moved = [_distance(question, question.bounded(q, a), question.bounded(q, b)) for q in queries]
    return math.hypot(*moved) / question.reach if question.together > 1 else sum(moved) / question.sensitivity


def drawn_share(question: Question, query: Query, a: Tables, b: Tables, canary: Sequence[int]) -> float:
    """The share of the claim that answers about secretly drawn rows use, over all draws; `canary` gives the places of
    its rows."""
    draws, pairs = every_draw(len(a.train))
    at_a, at_b = (drawn_answers(question, query, tables, draws) for tables in (a, b))
    in_it = np.array([bool(set(places.tolist()) & set(canary)) for places in draws])
    if not np.array_equal(at_a[~in_it], at_b[~in_it]):
        return math.inf  # who is not drawn is seen
    replaced = sizes(at_a - at_b, question.norm).max() / question.sensitivity
    return max(float(replaced), *(largest_step(question, at, pairs, len(canary)) for at in (at_a, at_b)))


def density_share(question: Question, seen: Floats, a: Tables, b: Tables, epsilon: float) -> float:
    """The share of the claim that an answer with noise inside uses, where it comes out as `seen` [size]."""
    return abs(question.log_density(a, seen) - question.log_density(b, seen)) / epsilon


def every_draw(rows: int) -> Draws:
    """All draws of so many rows, and each two that differ in one row.

    >>> every_draw(2)[1]
    [(0, 1), (0, 2), (1, 3), (2, 3)]
    """
    draws = [np.flatnonzero(kept) for kept in subsets(rows)]
    return draws, [(b, b | 1 << i) for b in range(1 << rows) for i in range(rows) if not b >> i & 1]


def drawn_answers(question: Question, query: Query, tables: Tables, draws: Sequence[Places]) -> Floats:
    """The exact answers in each of these draws [draws, size]."""
    return np.array([question.about(query, tables, places) for places in draws])


def largest_step(question: Question, answers: Floats, pairs: Sequence[tuple[int, int]], rows: int = 1) -> float:
    """How far one row moves an answer at most that is drawn or not, over half of the sensitivity; `rows`: of a person.

    Formal guarantee that is tested: at most 1 (`queries.gradient`).
    """
    moved = sizes(np.array([answers[more] - answers[less] for less, more in pairs]), question.norm)
    return float(moved.max() / (question.sensitivity / (2 * rows)))


def sizes(vectors: Floats, norm: Norm) -> Floats:
    """The norms of vectors [n, d]; no square vanishes or overflows."""
    if norm == "l1":
        return np.asarray(np.abs(vectors).sum(axis=1))
    unit = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    unit[~(unit > 0)] = 1.0
    return np.asarray(unit[:, 0] * np.sqrt(np.square(vectors / unit).sum(axis=1)))


def _distance(question: Question, a: Bounded, b: Bounded) -> float:
    """The distance between two exact answers. Counts of names are part of it: a row also counts once by its name."""
    moved = [a.value.ravel() - b.value.ravel()]
    if isinstance(a, NamedCounts) and isinstance(b, NamedCounts):
        for one, other in ((one or {}, other or {}) for one, other in zip(a.named, b.named, strict=True)):
            counts = [one.get(name, 0) - other.get(name, 0) for name in {*one, *other}]
            moved.append(np.array(counts) / question.records)
    return float(sizes(np.concatenate(moved)[None], question.norm)[0])
