"""The planner: which horizon, step, clip and mechanism give the best forecast for the budgets that owners agreed on.

Everything it looks at is public: the terms and the pilot. So whatever it picks costs no privacy, and every owner can repeat it. The
search climbs a grid from several starts; each candidate is judged by the forecast itself - exact moments where they apply, else a pilot
run with common random numbers - and the best of each kind once more with fresh ones.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parley.accounting import mechanism_norm
from parley.data.table import Table
from parley.errors import DataError, SettingError, TermsError
from parley.forecasting.binding import RARELY, on_the_way
from parley.forecasting.expectation import expect
from parley.forecasting.noise_kinds import shared_terms
from parley.forecasting.pilot import Pilot, open_pilot, scaled_share
from parley.forecasting.sources import Landscape, Sample, Source
from parley.learning.algorithm import Descent
from parley.learning.private_sgd import PrivateSGD
from parley.learning.step import step_unit
from parley.learning.train import Progress
from parley.mechanisms.gaussian import probability
from parley.objectives.moments import moment_norms
from parley.terms import Terms
from parley.terms.catalogue import MECHANISMS, MODELS
from parley.validate import whole

HORIZONS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 140, 200, 280, 400)
FACTOR = math.sqrt(2)  # between neighbouring steps and clips
ROUNDS = {"algorithm": "averaged-subgradient", "horizon": 100, "step": "auto", "local_steps": None}
PERTURBED = {"algorithm": "objective-perturbation", "horizon": 1, "step": "auto", "local_steps": None}
ONCE = {"algorithm": "sufficient-statistics", "horizon": 1, "step": "auto", "local_steps": None}
MOST_STEPS = 2000  # rounds x local steps that a candidate may take, unless the terms as written take more
MOST_BATCHES = 200  # rounds of private-sgd that a candidate may take, unless the terms as written take more: none has moments
OPTIMISERS: dict[str, float | str] = {"plain": "auto", "momentum": "auto", "adam": 0.05}  # and the steps to begin with
SEARCH_REPLICATES = 12
CHECK_REPLICATES = 48


@dataclass(frozen=True)
class Choice:
    """One way to spend the same budgets, and the forecast for it."""

    label: str
    algorithm: str
    mechanism: str
    delta: float
    horizon: int
    step: float | None  # None: the algorithm has none
    clip: float | None  # None: bounds of the columns do
    relative_fitness: float
    local_steps: int | None = None
    batches: int | None = None
    epochs: int | None = None
    optimiser: str | None = None


@dataclass(frozen=True)
class Proposal:
    """What the planner tried, what it would choose, and the terms with that filled in."""

    choices: tuple[Choice, ...]
    best: Choice
    nobody: float  # relative fitness of the model that asks nobody
    terms: Terms
    expected_cost: float  # of the best choice's joint model on new rows, in the target's own units
    shared: "Proposal | None" = (
        None  # the same with one noise for all, if three hosts can be found; None: these terms have it, or cannot
    )

    def to_json(self) -> dict[str, Any]:
        """The object under `plan` in `parley forecast --plan --json`."""
        choices = [vars(choice) for choice in self.choices]
        content = {"best": vars(self.best), "choices": choices, "nobody": self.nobody, "terms_hash": self.terms.hash}
        kind = {"noise": self.terms.privacy.noise, "expected_cost": self.expected_cost}
        return {**content, **kind, "shared": None if self.shared is None else self.shared.to_json()}


def plan(
    terms: Terms,
    pilot: Table | Source | None = None,
    delta: float | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Proposal:
    """Choose horizon, step, clip and mechanism for the owners' budgets. No private record is looked at.

    Gaussian noise is considered only with a `delta` (or where the terms have one): it weakens the promise, and that is not the
    planner's to decide. Nor are hosts: where the terms name none, the plan with one noise for all stands beside the other.
    """
    whole(seed, "seed", least=0)
    known = open_pilot(terms, pilot)
    allowed = terms.privacy.delta if delta is None else probability(delta)
    asked = 1 if terms.shared else 2
    found = _plan(known, allowed, seed, lambda done, total: progress(done, asked * total))
    if terms.shared:
        return found
    hosted = _try_shared(known, allowed)
    if hosted is None:
        return found
    return replace(found, shared=_plan(hosted, allowed, seed, lambda done, total: progress(total + done, asked * total)))


def _plan(known: Pilot, delta: float, seed: int, progress: Progress) -> Proposal:
    """The best of all choices that keep where noise is drawn."""
    terms = known.terms
    kinds = list(_kinds(terms, delta))
    here, most = known.landscape(), max(MOST_BATCHES if terms.learning.facts.samples else MOST_STEPS, _steps(terms))
    choices = [_judged("as written", known, here, seed)]
    published = None if terms.learning.facts.samples else _try(known, learning={"horizon": 100, "step": "auto"})
    if published is not None and published.terms != terms and _stepwise(terms):
        choices.append(_judged("100 rounds, automatic step", published, here, seed))
    for place, (label, begin, knobs) in enumerate(kinds):
        progress(place, len(kinds))
        starts = [known.under(candidate) for candidate in _starts(known, here, begin)]
        top_terms = _Search(here, seed, most).climb(starts, knobs) if starts else None
        if top_terms is not None:
            top = _judged(label, known.under(top_terms), here, seed)
            if all(replace(top, label=other.label) != other for other in choices):  # another knob that buys nothing
                choices.append(top)
    best = min(choices, key=lambda choice: choice.relative_fitness)
    records = float(known.rows.sum())
    least, unit = here.least_at(records), known.setup.preparation.target_scale**2
    nobody = (here.start_cost - here.least_cost) / least
    cost = (here.test_cost + here.estimation / records + best.relative_fitness * least) * unit
    return Proposal(tuple(choices), best, nobody, _with_choice(terms, best), cost)


def _try_shared(known: Pilot, delta: float) -> Pilot | None:
    """The same terms with one noise for all; None where these terms allow none."""
    try:
        there = known.under(shared_terms(known.terms, delta))
        there.setup.law()
    except TermsError:
        return None
    return there


def _kinds(terms: Terms, delta: float) -> Iterator[tuple[str, Terms, tuple[str, ...]]]:
    """What can be varied: a label, terms of that kind, and the knobs to turn."""
    for mechanism in (name for name, facts in MECHANISMS.items() if (delta > 0 or not facts.approximate) and not facts.grid):
        noisy = _with_mechanism(terms, mechanism, delta)
        if terms.learning.facts.samples:
            for optimiser in OPTIMISERS:
                step = OPTIMISERS[optimiser] if terms.learning.optimiser != optimiser else terms.learning.step
                begin = noisy.changed(learning={"optimiser": optimiser, "step": step})
                yield f"{mechanism}, {optimiser}: best epochs, batches and step", begin, ("epochs", "batches", "step", "clip")
            continue
        if not _stepwise(terms):
            yield f"{mechanism}, gradients in rounds", noisy.changed(learning=ROUNDS), ("horizon", "step", "clip")
        if terms.learning.facts.walks:
            yield f"{mechanism}, best local steps too", noisy, ("local_steps", "horizon", "step", "clip")
        elif _stepwise(terms):
            if mechanism == terms.privacy.mechanism:
                yield f"{mechanism}, best horizon and step", noisy, ("horizon", "step")
            yield f"{mechanism}, best horizon, step and clip", noisy, ("horizon", "step", "clip")
        if terms.model.task == "number":
            yield f"{mechanism}, one release of statistics", noisy.changed(learning=ONCE), ("clip",)
        if mechanism == "laplace" and MODELS[terms.model.kind].perturbs and len(terms.owners) == 1 and not terms.shared:
            yield "one release of a perturbed minimum", noisy.changed(learning=PERTURBED), ("clip",)


def _with_mechanism(terms: Terms, mechanism: str, delta: float) -> Terms:
    least = terms.privacy.delta if terms.shared else 0.0  # hosts need some for their random bits
    return terms.changed(privacy={"mechanism": mechanism, "delta": delta if MECHANISMS[mechanism].approximate else least})


def _starts(known: Pilot, here: Landscape, terms: Terms) -> Iterator[Terms]:
    """Where the climb begins: the terms as written, few rounds and many, from a step of 1/curvature and a fitting clip."""
    if terms.learning.facts.solves:
        for size in _statistics_clips(known, terms):
            yield terms.changed(privacy={"clip": size})
        return
    if terms.privacy == known.terms.privacy and terms.learning == known.terms.learning:
        yield terms
    clip = _same_clip(known, here, terms)
    if terms.learning.facts.samples:
        yield terms.changed(privacy={"clip": clip})
        return
    length = 1 / max(float(here.curvature.max()) + known.objective.regularisation, 1e-12)
    written = terms.learning.local_steps
    for horizon, local in itertools.product((8, 32, 100), (None,) if written is None else {1, written}):
        # Local steps have a longest length, below which the automatic one is.
        step = "auto" if terms.learning.facts.walks else float(f"{length * step_unit(terms.learning, horizon):.4g}")
        yield terms.changed(learning={"horizon": horizon, "local_steps": local, "step": step}, privacy={"clip": clip})


def _same_clip(known: Pilot, here: Landscape, terms: Terms) -> float | None:
    """The terms' clip, brought to the norm of another mechanism by the pilot's own gradients."""
    clip, new = terms.privacy.clip, "l2" if terms.learning.facts.walks else mechanism_norm(terms.privacy.mechanism)
    if terms.privacy.clip_norm is not None or known.terms.privacy.clip_norm is not None:
        return clip  # in a norm that the terms name, whatever the mechanism
    if not isinstance(known.source, Sample):
        return clip  # an L2 norm is never above the L1 norm, so the clip only binds less
    sizes = {norm: known.objective.record_norms(known.design, here.optimum, norm) for norm in ("l1", "l2")}
    usual = {norm: float(np.quantile(size, 0.99)) for norm, size in sizes.items()}
    if known.terms.learning.facts.solves:
        return float(f"{3 * usual[new]:.3g}") if usual[new] > 0 else clip
    old = known.bound.noise_norm
    if clip is None or new == old or not usual[old] > 0:
        return clip
    return float(f"{clip * usual[new] / usual[old]:.3g}")


def _statistics_clips(known: Pilot, terms: Terms) -> list[float]:
    """Bounds of one record's second moments, or of its gradient, to begin with: common sizes in the pilot."""
    if not isinstance(known.source, Sample):
        return []
    if terms.learning.facts.perturbs:
        question = known.under(terms).question
        sizes = question.record_sizes(known.design, np.zeros(question.parameters))
    else:
        sizes = moment_norms(known.design, mechanism_norm(terms.privacy.mechanism))
    return [float(f"{q:.3g}") for q in np.quantile(sizes, [0.5, 0.9, 0.99, 1.0]) if q > 0]


