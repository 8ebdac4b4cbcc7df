"""The setup together with public knowledge of the data: a preview of the owners' answers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from parley.data import Design, Preparation, read_table
from parley.data.fitting import PUBLIC_SAMPLE, read_public
from parley.data.sources import Table
from parley.decisions.knowledge.assumed import AssumedSample
from parley.decisions.knowledge.cross_fit import CrossFit, GrownSample, cross_fit
from parley.decisions.knowledge.sources import Landscape, Sample, Source
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Algorithm
from parley.learning.algorithms.asynchronous import AsynchronousDescent, check_speeds
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import PublicFit, public_fit, ridge_fit, starting_point
from parley.losses import EmpiricalRisk, RecordBound
from parley.privacy.mechanisms import Bounded, FastNoise, Mechanism
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.aggregation import (
    CoalitionNoise,
    DistributedNoise,
    EachOwnerNoise,
    Robust,
    noise_groups,
)
from parley.protocol.lost_answers import LossyRounds
from parley.protocol.queries import Question, Tables
from parley.protocol.setup import Setup, resolve
from parley.protocol.task import require_prediction
from parley.terms import Terms
from parley.terms.sections import STABLE_NOT_FORECAST
from parley.validate import Floats

DRAWN_FITS = 16  # public fits as they may come out


@dataclass(frozen=True, eq=False)
class Pilot:
    """Public knowledge, prepared like the owners' tables, under given terms."""

    setup: Setup
    source: Source
    algorithm: Algorithm
    apart: bool = False  # whether the rows are others than those of the terms' public sample
    # of owners whose answers are used as they come; None: all give their last at once
    speeds: Mapping[str, float] | None = None
    silent: tuple[str, ...] = ()  # owners of the terms that never answer: they are left out
    drawn: Floats | None = None  # how far theta[1] lies from the optimum [B, P], where that was found before

    @property
    def terms(self) -> Terms:
        return self.setup.terms

    @property
    def objective(self) -> EmpiricalRisk:
        return self.setup.risk

    @property
    def design(self) -> Design:
        """The pilot's rows; only a sample has any."""
        if self.source.rows is None:
            raise DataError("this forecast runs the algorithm on rows; give a public sample as the pilot")
        return self.source.rows

    @property
    def has_rows(self) -> bool:
        """Whether there are rows to run the algorithm on."""
        return self.source.rows is not None

    @property
    def tables(self) -> Tables:
        """The pilot's rows in place of an owner's."""
        return Tables(self.design, self.design)

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Each owner's training question; they differ only in size."""
        return tuple(part.training.question for part in self.setup.parts.values())

    @property
    def question(self) -> Question:
        """Any owner's training question."""
        return self.questions[0]

    @property
    def bound(self) -> RecordBound:
        """The bound on one record in training."""
        if self.question.bound is None:
            raise ValueError("a training question must bound each record's contribution")
        return self.question.bound

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Each owner's noise in training."""
        return tuple(part.training.series.mechanism for part in self.setup.parts.values())

    @cached_property
    def noise(self) -> CoalitionNoise:
        """The noise of coalitions of owners."""
        noise = self.setup.aggregation.noise(self.setup)
        if isinstance(noise, EachOwnerNoise):
            return replace(noise, variances=noise.variances * self.spread)
        return replace(noise, demands=noise.demands * self.sum_spread)

    @cached_property
    def lossy_rounds(self) -> LossyRounds | None:
        """Which answers arrive; None: all."""
        return LossyRounds.from_terms(self.terms)

    @cached_property
    def spread(self) -> Floats:
        """Each owner's noise relative to others' [N]: fewer answers average it less, whether they are used as they come
        or get lost. 1 if rounds wait for every answer."""
        schedule = self.setup.schedule
        if self.lossy_rounds is not None:
            return self.lossy_rounds.moments.noise_factors
        if schedule.own is None:
            return np.ones(len(schedule.names))
        return np.array([schedule.horizon / answers for answers in schedule.own])

    @property
    def rows(self) -> Floats:
        """The number of training rows of every owner, n_l [N]."""
        return self.noise.records

    @property
    def sum_spread(self) -> float:
        """The same for one noise in the sum of all answers."""
        return 1.0 if self.lossy_rounds is None else self.lossy_rounds.moments.sum_noise_factor

    @cached_property
    def variances(self) -> Floats:
        """v_k: the variance of one coordinate of the combined answer in each round [T]."""
        return self.variances_of(self.noise)

    def variances_of(self, noise: CoalitionNoise | DistributedNoise) -> Floats:
        """Return the same for this noise in place of the owners'."""
        schedule = self.setup.schedule
        if schedule.everybody or schedule.own is not None:  # answers that come one by one are averaged in the end, too
            return np.full(self.algorithm.horizon, noise.all_together)
        turns = [schedule.at(k) for k in range(1, self.algorithm.horizon + 1)]
        members = np.array([[name in turn for name in schedule.names] for turn in map(frozenset, turns)])
        return noise.variance(members)

    @property
    def draws(self) -> int:
        """The number of noises in a model if every owner is asked in every round."""
        return self.algorithm.horizon * (1 if self.terms.noise.summed else len(self.mechanisms))

    def drawn_together(self, shape: tuple[int, ...], seed: int) -> Floats:
        """Draw noise of all owners' combined answer, as in a study."""
        first = self.mechanisms[0]
        if isinstance(first, SharedNoise):
            return first.over(int(self.rows.sum())).decode(first.drawn(shape, np.random.default_rng(seed)))
        noise, rows, nothing = FastNoise(seed), float(self.rows.sum()), np.zeros(shape)
        rule = self.setup.aggregation
        if isinstance(rule, Robust):
            own = [law.release(Bounded(nothing, law.sensitivity, law.norm), noise) for law in self.mechanisms]
            return rule.ruled(np.stack(own, axis=-2), self.rows.astype(np.int64))
        groups = noise_groups({name: part.training for name, part in self.setup.parts.items()})
        return np.asarray(
            sum(group.records / rows * group.release(nothing, noise.combined(group.weights)) for group in groups)
        )

    def combined_variance(self) -> float:
        """Return the mean of v_k over the rounds."""
        return float(self.variances.mean())

    def landscape(self) -> Landscape:
        """Return the cost around its optimum, by the pilot."""
        return self.source.landscape(self.objective, self.setup.limits.radius, self.starts)

    @cached_property
    def starts(self) -> Floats:
        """Possible theta[1] [B, P]. The public fit was made for these very rows, so its distance from the best model is
        judged by fits to rows drawn from them with replacement."""
        if self.drawn is not None:
            return self.source.landscape(self.objective, self.setup.limits.radius).optimum + self.drawn
        if self.grown is not None:
            return self.design.derived(("leaf values", self.objective), partial(_drawn_leaves, self, self.grown))
        if self.terms.learning.start != "public" or self.apart:
            return starting_point(self.setup)[None]
        if not self.has_rows:
            raise SettingError("learning.start: a forecast with 'public' needs a public sample; set model.public")
        return self.design.derived(("starts", self.objective, self.setup.limits.radius), partial(_drawn_fits, self))

    @property
    def starts_publicly(self) -> bool:
        """Whether training begins at the public rows' best fit, or at trees grown on them."""
        return self.terms.learning.start == "public" or self.terms.model.trees is not None

    @cached_property
    def own_fit(self) -> PublicFit | None:
        """The pilot rows' best fit, its ridge chosen by cross-validation; None without rows or without a fit."""
        if not self.has_rows:
            return None
        if self.grown is not None:
            return PublicFit(starting_point(self.setup), 0.0, self.grown.held_back)
        return public_fit(
            self.objective, self.design, self.setup.limits.radius, self.objective.start(self.setup.preparation)
        )

    @cached_property
    def grown(self) -> CrossFit | None:
        """The public sample's judgement of trees grown without it; None without trees or rows."""
        public = self.setup.public
        if self.terms.model.trees is None or not self.has_rows or public is None:
            return None
        grow = partial(cross_fit, replace(self.setup, objective=replace(self.setup.risk, regularisation=0.0)))
        return public.derived(("cross-fit", type(self.objective)), grow)  # once, however the pilot's rows are drawn

    def leaning(self) -> "Pilot":
        """Tilt the rows' cost so that its minimum lies at their best ridge fit: a small sample's own optimum lies too
        far out, so that a start at the public fit would look worse than it is. Only gradients can be tilted; other
        algorithms stay."""
        if self.own_fit is None or (self.grown is None and self.terms.learning.rules.asks != "gradient"):
            return self
        return replace(self, source=self.source.leaning(self.own_fit.theta))

    def under(self, terms: Terms) -> "Pilot":
        """Return the same knowledge under other terms for the same columns."""
        setup, source, drawn = self.setup.under(terms), self.source, self.drawn
        if terms.learning.start != self.terms.learning.start:
            return _with(setup, source, self.apart)
        if terms.learning.rules.asks != "gradient" and self.grown is None:
            source = source.leaning(None)
        return Pilot(setup, source, make_algorithm(setup).foretold(), self.apart, drawn=drawn)

    def others(self, rng: np.random.Generator, count: int, run: bool = True) -> "list[Pilot]":
        """Return the pilot as it might have come out, with starts. `run`: whether algorithms run on its rows."""
        if isinstance(self.source, GrownSample) and not run:
            drawn = self.source.redrawn(self.objective, self.landscape(), rng, count)
            return [replace(self, source=source, drawn=start) for source, start in drawn]
        others = self.source.others(rng, count)
        if not self.starts_publicly or self.apart:
            return [replace(self, source=source) for source in others]
        away = self.starts - self.landscape().optimum
        pilots = [replace(self, source=source, drawn=away[[b % len(away)]]) for b, source in enumerate(others)]
        return [pilot.towards_ridge(self.own_fit) for pilot in pilots]

    def towards_ridge(self, fit: PublicFit | None) -> "Pilot":
        """Tilt these rows towards their best fit with another fit's ridge."""
        if fit is None or not self.has_rows:
            return self
        if self.grown is not None:
            return replace(self, source=self.source.leaning(fit.theta))
        best = ridge_fit(self.objective, self.design, fit.ridge, self.setup.limits.radius, fit.theta)
        return self if best is None else replace(self, source=self.source.leaning(best))


