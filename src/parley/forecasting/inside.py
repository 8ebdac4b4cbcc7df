"""An owner's inside view: what joining would add for its own customers, from its own rows. For its own eyes; nothing leaves.

The forecast assumes that owners' rows follow one law, that of the public sample. Inside, an owner can do better. Joint models as they may
come out are drawn from the forecast; with each of them the owner makes its personal model, and all are judged on own rows that they were
not made of, beside the model alone. That is honest but coarse: own rows are few. So it is weighed against moments (`personal_gain`)
for an owner that differs from the public sample as much as its own rows do. What stays an assumption: that the consortium's best model is
about the public sample's.

Formal guarantee: none. Everything here is computed from private rows without noise.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import f as f_law
from scipy.stats import norm

from parley.data import Design
from parley.data.table import Table
from parley.errors import DataError
from parley.forecasting.expectation import expect
from parley.forecasting.personal_gain import Owners
from parley.forecasting.pilot import Pilot, open_pilot
from parley.forecasting.sources import Sample, Source
from parley.learning.algorithm import Progress
from parley.objectives import Objective
from parley.outcome.personal import centres, nothing
from parley.outcome.ridge import Ridge
from parley.outcome.verdict import CONFIDENCE, Estimate
from parley.owner import Agreement, Owner
from parley.terms import Terms
from parley.validate import Floats, whole

Advice = Literal["join", "stay", "unknown"]

DRAWS = 8  # joint models as they may come out
FOLDS = 5  # of own rows, to judge on
LEAST_ROWS = 10
LEVEL = 0.05  # of the test: how often owners whose rows do follow the public law are said to differ
NORMAL = float(norm.ppf((1 + CONFIDENCE) / 2))  # standard errors to an end of an interval
SURE = 1.0  # standard errors from which advice is given: where there is nothing in it, it errs in about one case of three


@dataclass(frozen=True)
class LawTest:
    """Whether own rows may follow the public sample's law, as far as this model is concerned."""

    p_value: float
    statistic: float  # about 1 under one law
    directions: int  # of the parameters that were looked at

    @property
    def differs(self) -> bool:
        return self.p_value < LEVEL


