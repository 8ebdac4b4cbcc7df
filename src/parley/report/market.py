"""Banks of one market that learned together: tables, sentences and a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parley.forecasting import Forecast
from parley.numerals import number
from parley.outcome import Result
from parley.outcome.guarantee import SIMULATION, guarantee
from parley.outcome.verdict import Verdict
from parley.report import figures
from parley.report.forecast import baseline_line, for_whom
from parley.report.page import Section, page
from parley.report.training import owner_rows
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Market:
    """A simulation of three banks' joint model, with everything to compare it with."""

    expected: Forecast
    result: Result
    alone: Mapping[str, Mapping[str, float]]  # the metrics of each bank's own model on all banks' held-out customers
    verdicts: Sequence[Verdict]
    r_squared: Floats  # of the joint model on all banks' held-out customers [replicates]
    budgets: Sequence[float]
    by_budget: Floats  # the same had all chosen another budget [budgets, replicates]


def comparison_rows(market: Market) -> list[list[str]]:
    """Alone, together, together without privacy."""
    rows = [["model", "R²", "mean absolute error"]]
    for name, metrics in market.alone.items():
        rows.append([f"{name} alone", number(metrics["r2"]), number(metrics["mean_absolute_error"])])
    for label, scores in (
        ("together, private", market.result.metrics),
        ("together without privacy", market.result.optimal_metrics),
    ):
        rows.append([label, number(scores["r2"]), number(scores["mean_absolute_error"])])
    return rows


def opening(expected: Forecast) -> str:
    """What the forecast says, in words, from the public sample alone."""
    fitness = expected.relative_fitness
    return (
        f"From the public sample: the joint model's training cost should end {fitness.mean:.2%} above the best possible one (90%: "
        f"{fitness.low:.2%} to {fitness.high:.2%}), with R² {number(expected.metrics['r2'])} on the market. "
        f"{baseline_line(expected.worth)} {for_whom(expected)}"
    )


def forecast_rows(market: Market) -> list[list[str]]:
    """What was forecast from the public sample, and what came out."""
    expected, result = market.expected, market.result
    fitness, outcome = expected.relative_fitness, result.relative_fitness or {}
    span = f"{number(fitness.mean, 3)} ({number(fitness.low, 3)} to {number(fitness.high, 3)})"
    return [
        ["", "forecast", "outcome"],
        ["relative fitness ψ", span, number(outcome.get("mean"), 3)],
        ["R²", number(expected.metrics["r2"], 3), number(result.metrics["r2"], 3)],
    ]


def verdict_rows(market: Market) -> list[list[str]]:
    """The joint model beside each owner's own, on that owner's rows."""
    rows = [["customers of", "together, private", "alone"]]
    return rows + [[v.owner, number(v.together["r2"]), number(v.alone["r2"])] for v in market.verdicts]


def market_page(market: Market) -> str:
    """The HTML report."""
    expected, result, verdicts = market.expected, market.result, market.verdicts
    path = np.asarray(result.path)
    alone_scores = {name: metrics["r2"] for name, metrics in market.alone.items()}
    best, joint = result.optimal_metrics["r2"] or 0.0, result.metrics["r2"] or 0.0
    metric = "R² on held-out customers of all three banks"
    sections = [
        Section("Before any data moves", [opening(expected)]),
        Section(
            "Should they learn together?",
            [
                "Each bank's own model is trained on its own customers without any noise, the joint model from noisy answers. On the "
                f"whole market the joint model is {'better' if joint > max(alone_scores.values()) else 'not better'} than the best "
                f"of them: R² {number(joint)} against {', '.join(f'{number(v)} ({k})' for k, v in alone_scores.items())}.",
            ],
            comparison_rows(market),
            figures.svg(figures.alone_or_together(alone_scores, market.r_squared, best, metric)),
        ),
        Section(
            "And for their own customers alone?",
            [
                "A bank that only wants to serve the customers it has should look at its own held-out rows (parley score): "
                + ("; ".join(f"{v.owner} is better off {'together' if v.gain > 0 else 'alone'}" for v in verdicts))
                + ". Learning together pays for the part of the market that a bank does not know yet.",
            ],
            verdict_rows(market),
        ),
        Section(
            "On what privacy terms?",
            [
                guarantee(result),
                "Below: what the joint model would be worth if all three chose another budget. Where the curve falls below a "
                "bank's own line, that bank knows the whole market better without the others.",
            ],
            figure=figures.svg(figures.budget_curve(market.budgets, market.by_budget, alone_scores, best, metric)),
        ),
        Section(
            "What came out of it?",
            [
                f"After {result.terms.learning.horizon} rounds the joint model's training cost is {path[-1].mean():.2%} above the "
                f"best possible one (relative fitness; mean of {result.replicates} runs). Every bank spent exactly what it "
                "promised.",
            ],
            owner_rows(result),
            figures.svg(figures.fitness_path(path, forecast=expected.path)),
        ),
        Section(
            "Was the forecast right?",
            [
                "The forecast came from the public sample of the whole market. The banks together hold another mix of customers, so R² "
                "may differ where relative fitness does not.",
            ],
            forecast_rows(market),
        ),
        Section(
            "What this is not",
            [SIMULATION, "All customers are synthetic. They are made by a random generator from nobody's data."],
        ),
    ]
    lead = "Should we learn together, on what privacy terms, and what came out of it?"
    return page(result.terms.title, lead, sections, f"Parley · terms {result.terms_hash}")
