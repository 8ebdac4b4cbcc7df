"""Joined tables on one machine: what the hosts would open, and the models that follow from it.

A simulation reads all tables at once, which no party can. It matches people in the clear by `joined_moments`, the
hosts' ideal function, and adds noise of the hosts' law from a seeded generator.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parley.errors import SettingError
from parley.learning.outcome.metrics import Metrics, task_metrics
from parley.learning.outcome.model import JointModel, make_model
from parley.owner.owner import Owner
from parley.privacy.events import Adjacency
from parley.privacy.sharing.matching.keyed_rows import joined_moments
from parley.protocol.task import RunSettings
from parley.tasks.joined.fitting import (
    Fitted,
    MeanMoments,
    fit_moments,
    mean_moments,
    public_start,
    risk,
    scored_rows,
)
from parley.tasks.joined.plan import JoinPlan, join_plan
from parley.tasks.joined.tables import PeopleTable, people_table
from parley.terms import Terms
from parley.validate import Floats, upper

STUDY_ONLY = "owners: either all owners have ledgers, for a release, or none has, for a simulation"


@dataclass(frozen=True, eq=False)
class Scored:
    """A model's figures on held-out people whom all tables hold: of every run, or of one model without noise."""

    name: str
    people: float  # that it learned from
    metrics: Sequence[Metrics]

    def values(self, metric: str) -> Floats:
        """Return one metric of every run; NaN where it is not defined."""
        found = [run[metric] for run in self.metrics]
        return np.array([np.nan if value is None else value for value in found])