@dataclass(frozen=True)
class _Search:
    """Climbs from start to start's neighbours while the forecast improves; every candidate is judged once."""

    here: Landscape
    seed: int
    most: int  # steps that a candidate may take: a pilot run takes that many passes over the rows
    seen: dict[str, float] = field(default_factory=dict)

    def climb(self, starts: list[Pilot], knobs: tuple[str, ...]) -> Terms | None:
        """The terms at the top: from the best start, one knob at a time; None if no start can be judged."""
        at = min(starts, key=self.judge)
        improved = math.isfinite(self.judge(at))
        if not improved:
            return None
        while improved:
            improved = False
            for knob in knobs:
                for direction in (1, -1):
                    while (there := self.neighbour(at, knob, direction)) is not None and self.judge(there) < self.judge(at):
                        at, improved = there, True
        return at.terms

    def judge(self, pilot: Pilot) -> float:
        key = pilot.terms.hash
        if _steps(pilot.terms) > self.most:
            return math.inf
        if key not in self.seen:
            self.seen[key] = _fitness(
                pilot, self.here, self.seed, SEARCH_REPLICATES, only_exact=not isinstance(pilot.source, Sample)
            )
        return self.seen[key]

    def neighbour(self, pilot: Pilot, knob: str, direction: int) -> Pilot | None:
        """The next candidate along a knob, or None at its end.

        A gradient's clip is lowered only while it rarely binds: how its bias turns out depends on the tails, where owners differ
        most from a pilot.
        """
        factor = FACTOR**direction
        if knob == "horizon":
            place = int(np.searchsorted(HORIZONS, pilot.terms.learning.horizon)) + direction
            if not 0 <= place < len(HORIZONS) or not isinstance(pilot.algorithm, Descent):
                return None
            learning = pilot.terms.learning
            same_length = step_unit(learning, HORIZONS[place]) / step_unit(learning, learning.horizon)
            return _try(pilot, learning={"horizon": HORIZONS[place], "step": pilot.algorithm.step * same_length})
        if knob in ("epochs", "batches"):
            many = getattr(pilot.terms.learning, knob)
            many = many * 2 if direction > 0 else many // 2
            return _try(pilot, learning={knob: many}) if many else None
        local = pilot.terms.learning.local_steps
        if knob == "local_steps" and local is not None:
            local = local * 2 if direction > 0 else local // 2
            return _try(pilot, learning={"local_steps": local}) if local else None
        if knob == "step" and isinstance(pilot.algorithm, Descent | PrivateSGD):
            return _try(pilot, learning={"step": float(f"{pilot.algorithm.step * factor:.4g}")})
        if knob == "clip" and pilot.bound.clips:
            if not isinstance(pilot.source, Sample):
                return None  # nobody can tell how often it binds
            there = _try(pilot, privacy={"clip": float(f"{pilot.bound.value * factor:.4g}")})
            if there is None or direction > 0 or there.terms.learning.facts.solves:
                return there
            return there if scaled_share(there, on_the_way(self.here)) <= RARELY else None
        return None


