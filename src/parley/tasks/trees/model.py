"""Boosted trees as a fitted model: prediction, quality on held-out rows, and its forecast from public rows.

Formal guarantee: none for what is measured. It is computed from private records without noise: for studies, and for an
owner's own eyes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import Preparation, read_table
from parley.data.encoding import Encoding, Places
from parley.data.split import folds
from parley.errors import DataError, ModelError
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.learning.outcome.metrics import Metrics, Quality, metrics_of, no_target_sentence
from parley.learning.outcome.model import JointLogisticClassifier, JointModel, JointRegressor
from parley.learning.outcome.shapes import ShapeFunction, Shapes, band_words, middle_band, own_units
from parley.learning.prediction import learn_model
from parley.learning.start import starting_point
from parley.numerals import number
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import resolve
from parley.protocol.task import RunSettings
from parley.report.sheet import Grid, Line, Part, Sheet, lines
from parley.report.terminal import progress_bar
from parley.tasks.trees.algorithm import BoostedTrees
from parley.tasks.trees.question import (
    PlacedRows,
    Structure,
    TreePreparation,
    leaf_means,
    make_structure,
    place_cells,
    place_numbers,
    placed_rows_of,
)
from parley.terms import Terms
from parley.terms.sections import OWN_NOISE
from parley.validate import Floats


class BoostedModel(JointModel):
    """The base of regressors and classifiers of trees: scores are sums of leaf values."""

    def _take_coefficients(self, split: int) -> None:
        """Set `intercept_` to the level; leaves are no coefficients."""
        self.intercept_ = float(self.theta_[0])

    @cached_property
    def structure_(self) -> Structure:
        """The trees that the leaf values belong to."""
        return make_structure(self.preparation_)

    def _scores(self, X: Any) -> Floats:
        self._require_theta()
        return self.structure_.scores(self._rows(X), self.theta_)

    def _rows(self, X: Any) -> NDArray[np.uint16]:  # type: ignore[override]
        if isinstance(X, pd.DataFrame):
            return place_cells(self.preparation_, read_table(X), "table")
        raw = self._positional(X)
        coded = [e.coded(values) for e, values in zip(self.preparation_.encodings, raw.T, strict=True)]
        return place_numbers(self.preparation_, coded, len(raw))

    def shapes(self, runs: Floats | None = None) -> Shapes:
        """Return what every column adds by itself, in the order of the features; pairs are left out."""
        self._require_theta()
        found, first = list[ShapeFunction](), 0
        for column, encoding in enumerate(self.preparation_.encodings):
            place = self.structure_.leaves[1 + column].values
            ends = float(self.preparation_.low[first]), float(self.preparation_.high[first])
            band = None if runs is None or len(runs) < 2 else middle_band(runs[:, place])
            found.append(_shape(encoding, self.theta_[place], band, ends, self.preparation_.model.bins or 0))
            first += len(encoding.labels)
        return Shapes(np.asarray(self.theta_[0]), tuple(found), about=band_words(runs))


class BoostedRegressor(BoostedModel, JointRegressor):
    """Trees that predict a number."""


class BoostedClassifier(BoostedModel, JointLogisticClassifier):
    """Trees that predict one of two classes, with probabilities."""


def boosted_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> JointModel:
    """Return the fitted model of these leaf values [P]."""
    kind = BoostedClassifier if preparation.model.classifies else BoostedRegressor
    return kind()._take(preparation, theta, terms_hash, released)


def _shape(
    encoding: Encoding, values: Floats, band: Floats | None, ends: tuple[float, float], steps: int
) -> ShapeFunction:
    gaps = ("missing",) if encoding.fills else ()
    if isinstance(encoding, Places):
        cuts, names = np.empty(0), (*encoding.names, "others", *gaps)
    else:
        cuts, names = own_units(encoding, np.linspace(*ends, steps + 1)), gaps
    return ShapeFunction(encoding.column, cuts, names, values, np.full(len(values), 1 / len(values)), band)


NO_OPTIMUM = "trees of noisy leaves have no best model without privacy to compare with"
NOISELESS_EPSILON = 1e6  # an epsilon at which noise is no longer heard, and nobody hidden


def measured(agreements: Sequence[Agreement], theta: Floats) -> Quality:
    """Return the quality of a study's models [replicates, P]: mean training loss and held-out metrics."""
    structure = make_structure(agreements[0].setup.preparation)
    train, held_out = (_pooled([getattr(a.tables, part) for a in agreements]) for part in ("train", "held_out"))
    classes, by = agreements[0].setup.terms.model.classifies, agreements[0].setup.terms.model.holdout_by
    train = train if by is None else train.where(train.present)  # who is held out is there, and counts 0
    losses = [record_losses(structure, train, each, classes).mean() for each in theta]
    rows = [held_out_metrics(agreements[0], held_out, each) for each in theta]
    known = {name: [row[name] for row in rows] for name in rows[0]}
    means = {name: None if None in values else float(np.mean(values)) for name, values in known.items()}  # type: ignore[arg-type]
    return Quality(None, float(np.mean(losses)), None, None, means, {}, NO_OPTIMUM)


def held_out_metrics(agreement: Agreement, rows: PlacedRows, theta: Floats) -> Metrics:
    """Return the task's metrics of one model [P] on these records."""
    preparation, some = agreement.setup.preparation, rows.where(rows.present)
    return metrics_of(preparation.model.predicts, some.y, make_structure(preparation).scores(some.X, theta))


