"""An owner's inside view: the outlook with its own rows added to public knowledge, for its own eyes. Nothing leaves.

Own rows show how far their estimate lies from the public fit. That is a sum of unknowns: how the owner and the sample's
population differ, and the chance of both. Draws of them are moved to agree with it, and the likelihood weighs how much
owners differ (`owners`). Cross-validation gives the cost of the model alone, trees included. Without a public sample,
own rows stand in its place.

Formal guarantee: none. Everything here is computed from private rows without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import fdtrc

from parley.data import Design
from parley.data.blocks import one_thread
from parley.data.sources import Table
from parley.decisions.knowledge.baselines import LearningCurve
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.pilot import Pilot, open_pilot
from parley.decisions.knowledge.sources import Sample, Source, bent
from parley.decisions.outlook.forecast import Forecast, forecast
from parley.decisions.outlook.gains import Gains
from parley.decisions.outlook.outlook import Outlook, OwnerOutlook
from parley.decisions.outlook.owners import Seen
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.correction import MadeOf, PersonalModel
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.losses import EmpiricalRisk
from parley.owner.owner import Owner
from parley.terms import Terms
from parley.validate import Floats

MIN_ROWS = 10
MIN_VARIANCE_SHARE = 0.25  # of what public rows expect: a name that no own row has is not known for certain
TEST_LEVEL = 0.05  # of the test: how often owners whose rows do follow the public law are said to differ
MAX_TEST_ROWS = 16_000  # rows that the test looks at


@dataclass(frozen=True)
class LawTest:
    """A test of whether own rows follow the public sample's law, as far as this model is concerned."""

    p_value: float
    statistic: float  # about 1 under one law
    directions: int  # of the parameters that were looked at

    @property
    def differs(self) -> bool:
        return self.p_value < TEST_LEVEL