def open_pilot(terms: Terms, known: Table | Source | None = None, speeds: Mapping[str, float] | None = None) -> Pilot:
    """Open public knowledge for these terms: their own sample, another table or source; `speeds` as for `train`."""
    check_speeds(terms, speeds)
    require_prediction(terms)
    if terms.studied:
        raise SettingError(STABLE_NOT_FORECAST)
    example = read_table(known) if isinstance(known, Table) else None
    setup = resolve(terms, example)
    given = None if known is None or isinstance(known, Table) else known
    if given is not None and given.width != setup.parameters:
        raise DataError(
            f"the pilot has {given.width} parameters, but the terms have {setup.parameters} (with the constant, if any)"
        )
    pilot = _with(setup, _known_rows(setup, example) if given is None else given, apart=example is not None)
    return pilot if speeds is None else _at_speeds(pilot, speeds)


def _at_speeds(pilot: Pilot, speeds: Mapping[str, float]) -> Pilot:
    """Set owners' speeds; owners that never answer are left out, but the algorithm ends as if they were there."""
    never = {name for name, speed in speeds.items() if speed == 0}
    answering = {name: speed for name, speed in speeds.items() if name not in never}
    if not never:
        return replace(pilot, speeds=answering)
    terms, algorithm = pilot.terms, pilot.algorithm
    names = [part.name for part in terms.owners if part.name not in never]
    if not isinstance(algorithm, AsynchronousDescent) or len(names) < terms.privacy.shared_records:
        raise SettingError(
            f"speeds: expected at least {terms.privacy.shared_records} owners that answer, with speeds above 0"
        )
    fewer = pilot.under(terms.changed(only=names, learning={"quorum": None, "straggler": "wait"}))
    silent = tuple(name for name in pilot.setup.schedule.names if name in never)
    return replace(fewer, algorithm=algorithm.without(never), speeds=answering, silent=silent)