def compared(terms: Terms, owner: Owner, model: JointModel) -> tuple[int, dict[str, Metrics]]:
    """Return (held-out rows, metrics of the joint model and of trees the owner learns alone without noise)."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained under other terms; give the terms file that it was trained with")
    agreement = owner.prepare(terms)
    held_out = placed_rows_of(agreement.tables.held_out)
    if not held_out.present.any():
        raise ModelError(no_target_sentence(owner.name))
    silent = terms.changed(
        only=[owner.name],
        owners={owner.name: {"epsilon": NOISELESS_EPSILON}},
        privacy={**OWN_NOISE, "shared_records": 1, "mechanism": "laplace", "delta": 0.0},
        hosts=(),
    )
    alone = learn_model(silent, [owner], RunSettings(seed=0, measure=False)).theta[0]
    models = {"together": model.theta_, "alone": alone}
    return int(np.count_nonzero(held_out.present)), {
        name: held_out_metrics(agreement, held_out, theta) for name, theta in models.items()
    }


def record_losses(structure: Structure, rows: PlacedRows, theta: Floats, classes: bool) -> Floats:
    """Return the loss of each record [n]; 0 without a target."""
    scores = structure.scores(rows.X, theta)
    losses = np.logaddexp(0.0, -rows.y * scores) if classes else np.square(rows.y - scores) / 2
    return np.asarray(losses * rows.present)


def _pooled(parts: Sequence[object]) -> PlacedRows:
    return PlacedRows.joined([placed_rows_of(part) for part in parts])


FOLDS = 3


def expected_cost(terms: Terms, public: pd.DataFrame, seed: int = 0) -> float:
    """Return the mean loss expected of the joint trees on new rows, in the target's own units. It reads no private
    record.

    Owners have more rows than the public sample, so a fold's loss is extrapolated: the part that falls like 1/n is
    twice as large for trees of half the fold.
    """
    setup = resolve(terms)
    preparation, algorithm = setup.preparation, BoostedTrees.make(setup)
    if not isinstance(preparation, TreePreparation):
        raise TypeError("expected terms for boosted trees")
    rows, begin = preparation.records(public, "public sample"), starting_point(setup)
    rows, costs = rows.where(rows.present), list[list[float]]()
    for place, held in enumerate(folds(len(rows), FOLDS)):
        others = rows.where(~held)
        parts = others, others.where(np.arange(len(others)) % 2 == 0)
        models = [_trained(algorithm, begin, part, [seed, place]) for part in parts]
        losses = (record_losses(algorithm.structure, rows.where(held), each, terms.model.classifies) for each in models)
        costs.append([float(each.mean()) for each in losses])
    whole, half = np.mean(costs, axis=0) * (1 if terms.model.classifies else 2)
    seen = len(rows) * (1 - 1 / FOLDS)
    if not half - whole < whole:
        raise DataError("public sample: too few rows to estimate the test cost of boosted trees; use a larger sample")
    return float(whole - (half - whole) * max(0.0, 1 - seen / float(algorithm.records.sum())))


def _trained(algorithm: BoostedTrees, begin: Floats, rows: PlacedRows, seed: list[int]) -> Floats:
    """Leaf values [P] trained from `begin` on these rows, with noise scaled as the owners' noise is."""
    weights, count = algorithm.weights, float(len(rows))
    mean_noise_deviation = float(weights**2 @ algorithm.noise) ** 0.5 / float(weights @ algorithm.records)  # in a mean
    few = replace(
        algorithm, names=("",), records=np.array([count]), noise=np.array([(count * mean_noise_deviation) ** 2])
    )
    rng, structure, state = np.random.default_rng(seed), few.structure, few.start(begin)
    for turn in range(1, few.horizon + 1):
        leaves = structure.leaves[structure.place(turn)]
        answer = np.zeros((2, structure.largest))
        answer[:, : leaves.size] = leaf_means(rows, structure, leaves, state.theta, few.share)
        state = few.update(state, (answer + mean_noise_deviation * rng.normal(size=answer.shape)).ravel())
    return state.theta


def score_trees(terms: Terms, model_file: Path, name: str | None, data: Path | None) -> Sheet:
    """Compare the joint trees with those an owner, or every owner, would learn alone without noise."""
    from parley.learning.outcome import load_model
    from parley.learning.owners import open_owners, table_of

    model = load_model(model_file)
    owners = open_owners(terms) if name is None else [Owner(name, table_of(terms.owner(name), data))]
    metrics_by_owner = {}
    with progress_bar("alone and together, on own rows") as progress:
        for place, owner in enumerate(owners):
            progress(place, len(owners))
            metrics_by_owner[owner.name] = compared(terms, owner, model)
    rows, shown = (
        [{"name": called, "rows": held, **each} for called, (held, each) in metrics_by_owner.items()],
        list[Part](),
    )
    for called, (held, metrics) in metrics_by_owner.items():
        table = [[f"{held:,} held-out rows of {called}", *metrics]]
        table += [
            [key.replace("_", " "), *(number(each[key]) for each in metrics.values())] for key in metrics["alone"]
        ]
        shown += [Grid(table), *lines([_better_trees_sentence(called, metrics)], "bold")]
    inside = Line(KEEP_INSIDE_NOTE, "dim", folded=True)
    return Sheet({"owners": rows, "terms_hash": terms.hash}, [*shown, inside], inside=True)


def _better_trees_sentence(owner: str, metrics: Mapping[str, Metrics]) -> str | None:
    """Say in one sentence which trees serve this owner's rows better."""
    key = "r2" if "r2" in metrics["alone"] else "auc"
    together, alone = metrics["together"][key], metrics["alone"][key]
    if together is None or alone is None:
        return None
    best = "together" if together > alone else "alone"
    sentence = f"Better for {owner}'s own rows: {best} ({key} {number(together)} together, {number(alone)} alone)."
    return (
        f"{sentence} The joint trees are worse than always predicting the mean."
        if key == "r2" and together < 0
        else sentence
    )
