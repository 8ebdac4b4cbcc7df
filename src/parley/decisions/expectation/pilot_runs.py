"""Runs on a pilot, whose rows answer as the owners will, with each owner's noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from parley.decisions.knowledge.pilot import Pilot
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.asynchronous import on_virtual_clock
from parley.learning.algorithms.asynchronous import run_by_terms as run
from parley.privacy.mechanisms import FastNoise
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.aggregation import NoiseGroup, noise_groups
from parley.protocol.queries import Answer, Query
from parley.validate import Floats, Integers


class PilotExchange:
    """Simulated answers: the pilot's bounded answer with each owner's own noise, or one for all. Owners whose noise can
    be drawn at once answer together, as their mean, unless the algorithm keeps each answer."""

    def __init__(self, pilot: Pilot, replicates: int, seed: int, noiseless: bool = False) -> None:
        self._pilot, self._replicates, self._noise, self._noiseless = pilot, (replicates,), FastNoise(seed), noiseless
        self._rng, self._draws = np.random.default_rng(seed), np.random.default_rng([seed, 1])
        self._tilt = pilot.source.tilt(pilot.objective)
        terms = pilot.terms
        # all rows answer one question alike; batches and steps of their own differ
        self._own = pilot.question.batched or terms.uneven
        self._clip = pilot.question.answer_clip
        self._apart = pilot.algorithm.each or not pilot.setup.aggregation.averages or self._clip is not None
        # where answers are about batches, these differ by chance already; without any noise nothing does
        alike = pilot.setup.aggregation.averages or pilot.question.batched or noiseless
        if self._clip is not None:  # by chance the answer of a few rows is larger, and more of it is cut
            alike = pilot.question.size != pilot.question.parameters
        self._away = {} if alike else chance_deviations(pilot, replicates, np.random.default_rng([seed, 2]))
        self._known: dict[tuple[str, ...], list[tuple[NoiseGroup, FastNoise]]] = {}
        self._rows: dict[tuple[str, ...], Integers] = {}
        self._latest: tuple[str, Floats] = "", np.empty(0)

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        if self._pilot.terms.noise.summed:
            return [self._sum(query, names) for query, names in _distinct_queries(questions)]
        groups = (
            [(query, (name,)) for name, query in questions.items()] if self._apart else _distinct_queries(questions)
        )
        return [self._mean(query, *group) for query, names in groups for group in self._noise_groups(names)]

    def _noise_groups(self, names: tuple[str, ...]) -> list[tuple[NoiseGroup, FastNoise]]:
        if names not in self._known:
            groups = noise_groups({name: self._pilot.setup.part(name).training for name in names})
            self._known[names] = [(group, self._noise.combined(group.weights)) for group in groups]
        return self._known[names]

    def _mean(self, query: Query, group: NoiseGroup, noise: FastNoise) -> Answer:
        """Return the mean answer of owners who add their own noise."""
        value = self._exact(query, group.names, group.shares)
        if (away := self._away.get(group.names[0])) is not None:
            value = value + away
        if self._clip is not None:
            value = self._clip.clipped(value)
        if not self._noiseless:
            value = group.release(value, noise)
        first, *others = group.names
        return Answer(query.id, "" if others else first, group.records, value, group.names if others else ())

    def _sum(self, query: Query, names: tuple[str, ...]) -> Answer:
        """Return what the hosts would open: everybody answers like the pilot, with one noise."""
        if names not in self._rows:
            self._rows[names] = np.array([self._pilot.setup.part(name).training.question.records for name in names])
        rows, noise = self._rows[names], self._pilot.setup.part(names[0]).training.series.mechanism
        records, value = int(rows.sum()), self._exact(query, names, rows / rows.sum())
        if self._clip is not None:
            value = self._clipped_mean(value, names, rows / rows.sum())
        if not self._noiseless and isinstance(noise, SharedNoise):
            value = value + noise.over(records).decode(noise.drawn(value.shape, self._rng))
        return Answer(query.id, "", records, value, names)

    def _clipped_mean(self, value: Floats, names: Sequence[str], shares: Floats) -> Floats:
        """Return the mean of owners' answers clipped as a whole, each away from `value` by chance."""
        clip = self._clip
        if clip is None or not self._away:
            return value if clip is None else clip.clipped(value)
        given = (share * clip.clipped(value + self._away[name]) for name, share in zip(names, shares, strict=True))
        return np.asarray(sum(given))

    def _exact(self, query: Query, names: Sequence[str], shares: Floats) -> Floats:
        """Return the mean of these owners' answers without noise."""
        if query.id == self._latest[0] and not self._own:
            return self._latest[1]
        agreed_questions = (
            self._pilot.setup.part(name).training.question for name in (names if self._own else names[:1])
        )
        questions = [each if self._clip is None else replace(each, answer_clip=None) for each in agreed_questions]
        given = (
            each.simulated(query, self._pilot.tables, self._replicates, self._draws, self._noiseless).value
            for each in questions
        )
        value = (
            next(given) if len(questions) == 1 else sum(share * each for share, each in zip(shares, given, strict=True))
        )
        self._latest = query.id, np.asarray(value if self._tilt is None else value - self._tilt)
        return self._latest[1]