def _stepwise(terms: Terms) -> bool:
    """Whether the learner itself steps along gradients."""
    return not (terms.learning.facts.solves or terms.learning.facts.walks)


def _steps(terms: Terms) -> int:
    return terms.learning.horizon * (terms.learning.local_steps or 1)


def _try(pilot: Pilot, learning: dict[str, Any] | None = None, privacy: dict[str, Any] | None = None) -> Pilot | None:
    try:
        return pilot.under(pilot.terms.changed(learning=learning, privacy=privacy))
    except (TermsError, SettingError, DataError):
        return None


def _fitness(pilot: Pilot, here: Landscape, seed: int, replicates: int, only_exact: bool = False) -> float:
    """The forecast; infinite where the algorithm diverges or, with `only_exact`, where the clip or the box may bind."""
    try:
        expected = expect(pilot, here)
        value = expected.fitness(seed, replicates)
    except (SettingError, TermsError):  # it diverges, or its noise cannot be drawn
        return math.inf
    return value if math.isfinite(value) and (expected.method == "exact-moments" or not only_exact) else math.inf


def _judged(label: str, pilot: Pilot, here: Landscape, seed: int) -> Choice:
    """The forecast for a candidate, from random numbers that the search did not see."""
    terms = pilot.terms
    return Choice(
        label=label,
        algorithm=terms.learning.algorithm,
        mechanism=terms.privacy.mechanism,
        delta=terms.privacy.delta,
        horizon=terms.learning.horizon,
        step=pilot.algorithm.step if isinstance(pilot.algorithm, Descent | PrivateSGD) else None,
        clip=pilot.bound.value if pilot.bound.clips else None,
        relative_fitness=_fitness(pilot, here, seed + 1, CHECK_REPLICATES),
        local_steps=terms.learning.local_steps,
        batches=terms.learning.batches,
        epochs=terms.learning.epochs,
        optimiser=terms.learning.optimiser,
    )


def _with_choice(terms: Terms, best: Choice) -> Terms:
    """The terms with the choice written into them."""
    step: float | str = "auto" if best.step is None else best.step
    learning: dict[str, Any] = {"algorithm": best.algorithm, "step": step, "local_steps": best.local_steps}
    if best.batches is None:
        learning |= {"horizon": best.horizon}
    else:
        learning |= {"batches": best.batches, "epochs": best.epochs, "optimiser": best.optimiser}
    privacy = {"mechanism": best.mechanism, "delta": best.delta, "clip": best.clip if best.clip is not None else terms.privacy.clip}
    return terms.changed(learning=learning, privacy=privacy)