def _with(setup: Setup, source: Source, apart: bool = False) -> Pilot:
    pilot = Pilot(setup, source.leaning(None), make_algorithm(setup).foretold(), apart)
    if not pilot.questions:
        raise DataError("owners: expected at least one owner")
    if pilot.grown is not None:
        return _seen_from_outside(pilot.leaning(), pilot.grown)
    return pilot.leaning() if setup.terms.learning.start == "public" and not apart else pilot


def _seen_from_outside(pilot: Pilot, grown: CrossFit) -> Pilot:
    """Correct costs to those of rows on which no tree was grown."""
    if pilot.apart or not isinstance(pilot.source, GrownSample):
        return pilot
    source = replace(pilot.source, flatness=grown.curvature)
    landscape, own = (
        replace(pilot, source=source).landscape(),
        pilot.objective.cost(pilot.design, starting_point(pilot.setup)),
    )
    above = landscape.start_cost - landscape.least_cost
    return replace(pilot, source=replace(source, optimism=grown.held_back.cost - above - float(own)))


def _drawn_leaves(pilot: Pilot, grown: CrossFit) -> Floats:
    landscape = pilot.source.landscape(pilot.objective, pilot.setup.limits.radius)
    if landscape.directions is None:
        raise SettingError("model.columns: the trees have too many leaves for a forecast; use fewer trees")
    public = len(pilot.design) if pilot.setup.public is None else len(pilot.setup.public)
    return landscape.optimum + grown.draws(landscape.curvature, landscape.directions, public)