@dataclass(frozen=True, eq=False)
class JoinedResult:
    """What a simulation of joined tables came to; all of it stays inside."""

    plan: JoinPlan
    fits: Sequence[Fitted]  # one for each run
    clear: MeanMoments  # without noise
    matched: int
    held_out: int
    joined: Scored
    without_noise: Scored
    alone: Sequence[Scored]  # each owner's columns, without noise
    seconds: float

    @property
    def terms(self) -> Terms:
        return self.plan.terms

    @property
    def model(self) -> JointModel:
        """The model of the first run."""
        first = self.fits[0]
        return make_model(self.plan.whole, first.theta, self.terms.hash, False, first.posterior)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley train --json` prints."""
        law, terms = self.plan.law, self.terms
        return {
            "title": terms.title,
            "owners": [
                {"name": owner.name, "records": part.records, "columns": owner.width, "clip": clip / law.unit}
                for owner, part, clip in zip(self.plan.owners, terms.owners, law.clips, strict=True)
            ],
            "epsilon": upper(terms.common_epsilon),
            "delta": terms.privacy.delta,
            "matches_epsilon": self.plan.join.epsilon,
            "matches_delta": self.plan.join.delta,
            "adjacency": Adjacency.REPLACE_ONE,
            "sensitivity": law.moved / law.unit**2,
            "deviation": law.deviation,
            "event": law.noise.event.to_dict(),
            "matched": self.matched,
            "held_out": self.held_out,
            "drowned": self.fits[0].drowned,
            "models": [_figures(each) for each in (self.joined, self.without_noise, *self.alone)],
            "replicates": len(self.fits),
            "released": False,
            "terms_hash": terms.hash,
            "seconds": self.seconds,
        }


def _figures(scored: Scored) -> dict[str, Any]:
    metrics = {name: scored.values(name) for name in scored.metrics[0]}
    found: dict[str, Any] = {"name": scored.name, "people": scored.people}
    for name, values in metrics.items():
        defined = not np.isnan(values).any()
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)) if defined else (None, None, None)
        found[name] = {"mean": float(values.mean()) if defined else None, "q25": low, "median": middle, "q75": high}
    return found


def simulate_join(terms: Terms, owners: Sequence[Owner], settings: RunSettings) -> JoinedResult:
    """Simulate the match and the models under these terms, with the tables of all owners on this machine."""
    began = time.perf_counter()
    if any(owner.releases for owner in owners):
        raise SettingError(STUDY_ONLY)
    if settings.replicates < 1:
        raise SettingError(f"replicates = {settings.replicates}: expected at least 1")
    plan = join_plan(terms)
    tables = [people_table(plan, part.name, _table_of(owners, part.name)) for part in terms.owners]
    law = plan.law
    keyed = [table.keyed(law, clip, terms.hash) for table, clip in zip(tables, law.clips, strict=True)]
    exact = joined_moments(keyed, law.unit)
    held = _Joined.of(plan, tables, held_out=True)
    matched = int(exact[-1]) // law.unit**2
    rng, fits = np.random.default_rng(settings.seed), []
    for run in range(settings.replicates):
        noise = law.noise.drawn((law.noise.size,), rng).view(np.int64)
        fits.append(fit_moments(plan, mean_moments((exact + noise).astype(np.float64), law.unit, law.deviation)))
        settings.progress(run + 1, settings.replicates)
    clear = mean_moments(exact.astype(np.float64), law.unit, 0.0)

    def scored(name: str, people: float, thetas: Sequence[Floats]) -> Scored:
        return Scored(name, people, [held.metrics(plan, theta) for theta in thetas])

    return JoinedResult(
        plan,
        fits,
        clear,
        matched,
        len(held.y),
        scored("joined", matched, [fit.theta for fit in fits]),
        scored("joined, without noise", matched, [fit_moments(plan, clear).theta]),
        [scored(name, n, [theta]) for name, n, theta in _alone(plan, tables, clear, matched)],
        time.perf_counter() - began,
    )


def _table_of(owners: Sequence[Owner], name: str) -> Any:
    found = [owner.table for owner in owners if owner.name == name]
    if len(found) != 1:
        raise SettingError(f"owners: expected one owner called {name!r}, found {len(found)}")
    return found[0]


@dataclass(frozen=True, eq=False)
class _Joined:
    """People whom all tables hold, on one side of the split: features [n, p] at most 1 in size, and targets [n]."""

    features: Floats
    y: Floats

    @classmethod
    def of(cls, plan: JoinPlan, tables: Sequence[PeopleTable], held_out: bool) -> "_Joined":
        listed = [
            {
                person: at
                for at, person in enumerate(table.people)
                if table.present[at] and table.held_out[at] == held_out
            }
            for table in tables
        ]
        common = sorted(set(listed[0]).intersection(*listed[1:]))
        rows = [np.array([each[person] for person in common], dtype=np.intp) for each in listed]
        features = np.column_stack([table.features[at] for table, at in zip(tables, rows, strict=True)])
        parts = [table.targets[at] for table, at in zip(tables, rows, strict=True) if table.columns.outcomes]
        return cls(features, _labels(plan, parts[0]))

    def metrics(self, plan: JoinPlan, theta: Floats) -> Metrics:
        return task_metrics(risk(plan.whole), plan.whole, scored_rows(plan, self.features, self.y), theta)


def _labels(plan: JoinPlan, targets: Floats) -> Floats:
    """Return prepared targets [n] from the numbers in a joined row."""
    if plan.whole.model.predicts == "classes":
        return np.asarray(targets.argmax(axis=1), dtype=np.float64)
    return targets[:, 0] * plan.target_size


def _alone(
    plan: JoinPlan, tables: Sequence[PeopleTable], clear: MeanMoments, matched: int
) -> list[tuple[str, float, Floats]]:
    """Return (name, people, theta) for each owner's columns without noise: the target's owner learns from all its own
    rows; of another owner's columns nobody could learn without the match. With a public start, that fit, too."""
    found = []
    for table in tables:
        name, only = table.columns.name, plan.columns_of(table.columns.name)
        if table.columns.outcomes and only.size:
            own = _own_moments(plan, table)
            found.append((f"{name} alone", own.people, fit_moments(plan, own, only).theta))
        elif len(table.columns.sizes):
            found.append((f"columns of {name}, matched", float(matched), fit_moments(plan, clear, only).theta))
    if plan.public is not None and plan.terms.learning.start is not None:
        found.append(("public sample alone", float(len(plan.public)), public_start(plan).theta))
    return found


def _own_moments(plan: JoinPlan, table: PeopleTable) -> MeanMoments:
    """Return the moments of one owner's own training rows; other owners' columns are zeros."""
    rows = table.trained
    z = np.zeros((int(rows.sum()), plan.constant + 1))
    z[:, plan.places(table.columns.name)] = np.column_stack([table.features[rows], table.targets[rows]])
    z[:, -1] = 1.0
    return MeanMoments(z.T @ z / max(len(z), 1), float(max(len(z), 1)), 0.0)
