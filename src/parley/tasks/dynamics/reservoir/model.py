"""An echo-state network as a fitted model: its read-out solved, saved and measured on held-out recordings.

Formal guarantee: none for what is measured. It is computed from private recordings without noise: for studies, and for
an owner's own eyes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from parley.data import Preparation, read_table
from parley.data.sources import Table
from parley.errors import ModelError, SettingError
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.sufficient_statistics import SufficientStatistics
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.learning.outcome.metrics import Metrics, Quality
from parley.learning.outcome.model import JointModel, JointRegressor
from parley.learning.outcome.posterior import Posterior
from parley.losses.moments import solve, unpack_moments
from parley.numerals import number
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.report.sheet import Grid, Line, Part, Sheet
from parley.report.terminal import progress_bar
from parley.tasks.dynamics.reservoir.recordings import ReservoirPreparation, StateMomentsQuery, reservoir_preparation
from parley.terms import Model, Terms
from parley.validate import Floats


class EchoStateRegressor(JointRegressor):
    """A read-out of the terms' reservoir. Tables have a column of recordings; an array is one recording."""

    preparation_: ReservoirPreparation

    def _take_coefficients(self, split: int) -> None:
        self.coef_, self.intercept_ = self.theta_[:-1], float(self.theta_[-1])

    def _scores(self, X: Any) -> Floats:
        self._require_theta()
        return self._rows(X) @ self.theta_

    def _rows(self, X: Any) -> Floats:
        if isinstance(X, pd.DataFrame):
            return self.preparation_.states(read_table(X), "table")
        return self.preparation_.one_recording(self._positional(X))


def echo_state_model(preparation: Preparation, theta: Floats, terms_hash: str, released: bool) -> EchoStateRegressor:
    """Return the fitted model of this read-out [p]."""
    return EchoStateRegressor()._take(reservoir_preparation(preparation.model), theta, terms_hash, released)


@dataclass(frozen=True)
class ReadOut(SufficientStatistics):
    """Least squares of the released moments, lifted where noise hides them."""

    def query(self, state: State, asker: Asker) -> StateMomentsQuery:  # type: ignore[override]
        return StateMomentsQuery.ask(asker.terms_hash, asker.learner, state.round)

    def posterior(self, state: State) -> Posterior | None:
        """Return None: a recording's samples are dependent, so no number of records gives the uncertainty."""
        return None

    def released(self, state: State, setup: Setup) -> dict[str, Any] | None:
        """Return None: no forecast uses moments of states."""
        return None


METRIC_NAMES = ("nrmse", "r2")


def pooled_moments(records: Sequence[Floats]) -> Floats:
    """Return the mean matrix [p + 1, p + 1] of all prepared recordings of several tables."""
    together = np.concatenate(records)
    width = round((np.sqrt(8 * together.shape[1] + 1) - 1) / 2)
    return unpack_moments(together.mean(axis=0), width - 1, "l1")


def squared_error(moments: Floats, theta: Floats) -> float:
    """Return the mean of (y - theta.(f, u, 1))^2, of scaled targets."""
    signed = np.append(theta, -1.0)
    return max(float(signed @ moments @ signed), 0.0)


def recording_metrics(moments: Floats, theta: Floats) -> Metrics:
    """Return `nrmse` (the error over the targets' deviation) and `r2`; None for constant or missing targets."""
    samples = float(moments[-2, -2])  # of the constant: how full the recordings are
    if not samples > 0:
        return dict.fromkeys(METRIC_NAMES)
    spread = float(moments[-1, -1]) / samples - (float(moments[-2, -1]) / samples) ** 2
    if not spread > 1e-14:
        return dict.fromkeys(METRIC_NAMES)
    share = squared_error(moments, theta) / samples / spread
    return {"nrmse": share**0.5, "r2": 1 - share}


def best_read_out(moments: Floats, model: Model) -> Floats:
    """Return the read-out of exact moments."""
    return np.asarray(solve(moments, len(moments) - 1, 0.0, "l1", model.penalty).theta[0])