def _drawn_fits(pilot: Pilot) -> Floats:
    """Draw public fits [B, P] to rows drawn with replacement, with the public fit's own ridge. The rows lean towards
    that fit (`leaning`), and a ridge pulls the drawn fits from there by r (H + r)^-1 theta."""
    fit, objective, design, radius = pilot.own_fit, pilot.objective, pilot.design, pilot.setup.limits.radius
    if fit is None:
        raise SettingError(
            "learning.start: the public sample has no best fit to start from (its classes may be separable); "
            "remove the key"
        )
    rng, fits = np.random.default_rng(0), []
    for _ in range(DRAWN_FITS):
        drawn = ridge_fit(
            objective, design.where(rng.integers(len(design), size=len(design))), fit.ridge, radius, fit.theta
        )
        fits += [] if drawn is None else [drawn]
    if not fits:
        raise SettingError(
            "learning.start: rows drawn from the public sample have no best fit (classes may be separable); "
            "remove the key"
        )
    hessian = objective.hessian(design, fit.theta)
    if hessian is None or not fit.ridge > 0:
        return np.array(fits)
    return np.array(fits) - fit.ridge * np.linalg.solve(hessian + fit.ridge * np.eye(len(hessian)), fit.theta)


def _known_rows(setup: Setup, example: pd.DataFrame | None) -> Source:
    """Return the rows of this table, else of the terms' public sample, else rows invented from scales and names."""
    model, plain = setup.terms.model, setup.preparation.unturned
    turned = plain is not setup.preparation
    if example is not None:
        rows = setup.preparation.design(example, "pilot").targeted()
        before = partial(_targeted_columns, plain, example) if turned else None
        return Sample(rows.for_studies(), unturned=before)
    if setup.public is not None and model.public is not None:
        again = partial(_public_columns, plain) if turned else None
        return (Sample if model.trees is None else GrownSample)(setup.public.for_studies(), unturned=again)
    if model.scales or (model.categories and model.coding == "one-hot"):
        return AssumedSample.from_setup(setup)
    raise DataError(
        "a forecast needs public knowledge: model.public in the terms, a pilot table, released scales (parley "
        "column-stats), released moments or stated assumptions"
    )


def _targeted_columns(plain: Preparation, example: pd.DataFrame) -> Floats:
    """Return the columns of a table's rows with a target, before a rotation, a basis or leaves."""
    return plain.design(example, "pilot").targeted().X


def _public_columns(plain: Preparation) -> Floats:
    """Return the same for the terms' public sample."""
    return plain.matrix(read_public(plain.model), PUBLIC_SAMPLE)
