"""The task "prediction": owners learn to predict a column of their tables from the others."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parley import losses
from parley.data import Design, Preparation, fit_preparation, listed_features
from parley.data.forest import MarginForest, MarginLines
from parley.errors import DataError
from parley.learning.algorithms.algorithm import Algorithm
from parley.losses import Objective
from parley.losses.objective import EmpiricalRisk
from parley.losses.objectives.newton import optimum_by_newton
from parley.numerals import counted
from parley.owner.owner import Agreement, Owner
from parley.protocol.queries import QUESTION_KINDS, Question
from parley.protocol.setup import Setup
from parley.protocol.task import RunSettings, register
from parley.tasks.records import BoundedRecords
from parley.terms import Model, Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import Floats, printable


class Prediction(BoundedRecords):
    """A task whose result is a model with `predict`."""

    name = PREDICTION
    predicts = True
    refusal = "model.kind: these terms predict a column; parley train runs them"
    questions: ClassVar[dict[str, type[Question]]] = QUESTION_KINDS
    usual_commands = ("train", "learner run", "score", "refine", "forecast")

    def preparation(
        self, terms: Terms, example: pd.DataFrame | None = None, redraw: int | None = None
    ) -> tuple[Preparation, Design | None]:
        return fit_preparation(terms, example, redraw, partial(_curvatures, terms.model))

    def features(self, terms: Terms, table: pd.DataFrame) -> tuple[str, ...] | None:
        return listed_features(terms, table)

    def objective(self, model: Model) -> Objective:
        return losses.make(model)

    def purpose(self, agreement: Agreement) -> list[str]:
        """Say what is predicted from which columns, and how their cells are changed."""
        said = f"Model: {self.about(agreement)}{_classes(agreement)}."
        return [said, *_cells(agreement), "A row without a target counts as a record and contributes nothing."]

    def model(self, preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> Any:
        from parley.learning.outcome.model import prediction_model

        return prediction_model(preparation, theta, terms_hash, released)

    def algorithm(self, setup: Setup) -> Algorithm:
        from parley.learning.algorithms.catalogue import prediction_algorithm

        return prediction_algorithm(setup)

    def run(self, terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> Any:
        from parley.learning.prediction import learn_model  # an owner that serves learns nothing

        return learn_model(terms, owners, settings)

    def figure(self, result: Any) -> Any:
        """Return a figure of the path to the model without privacy."""
        from parley.report.figures import curves  # a library that is slow to load

        return None if result.path is None else curves.fitness_path(result.path)


def public_curvatures(objective: EmpiricalRisk, preparation: Preparation, design: Design) -> Floats:
    """Return the curvature of the cost by each public row at the rows' best fit [n]. No private record is read. The fit
    has a ridge of parameters/rows times the mean initial curvature, as in `data.whitening`, so it exists for separable
    classes."""
    start = objective.start(preparation)
    hessian, curvatures = objective.hessian(design, start), None
    if hessian is not None:
        ridge = min(1.0, len(start) / len(design)) * float(np.trace(hessian)) / len(start)
        ridged = replace(objective, regularisation=objective.regularisation + ridge)
        curvatures = objective.record_curvatures(design, optimum_by_newton(ridged, [design], None, start))
    if curvatures is None:
        raise DataError(
            "model.whitening: the curvature cannot be computed; use fewer columns, or set model.whitening to 'public'"
        )
    return curvatures


def _curvatures(model: Model, preparation: Preparation, public: Design) -> Floats:
    """Return `public_curvatures` for the cost that these terms name."""
    return public_curvatures(losses.make(model).bounded_by(preparation), preparation, public)


def _cells(agreement: Agreement) -> list[str]:
    """Say which targets count as 1, and how cells are changed before use."""
    preparation, notes = agreement.setup.preparation, []
    if preparation.target_words is not None:
        notes.append(preparation.target_words)
    filled = [printable(e.column, 40) for e in preparation.encodings if e.fills]
    changed = [f"{e.transform} of {printable(e.column, 40)}" for e in preparation.encodings if e.transform is not None]
    coded: dict[str, list[str]] = {}
    for encoding in preparation.encodings:
        if encoding.words is not None:
            coded.setdefault(encoding.words, []).append(printable(encoding.column, 40))
    sentences = (
        *coded.items(),
        ("Missing cells are filled with public numbers and marked in", filled),
        ("Transformed before use:", changed),
    )
    notes += [f"{what} {', '.join(columns)}." for what, columns in sentences if columns]
    forest, model = preparation.forest, agreement.setup.terms.model
    if forest is not None:
        origin = _tree_origin(model) if model.columns == "trees" else "the bins of one column each"
        origin += "" if model.crossed is None else f", and of {len(model.crossed)} pairs"
        coded_as = "a 1 in one leaf" if model.columns != "hinges" else "a 1 split between two neighbouring leaves"
        if isinstance(forest, MarginLines):
            notes.append(
                "The columns of a record are then centred, scaled, and clipped to the range of public rows. For "
                f"each outcome, the record gets one more column: the prediction of "
                f"{counted(forest.margin.trees, 'tree')} ({origin}). The L2 norm of a record is at most "
                f"{float(np.sqrt(np.square(forest.sizes).sum())):.3g}."
            )
            return [
                *notes,
                "Training starts at the trees' predictions, and a penalty pulls the model towards these predictions.",
            ]
        notes.append(
            f"A record is then coded as {coded_as} of each of {counted(forest.trees, 'tree')} ({origin}; "
            f"{forest.leaves:,} leaves in all), and 0 in all other leaves. This coding bounds the norm of every record."
        )
        if isinstance(forest, MarginForest):
            notes.append(
                f"The predictions of {forest.margin.trees:,} more trees for the record add up to a public margin. "
                "The margin has one column per outcome, with a fixed weight and absolute values of at most "
                f"{float(forest.sizes[forest.trees :].max()):.2g}."
            )
        if preparation.origin is not None:
            notes.append(
                "Training starts at the trees' public leaf values, and a penalty pulls the model towards these values."
            )
    return notes


def _tree_origin(model: Model) -> str:
    if model.preparation is None:
        return "grown on the public sample"
    return "from the pinned file that came with the terms; a line below says whether this machine grows the same trees"


def _classes(agreement: Agreement) -> str:
    if agreement.setup.terms.model.predicts != "classes":
        return ""
    names = [printable(name, 40) for name in agreement.setup.preparation.classes]
    return f"; its classes are {', '.join(names[:12])}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")


register(Prediction())
