"""How good a read-out is on recordings that were held out, or are new, measured inside, and what an owner would have
alone.

Formal guarantee: none. Everything here is computed from private recordings without noise: for studies, and for an
owner's own eyes.
"""

from collections.abc import Sequence

import numpy as np

from parley.data.sources import Table, read_table
from parley.errors import ModelError
from parley.learning.outcome.metrics import Metrics
from parley.learning.outcome.model import JointModel
from parley.learning.outcome.study import Quality
from parley.losses.inference import solve
from parley.losses.moments import unpack_moments
from parley.owner.owner import Agreement, Owner
from parley.tasks.reservoir.recordings import reservoir_preparation
from parley.terms import Model, Terms
from parley.validate import Floats

NAMES = ("nrmse", "r2")


def pooled_moments(records: Sequence[Floats]) -> Floats:
    """The mean matrix [p + 1, p + 1] of all recordings of several tables, as prepared."""
    together = np.concatenate(records)
    width = round((np.sqrt(8 * together.shape[1] + 1) - 1) / 2)
    return unpack_moments(together.mean(axis=0), width - 1, "l1")


def squared_error(moments: Floats, theta: Floats) -> float:
    """The mean of (y - theta.(f, u, 1))^2, of scaled targets."""
    signed = np.append(theta, -1.0)
    return max(float(signed @ moments @ signed), 0.0)


def recording_metrics(moments: Floats, theta: Floats) -> Metrics:
    """`nrmse`, the root of the mean squared error in units of the targets' own deviation, and `r2`; None where targets
    are constant, or there are none."""
    samples = float(moments[-2, -2])  # of the constant: how full the recordings are
    if not samples > 0:
        return dict.fromkeys(NAMES)
    spread = float(moments[-1, -1]) / samples - (float(moments[-2, -1]) / samples) ** 2
    if not spread > 1e-14:
        return dict.fromkeys(NAMES)
    share = squared_error(moments, theta) / samples / spread
    return {"nrmse": share**0.5, "r2": 1 - share}


def best_read_out(moments: Floats, model: Model) -> Floats:
    """The read-out of exact moments."""
    return np.asarray(solve(moments, len(moments) - 1, 0.0, "l1", model.penalty).theta[0])


def measured(agreements: Sequence[Agreement], theta: Floats) -> Quality:
    """The quality of a study's read-outs [replicates, p]: the cost of training recordings beside the least there is,
    metrics of held-out ones."""
    model, unit = agreements[0].setup.terms.model, agreements[0].setup.preparation.target_scale ** 2
    moments = pooled_moments([a.tables.train.in_memory().X for a in agreements])
    best = best_read_out(moments, model)
    costs = np.array([_cost(moments, each, model) for each in theta])
    least = _cost(moments, best, model)
    held_out = np.concatenate([a.tables.held_out.in_memory().X for a in agreements])
    found = [_metrics(held_out, each) for each in theta]
    means = {name: _mean([each[name] for each in found]) for name in NAMES}
    path = costs[None] / least - 1 if least > 0 else None
    undefined = None if least > 0 else "the best read-out without privacy has no cost"
    metrics = means, _metrics(held_out, best)
    return Quality(path, float(costs.mean()) * unit, least * unit, best, *metrics, undefined)


def clipped_share(agreement: Agreement) -> float:
    """The share of an owner's recordings that the clip scales down."""
    return agreement.part.training.question.scaled_share(agreement.tables, np.zeros(0))


def compared(terms: Terms, owner: Owner, model: JointModel, new: Table | None) -> tuple[int, dict[str, Metrics]]:
    """(recordings, metrics of the joint read-out and of the one that the owner solves alone, without noise), on its
    held-out recordings, or on new ones."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained by other terms; expected the terms it carries the hash of")
    tables = owner.prepare(terms).tables
    records = tables.held_out.in_memory().X if new is None else new_records(terms.model, new)
    if not len(records):
        raise ModelError(
            "model.holdout: these terms hold no recordings out; give new ones with --data"
            if new is None
            else "new recordings: expected one or more"
        )
    alone = best_read_out(pooled_moments([tables.train.in_memory().X]), terms.model)
    return len(records), {"together": _metrics(records, model.theta_), "alone": _metrics(records, alone)}


def new_records(model: Model, table: Table) -> Floats:
    """The recordings of a table that nobody learned from, prepared."""
    return reservoir_preparation(model).records(read_table(table), "new recordings")


def _cost(moments: Floats, theta: Floats, model: Model) -> float:
    return squared_error(moments, theta) + model.penalty / 2 * float(theta @ theta)


def _metrics(records: Floats, theta: Floats) -> Metrics:
    return recording_metrics(pooled_moments([records]), theta) if len(records) else dict.fromkeys(NAMES)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None