@dataclass(frozen=True)
class InsideView:
    """What joining would add for one owner's customers, by its own rows and public knowledge."""

    outlook: Outlook
    rows: int
    law: LawTest | None  # None: there is no public sample, and everybody is taken to follow this owner's law
    alone_model: MadeOf  # of what the model alone is made, by own rows
    worth: float = LEAST_GAIN  # share of the cost alone that joining must save to count

    @property
    def owner(self) -> OwnerOutlook:
        """The owner's row of the outlook."""
        return next(owner for owner in self.outlook.owners if owner.name == self.outlook.inside)

    @property
    def least(self) -> float:
        """The least saving per row that makes joining worth it, in the target's own units."""
        return self.worth * self.owner.alone + self.owner.price

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley forecast --inside --json` prints."""
        law = self.law and {"p_value": self.law.p_value, "level": TEST_LEVEL, "differs": self.law.differs}
        head = {"owners": [self.owner.to_json()], "rows": self.rows, "alone_model": self.alone_model}
        return {**head, "worth": self.worth, "price": self.owner.price, "least": self.least, "law": law}


@one_thread
def inside_view(
    terms: Terms,
    owner: Owner,
    pilot: Table | Source | None = None,
    seed: int = 0,
    worth: float = LEAST_GAIN,
    differences: Heterogeneity | None = None,
    progress: Progress = lambda done, total: None,
    public: Forecast | None = None,
) -> InsideView:
    """Return what joining by these terms would add for this owner's customers. The verdict is to join if that exceeds
    `worth`, a share of the cost alone, plus its privacy cost. `public`: the same pilot and seed's forecast."""
    if not 0 <= worth < 1:
        raise SettingError(
            f"worth: expected a share of the cost of the owner's own model, at least 0 and below 1; got {worth}"
        )
    if public is None and (pilot is not None or terms.model.public is not None):
        public = forecast(terms, pilot, seed, differences=differences)
    known = open_pilot(terms) if public is None else public.expected.pilot
    if not known.has_rows:
        raise DataError("an inside view compares an owner's rows with public rows; give a public sample as the pilot")
    agreement = owner.prepare(known.setup)
    rows = agreement.tables.train.in_memory().targeted()
    if len(rows) < MIN_ROWS:
        raise DataError(
            f"{owner.name}: {len(rows)} training rows are too few for an inside view; expected {MIN_ROWS} or more"
        )
    own_law = known.source.invented
    if own_law or public is None:
        public = forecast(terms, Sample(rows.for_studies()), seed, differences=differences)
    (law,), place = public.outlook.laws, public.outlook.names.index(owner.name)
    none = np.empty((0, agreement.setup.parameters))
    alone, _ = alone_and_personal_models(agreement, none, plain_columns(owner, agreement)[0], False, progress)
    if not own_law:
        law = law.seeing(_seen(law, place, rows, alone.linear))
    law = _with_own_costs(law, place, alone)
    inside = replace(public.outlook, laws=(law,), inside=owner.name, least=worth)
    return InsideView(inside, len(rows), None if own_law else _law(known, rows), alone.made_of, worth)


def _seen(law: Gains, place: int, rows: Design, alone: Floats) -> Seen:
    """Return the Newton step from the public fit to the estimate of own rows, by the joint curvature of public and own
    rows, and its scatter by the rows' own gradients at the model alone [P]."""
    pilot, landscape = law.pilot, law.pilot.landscape()
    penalty = pilot.objective.regularisation
    begin = landscape.optimum if pilot.own_fit is None else pilot.own_fit.theta
    slope = landscape.inward(pilot.objective.mean_gradient(rows, begin) + penalty * begin)
    curved = bent(landscape.curvature + penalty)
    second, own = np.diag(law.owners.curvature), pilot.objective.hessian(rows, begin)
    if own is not None:  # of many classes it is not formed
        own = own if landscape.directions is None else landscape.directions.T @ own @ landscape.directions
        share = len(rows) / (len(rows) + len(pilot.design))
        second = second + share * (own[np.ix_(curved, curved)] - second)
    some = rows.where(np.linspace(0, len(rows) - 1, min(len(rows), MAX_TEST_ROWS)).astype(np.int64))
    own_slopes = landscape.inward(pilot.objective.record_gradients(some, alone))[:, curved]
    scatter = np.linalg.solve(second, own_slopes.T).var(axis=1, ddof=1) / len(rows)
    scatter = np.maximum(scatter, MIN_VARIANCE_SHARE * law.owners.scatter / len(rows))
    return Seen(place, np.asarray(-np.linalg.solve(second, slope[curved])), np.asarray(scatter))


def _with_own_costs(law: Gains, place: int, alone: PersonalModel) -> Gains:
    """Set the cost of the model alone on this owner's rows to the cross-validated one, trees included."""
    unit, losses = law.pilot.setup.preparation.target_scale**2, alone.losses
    linear = replace(law, trees=None)
    ridge = next((way for way in alone.ways if way.name == "ridge"), None)
    saved = 0.0 if ridge is None else max(ridge.loss - float(losses.mean()), 0.0)
    trees = None
    if saved > 0 and alone.made_of in ("linear and trees", "boosted trees"):
        expected = float(linear.alone[place].mean()) / unit - linear.level
        error = float(losses.std(ddof=1)) / len(losses) ** 0.5 * saved / max(float(losses.mean()), 1e-300)
        nothing = np.zeros(2)
        # Counted by the law's level, which the rows' own losses then correct: it may be below 0 until then.
        trees = LearningCurve(float(len(losses)), expected - saved, error, nothing, nothing, np.full(2, 0.5))
    gains = replace(linear, trees=trees)
    above = float(losses.mean()) - float(gains.alone[place].mean()) / unit
    return replace(gains, level=gains.level + above)


def law_test(
    objective: EmpiricalRisk, public: Design, optimum: Floats, rows: Design, radius: float | None = None
) -> LawTest:
    """Test whether own rows and public ones pull their common optimum apart by more than chance.

    Under one law, gradients at the common optimum scatter alike in both and the difference of their means is about
    normal with mean 0, so the sum of squares follows Hotelling's law. At the public optimum (`optimum`, where the
    search begins) the test would err: names that few public rows have are fitted too well there.
    """
    rows = rows.where(np.linspace(0, len(rows) - 1, min(len(rows), MAX_TEST_ROWS)).astype(np.int64))
    few = replace(objective, regularisation=objective.regularisation + 1 / (len(rows) + len(public)))
    common = few.optimum([public, rows], radius, precision=1e-5, start=optimum)  # finite, whatever separates
    both = [objective.record_gradients(each, optimum if common is None else common) for each in (rows, public)]
    means = [each.mean(axis=0) for each in both]
    free = len(rows) + len(public) - 2
    scatter = sum((each - mean).T @ (each - mean) for each, mean in zip(both, means, strict=True)) / free
    values, directions = np.linalg.eigh(scatter * (1 / len(rows) + 1 / len(public)))
    seen = values > 1e-9 * max(float(values[-1]), 1e-300)
    count, whitened = int(seen.sum()), directions[:, seen] / np.sqrt(values[seen])
    squares = float(np.sum(((means[0] - means[1]) @ whitened) ** 2))
    left = max(free - count + 1, 1)
    statistic = squares / count * left / free
    return LawTest(float(fdtrc(count, left, statistic)), statistic, count)


def contradicted(terms: Terms, owners: Sequence[Owner]) -> dict[str, LawTest]:
    """Return the owners whose own training rows contradict the public sample. `TEST_LEVEL` is how often any is named if
    all follow its law. Tables too large to hold, and trees, which fit the public rows too well, are skipped.

    Formal guarantee: none. This is computed from private rows without noise, for the eyes of the person who holds these
    tables. It is never stored, logged or sent, and no program may decide by it.
    """
    known = open_pilot(terms)
    if known.source.invented or known.grown is not None:
        return {}
    tests = {}
    for owner in owners:
        try:
            rows = owner.prepare(known.setup).tables.train.in_memory().targeted()
        except DataError:
            continue
        if len(rows) >= MIN_ROWS:
            tests[owner.name] = _law(known, rows)
    return {name: test for name, test in tests.items() if test.p_value < TEST_LEVEL / len(tests)}


def _law(known: Pilot, rows: Design) -> LawTest:
    return law_test(known.objective, known.design, known.landscape().optimum, rows, known.setup.limits.radius)
