"""`parley budget`: what an epsilon means, what releases cost together, how much noise a budget needs."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.cli.budget_terms import explain_terms
from parley.errors import SettingError
from parley.numerals import counted, number
from parley.privacy.events import Event, GaussianEvent, GeometricEvent, LaplaceEvent, Norm, PureEvent, StableEvent
from parley.report.terminal import console, print_json, progress_bar, terminal_table

if TYPE_CHECKING:
    from parley.privacy.accounting.compose import Method

EVENT_CLASSES: dict[str, type[Event]] = {
    kind.mechanism: kind for kind in (LaplaceEvent, GaussianEvent, GeometricEvent, StableEvent)
}
SCALE_SYMBOLS: dict[type[Event], str] = {GaussianEvent: "σ", StableEvent: "γ"}  # of a noise's scale; b for the others
SAMPLED_NOTE = (
    "For a sampled release, the owner must draw the sample in secret. Leaving out a record must change the exact value "
    "of a sampled release by at most half the sensitivity. For sums of clipped records, the clip is half the "
    "sensitivity."
)


def curve_command(
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the privacy curves (.png, .svg, .pdf).")
    ] = None,
    figure: Annotated[
        str | None, typer.Option(help="Number of a figure in Zawacki's dissertation: 4.1, or 4.6 to 4.11.")
    ] = None,
    alpha: Annotated[list[float] | None, typer.Option(help="Stability index of the stable noise. Repeatable.")] = None,
    scale: Annotated[float, typer.Option(help="Noise scale, for values that differ by 1 in L2 norm.")] = 1.0,
    compositions: Annotated[int, typer.Option(help="Number of releases.")] = 1,
    sampling: Annotated[float, typer.Option(help="Poisson sampling rate.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw privacy curves of stable noise: solid for a difference in one coordinate, and dashed for a difference in
    many coordinates.

    Example:  parley budget curve --figure 4.1 --plot curve.png
    """
    from parley.privacy.accounting.stable_bounds import ALL_ALPHAS, PANELS_BY_FIGURE, Panel, panel_curves
    from parley.privacy.events import Adjacency

    if plot is not None:
        from parley.report.figures import curves, picture  # a library that is slow to load

        picture.require_figure_name(plot)
    if figure is not None and figure not in PANELS_BY_FIGURE:
        raise SettingError(f"figure = {figure!r}: expected one of {', '.join(PANELS_BY_FIGURE)}")
    own = Panel(
        f"scale {scale:g}", tuple(alpha or ALL_ALPHAS), scale=scale, compositions=(compositions,), sampling=(sampling,)
    )
    panels = (own,) if figure is None else PANELS_BY_FIGURE[figure]
    content = []
    with progress_bar("curves") as progress:
        for done, panel in enumerate(panels):
            progress(done, len(panels))
            content.append({"title": panel.title, "over": panel.over, "curves": panel_curves(panel)})
    if plot is not None:
        picture.save(curves.privacy_curves(content), plot)
    if as_json:
        print_json({"figure": figure, "adjacency": Adjacency.REPLACE_ONE, "panels": content}, inside=False)
    elif plot is not None:
        console.print(f"{plot}: {sum(len(p['curves']) for p in content)} curves ({Adjacency.REPLACE_ONE})")
    else:
        raise SettingError("--plot FILE, --json: both are missing; give at least one of these options")


budget_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Explain what an epsilon means, add up the privacy costs of releases, and find the noise that a budget "
    "requires.",
)
budget_app.command("curve")(curve_command)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="The privacy budget.")]
Delta = Annotated[float, typer.Option("--delta", "-d", help="Delta of (epsilon, delta)-DP; 0 means pure epsilon-DP.")]


