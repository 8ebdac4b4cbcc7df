"""`parley budget`: what an epsilon means, what releases cost together, how much noise a budget needs."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
import typer

from parley.accounting import METHODS, compose, multiplier_for, rounds_for, stable_epsilon
from parley.accounting.compose import Method
from parley.accounting.meaning import (
    approximate_posterior,
    belief_bound,
    epsilon_for_belief,
    error_tradeoff,
    least_total_error,
    min_entropy_leakage,
    posterior_bounds,
)
from parley.accounting.stable_bounds import sampling_rate
from parley.cli.budget_curves import curve_command
from parley.cli.screen import console, print_json
from parley.durable import require_folder
from parley.errors import SettingError
from parley.mechanisms import Event, Gaussian, Geometric, Laplace, Stable
from parley.mechanisms.bounded import REPLACE_ONE
from parley.mechanisms.stable import check_alpha
from parley.report import figures
from parley.report.tables import number, percent, terminal_table
from parley.validate import positive, whole

budget_app = typer.Typer(
    no_args_is_help=True, help="What an epsilon means, what releases cost together, how much noise a budget needs."
)
budget_app.command("curve")(curve_command)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="The privacy budget.")]
Delta = Annotated[float, typer.Option("--delta", "-d", help="The additive slack of (epsilon, delta)-DP; 0 = pure.")]
Kind = Literal["laplace", "gaussian", "geometric", "stable"]


@budget_app.command()
def explain(
    epsilon: Epsilon,
    delta: Delta = 0.0,
    prior: Annotated[float, typer.Option(help="What an adversary believes beforehand about a fact.")] = 0.5,
    people: Annotated[int, typer.Option(help="Among how many people somebody is to be found.")] = 100,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the best attack's errors (.png, .svg, .pdf).")] = None,
    as_json: Json = False,
) -> None:
    """Say in plain words what an epsilon promises to a person.

    Example:  parley budget explain --epsilon 1 --prior 0.01
    """
    require_folder(plot)
    positive(epsilon, "epsilon")
    whole(people, "people", least=2)
    failure = 0.0
    if delta > 0:
        low, high, failure = approximate_posterior(epsilon, delta, prior)
    else:
        low, high = posterior_bounds(epsilon, prior)
    pure = delta == 0  # the last two statements are proved for pure epsilon only
    content: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "prior": prior,
        "posterior": {"low": low, "high": high, "failure": failure},
        "least_total_error": least_total_error(epsilon, delta),
        "detection_at_5_percent_false_alarms": 1 - float(error_tradeoff(epsilon, delta, 0.05)),
        "min_entropy_leakage_bits": min_entropy_leakage(epsilon, 1, 2) if pure else None,
        "belief_bound": belief_bound(epsilon, people) if pure else None,
        "epsilon_for_belief_one_half": epsilon_for_belief(0.5, people) if pure and people > 2 else None,
        "adjacency": REPLACE_ONE,
    }
    if plot is not None:
        rates = np.linspace(0, 1, 501)
        figures.save(figures.error_tradeoff(rates, error_tradeoff(epsilon, delta, rates), epsilon, delta), plot)
    if as_json:
        print_json(content)
        return
    console.print(f"[bold]ε = {number(epsilon)}" + (f", δ = {number(delta)}" if delta else "") + "[/bold]")
    for sentence in sentences(content, people):
        console.print(f"• {sentence}")


def sentences(content: dict[str, Any], people: int) -> list[str]:
    """What the numbers of `explain` say, for people; bounds are rounded to the side on which they hold."""
    posterior = content["posterior"]
    said = []
    if posterior["failure"] < 1:
        low, high, failure = percent(posterior["low"], "below"), percent(posterior["high"], "above"), posterior["failure"]
        except_for = f", except with probability at most {number(failure, side='above')}" if failure else ""
        said.append(
            f"Somebody who believes something about a person with probability {percent(content['prior'])} cannot, after seeing the "
            f"release, believe it with more than {high} or less than {low}{except_for}."
        )
    said.append(
        "Whoever tests whether a person's record was used, and raises a false alarm in 5% of cases, finds it in at most "
        f"{percent(content['detection_at_5_percent_false_alarms'], 'above')} of cases; false alarms and misses add up to at least "
        f"{percent(content['least_total_error'], 'below')}."
    )
    if content["belief_bound"] is not None:
        bits, belief = number(content["min_entropy_leakage_bits"], side="above"), percent(content["belief_bound"], "above")
        said += [
            f"Of a yes-or-no fact about one person at most {bits} bits become known.",
            f"Whoever must tell which of {people} people is missing cannot be surer than {belief} of a guess.",
        ]
    return [
        *said,
        "This holds for the worst person and an adversary who knows everybody else's record. Two tables are neighbours if one "
        f"person's records are replaced ({REPLACE_ONE}).",
    ]


@budget_app.command("compose")
def compose_command(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE...",
            help="MECHANISM:KEY=VALUE,... with multiplier (noise scale/sensitivity, the sensitivity being how far replacing one record "
            "moves the value) or, for laplace and geometric, epsilon; and count, sampling (Poisson rate, drawn by the owner in secret), "
            "alpha (stable).",
        ),
    ],
    delta: Delta = 0.0,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}; left out: all, and the best one.")] = "best",
    as_json: Json = False,
) -> None:
    """What several releases cost together: an upper bound on epsilon.

    Example:  parley budget compose gaussian:multiplier=2,count=100 laplace:epsilon=0.1,count=5 --delta 1e-5
    """
    events = [parse_release(text) for text in releases]
    if method not in ("best", *METHODS):
        raise SettingError(f"method = {method!r}: expected one of best, {', '.join(METHODS)}")
    chosen = compose(events, delta, method)  # type: ignore[arg-type]
    if as_json:
        print_json({**vars(chosen), "epsilon": chosen.high, "events": [event.to_dict() for event in events]})
        return
    rows = [["rule", "ε at most", "ε at least", ""]]
    for rule in METHODS if method == "best" else (chosen.method,):
        rows.append(_rule_row(events, delta, rule))  # type: ignore[arg-type]
    console.print(terminal_table(rows))
    console.print(
        f"\n[bold]ε ≤ {number(chosen.high, 6, 'above')}[/bold] at δ = {number(delta)} ({chosen.method}, {chosen.adjacency})"
    )
    if any(event.sampling < 1 for event in events):
        console.print(SAMPLED, style="dim")


SAMPLED = (
    "Sampled releases: the owner draws the sample in secret, and a record that is not drawn leaves the value midway, at most half the "
    "sensitivity away (as in sums of clipped records, where that half is the clip)."
)


def _rule_row(events: list[Event], delta: float, rule: Method) -> list[str]:
    try:
        bound = compose(events, delta, rule)
    except SettingError as error:
        return [rule, "–", "", str(error)]
    return [rule, number(bound.high, 6, "above"), number(bound.low, 6, "below") if bound.low else "", ""]


@budget_app.command()
def calibrate(
    mechanism: Annotated[str, typer.Argument(help=f"One of {', '.join(get_args(Kind))}.")],
    epsilon: Epsilon,
    delta: Delta = 0.0,
    rounds: Annotated[int, typer.Option(help="How many releases share the budget.")] = 1,
    sensitivity: Annotated[float, typer.Option(help="How far one person can move the value, in the mechanism's norm.")] = 1.0,
    sampling: Annotated[float, typer.Option(help="Poisson sampling rate, drawn by the owner in secret.")] = 1.0,
    alpha: Annotated[float | None, typer.Option(help="Stability index of stable noise, 1 to 2.")] = None,
    multiplier: Annotated[
        float | None, typer.Option(help="The other way round: how many rounds fit, with this noise scale/sensitivity?")
    ] = None,
    as_json: Json = False,
) -> None:
    """How much noise a budget needs - or, with --multiplier, how many rounds it allows.

    Example:  parley budget calibrate gaussian --epsilon 1 --delta 1e-6 --rounds 100
    """
    kind = mechanism_kind(mechanism, alpha)
    positive(sensitivity, "sensitivity")
    norm: Literal["l1", "l2"] = "l2" if kind == "gaussian" or (kind == "stable" and delta > 0) else "l1"
    content: dict[str, Any] = {"mechanism": kind, "epsilon": epsilon, "delta": delta, "norm": norm, "adjacency": REPLACE_ONE}
    if multiplier is not None:
        event = Event(kind, positive(multiplier, "multiplier"), norm, alpha, sampling_rate(sampling))
        content |= {"multiplier": multiplier, "rounds": rounds_for(event, epsilon, delta)}
        sentence = f"{content['rounds']:,} rounds fit into the budget."
    else:
        ratio = multiplier_for(kind, epsilon, delta, rounds, sampling_rate(sampling), alpha)
        content |= {"multiplier": ratio, "scale": positive(ratio * sensitivity, "noise scale"), "rounds": whole(rounds, "rounds")}
        noise = {"gaussian": "σ", "stable": "γ"}.get(kind, "b")
        sentence = (
            f"{noise} = {number(content['scale'], 6, 'above')}   ({number(ratio, 6, 'above')} times the {norm.upper()} sensitivity)"
        )
    if as_json:
        print_json(content)
    else:
        console.print(f"[bold]{sentence}[/bold]")
        console.print(
            f"{kind}, {content['rounds']} round(s), ε = {number(epsilon)}, δ = {number(delta)}, {REPLACE_ONE}", style="dim"
        )


@budget_app.command()
def compare(
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    dimension: Annotated[int, typer.Option(help="Numbers in one release.")] = 1,
    sensitivity: Annotated[
        float, typer.Option(help="L2 sensitivity; the L1 sensitivity is taken to be sqrt(dimension) times that.")
    ] = 1.0,
    rounds: Annotated[int, typer.Option(help="How many releases share the budget.")] = 1,
    as_json: Json = False,
) -> None:
    """Mechanisms at equal privacy: how much noise each needs, and what stable noise costs by how a difference is spread.

    Example:  parley budget compare --epsilon 1 --dimension 10 --rounds 100
    """
    whole(dimension, "dimension")
    l1 = positive(sensitivity, "sensitivity") * math.sqrt(dimension)
    share = Fraction(str(positive(epsilon, "epsilon"))) / whole(rounds, "rounds")
    pure: list[tuple[str, Laplace | Geometric | Stable]] = [("laplace", Laplace.calibrate(share, l1))]
    if float(l1).is_integer():
        pure.append(("geometric", Geometric.calibrate(share, l1)))
    pure += [(f"stable, α = {alpha}", Stable.calibrate(share, l1, alpha)) for alpha in (1.5, 1.9, 1.999)]
    entries: list[dict[str, Any]] = [
        {"mechanism": name, "guarantee": "pure", "scale": m.scale, "expected_distortion": m.expected_distortion} for name, m in pure
    ]
    gaussian = Gaussian.calibrate(Fraction(str(epsilon)), delta, sensitivity, rounds)
    entries.append(
        {
            "mechanism": "gaussian",
            "guarantee": "delta",
            "scale": gaussian.sigma,
            "expected_distortion": gaussian.expected_distortion,
        }
    )
    spreads = [_spread_entry(alpha, sensitivity, delta) for alpha in (2.0, 1.999, 1.9, 1.5)]
    if as_json:
        print_json(
            {
                "epsilon": epsilon,
                "delta": delta,
                "dimension": dimension,
                "rounds": rounds,
                "adjacency": REPLACE_ONE,
                "mechanisms": entries,
                "epsilon_by_spread": spreads,
            }
        )
        return
    rows = [["mechanism", "guarantee", "noise scale", "E|noise| a number"]]
    for e in entries:
        promise = "pure" if e["guarantee"] == "pure" else f"δ = {number(delta)}"
        rows.append([str(e["mechanism"]), promise, number(e["scale"], side="above"), number(e["expected_distortion"])])
    title = f"Noise for ε = {number(epsilon)} in {dimension} dimension(s), {rounds} round(s), L2 sensitivity {number(sensitivity)}"
    console.print(terminal_table(rows, title))
    console.print()
    head = ["stable noise, scale = sensitivity", "1 coordinate", "4", "64", "worst spread", "every direction: at most"]
    table = [head]
    for s in spreads:
        bounds = [
            number(s[k], side="below" if k == "low" else "above") for k in ("spread_1", "spread_4", "spread_64", "low", "high")
        ]
        table.append([f"α = {s['alpha']}", *bounds])
    console.print(terminal_table(table, f"ε at δ = {number(delta)} of one release, by how a difference is spread ({REPLACE_ONE})"))
    console.print("The one-coordinate column is the dissertation's; a guarantee is the last column.", style="dim")


def _spread_entry(alpha: float, sensitivity: float, delta: float) -> dict[str, float]:
    bound = stable_epsilon(alpha, sensitivity, delta, l2_sensitivity=sensitivity)
    figures_by_spread = {f"spread_{m}": stable_epsilon(alpha, 1.0, delta, spread=m).high for m in (1, 4, 64)}
    return {"alpha": alpha, **figures_by_spread, "low": bound.low, "high": bound.high}


def mechanism_kind(name: str, alpha: float | None) -> Kind:
    """The mechanism of this name, with the alpha it needs."""
    if name not in get_args(Kind):
        raise SettingError(f"mechanism = {name!r}: expected one of {', '.join(get_args(Kind))}")
    if name == "stable" and alpha is None:
        raise SettingError("alpha: missing; stable noise needs its stability index, --alpha 1 to 2")
    if name != "stable" and alpha is not None:
        raise SettingError(f"alpha: only stable noise has one, not {name}")
    if name == "stable" and check_alpha(alpha or 0) == 2:
        raise SettingError("alpha = 2: that is Gaussian noise of standard deviation sqrt(2) times the scale; use gaussian")
    return name  # type: ignore[return-value]


def parse_release(text: str) -> Event:
    """MECHANISM:KEY=VALUE,... as an event.

    >>> parse_release("laplace:epsilon=0.1,count=5").multiplier
    10.0
    """
    name, _, rest = text.partition(":")
    known = {"multiplier", "epsilon", "count", "sampling", "alpha"}
    values: dict[str, float] = {}
    for item in filter(None, rest.split(",")):
        key, _, value = item.partition("=")
        if key not in known:
            raise SettingError(f"{text}: unknown key {key!r}; expected {', '.join(sorted(known))}")
        if key in values:
            raise SettingError(f"{text}: {key} is given twice")
        try:
            values[key] = float(value)
        except ValueError:
            raise SettingError(f"{text}: {key} = {value!r}: expected a number") from None
    kind = mechanism_kind(name, values.get("alpha"))
    if ("multiplier" in values) == ("epsilon" in values):
        raise SettingError(f"{text}: expected either multiplier=... or epsilon=...")
    if "epsilon" in values and kind not in ("laplace", "geometric"):
        raise SettingError(f"{text}: epsilon=... is for pure noise of one scale; expected multiplier=...")
    multiplier = values["multiplier"] if "multiplier" in values else 1 / positive(values["epsilon"], "epsilon")
    count = values.get("count", 1.0)
    if not count.is_integer():
        raise SettingError(f"{text}: count = {count:g}: expected a whole number")
    norm: Literal["l1", "l2"] = "l2" if kind in ("gaussian", "stable") else "l1"
    rate = sampling_rate(values.get("sampling", 1.0))
    return Event(kind, positive(multiplier, "multiplier"), norm, values.get("alpha"), rate, whole(int(count), "count"))
