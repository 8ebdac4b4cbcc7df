"""What owners that lie can do under the agreed rule and under the others, from public numbers alone."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.audit.canary import CanarySearch
from parley.errors import TermsError
from parley.learning.outcome.notices import FALSE_ALARMS, exact_extent, unnoticed_extent
from parley.learning.start import starting_point
from parley.privacy.mechanisms import Bounded, FastNoise
from parley.protocol.aggregation.robust import HONEST_LIMITED_PROBABILITY, RULES, reaches
from parley.protocol.queries import Tables
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.terms.participation import fewest_answers
from parley.validate import Floats, Integers

CLIMB_STEPS = 120  # of the climb
UNBOUNDED_RADIUS = 1e3  # where no box holds parameters


@dataclass(frozen=True)
class AdversarialLearner:
    """How far apart answers on two usual neighbouring tables lie, as a share of the sensitivity, at the start of a run
    and at the worst parameter found. A share above 1 would break the terms."""

    at_start: float
    at_worst: float


def adversarial_learner(setup: Setup, name: str, seed: int = 0) -> AdversarialLearner | None:
    """Climb over parameters for the most that this owner's answers tell about one person; None if an answer is about a
    batch, whose rows a learner cannot choose.

    Formal guarantee: none is needed from the learner. The bound on a record holds at every parameter that an owner
    answers at, so a learner that chooses them learns no more than epsilon; it spends the same budget on better
    questions. It may gain the difference between the two shares.
    """
    if setup.part(name).training.question.batched:
        return None
    a, b = CanarySearch(setup, name).typical_tables()
    start = starting_point(setup)
    rng = np.random.default_rng(seed)
    radius = UNBOUNDED_RADIUS if setup.limits.radius is None else setup.limits.radius
    best, worst = start, _share_apart(setup, name, start, a, b)
    begin, reach = worst, radius
    for _ in range(CLIMB_STEPS):
        tried = np.clip(best + reach * rng.standard_normal(len(start)), -radius, radius)
        share = _share_apart(setup, name, tried, a, b)
        if share > worst:
            best, worst = tried, share
        else:
            reach *= 0.93
    return AdversarialLearner(begin, worst)


def _share_apart(setup: Setup, name: str, theta: Floats, a: Tables, b: Tables) -> float:
    question, query = CanarySearch(setup, name, at=theta).asked
    one, other = (question.bounded(query, tables).value for tables in (a, b))
    order = 1 if question.norm == "l1" else 2
    return float(np.linalg.norm(one - other, order)) / question.sensitivity


NOISE_NUMBERS = 400_000  # of noise that are drawn for a rule
LEAST_DRAWS, MAX_DRAWS = 200, 2000  # draws of a round
LIE_DISTANCES = 8  # distances at which a lie is tried
FAR_FACTOR = 1e6  # times what goes unnoticed: as large as they like


@dataclass(frozen=True)
class RuleDamage:
    """How many times the mean's noise a rule lets through, and how far lies moved a round's answer on average, in L2:
    those unnoticed in every round of a run, and `outside`, any."""

    rule: str
    agreed: bool
    price: float
    shift: float
    outside: float
    noise: float  # the L2 norm of the noise in the combined answer, root mean square

    def to_json(self) -> dict[str, Any]:
        """Return an object under `rules`."""
        return vars(self)


@dataclass(frozen=True)
class Damage:
    """What owners that may lie can do in a round, and what a learner that chooses where to ask learns."""

    terms_hash: str
    liars: tuple[str, ...]  # those with most records
    share: float  # of the records of the lightest round
    bound: float  # the largest norm of an honest owner's exact answer, in `norm`
    reach: float  # the largest norm of a liar's answers where it lies in every round and goes unnoticed
    norm: str
    false_alarms: float
    rules: tuple[RuleDamage, ...]
    learner: AdversarialLearner | None
    seconds: float

    @property
    def undetectable(self) -> float:
        """How far lies within the bound move the mean in a round at most: the liars' share times twice `bound`."""
        return 2 * self.share * self.bound

    @property
    def unnoticed(self) -> float:
        """How far lies hidden by noise move the mean on average at most: the liars' share times `reach` + `bound`."""
        return self.share * (self.reach + self.bound)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --poison --json` prints."""
        rules, asker = [rule.to_json() for rule in self.rules], None if self.learner is None else vars(self.learner)
        return {
            **vars(self),
            "undetectable": self.undetectable,
            "unnoticed": self.unnoticed,
            "rules": rules,
            "learner": asker,
        }


def damage(terms: Terms, seed: int = 0) -> Damage:
    """Return what owners that may lie (one, if the terms name no number) can do by these terms. No table is read.

    Honest owners are taken to differ only in their noise. If they differ otherwise, a liar has more room under every
    rule except the mean, where `undetectable` and `unnoticed` hold for any tables. The round is the lightest the terms
    allow: the liars, and as few others as must be heard, those with the fewest records. Lies lie in one number or in
    all alike, at distances up to what goes unnoticed, and a million times as much.
    """
    began = time.perf_counter()
    if (
        terms.task != PREDICTION
        or terms.noise.summed
        or not terms.learning.waits
        or terms.learning.topology is not None
    ):
        raise TermsError(
            "poison: expected terms that predict a column, without shared noise, learning.staleness or gossip"
        )
    setup, count = resolve(terms), 1 if terms.aggregation is None else terms.aggregation.byzantine
    names = sorted(setup.schedule.names, key=lambda name: -setup.part(name).training.question.records)
    liars, rows = tuple(names[:count]), {name: setup.part(name).training.question.records for name in names}
    present = (*liars, *names[len(names) - fewest_answers(terms) + count :])
    return Damage(
        terms_hash=terms.hash,
        liars=liars,
        share=sum(rows[name] for name in liars) / sum(rows[name] for name in present),
        bound=max(exact_extent(setup, name).size for name in names),
        reach=max(unnoticed_extent(setup, name).size for name in liars),
        norm=setup.part(liars[0]).training.question.norm,
        false_alarms=FALSE_ALARMS,
        rules=tuple(_rules(setup, liars, present, seed)),
        learner=adversarial_learner(setup, liars[0], seed),
        seconds=time.perf_counter() - began,
    )


def _rules(setup: Setup, liars: Collection[str], names: Collection[str], seed: int) -> Iterator[RuleDamage]:
    """Yield every rule that these owners may agree on, for a round that hears these names."""
    terms = setup.terms
    agreed = "mean" if terms.aggregation is None else terms.aggregation.rule
    stages = [setup.part(name).training for name in names]
    size, laws = stages[0].question.size, [stage.series.mechanism for stage in stages]
    draws = int(np.clip(NOISE_NUMBERS // (len(names) * size), LEAST_DRAWS, MAX_DRAWS))
    noise, nothing = FastNoise(seed), np.zeros((draws, size))
    drawn = np.stack([law.release(Bounded(nothing, law.sensitivity, law.norm), noise) for law in laws], axis=-2)
    crowd = _Crowd(drawn, np.array([stage.question.records for stage in stages]), np.array([n in liars for n in names]))
    mean = float(np.sum((crowd.records / crowd.records.sum()) ** 2 * np.array([law.variance for law in laws])))
    reach = min((unnoticed_extent(setup, name) for name in liars), key=lambda extent: extent.size)
    widest = max((reaches(setup, HONEST_LIMITED_PROBABILITY)[name] for name in liars), key=lambda extent: extent.size)
    quiet = [reach.nearest(lie) for lie in _lying_answers(setup, size, min(0.1 * mean**0.5, reach.size), reach.size)]
    large = list(_lying_answers(setup, size, reach.size, FAR_FACTOR * reach.size))
    cut = [widest.nearest(lie) for lie in large]
    for rule in RULES:
        if rule == "mean" or _possible(terms, rule, len(liars)):
            bounded = rule != "mean" or (terms.aggregation is not None and rule == agreed)
            price = crowd.price(rule)
            shift = crowd.moved(rule, quiet)
            outside = max(shift, crowd.moved(rule, cut if bounded else large))
            yield RuleDamage(rule, rule == agreed, price, shift, outside, (size * price * mean) ** 0.5)


@dataclass(frozen=True, eq=False)
class _Crowd:
    """Answers of owners who differ only in their noise [draws, N, p], their records, and who lies [N]."""

    drawn: Floats
    records: Integers
    lying: NDArray[np.bool_]

    def price(self, rule: str) -> float:
        """Return how many times the mean's noise a rule lets through."""
        return float(np.mean(self._ruled(rule, self.drawn) ** 2) / np.mean(self._ruled("mean", self.drawn) ** 2))

    def moved(self, rule: str, lies: Sequence[Floats]) -> float:
        """Return how far the worst of these lies [p] moves the combined answer on average."""
        honest = self._ruled(rule, self.drawn)
        lied = (np.where(self.lying[:, None], lie, self.drawn) for lie in lies)
        return max(float(np.linalg.norm(np.mean(self._ruled(rule, each) - honest, axis=0))) for each in lied)

    def _ruled(self, rule: str, values: Floats) -> Floats:
        return RULES[rule](values, self.records, int(self.lying.sum()))


def _possible(terms: Terms, rule: str, liars: int) -> bool:
    try:
        terms.changed(aggregation={"rule": rule, "byzantine": liars})
    except TermsError:
        return False
    return True


def _lying_answers(setup: Setup, size: int, least: float, most: float) -> Iterator[Floats]:
    """Yield answers of these norms: in one number, and in all alike."""
    order = 1 if setup.norm == "l1" else 2
    for direction in (np.eye(size)[0], np.ones(size)):
        unit = direction / np.linalg.norm(direction, order)
        yield from (distance * unit for distance in np.geomspace(least, most, LIE_DISTANCES))
