"""Is joining worth it, before anybody is asked: what the joined model would be like, from a public sample with the
columns of all owners, beside the best that the target's owner can do alone.

The sample is cut into folds. For each number of matched people, as many rows are drawn from all folds but one, with
replacement; their moments get the noise of a release, and the model that follows is scored on the fold left out. So the
sample's own uncertainty counts as well: with more people than public rows the forecast is on the careful side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from parley.data import Design
from parley.errors import DataError, SettingError
from parley.learning.outcome.metrics import metrics_of, task_metrics
from parley.numerals import number
from parley.report.sheet import BLANK_LINE, Grid, Line, Sheet
from parley.tasks.joined.fitting import MeanMoments, fit_moments, risk, start_from
from parley.tasks.joined.plan import JoinPlan, join_plan
from parley.tasks.joined.tables import outcomes
from parley.terms import Terms
from parley.validate import Floats, printable

FOLDS = 5
DRAWS = 8  # of rows and noise in each fold
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the smallest table's people that all tables hold
MIN_PUBLIC_ROWS = 100
METRICS = {"number": "r2", "two classes": "auc", "classes": "accuracy"}  # the larger the better
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class JoinedForecast:
    """Expected figures on new people: of the joined model for each number of matched people, and of others."""

    plan: JoinPlan
    metric: str
    people: Sequence[int]
    joined: Floats  # [numbers of people]
    spread: Floats  # its standard deviation over draws of people and noise
    alone: float  # the best of the target's owner with its own columns: linear, or boosted trees
    without_noise: float  # the joined model of all public rows
    public_rows: int

    @property
    def pays_from(self) -> float | None:
        """How many matched people it takes until joining is expected to be better than alone; None: more than fit."""
        better = np.flatnonzero(self.joined > self.alone)
        if not better.size:
            return None
        at = int(better[0])
        if at == 0:
            return float(self.people[0])
        low, high = (np.log(self.people[k]) for k in (at - 1, at))
        share = (self.alone - self.joined[at - 1]) / (self.joined[at] - self.joined[at - 1])
        return float(np.exp(low + share * (high - low)))

    @property
    def verdict(self) -> str:
        """The forecast in one sentence."""
        owner, from_people = printable(target_owner(self.plan)), self.pays_from
        what = f"better than {owner} alone ({self.metric} {number(self.alone)})"
        if from_people is None:
            return f"At these sizes the joined model is not expected to be {what}, however many people match."
        at = "even with the fewest people tried" if from_people == self.people[0] else "from"
        return f"The joined model is expected to be {what} {at}: about {from_people:,.0f} matched people."

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley forecast --json` prints."""
        rows = zip(self.people, self.joined.tolist(), self.spread.tolist(), strict=True)
        return {
            "title": self.plan.terms.title,
            "metric": self.metric,
            "joined": [{"people": people, "mean": mean, "deviation": spread} for people, mean, spread in rows],
            "alone": self.alone,
            "without_noise": self.without_noise,
            "pays_from": self.pays_from,
            "public_rows": self.public_rows,
            "verdict": self.verdict,
            "terms_hash": self.plan.terms.hash,
        }


def run_forecast(terms: Terms, pilot: Path | None) -> Sheet:
    """Run `parley forecast` under terms of joined tables."""
    if pilot is not None:
        raise SettingError("--pilot: not used with joined tables; name a sample with all columns as model.public")
    found = forecast_join(terms)
    rows = [["people in all tables", found.metric, "give or take"]]
    for people, mean, spread in zip(found.people, found.joined, found.spread, strict=True):
        rows.append([f"{people:,}", number(float(mean)), number(float(spread))])
    rows.append([f"{printable(target_owner(found.plan))} alone", number(found.alone), ""])
    rows.append(["all columns, no noise", number(found.without_noise), ""])
    basis = (
        f"From {found.public_rows:,} public rows. How many people all tables hold is not known; parley learner run "
        "tells it with noise."
    )
    title = f"Expected {found.metric} of the joined model on new people"
    shown = [Grid(rows, title), BLANK_LINE, Line(found.verdict, "bold", folded=True), Line(basis, "dim", folded=True)]
    return Sheet(found.to_json(), shown, inside=False)


