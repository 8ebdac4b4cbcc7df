"""The demo's story: three synthetic banks with different customers, one model of interest rates, and what every budget would give."""

from pathlib import Path

import numpy as np
import pandas as pd

from parley.data import synthetic_lending
from parley.data.design import pooled
from parley.forecasting import Forecast
from parley.learning.train import Progress, train
from parley.outcome import Result, alone, score
from parley.outcome.metrics import task_metrics
from parley.owner import Owner
from parley.report.market import Market
from parley.terms import Terms
from parley.validate import Floats

SEED = 7
BUDGETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)

TERMS = """\
title = "Interest rates of three banks"

[model]
kind = "linear-regression"
target = "int_rate"
features = ["loan_amnt", "term", "annual_inc", "dti", "fico", "revol_util", "delinq_2yrs", "open_acc", "emp_length",
            "home_ownership", "purpose"]
coding = "one-hot"              # each name of a category is a column of 0 and 1
public = "public.parquet"       # a public sample: scales, bounds, categories, and what plans are judged on
whitening = "public"            # features are turned so that on the public sample they are uncorrelated
intercept = true
holdout = 0.2

# How the budgets are spent: as `parley plan` chose it.
[learning]
algorithm = "averaged-subgradient"
horizon = 16
step = 0.9682
start = "public"                # training begins at the best fit of the public sample

[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 12.02                    # no record's gradient counts for more than this

[[owners]]
name = "prime-bank"             # lends to people with excellent scores
records = 22000
epsilon = 1.0
data = "prime-bank.parquet"
value = 1000.0                  # of one unit of test cost, for parley negotiate
privacy_cost = { kind = "linear", weight = 2.0 }

[[owners]]
name = "city-bank"              # the middle of the market
records = 34000
epsilon = 1.0
data = "city-bank.parquet"
value = 2000.0                  # of one unit of test cost, for parley negotiate
privacy_cost = { kind = "linear", weight = 5.0 }

[[owners]]
name = "fresh-start"            # lends to people whom the others turn away
records = 24000
epsilon = 1.0
data = "fresh-start.parquet"
value = 3000.0                  # of one unit of test cost, for parley negotiate
privacy_cost = { kind = "exponential", weight = 1.0 }
"""


def write_banks(folder: Path) -> None:
    """Three banks whose customers differ by credit score, and a small public sample of the whole market."""
    book = synthetic_lending(200_000, seed=SEED)
    book.iloc[:4000].to_parquet(folder / "public.parquet")
    market = book.iloc[4000:]
    rng = np.random.default_rng(SEED)
    appeal = (market["fico"].to_numpy() - 700) / 38 + 0.6 * rng.standard_normal(len(market))
    segments = {
        "prime-bank": appeal > 0.7,
        "city-bank": (appeal <= 0.7) & (appeal > -0.6),
        "fresh-start": appeal <= -0.6,
    }
    for part in Terms.from_toml(TERMS).owners:
        customers: pd.DataFrame = market[segments[part.name]]
        customers.iloc[: part.records].reset_index(drop=True).to_parquet(folder / f"{part.name}.parquet")
    (folder / "terms.toml").write_text(TERMS, encoding="utf-8")


def look_around(terms: Terms, owners: list[Owner], expected: Forecast, result: Result, progress: Progress) -> Market:
    """The joint model beside each bank's own, on the whole market and on each bank's customers, and what other budgets would give."""
    models, held_out = judge_alone(terms, owners)
    spread = np.empty((len(BUDGETS), result.replicates))
    for place, epsilon in enumerate(BUDGETS):
        progress(place, len(BUDGETS))
        other = terms.changed(everyone={"epsilon": epsilon})
        spread[place] = r_squared(train(other, owners, replicates=result.replicates, seed=SEED, measure=False).theta, held_out)
    return Market(
        expected=expected,
        result=result,
        alone=models,
        verdicts=tuple(score(terms, owner, result.model) for owner in owners),
        r_squared=r_squared(result.theta, held_out),
        budgets=BUDGETS,
        by_budget=spread,
    )


def judge_alone(terms: Terms, owners: list[Owner]) -> tuple[dict[str, dict[str, float]], tuple[Floats, Floats]]:
    """What each bank's own model, trained without noise, is worth on the whole market's held-out rows."""
    agreements = [owner.prepare(terms) for owner in owners]
    market = pooled([a.tables.held_out.in_memory() for a in agreements])
    setup = agreements[0].setup
    scores = {o.name: task_metrics(setup.objective, setup.preparation, market, alone(terms, o)) for o in owners}
    known = {name: {k: v for k, v in metrics.items() if v is not None} for name, metrics in scores.items()}
    return known, (market.X, market.y)


def r_squared(theta: Floats, held_out: tuple[Floats, Floats]) -> Floats:
    """R^2 of every model [replicates, p] on these rows."""
    X, y = held_out
    return np.asarray(1 - np.square(theta @ X.T - y).mean(axis=1) / y.var())
