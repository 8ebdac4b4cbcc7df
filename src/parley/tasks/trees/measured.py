"""How good trees are on rows that were held out, measured inside, and what an owner would have alone.

Formal guarantee: none. Everything here is computed from private records without noise: for studies, and for an owner's
own eyes.
"""

from collections.abc import Sequence

import numpy as np

from parley.errors import ModelError
from parley.learning.outcome.metrics import Metrics, metrics_of
from parley.learning.outcome.model import JointModel
from parley.learning.outcome.study import Quality
from parley.learning.prediction import learn_model
from parley.owner.owner import Agreement, Owner
from parley.protocol.task import RunSettings
from parley.tasks.trees.placed_rows import PlacedRows
from parley.tasks.trees.question import placed_rows_of
from parley.tasks.trees.structure import Structure, make_structure
from parley.terms import Terms
from parley.validate import Floats

NO_OPTIMUM = "trees of noisy leaves have no best model without privacy to compare with"
SILENT = 1e6  # an epsilon at which noise is no longer heard, and nobody hidden


def measured(agreements: Sequence[Agreement], theta: Floats) -> Quality:
    """The quality of a study's models [replicates, P]: mean loss of training records, metrics of held-out ones."""
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
    """The task's own metrics of one model [P] on these records."""
    preparation, some = agreement.setup.preparation, rows.where(rows.present)
    return metrics_of(preparation.model.predicts, some.y, make_structure(preparation).scores(some.X, theta))


def compared(terms: Terms, owner: Owner, model: JointModel) -> tuple[int, dict[str, Metrics]]:
    """(held-out rows, metrics of the joint model and of trees that the owner would learn alone, without noise)."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained by other terms; expected the terms it carries the hash of")
    agreement = owner.prepare(terms)
    held_out = placed_rows_of(agreement.tables.held_out)
    if not held_out.present.any():
        raise ModelError("model.holdout: these terms hold no rows with a target out, so there is nothing to score on")
    silent = terms.changed(
        only=[owner.name],
        owners={owner.name: {"epsilon": SILENT}},
        privacy={"noise": "each-owner", "shared_records": 1, "mechanism": "laplace", "delta": 0.0},
        hosts=(),
    )
    alone = learn_model(silent, [owner], RunSettings(seed=0, measure=False)).theta[0]
    models = {"together": model.theta_, "alone": alone}
    return int(np.count_nonzero(held_out.present)), {
        name: held_out_metrics(agreement, held_out, theta) for name, theta in models.items()
    }


def record_losses(structure: Structure, rows: PlacedRows, theta: Floats, classes: bool) -> Floats:
    """The loss of each record [n]; 0 without a target."""
    scores = structure.scores(rows.X, theta)
    losses = np.logaddexp(0.0, -rows.y * scores) if classes else np.square(rows.y - scores) / 2
    return np.asarray(losses * rows.present)


def _pooled(parts: Sequence[object]) -> PlacedRows:
    return PlacedRows.joined([placed_rows_of(part) for part in parts])
