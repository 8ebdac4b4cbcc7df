"""`parley demo`: the main job on embedded data - three synthetic banks with different customers, one model of interest rates."""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from parley.cli.demo_negotiation import show_negotiation
from parley.cli.screen import console, errors_console, progress_bar
from parley.cli.train import SIMULATION, guarantee, open_owners, owner_rows
from parley.data import synthetic_lending
from parley.data.design import pooled
from parley.forecasting import Forecast, forecast
from parley.learning import Result
from parley.learning.metrics import task_metrics
from parley.learning.score import Verdict, score
from parley.learning.train import alone, train
from parley.owner import Owner
from parley.report import figures
from parley.report.page import Section, page
from parley.report.tables import number, terminal_table
from parley.terms import Terms, load_terms
from parley.validate import Floats

SEED = 7
BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)

TERMS = """\
title = "Interest rates of three banks"

[model]
kind = "linear-regression"
target = "int_rate"
features = ["loan_amnt", "term", "annual_inc", "dti", "fico", "revol_util", "delinq_2yrs", "open_acc", "emp_length",
            "home_ownership", "purpose"]
public = "public.parquet"       # a public sample: scales, bounds, categories, step size
intercept = true
radius = 20.0
holdout = 0.2

[learning]
algorithm = "averaged-subgradient"
horizon = 100

[privacy]
mechanism = "laplace"
clip = 20.0                     # no record's gradient counts for more than this

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


def demo(
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where tables, terms and report go.")] = Path("parley-demo"),
    replicates: Annotated[int, typer.Option(help="Runs of the simulation at each budget.")] = 40,
) -> None:
    """Three synthetic banks: forecast the joint model, train it, train each alone, see what privacy costs, get a report.

    Writes DIR/report.html, and DIR/terms.toml with its tables to play with:  parley train parley-demo/terms.toml
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_banks(folder)
    terms = load_terms(folder / "terms.toml")
    owners = open_owners(terms)
    console.print("[bold]Three synthetic banks want one model of interest rates for the whole market.[/bold]")
    console.print("Their customers differ, so each bank's own model misjudges the others' customers.")
    console.print(SIMULATION, style="italic")
    console.print()
    with progress_bar("forecasting") as progress:
        expected = forecast(terms, seed=SEED, progress=progress)
    console.print("[bold]Before any data moves[/bold]")
    console.print(opening(expected))
    console.print()
    with progress_bar("training together") as progress:
        result = train(terms, owners, replicates=replicates, seed=SEED, progress=progress)
    models, held_out = judge_alone(terms, owners)
    spread = np.empty((len(BUDGETS), replicates))
    with progress_bar("what privacy costs") as progress:
        for place, epsilon in enumerate(BUDGETS):
            progress(place, len(BUDGETS))
            spread[place] = r_squared(owners, with_budget(terms, epsilon), replicates)
    at_terms = r_squared_of(result.theta, held_out)
    console.print(terminal_table(owner_rows(result), terms.title))
    console.print()
    console.print(terminal_table(comparison_rows(result, models), "On held-out customers of all three banks"))
    console.print()
    verdicts = [score(terms, owner, result.model) for owner in owners]
    console.print(terminal_table(verdict_rows(verdicts), "On each bank's own held-out customers (R²)"))
    console.print()
    console.print(terminal_table(forecast_rows(expected, result), "Forecast and outcome"))
    console.print()
    console.print(guarantee(result), style="dim")
    report = folder / "report.html"
    report.write_text(make_report(expected, result, models, verdicts, at_terms, spread), encoding="utf-8")
    console.print(f"\nThe report: [bold]{report}[/bold]", soft_wrap=True)
    console.print()
    show_negotiation(terms)
    errors_console.print(f"Next: parley forecast {folder / 'terms.toml'} --plan", style="dim", soft_wrap=True)


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


def judge_alone(terms: Terms, owners: list[Owner]) -> tuple[dict[str, dict[str, float]], tuple[Floats, Floats]]:
    """What each bank's own model, trained without noise, is worth on the whole market's held-out rows."""
    agreements = [owner.prepare(terms) for owner in owners]
    market = pooled([a.held_out for a in agreements])
    scores = {o.name: task_metrics(agreements[0].preparation, market, alone(terms, o)) for o in owners}
    known = {name: {k: v for k, v in metrics.items() if v is not None} for name, metrics in scores.items()}
    return known, (market.X, market.y)


