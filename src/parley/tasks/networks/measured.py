"""How good a network is on rows that were held out, measured inside.

Formal guarantee: none. Everything here is computed from private records without noise: for studies, and for an owner's
own eyes.
"""

from collections.abc import Sequence

import numpy as np

from parley.data import Preparation
from parley.errors import ModelError
from parley.learning.outcome.metrics import Metrics, metrics_of
from parley.learning.outcome.model import JointModel
from parley.learning.outcome.study import Quality
from parley.owner.owner import Agreement, Owner
from parley.tasks.networks.modules import module_scores, set_parameters
from parley.tasks.networks.objective import architecture_of
from parley.tasks.networks.prepared_rows import NetworkRows, network_rows_of
from parley.terms import Terms
from parley.validate import Floats

NO_OPTIMUM = "networks have no best model without privacy to compare with"


def measured(agreements: Sequence[Agreement], theta: Floats) -> Quality:
    """The quality of a study's models [replicates, P]: mean loss of training records, metrics of held-out ones."""
    preparation = agreements[0].setup.preparation
    train, held_out = (_pooled([getattr(a.tables, part) for a in agreements]) for part in ("train", "held_out"))
    if preparation.model.holdout_by is not None:  # who is held out is there, and counts 0
        train = train.where(train.present)
    losses = [_mean_loss(preparation, train, each) for each in theta]
    rows = [held_out_metrics(preparation, held_out, each) for each in theta]
    known = {name: [row[name] for row in rows] for name in rows[0]}
    means = {name: None if None in values else float(np.mean(values)) for name, values in known.items()}  # type: ignore[arg-type]
    return Quality(None, float(np.mean(losses)), None, None, means, {}, NO_OPTIMUM)


def held_out_metrics(preparation: Preparation, rows: NetworkRows, theta: Floats) -> Metrics:
    """The task's own metrics of one model [P] on these records; numbers in their own units."""
    some, predicts = rows.where(rows.present), preparation.model.predicts
    said = _scores(preparation, some, theta)
    found = metrics_of(predicts, some.y, said if predicts == "classes" else said[:, 0])
    if (error := found.get("mean_absolute_error")) is not None:
        found["mean_absolute_error"] = error * preparation.target_scale
    return found


def own_metrics(terms: Terms, owner: Owner, model: JointModel) -> tuple[int, Metrics]:
    """(held-out rows, metrics of the joint model on them)."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained by other terms; expected the terms it carries the hash of")
    agreement = owner.prepare(terms)
    held_out = network_rows_of(agreement.tables.held_out)
    if not held_out.present.any():
        raise ModelError("model.holdout: these terms hold no rows with a target out, so there is nothing to score on")
    return int(np.count_nonzero(held_out.present)), held_out_metrics(
        agreement.setup.preparation, held_out, model.theta_
    )


def _scores(preparation: Preparation, rows: NetworkRows, theta: Floats) -> Floats:
    module = architecture_of(preparation).module()
    set_parameters(module, theta)
    return module_scores(module, rows.X)


def _mean_loss(preparation: Preparation, rows: NetworkRows, theta: Floats) -> float:
    said = _scores(preparation, rows, theta)
    if preparation.model.classifies:
        above = said - said.max(axis=1, keepdims=True)
        log_p = above - np.log(np.exp(above).sum(axis=1, keepdims=True))
        losses = -log_p[np.arange(len(rows)), rows.y.astype(int)]
    else:
        losses = np.square(said[:, 0] - rows.y) / 2 * preparation.target_scale**2
    return float(np.mean(losses * rows.present))


def _pooled(parts: Sequence[object]) -> NetworkRows:
    return NetworkRows.joined([network_rows_of(part) for part in parts])