def measured(agreements: Sequence[Agreement], theta: Floats) -> Quality:
    """Return the quality of a study's read-outs [replicates, p]: training cost over the least, held-out metrics."""
    model, unit = agreements[0].setup.terms.model, agreements[0].setup.preparation.target_scale ** 2
    moments = pooled_moments([a.tables.train.in_memory().X for a in agreements])
    best = best_read_out(moments, model)
    costs = np.array([_cost(moments, each, model) for each in theta])
    optimal_cost = _cost(moments, best, model)
    held_out = np.concatenate([a.tables.held_out.in_memory().X for a in agreements])
    run_metrics = [_metrics(held_out, each) for each in theta]
    means = {name: _mean([each[name] for each in run_metrics]) for name in METRIC_NAMES}
    path = costs[None] / optimal_cost - 1 if optimal_cost > 0 else None
    undefined = None if optimal_cost > 0 else "the best read-out without privacy has no cost"
    metrics = means, _metrics(held_out, best)
    return Quality(path, float(costs.mean()) * unit, optimal_cost * unit, best, *metrics, undefined)


def clipped_share(agreement: Agreement) -> float:
    """Return the share of an owner's recordings that the clip scales down."""
    return agreement.part.training.question.scaled_share(agreement.tables, np.zeros(0))


def compared(terms: Terms, owner: Owner, model: JointModel, new: Table | None) -> tuple[int, dict[str, Metrics]]:
    """Return (held-out or new recordings, metrics of the joint read-out and of the owner's own without noise)."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained under other terms; give the terms file that it was trained with")
    tables = owner.prepare(terms).tables
    records = tables.held_out.in_memory().X if new is None else new_records(terms.model, new)
    if not len(records):
        raise ModelError(
            "model.holdout: these terms have no held-out recordings; give new recordings with --data"
            if new is None
            else "new recordings: expected at least one recording"
        )
    alone = best_read_out(pooled_moments([tables.train.in_memory().X]), terms.model)
    return len(records), {"together": _metrics(records, model.theta_), "alone": _metrics(records, alone)}


def new_records(model: Model, table: Table) -> Floats:
    """Return the prepared recordings of a table outside the training."""
    return reservoir_preparation(model).records(read_table(table), "new recordings")


def _cost(moments: Floats, theta: Floats, model: Model) -> float:
    return squared_error(moments, theta) + model.penalty / 2 * float(theta @ theta)


def _metrics(records: Floats, theta: Floats) -> Metrics:
    return recording_metrics(pooled_moments([records]), theta) if len(records) else dict.fromkeys(METRIC_NAMES)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def score_reservoir(terms: Terms, model_file: Path, name: str | None, data: Path | None) -> Sheet:
    """Compare the joint read-out with an owner's own, or every owner's, on held-out recordings or --data."""
    from parley.learning.outcome import load_model
    from parley.learning.owners import open_owners, table_of

    model = load_model(model_file)
    owners = open_owners(terms) if name is None else [Owner(name, table_of(terms.owner(name), None))]
    metrics_by_owner = {}
    with progress_bar("alone and together, on recordings") as progress:
        for place, owner in enumerate(owners):
            progress(place, len(owners))
            metrics_by_owner[owner.name] = compared(terms, owner, model, None if data is None else str(data))
    rows, shown = (
        [{"name": called, "recordings": many, **each} for called, (many, each) in metrics_by_owner.items()],
        list[Part](),
    )
    for called, (many, metrics) in metrics_by_owner.items():
        table = [[f"{many:,} {'held-out' if data is None else 'new'} recordings, {called}", *metrics]]
        table += [[key, *(number(each[key]) for each in metrics.values())] for key in metrics["alone"]]
        shown.append(Grid(table))
    inside = Line(KEEP_INSIDE_NOTE, "dim", folded=True)
    return Sheet({"owners": rows, "terms_hash": terms.hash}, [*shown, inside], inside=True)


def forecast_reservoir(terms: Terms, pilot: Path | None) -> NoReturn:
    """Refuse: no forecast of a read-out exists yet."""
    raise SettingError(
        "echo-state networks: forecasts are not available yet; simulate the training with parley train without "
        "--ledgers"
    )