def _distinct_queries(questions: Mapping[str, Query]) -> list[tuple[Query, tuple[str, ...]]]:
    """Return each different question once, with the owners it goes to."""
    if len(set(questions.values())) == 1:
        return [(next(iter(questions.values())), tuple(questions))]
    different = dict.fromkeys(questions.values())
    return [(query, tuple(name for name, other in questions.items() if other is query)) for query in different]


def pilot_models(
    pilot: Pilot,
    replicates: int,
    seed: int,
    noiseless: bool = False,
    after_round: Callable[[State, Sequence[Answer]], None] = lambda state, answers: None,
    begin: Floats | None = None,
) -> Floats:
    """Return the models [replicates, P] that runs on the pilot reach, from `begin` [B, P] or its own starts."""
    starts = pilot.starts if begin is None else begin
    start = pilot.algorithm.start(starts[np.arange(replicates) % len(starts)], (replicates,))
    owners, asker = PilotExchange(pilot, replicates, seed, noiseless), Asker("pilot", "pilot", pilot.setup.schedule)
    exchange = owners if pilot.setup.schedule.waits else on_virtual_clock(owners, pilot.setup.schedule, pilot.speeds)
    return pilot.algorithm.model(run(pilot.algorithm, exchange, pilot.setup.aggregation, asker, start, after_round))


def scaled_share(pilot: Pilot, thetas: Floats) -> float:
    """Return the largest share of pilot records that the bound scales down at these parameters [..., P]."""
    return max(pilot.question.scaled_share(pilot.tables, theta) for theta in thetas)


def chance_deviations(pilot: Pilot, replicates: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Draw by how much each owner's exact answers deviate from the mean [replicates, P], by name, once for a run. A
    mean gradient of n_l rows has covariance G/n_l, G that of the pilot's cut record gradients at its best model.
    Weighted by records the deviations sum to zero. Differences beyond chance are unknown here."""
    theta, bound = pilot.landscape().optimum, pilot.bound
    gradients = pilot.objective.record_gradients(pilot.design, theta)
    if bound.clips:
        sizes = pilot.objective.record_norms(pilot.design, theta, bound.norm)
        gradients = gradients * np.minimum(1.0, bound.value / np.maximum(sizes, bound.value))[:, None]
    values, directions = np.linalg.eigh(np.cov(gradients, rowvar=False).reshape(len(theta), len(theta)))
    root = directions * np.sqrt(np.maximum(values, 0.0))
    shares = pilot.rows / pilot.rows.sum()
    drawn = rng.standard_normal((len(shares), replicates, len(theta))) @ root.T / np.sqrt(pilot.rows)[:, None, None]
    drawn -= np.einsum("n,nrp->rp", shares, drawn)
    return dict(zip(pilot.setup.schedule.names, drawn, strict=True))
