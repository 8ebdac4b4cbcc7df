"""Shadow models: the same training on tables whose members the attacker knows (Shokri et al. 2017). A table is a row of
truth values: which of the population's rows it holds, beside the rows of every table (`always`). All tables are equally
large with rows in random order, so a row's membership is a replacement of one row by another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import Design, Summable
from parley.data.holdout import counted_rows
from parley.data.sources import open_table
from parley.data.targets import has_target
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.model import JointClassifier, JointModel, make_model
from parley.learning.train import train
from parley.losses import KINDS, EmpiricalRisk, make
from parley.losses.objectives.margin import MarginObjective
from parley.owner.owner import Owner
from parley.protocol.queries import Tables as QueryTables
from parley.protocol.setup import Setup
from parley.terms import Model, Privacy, Terms
from parley.validate import Floats

Tables = NDArray[np.bool_]  # [tables, rows]
PROBABILITY_MARGIN = 1e-12  # how far a probability is kept from 0 and 1
NUMBERS_AT_ONCE = 2**22  # numbers in memory while many models are fitted together
MAX_STEPS = 60  # of Newton's method, and halvings of each


@dataclass(frozen=True, eq=False)
class Evidence:
    """What models predict for rows [tables, replicates, rows]: a `statistic` that membership moves, and the `loss`.
    `aim` [rows] is the statistic of a perfect fit; `group` [rows] separates classes."""

    statistic: Floats
    loss: Floats
    aim: Floats
    group: NDArray[np.int64]

    def for_tables(self, tables: slice) -> "Evidence":
        """Return the evidence of the models of these tables."""
        return Evidence(self.statistic[tables], self.loss[tables], self.aim, self.group)


Train = Callable[[Tables], Evidence]


def random_tables(rows: int, tables: int, rng: np.random.Generator) -> Tables:
    """Draw tables that each hold a random half of the rows."""
    if rows < 4:
        raise SettingError(
            f"population: expected at least 4 rows, found {rows}; each shadow model is trained on half of the rows"
        )
    order = rng.random((tables, rows)).argsort(axis=1)
    return order < rows // 2


def with_rows(tables: Tables, always: int) -> Tables:
    """Add rows that every table holds [tables, rows + always]."""
    return np.hstack([tables, np.ones((len(tables), always), dtype=bool)])


def countable(rows: pd.DataFrame, model: Model, privacy: Privacy | None) -> NDArray[np.bool_]:
    """Mark the rows [rows] that training may use: with a target, and per person as many as the terms allow."""
    kept = None if privacy is None else counted_rows(open_table(rows), privacy, "population")
    found = has_target(rows, model, "population")
    return found if kept is None else found & kept


def evidence_of(objective: EmpiricalRisk, kind: str, design: Design, theta: Floats) -> Evidence:
    """Return the evidence of models theta [tables, replicates, P] on a design's rows; `kind`: `Model.predicts`."""
    losses, predicted = objective.record_losses(design, theta), objective.scores(design.X, theta)
    group = design.y.astype(np.int64) if kind in ("two classes", "classes") else np.zeros(len(design), dtype=np.int64)
    if predicted.ndim > theta.ndim:  # a score for each class or period
        return Evidence(_log_odds(losses), losses, np.full(len(design), np.inf), group)
    return Evidence(predicted, losses, _best_raw_predictions(kind, design.y), group)


def _best_raw_predictions(kind: str, y: Floats) -> Floats:
    """Return the raw predictions that fit the targets best [n]."""
    if kind == "two classes":
        return np.where(y > 0, np.inf, -np.inf)
    return np.log(np.maximum(y, PROBABILITY_MARGIN)) if kind == "count" else y


def _log_odds(losses: Floats) -> Floats:
    """Return ln(p/(1 - p)) for losses -ln p."""
    return np.asarray(-np.log(np.expm1(np.clip(losses, PROBABILITY_MARGIN, -np.log(PROBABILITY_MARGIN)))))