def with_budget(terms: Terms, epsilon: float) -> Terms:
    """The same terms with another epsilon for every owner."""
    return terms.changed(everyone={"epsilon": epsilon})


def r_squared(owners: list[Owner], terms: Terms, replicates: int) -> Floats:
    """R^2 on all held-out rows of each run by these terms."""
    result = train(terms, owners, replicates=replicates, seed=SEED, measure=False)
    market = pooled([owner.prepare(terms).held_out for owner in owners])
    return r_squared_of(result.theta, (market.X, market.y))


def r_squared_of(theta: Floats, held_out: tuple[Floats, Floats]) -> Floats:
    X, y = held_out
    return np.asarray(1 - np.square(theta @ X.T - y).mean(axis=1) / y.var())


def comparison_rows(result: Result, models: dict[str, dict[str, float]]) -> list[list[str]]:
    """Alone, together, together without privacy."""
    rows = [["model", "R²", "mean absolute error"]]
    for name, metrics in models.items():
        rows.append([f"{name} alone", number(metrics["r2"]), number(metrics["mean_absolute_error"])])
    for label, scores in (("together, private", result.metrics), ("together without privacy", result.optimal_metrics)):
        rows.append([label, number(scores["r2"]), number(scores["mean_absolute_error"])])
    return rows


def opening(expected: Forecast) -> str:
    """What the forecast says, in words, from the public sample alone."""
    fitness = expected.relative_fitness
    winners = [owner.name for owner in expected.owners if owner.gain > 0]
    alike = f"{', '.join(winners)} would gain from joining" if winners else "none of them would gain from joining"
    return (
        f"From the public sample: the joint model's training cost should end {fitness.mean:.1%} above the best possible one (90%: "
        f"{fitness.low:.1%} to {fitness.high:.1%}), with R² {number(expected.metrics['r2'])} on the market. If the banks' customers were "
        f"alike, {alike}: each has data enough. They are not alike; what that is worth only the trained model shows."
    )


def forecast_rows(expected: Forecast, result: Result) -> list[list[str]]:
    """What was forecast from the public sample, and what came out."""
    fitness, outcome = expected.relative_fitness, result.relative_fitness or {}
    span = f"{number(fitness.mean, 3)} ({number(fitness.low, 3)} to {number(fitness.high, 3)})"
    return [
        ["", "forecast", "outcome"],
        ["relative fitness ψ", span, number(outcome.get("mean"), 3)],
        ["R²", number(expected.metrics["r2"], 3), number(result.metrics["r2"], 3)],
    ]


def verdict_rows(verdicts: list[Verdict]) -> list[list[str]]:
    """The joint model beside each owner's own, on that owner's rows."""
    rows = [["customers of", "together, private", "alone"]]
    return rows + [[v.owner, number(v.together["r2"]), number(v.alone["r2"])] for v in verdicts]


def make_report(
    expected: Forecast,
    result: Result,
    models: dict[str, dict[str, float]],
    verdicts: list[Verdict],
    at_terms: Floats,
    spread: Floats,
) -> str:
    """The HTML report."""
    path = np.asarray(result.path)
    alone_scores = {name: metrics["r2"] for name, metrics in models.items()}
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
            comparison_rows(result, models),
            figures.svg(figures.alone_or_together(alone_scores, at_terms, best, metric)),
        ),
        Section(
            "And for their own customers alone?",
            [
                "A bank that only wants to serve the customers it has should look at its own held-out rows (parley score): "
                + ("; ".join(f"{v.owner} is better off {'together' if v.gain > 0 else 'alone'}" for v in verdicts))
                + ". Learning together pays for the part of the market that a bank does not know yet.",
            ],
            verdict_rows(verdicts),
        ),
        Section(
            "On what privacy terms?",
            [
                guarantee(result),
                "Below: what the joint model would be worth if all three chose another budget. Where the curve falls below a "
                "bank's own line, that bank knows the whole market better without the others.",
            ],
            figure=figures.svg(figures.budget_curve(BUDGETS, spread, alone_scores, best, metric)),
        ),
        Section(
            "What came out of it?",
            [
                f"After {result.terms.learning.horizon} rounds the joint model's training cost is {path[-1].mean():.1%} above the "
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
            forecast_rows(expected, result),
        ),
        Section(
            "What this is not",
            [SIMULATION, "All customers are synthetic. They are made by a random generator from nobody's data."],
        ),
    ]
    lead = "Should we learn together, on what privacy terms, and what came out of it?"
    return page(result.terms.title, lead, sections, f"Parley · terms {result.terms_hash}")