@budget_app.command()
def explain(
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The privacy budget.")] = None,
    delta: Delta = 0.0,
    terms: Annotated[
        Path | None,
        typer.Option(
            "--terms", metavar="TERMS", help="Explain the privacy guarantee of this terms file. Not with --epsilon."
        ),
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="An adversary's prior probability of a claim about a person. Default: 0.5.")
    ] = None,
    people: Annotated[
        int | None, typer.Option(help="Number of people of whom an adversary must identify one. Default: 100.")
    ] = None,
    harm: Annotated[
        float | None, typer.Option(help="Largest loss that a release may cause a person, in money.")
    ] = None,
    payment: Annotated[float | None, typer.Option(help="A person's payment for taking part, in money.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the best attack's error rates (.png, .svg, .pdf).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say in plain words what an epsilon promises to a person.

    Example:  parley budget explain --epsilon 1 --prior 0.01

    Example:  parley budget explain --epsilon 1 --prior 0.001 --harm 10000 --payment 5

    Example:  parley budget explain --terms terms.toml
    """
    import numpy as np

    from parley.privacy.accounting.meaning import error_tradeoff, explanation, sentences

    if terms is not None:
        if epsilon is not None or delta or any(given is not None for given in (people, harm, payment, plot)):
            raise SettingError(
                "--terms: not allowed with --epsilon, --delta, --people, --harm, --payment or --plot; remove --terms "
                "or the other options"
            )
        explain_terms(terms, 0.5 if prior is None else prior, as_json)
        return
    if epsilon is None:
        raise SettingError("--epsilon: missing; give --epsilon or --terms")
    among = 100 if people is None else people
    if payment is not None and harm is None:
        raise SettingError("--harm: missing; with --payment, give the largest loss that a release may cause")
    if harm is not None and prior is None:
        raise SettingError("--prior: missing; with --harm, give the probability of the loss without the release")
    content = explanation(epsilon, delta, 0.5 if prior is None else prior, among, harm, payment)
    if plot is not None:
        rates = np.linspace(0, 1, 501)
        from parley.report.figures import curves, picture  # a library that is slow to load

        picture.save(curves.error_tradeoff(rates, error_tradeoff(epsilon, delta, rates), epsilon, delta), plot)
    if as_json:
        print_json(content, inside=False)
        return
    console.print(f"[bold]ε = {number(epsilon)}" + (f", δ = {number(delta)}" if delta else "") + "[/bold]")
    for sentence in sentences(content, among):
        console.print(f"• {sentence}")


@budget_app.command("compose")
def compose_command(
    releases: Annotated[list[str], typer.Argument(metavar="RELEASE...", help="Releases as MECHANISM:KEY=VALUE,...")],
    delta: Delta = 0.0,
    method: Annotated[
        str, typer.Option(help="Composition rule. Default: show all rules, and use the best bound.")
    ] = "best",
    as_json: Json = False,
) -> None:
    """Compute an upper bound on the total epsilon of several releases.

    Each RELEASE has the form MECHANISM:KEY=VALUE,KEY=VALUE. The key multiplier is the noise scale divided by the
    sensitivity to replacing one record. The mechanisms laplace and geometric also accept the key epsilon instead of the
    key multiplier. The mechanism stable also needs the key alpha, the stability index. The optional key count is the
    number of releases of the same kind. The optional key sampling is the rate of the owner's secret Poisson sample.

    Example:  parley budget compose gaussian:multiplier=2,count=100 laplace:epsilon=0.1,count=5 --delta 1e-5
    """
    from parley.privacy.accounting import METHODS, compose

    events = [parse_release(text) for text in releases]
    if method not in ("best", *METHODS):
        raise SettingError(f"method = {method!r}: expected one of best, {', '.join(METHODS)}")
    chosen = compose(events, delta, method)  # type: ignore[arg-type]
    if as_json:
        print_json(
            {**vars(chosen), "epsilon": chosen.high, "events": [event.to_dict() for event in events]}, inside=False
        )
        return
    rows = [["rule", "ε at most", "ε at least", ""]]
    for rule in METHODS if method == "best" else (chosen.method,):
        rows.append(_rule_row(events, delta, rule))  # type: ignore[arg-type]
    console.print(terminal_table(rows))
    console.print(
        f"\n[bold]ε ≤ {number(chosen.high, 6, 'above')}[/bold] at δ = {number(delta)} ({chosen.method}, "
        f"{chosen.adjacency})"
    )
    if any(event.sampling < 1 for event in events):
        console.print(SAMPLED_NOTE, style="dim")


def _rule_row(events: list[Event], delta: float, rule: "Method") -> list[str]:
    from parley.privacy.accounting import compose

    try:
        bound = compose(events, delta, rule)
    except SettingError as error:
        return [rule, "–", "", str(error)]
    return [rule, number(bound.high, 6, "above"), number(bound.low, 6, "below") if bound.low else "", ""]


@budget_app.command()
def calibrate(
    mechanism: Annotated[str, typer.Argument(help=f"One of {', '.join(EVENT_CLASSES)}.")],
    epsilon: Epsilon,
    delta: Delta = 0.0,
    rounds: Annotated[int, typer.Option(help="Number of releases that share the budget.")] = 1,
    sensitivity: Annotated[
        float, typer.Option(help="Sensitivity of the value to one person, in the mechanism's norm.")
    ] = 1.0,
    sampling: Annotated[float, typer.Option(help="Rate of the owner's secret Poisson sample.")] = 1.0,
    alpha: Annotated[float | None, typer.Option(help="Stability index of stable noise, from 1 to 1.9999.")] = None,
    multiplier: Annotated[
        float | None, typer.Option(help="Show how many rounds this ratio of noise scale to sensitivity allows.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the noise that a budget needs or, with --multiplier, the number of rounds that fit.

    Example:  parley budget calibrate gaussian --epsilon 1 --delta 1e-6 --rounds 100
    """
    from parley.privacy.accounting import multiplier_for, rounds_for
    from parley.privacy.accounting.stable_bounds import sampling_rate
    from parley.validate import positive, whole

    norm: Norm = "l2" if delta > 0 else "l1"  # for stable noise, which knows two
    make_event = event_maker(
        mechanism, alpha, norm, sampling_rate(sampling), 1 if multiplier is not None else whole(rounds, "rounds")
    )
    positive(sensitivity, "sensitivity")
    unit = make_event(1.0)
    content: dict[str, Any] = {"mechanism": mechanism, "epsilon": epsilon, "delta": delta, "norm": unit.norm}
    content |= {"adjacency": unit.adjacency}
    if multiplier is not None:
        event = make_event(positive(multiplier, "multiplier"))
        content |= {"multiplier": multiplier, "rounds": rounds_for(event, epsilon, delta)}
        sentence = f"{counted(content['rounds'], 'round fits', 'rounds fit')} into the budget."
    else:
        ratio = multiplier_for(make_event, epsilon, delta)
        content |= {"multiplier": ratio, "scale": positive(ratio * sensitivity, "noise scale"), "rounds": rounds}
        scale, times = number(content["scale"], 6, "above"), number(ratio, 6, "above")
        sentence = (
            f"{SCALE_SYMBOLS.get(type(unit), 'b')} = {scale}   ({times} times the {unit.norm.upper()} sensitivity)"
        )
    if as_json:
        print_json(content, inside=False)
    else:
        console.print(f"[bold]{sentence}[/bold]")
        console.print(
            f"{mechanism}, {counted(content['rounds'], 'round')}, ε = {number(epsilon)}, δ = {number(delta)}, "
            f"{unit.adjacency}",
            style="dim",
        )


@budget_app.command()
def compare(
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    dimension: Annotated[int, typer.Option(help="Number of coordinates in one release.")] = 1,
    sensitivity: Annotated[
        float, typer.Option(help="L2 sensitivity; the assumed L1 sensitivity is sqrt(dimension) times as large.")
    ] = 1.0,
    rounds: Annotated[int, typer.Option(help="Number of releases that share the budget.")] = 1,
    as_json: Json = False,
) -> None:
    """Compare the noise that mechanisms need for equal privacy. A second table shows the epsilon of stable noise by
    the number of coordinates over which a difference spreads.

    Example:  parley budget compare --epsilon 1 --dimension 10 --rounds 100
    """
    from parley.privacy.accounting.stable_bounds import equal_privacy

    content = equal_privacy(epsilon, delta, dimension, sensitivity, rounds)
    if as_json:
        print_json(content, inside=False)
        return
    rows = [["mechanism", "guarantee", "noise scale", "mean |noise| per number"]]
    for e in content["mechanisms"]:
        promise = "pure" if e["guarantee"] == "pure" else f"δ = {number(delta)}"
        rows.append([str(e["mechanism"]), promise, number(e["scale"], side="above"), number(e["expected_distortion"])])
    title = (
        f"Noise for ε = {number(epsilon)} in {counted(dimension, 'dimension')}, {counted(rounds, 'round')}, L2 "
        f"sensitivity {number(sensitivity)}"
    )
    title += f" ({content['adjacency']})"
    console.print(terminal_table(rows, title))
    console.print()
    head = ["stable noise, scale = sensitivity", "1 coordinate", "4", "64", "worst spread", "at most in any direction"]
    table = [head]
    for s in content["epsilon_by_spread"]:
        bounds = [
            number(s[k], side="below" if k == "low" else "above")
            for k in ("spread_1", "spread_4", "spread_64", "low", "high")
        ]
        table.append([f"α = {s['alpha']}", *bounds])
    console.print(
        terminal_table(
            table,
            f"ε of one release at δ = {number(delta)}, by the number of coordinates that differ "
            f"({content['adjacency']})",
        )
    )
    console.print(
        "In the table for stable noise, only the last column is a guarantee. Column '1 coordinate' shows the ε that "
        "Zawacki published.",
        style="dim",
    )


def event_maker(name: str, alpha: float | None, norm: Norm, sampling: float, count: int) -> Callable[[float], Event]:
    """Return a function from multiplier to event; `alpha` and `norm` are for stable noise."""
    from parley.privacy.mechanisms.stable_law import check_alpha

    kind = EVENT_CLASSES.get(name)
    if kind is None:
        raise SettingError(f"mechanism = {name!r}: expected one of {', '.join(EVENT_CLASSES)}")
    if kind is not StableEvent:
        if alpha is not None:
            raise SettingError(f"alpha: allowed only for the mechanism stable, not for {name}; remove alpha")
        return partial(kind, sampling=sampling, count=count)
    if alpha is None:
        raise SettingError("alpha: missing; give the stability index of stable noise, from 1 to 1.9999")
    if check_alpha(alpha) == 2:
        raise SettingError(
            "alpha = 2: expected at most 1.9999; for alpha = 2, use the mechanism gaussian with a standard deviation "
            "of sqrt(2) times the scale"
        )
    return partial(StableEvent, sampling=sampling, count=count, alpha=alpha, norm=norm)


def noise_multiplier(epsilon: float, count: int) -> float:
    """Return 1/epsilon as a float by which `count` releases cost at least the epsilon that was written."""
    from parley.validate import exact, positive, upper

    multiplier, count = 1 / positive(epsilon, "epsilon"), min(count, 10**18)  # an event has no more
    while math.isfinite(multiplier) and Fraction(repr(upper(count / Fraction(repr(multiplier))))) < count * exact(
        epsilon
    ):
        multiplier = math.nextafter(multiplier, 0.0)
    return multiplier


def parse_release(text: str) -> Event:
    """Parse MECHANISM:KEY=VALUE,... as an event.

    >>> parse_release("laplace:epsilon=0.1,count=5").multiplier
    10.0
    """
    from parley.privacy.accounting.stable_bounds import sampling_rate
    from parley.validate import positive, whole

    name, _, settings = text.partition(":")
    known = {"multiplier", "epsilon", "count", "sampling", "alpha"}
    values: dict[str, float] = {}
    for item in filter(None, settings.split(",")):
        key, _, value = item.partition("=")
        if key not in known:
            raise SettingError(f"{text}: unknown key {key!r}; expected {', '.join(sorted(known))}")
        if key in values:
            raise SettingError(f"{text}: {key} is given twice")
        try:
            values[key] = float(value)
        except ValueError:
            raise SettingError(f"{text}: {key} = {value!r}: expected a number") from None
    count = values.get("count", 1.0)
    if not count.is_integer():
        raise SettingError(f"{text}: count = {count:g}: expected a whole number")
    times = whole(int(count), "count")
    make_event = event_maker(name, values.get("alpha"), "l2", sampling_rate(values.get("sampling", 1.0)), times)
    if ("multiplier" in values) == ("epsilon" in values):
        found = "both" if "epsilon" in values else "neither"
        raise SettingError(f"{text}: expected exactly one of the keys multiplier and epsilon, but found {found}")
    if "multiplier" in values:
        return make_event(positive(values["multiplier"], "multiplier"))
    if not issubclass(EVENT_CLASSES[name], PureEvent):
        raise SettingError(
            f"{text}: the key epsilon is allowed only for laplace and geometric; give the key multiplier instead"
        )
    return make_event(positive(noise_multiplier(values["epsilon"], times), "multiplier"))
