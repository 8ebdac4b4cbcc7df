"""An owner's inside view: what joining would add for its own customers, from its own rows. For its own eyes; nothing leaves.

The forecast assumes that owners' rows follow one law, that of the public sample. Inside, an owner can do better. Joint models as they may
come out are drawn from the forecast; with each of them the owner makes its personal model, and all are judged on own rows that they were
not made of, beside the model alone. What stays an assumption: that the consortium's best model is about the public sample's.

Formal guarantee: none. Everything here is computed from private rows without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import chi2

from parley.data import Design
from parley.data.table import Table
from parley.errors import DataError
from parley.forecasting.expectation import expect
from parley.forecasting.pilot import Pilot, open_pilot
from parley.forecasting.sources import Sample, Source
from parley.learning.train import Progress
from parley.objectives import Objective
from parley.outcome.personal import centres, nothing
from parley.outcome.ridge import Ridge
from parley.outcome.verdict import Estimate
from parley.owner import Agreement, Owner
from parley.terms import Terms
from parley.validate import Floats, whole

Advice = Literal["join", "stay", "unknown"]

DRAWS = 8  # joint models as they may come out
FOLDS = 5  # of own rows, to judge on
LEAST_ROWS = 10
LEVEL = 0.05  # of the test: how often owners whose rows do follow the public law are said to differ
SURE = 1.0  # standard errors from which advice is given: where there is nothing in it, it errs in about one case of three


@dataclass(frozen=True)
class LawTest:
    """Whether own rows may follow the public sample's law, as far as this model is concerned."""

    p_value: float
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
    gain: Estimate  # alone less personal, a row
    alone: Estimate
    together: Estimate
    personal: Estimate
    law: LawTest
    draws: int

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --inside --json` prints."""
        estimates = {name: getattr(self, name).to_json() for name in ("gain", "alone", "together", "personal")}
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
    gain = _estimate(own - personal)
    return InsideView(
        owner=owner.name,
        rows=len(rows),
        verdict=_advice(gain, own - personal),
        gain=gain,
        alone=Estimate.of(own),
        together=_estimate(joint),
        personal=_estimate(personal),
        law=_law(known, rows),
        draws=len(models),
    )


def law_test(objective: Objective, public: Design, optimum: Floats, rows: Design) -> LawTest:
    """Whether the mean gradient of own rows at the public optimum is further from zero than chance has it.

    Under one law it is about normal with mean 0 and covariance G (1/n + 1/m): its own rows scatter, and so does the optimum that was found
    on m public ones (H Cov H = G/m). G is that of the public rows' gradients. The sum of squares is then chi-square distributed.
    """
    gradients = objective.record_gradients(public, optimum)
    centred = gradients - gradients.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred / max(len(public) - 1, 1))
    seen = values > 1e-9 * max(float(values[-1]), 1e-300)
    away = (objective.mean_gradient(rows, optimum) - gradients.mean(axis=0)) @ directions[:, seen]
    statistic = float(np.sum(away**2 / values[seen])) / (1 / len(rows) + 1 / len(public))
    return LawTest(float(chi2.sf(statistic, int(seen.sum()))), int(seen.sum()))


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


def _advice(gain: Estimate, paired: Floats) -> Advice:
    error = float(np.hypot(_error(paired.mean(axis=0)), _error(paired.mean(axis=1))))
    if abs(gain.mean) < SURE * error or not abs(gain.mean) > 0:
        return "unknown"
    return "join" if gain.mean > 0 else "stay"


def _error(values: Sequence[float] | Floats) -> float:
    values = np.asarray(values)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