def without_privacy(
    objective: EmpiricalRisk, kind: str, design: Design, radius: float | None = None, always: int = 0
) -> Train:
    """Return training by least cost, without noise; costs of the margin are fitted for all tables at once. The last
    `always` rows of the design are in every table."""
    population = design.cut(slice(len(design) - always))

    def fitted(some: Tables) -> Evidence:
        tables = with_rows(some, always)
        if isinstance(objective, MarginObjective) and radius is None:
            theta = many_optima(objective, design, tables)
        else:
            optima = [objective.optimum([design.where(table)], radius) for table in tables]
            if any(each is None for each in optima):
                raise SettingError(
                    "model: the model has no best fit without privacy, so the audit cannot train shadow models; give "
                    "--terms and --owner"
                )
            theta = np.array(optima)
        return evidence_of(objective, kind, population, theta[:, None])

    return fitted


def many_optima(objective: MarginObjective, design: Design, tables: Tables) -> Floats:
    """Return each table's model of least cost [tables, P], by Newton's method for many at once. If classes separate, so
    that a cost has no minimum, the model fits closely."""
    smooth = objective.smoothed
    at_once = max(1, NUMBERS_AT_ONCE // (len(design) * design.width))
    pieces = [tables[start : start + at_once] for start in range(0, len(tables), at_once)]
    return np.concatenate([_newton(smooth, design, piece) for piece in pieces])  # type: ignore[arg-type]


def _newton(objective: MarginObjective, design: Design, tables: Tables) -> Floats:
    X, y, loss = design.X, design.y, objective.loss
    weight = tables * design.weight / tables.sum(axis=1, keepdims=True)
    theta = np.zeros((len(tables), design.width))
    ridge = (objective.regularisation + 1e-10 * float(np.mean(X**2))) * np.eye(design.width)

    def cost(models: Floats, rows: Any) -> Floats:
        return np.asarray((loss.loss(models @ X.T, y) * weight[rows]).sum(axis=1) + objective.penalty(models))

    value = cost(theta, slice(None))
    for _ in range(MAX_STEPS):
        raw = theta @ X.T
        curvature = loss.hessian(raw, y) * weight
        first = (loss.gradient(raw.copy(), y) * weight) @ X + objective.penalty_gradient(theta)
        hessian = np.matmul(X.T * curvature[:, None, :], X) + ridge
        step = -np.linalg.solve(hessian, first[..., None])[..., 0]
        promised = np.einsum("ij,ij->i", first, step)
        moving = np.flatnonzero(-promised > 1e-12 * (np.abs(value) + 1e-12))
        length = 1.0
        while moving.size and length > 2.0**-MAX_STEPS:
            moved = theta[moving] + length * step[moving]
            moved_cost = cost(moved, moving)
            better = moved_cost <= value[moving] + 1e-4 * length * promised[moving]
            theta[moving[better]], value[moving[better]] = moved[better], moved_cost[better]
            moving, length = moving[~better], length / 2
        if not (-promised > 1e-12 * (np.abs(value) + 1e-12)).any():
            break
    return theta


def predictions_evidence(model: Any, X: Any, y: NDArray[Any]) -> Evidence:
    """Return what a model with `predict_proba` or `predict` predicts for these rows, as one table's evidence."""
    if hasattr(model, "predict_proba"):
        place = np.searchsorted(model.classes_, y)
        found = np.minimum(place, len(model.classes_) - 1)
        p = np.where(model.classes_[found] == y, model.predict_proba(X)[np.arange(len(y)), found], 0.0)
        p = np.clip(p, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
        return Evidence((np.log(p) - np.log1p(-p))[None, None], -np.log(p)[None, None], np.full(len(y), np.inf), place)
    predicted, aim = np.asarray(model.predict(X), dtype=np.float64), np.asarray(y, dtype=np.float64)
    return Evidence(predicted[None, None], ((predicted - aim) ** 2)[None, None], aim, np.zeros(len(y), dtype=np.int64))


def joined(parts: list[Evidence]) -> Evidence:
    """Join evidence of several tables about the same rows."""
    statistic, loss = (np.concatenate([getattr(part, name) for part in parts]) for name in ("statistic", "loss"))
    return Evidence(statistic, loss, parts[0].aim, parts[0].group)


class ShadowOwner(Owner):
    """An owner of some rows of a population that was prepared once for all."""

    def __init__(self, name: str, population: pd.DataFrame, rows: QueryTables) -> None:
        super().__init__(name, population)
        self._rows = rows

    def _tables(self, setup: Setup) -> QueryTables:
        return self._rows


@dataclass(frozen=True, eq=False)
class TrainedByTerms:
    """Training by the terms, with noise, of one owner as if alone, so that nobody else's rows hide one of its. `setup`
    is for half the population and the rows that are in every table."""

    setup: Setup
    name: str
    population: pd.DataFrame
    prepared: QueryTables  # the whole population, then the rows that are in every table
    always: int  # how many those are
    replicates: int
    seed: int
    progress: Progress

    @classmethod
    def make(
        cls,
        terms: Terms,
        name: str,
        population: pd.DataFrame,
        replicates: int = 4,
        seed: int = 0,
        progress: Progress = lambda done, total: None,
        always: pd.DataFrame | None = None,
    ) -> "TrainedByTerms":
        """Prepare a population of possible rows of this owner, and the rows that are in every table (`always`)."""
        known = population[countable(population, terms.model, terms.privacy)].reset_index(drop=True)
        rows = known if always is None else pd.concat([known, always], ignore_index=True)
        own = {"records": len(rows), "epsilon": float(terms.training_epsilon(name)), "data": None}
        everything = terms.changed(
            model={"holdout": 0.0, "holdout_seed": None, "holdout_by": None},
            learning=None if terms.learning.quorum is None else {"quorum": 1},
            privacy={"score_epsilon": None},
            owners={name: own},
            only=[name],
            aggregation={},  # of one owner every rule is its answer
        )
        prepared = Owner(name, rows).prepare(everything)
        in_all = len(rows) - len(known)
        half = prepared.setup.under(everything.changed(owners={name: {"records": len(known) // 2 + in_all}}))
        return cls(half, name, known, prepared.tables, in_all, replicates, seed, progress)

    @property
    def claimed(self) -> float:
        """The epsilon promised for all training answers together."""
        return float(self.setup.terms.training_epsilon(self.name))

    def __call__(self, tables: Tables) -> Evidence:
        seeds = np.random.SeedSequence(self.seed).generate_state(len(tables)).tolist()
        evidence, rng = [], np.random.default_rng([self.seed, 1])
        prepared = cast(Any, self.prepared.train)
        population = prepared.where(np.arange(len(self.population)))
        for place, (table, seed) in enumerate(zip(with_rows(tables, self.always), seeds, strict=True)):
            places = rng.permutation(np.flatnonzero(table))
            rows = replace(self.prepared, train=prepared.where(places))
            owner = ShadowOwner(self.name, self.population, rows)
            owner.prepare(self.setup)
            result = train(self.setup.terms, [owner], self.replicates, seed, measure=False)
            evidence.append(model_evidence(result.model, self.population, result.theta, population))
            self.progress(place + 1, len(tables))
        return joined(evidence)


def model_evidence(
    model: JointModel, rows: pd.DataFrame, theta: Floats | None = None, prepared: Summable | None = None
) -> Evidence:
    """Return what a model that Parley trained predicts for a table's rows, as one table's evidence. `theta`
    [replicates, P] is the model and its replicates, `prepared` the same rows if already prepared."""
    preparation, many = model.preparation_, model.theta_[None] if theta is None else theta
    predicts = preparation.model.predicts
    if preparation.model.kind in KINDS and model.trees_ is None:
        objective = make(preparation.model).bounded_by(preparation)
        design = prepared if isinstance(prepared, Design) else preparation.design(rows, "population")
        return evidence_of(objective, predicts, design, many[None])
    y = preparation.target(rows, "population")
    own = y * preparation.target_scale + preparation.target_centre
    if isinstance(model, JointClassifier):
        own = model.classes_[(y > 0).astype(int)]
    if theta is None or len(theta) == 1:
        return predictions_evidence(model, rows, own)
    evidence = joined(
        [predictions_evidence(make_model(preparation, each, "", released=False), rows, own) for each in theta]
    )
    return Evidence(evidence.statistic.swapaxes(0, 1), evidence.loss.swapaxes(0, 1), evidence.aim, evidence.group)