def forecast_join(terms: Terms, seed: int = 0) -> JoinedForecast:
    """Forecast the joined model under these terms, from their public sample."""
    plan = join_plan(terms)
    if plan.public is None:
        raise DataError(
            "model.public: missing; a forecast of joined tables needs a public sample with the columns of all owners"
        )
    rng, public = np.random.default_rng(seed), plan.public.targeted()
    if len(public) < MIN_PUBLIC_ROWS:
        raise DataError(f"model.public: {len(public)} rows with a target; expected at least {MIN_PUBLIC_ROWS}")
    z, fold = joined_rows(plan, public), rng.permutation(len(public)) % FOLDS
    metric, smallest = METRICS[plan.whole.model.predicts], min(owner.records for owner in terms.owners)
    people = sorted({max(2, round(share * smallest)) for share in SHARES})
    found = np.empty((len(people), FOLDS, DRAWS))
    alone, clear = np.empty((2, FOLDS)), np.empty(FOLDS)
    for held_out in range(FOLDS):
        rows, new = z[fold != held_out], fold == held_out
        # the fold left out must not decide where the model starts
        start = None if terms.learning.start is None else start_from(plan, public.where(~new))
        for at, count in enumerate(people):
            for draw in range(DRAWS):
                weights = rng.multinomial(count, np.full(len(rows), 1 / len(rows))).astype(np.float64)
                moments = noisy_moments(plan, rows, weights, rng)
                found[at, held_out, draw] = scored(
                    plan, public, new, fit_moments(plan, moments, start=start).theta, metric
                )
        every = MeanMoments(rows.T @ rows / len(rows), float(len(rows)), 0.0)
        clear[held_out] = scored(plan, public, new, fit_moments(plan, every, start=start).theta, metric)
        own = plan.columns_of(target_owner(plan))
        alone[0, held_out] = scored(plan, public, new, fit_moments(plan, every, own, start).theta, metric)
        alone[1, held_out] = trees_alone(plan, public, new, own, metric)
    by_fold = found.mean(axis=1)  # of folds for one draw: what one release is like on all new people
    return JoinedForecast(
        plan,
        metric,
        people,
        found.mean(axis=(1, 2)),
        by_fold.std(axis=1),
        float(np.nanmax(alone.mean(axis=1))),
        float(clear.mean()),
        len(public),
    )


def joined_rows(plan: JoinPlan, public: Design) -> Floats:
    """Return public rows as hosts would multiply them [n, numbers of a row and the constant], each owner's part within
    its clip."""
    z = np.zeros((len(public), plan.constant + 1))
    z[:, plan.features] = public.X[:, : len(plan.features)] / plan.sizes[: len(plan.features)]
    z[:, plan.targets] = outcomes(plan, public.y)
    z[:, plan.constant] = 1.0
    for owner in plan.owners:
        features = plan.places(owner.name)[: len(owner.sizes)]
        norms = np.sqrt((z[:, features] ** 2).sum(axis=1))
        z[:, features] *= np.minimum(1.0, float(owner.features_squared) ** 0.5 / np.maximum(norms, 1e-300))[:, None]
    return z


def noisy_moments(plan: JoinPlan, rows: Floats, weights: Floats, rng: np.random.Generator) -> MeanMoments:
    """Return the moments of rows drawn so often, with the noise of a release."""
    size, deviation = rows.shape[1], plan.law.deviation
    noise, upper = np.zeros((size, size)), np.triu_indices(size)
    noise[upper] = rng.normal(0, deviation, len(upper[0]))
    noise = noise + np.triu(noise, 1).T
    sums = rows.T @ (weights[:, None] * rows) + noise
    people = max(float(sums[-1, -1]), 1.0)
    return MeanMoments(sums / people, people, deviation / people)


def scored(plan: JoinPlan, public: Design, chosen: NDArray[np.bool_], theta: Floats, metric: str) -> float:
    """Return a model's figure on some public rows; NaN where it is not defined."""
    rows = Design(public.X[chosen], public.y[chosen], np.ones(int(chosen.sum())))
    value = task_metrics(risk(plan.whole), plan.whole, rows, theta)[metric]
    return np.nan if value is None else value


def trees_alone(plan: JoinPlan, public: Design, new: NDArray[np.bool_], own: Places, metric: str) -> float:
    """Return the figure of boosted trees on the target's owner's own columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor  # slow to import

    if not own.size:
        return np.nan
    x, y, predicts = public.X[:, own], public.y, plan.whole.model.predicts
    kind = HistGradientBoostingRegressor if predicts == "number" else HistGradientBoostingClassifier
    with threadpool_limits(1, user_api="openmp"):  # few rows; threads that wait for each other take far longer
        trees = kind(random_state=0).fit(x[~new], y[~new])
    if predicts == "number":
        score = trees.predict(x[new])
    else:
        chances = trees.predict_proba(x[new])
        score = chances[:, 1] - 0.5 if predicts == "two classes" else np.log(np.maximum(chances, 1e-12))
    value = metrics_of(predicts, y[new], score)[metric]
    return np.nan if value is None else value


def target_owner(plan: JoinPlan) -> str:
    """Return the owner that has the target."""
    return next(owner.name for owner in plan.owners if owner.outcomes)