@dataclass(frozen=True)
class InsideView:
    """What joining would add for one owner's customers: costs on own rows, in the target's own units."""

    owner: str
    rows: int
    verdict: Advice
    gain: Estimate  # alone less personal, a row: what own rows and moments say together
    gain_of_rows: Estimate  # what own rows say alone
    gain_of_moments: Estimate  # what moments say
    alone: Estimate
    together: Estimate
    personal: Estimate
    law: LawTest
    draws: int

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --inside --json` prints."""
        estimates = {
            name: getattr(self, name).to_json()
            for name in ("gain", "gain_of_rows", "gain_of_moments", "alone", "together", "personal")
        }
        law = {"p_value": self.law.p_value, "level": LEVEL, "differs": self.law.differs}
        return {"owner": self.owner, "rows": self.rows, "verdict": self.verdict, **estimates, "law": law, "draws": self.draws}


def inside_view(
    terms: Terms,
    owner: Owner,
    pilot: Table | Source | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    progress: Progress = lambda done, total: None,
) -> InsideView:
    """What joining by these terms would add for this owner's customers, from its own training rows."""
    known = open_pilot(terms, pilot)
    if not isinstance(known.source, Sample):
        raise DataError("an inside view runs the algorithm on rows, so it needs a public sample; give one as the pilot")
    agreement = owner.prepare(terms)
    rows = agreement.tables.train.in_memory()
    if len(rows) < LEAST_ROWS:
        raise DataError(
            f"{owner.name}: {len(rows)} rows to learn from are too few for a view of its own; expected {LEAST_ROWS} or more"
        )
    models = expect(known).outcome(seed, whole(draws, "draws"))[1][:draws]
    unit = known.setup.preparation.target_scale**2
    losses = _judged(agreement, rows, models, progress)
    own, joint, personal = (unit * each for each in losses)  # [n], [draws, n], [draws, n]
    of_rows, of_moments = _estimate(own - personal), _by_moments(known, rows, models, terms, owner.name)
    gain = _weighed(of_rows, of_moments)
    return InsideView(
        owner=owner.name,
        rows=len(rows),
        verdict=_advice(gain),
        gain=gain,
        gain_of_rows=of_rows,
        gain_of_moments=of_moments,
        alone=Estimate.of(own),
        together=_estimate(joint),
        personal=_estimate(personal),
        law=_law(known, rows),
        draws=len(models),
    )


def law_test(objective: Objective, public: Design, optimum: Floats, rows: Design) -> LawTest:
    """Whether the mean gradient of own rows at the public optimum is further from zero than chance has it.

    Under one law it is about normal with mean 0 and covariance G (1/n + 1/m): its own rows scatter, and so does the optimum that was found
    on m public ones (H Cov H = G/m). G is estimated from the public rows' gradients, so the sum of squares follows Hotelling's law.
    """
    gradients = objective.record_gradients(public, optimum)
    centred = gradients - gradients.mean(axis=0)
    parameters = len(optimum)
    values, directions = np.linalg.eigh(centred.T @ centred / max(len(public) - parameters, 1))
    seen = values > 1e-9 * max(float(values[-1]), 1e-300)
    away = (objective.mean_gradient(rows, optimum) - gradients.mean(axis=0)) @ directions[:, seen]
    count = int(seen.sum())
    statistic = float(np.sum(away**2 / values[seen])) / (1 / len(rows) + 1 / len(public)) / count
    return LawTest(float(f_law.sf(statistic, count, max(len(public) - count, 1))), statistic, count)


def _law(known: Pilot, rows: Design) -> LawTest:
    return law_test(known.objective, known.design, known.landscape().optimum, rows)


def _judged(agreement: Agreement, rows: Design, models: Floats, progress: Progress) -> tuple[Floats, Floats, Floats]:
    """Losses of every own row [n] alone, by each joint model [draws, n] and by each personal one, none of which the row went into."""
    setup = agreement.setup
    objective = Ridge(setup.objective, setup.preparation, rows).plain
    fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS
    own, joint, personal = np.empty(len(rows)), np.empty((len(models), len(rows))), np.empty((len(models), len(rows)))
    for k in range(FOLDS):
        judged = fold == k
        ridge, held = Ridge(setup.objective, setup.preparation, rows.where(~judged)), rows.where(judged)
        own[judged] = objective.record_losses(held, ridge.average([nothing(setup)]).theta)
        for place, theta in enumerate(models):
            progress(k * len(models) + place, FOLDS * len(models))
            joint[place, judged] = objective.record_losses(held, theta)
            personal[place, judged] = objective.record_losses(held, ridge.average(centres(setup, theta)).theta)
    return own, joint, personal


def _estimate(losses: Floats) -> Estimate:
    """The mean over draws and rows [draws, n]; its interval has room for both kinds of chance."""
    by_row, by_draw = Estimate.of(losses.mean(axis=0)), Estimate.of(losses.mean(axis=1))
    reach = float(np.hypot(by_row.high - by_row.mean, by_draw.high - by_draw.mean if len(losses) > 1 else 0.0))
    return Estimate(by_row.mean, by_row.mean - reach, by_row.mean + reach)


def _by_moments(known: Pilot, rows: Design, models: Floats, terms: Terms, name: str) -> Estimate:
    """The gain by moments, in the target's own units, for an owner whose optimum lies as far from the public one as its own rows say.

    Of d, the step from the public optimum that own rows ask for, estimation explains a part; the rest is taken for the difference. The
    interval is that of one standard error of this difference, and a half of the gain for what moments leave out (losses that are not
    squares, a weight that has to be found).
    """
    here, m = known.landscape(), len(known.design)
    curvature = np.maximum(here.curvature, 1e-9 * float(here.curvature.max()))
    scatter = 2 * here.estimation / (len(curvature) * curvature)  # of one record, alike in all directions' costs
    step = here.inward(
        known.objective.mean_gradient(rows, here.optimum) - known.objective.mean_gradient(known.design, here.optimum)
    )
    chance = scatter * (1 / len(rows) + 1 / m)
    excess, error = (
        float(0.5 * curvature @ ((step / curvature) ** 2 - chance)),
        float(np.sqrt(0.5 * np.sum((curvature * chance) ** 2))),
    )
    places = [part.name for part in terms.owners]
    records = known.rows.copy()
    records[places.index(name)] = len(rows)
    joint = np.mean(here.inward(models - here.optimum) ** 2, axis=0)
    owners = Owners(curvature, records, scatter, joint, here.inward(here.optimum))

    def gain(difference: float) -> float:
        tau2 = 2 * max(difference, 0.0) / (len(curvature) * curvature)
        return float((owners.alone(tau2) - owners.personal(tau2))[places.index(name)]) * known.setup.preparation.target_scale**2

    mean, near, far = gain(excess), gain(excess - error), gain(excess + error)
    reach = NORMAL * float(np.hypot(0.5 * (near - far), 0.5 * mean))
    return Estimate(mean, mean - reach, mean + reach)


def _weighed(first: Estimate, second: Estimate) -> Estimate:
    """Two independent estimates of one gain, by their precisions."""
    spreads = np.array([max(e.high - e.mean, 1e-100) for e in (first, second)])
    weights = spreads**-2.0 / np.sum(spreads**-2.0)
    mean, reach = float(weights @ [first.mean, second.mean]), float(np.sum(spreads**-2.0) ** -0.5)
    return Estimate(mean, mean - reach, mean + reach)


def _advice(gain: Estimate) -> Advice:
    if not abs(gain.mean) > SURE * (gain.high - gain.mean) / NORMAL:
        return "unknown"
    return "join" if gain.mean > 0 else "stay"
