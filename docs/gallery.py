"""Draw every figure of the product with 1, 3, 40 and 400 owners from numbers that are made up: python docs/gallery.py
[FOLDER] [--only NAME]

Each is written as .png and as .svg, and a page shows them side by side with their words. What is counted is what a
figure has many of: owners, runs, columns, rows, cells or states. Names are long, in other alphabets, and look like
markup or formulas, as names do.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from parley.audit import Verdict
from parley.audit.attacks.membership import Estimate as Rate
from parley.audit.attacks.membership import Inference, Membership
from parley.decisions.outlook.outlook import Interval
from parley.learning.outcome.shapes import Axis, PairShape, ShapeFunction, Shapes
from parley.learning.outcome.verdict import Estimate
from parley.privacy.accounting.meaning import error_tradeoff
from parley.privacy.events import Adjacency
from parley.report.figures import curves, game_figures
from parley.report.figures import shape_functions as shapes_of_columns
from parley.report.figures.audit_figures import audit_figure, membership_figure, own_figure
from parley.report.figures.owner_gains import ONE_NOISE, OWN_NOISE, OwnerGain, joined_owners, model_costs, owner_gains
from parley.report.figures.picture import Picture, fonts, relettered, save, stand_in
from parley.report.pages import forecast_page, run_page
from parley.report.words.joined import Chapter, Joined
from parley.tasks.dynamics.figures import identified
from parley.tasks.statistics.counts.figures import counted
from parley.tasks.statistics.counts.run import CellCount
from parley_lab import noise_laws

ROOT = Path(__file__).parents[1]
COUNTS = (1, 3, 40, 400)
STRANGE = (
    "Regional-Hospital-of-the-Northern-District-and-Islands-Department-of-Cardiology",
    "_hidden",
    "Sjúkrahúsið á Akureyri",
    "Больница №1",
    "北京協和醫院",
    "<b>x</b> $x^{",
    "مستشفى",
    "한국병원",
)


def names(count: int) -> list[str]:
    """So many names, the strange ones first."""
    return [*STRANGE, *(f"clinic-{place}" for place in range(count))][:count]


def fitness(count: int) -> Picture:
    path = 2.0 / np.arange(1, 41)[:, None] * np.random.default_rng(0).lognormal(0.0, 0.4, (40, count))
    return curves.fitness_path(path, forecast=2.0 / np.arange(1, 41))


def foreseen(_: int) -> Picture:
    return forecast_page.fitness_figure(SimpleNamespace(path=2.0 / np.arange(1, 41)))  # type: ignore[arg-type]


def tradeoff(_: int) -> Picture:
    rates = np.linspace(0, 1, 101)
    return curves.error_tradeoff(rates, error_tradeoff(1.0, 1e-6, rates), 1.0, 1e-6)


def loss_curves(_: int) -> Picture:
    x, laws = np.linspace(0.1, 8, 60), ((2.0, "one"), (1.95, "one"), (1.9, "many"))
    lines = [
        {"label": f"α = {alpha}", "alpha": alpha, "spread": spread, "x": x, "y": np.exp(-alpha * x) / 2}
        for alpha, spread in laws
    ]
    scales = [{**line, "x": np.geomspace(0.5, 8, 60), "y": line["alpha"] * 4 / np.geomspace(0.5, 8, 60)}
              for line in lines]  # fmt: skip
    return curves.privacy_curves([
        {"title": "Scale 1", "over": "epsilon", "curves": lines},
        {"title": "δ = 1e-6", "over": "scale", "curves": scales},
    ])  # fmt: skip


def gains(count: int) -> Picture:
    rng = np.random.default_rng(1)
    means = rng.normal(0.4, 0.6, count)
    ends = rng.gamma(2.0, 0.2, (2, count))
    low, high = means - ends[0], means + ends[1]
    said = np.where(low > 0, "join", np.where(high < 0, "stay", "unsure"))
    found = [OwnerGain(*each) for each in zip(names(count), means, low, high, said, strict=True)]
    title = f"{(low > 0).sum()} of {count} owners gain for sure"
    return owner_gains(found, title, "test cost saved by joining", "lines: 90% intervals")


def gains_came_out(count: int) -> Picture:
    rng = np.random.default_rng(2)
    means = rng.normal(0.05, 0.08, count)[:, None]
    ends = np.array([-0.05, 0.0, 0.05])
    found, foreseen = means + ends, means + rng.normal(0, 0.03, (count, 1)) + 0.7 * ends
    said = np.where(found[:, 0] > 0.005, "join", np.where(found[:, 2] < 0.005, "stay", "unsure"))
    made = [OwnerGain.from_ends(*each) for each in zip(names(count), found, said, foreseen, strict=True)]
    title = f"Better off together: {(means > 0).sum()} of {count}"
    return owner_gains(made, title, "error that joining saves, of the error alone", "lines: 90%", shares=True)


def foreseen_gains(count: int) -> Picture:
    found = [
        SimpleNamespace(name=name, gain=Interval(0.4, 0.1 - place, 0.6), verdict="unsure")
        for place, name in enumerate(names(count))
    ]
    return forecast_page.gains_figure(SimpleNamespace(owners=found))  # type: ignore[arg-type]


def verdicts(count: int) -> Picture:
    found: Any = [
        SimpleNamespace(owner=name, personal_gain=Estimate(0.3, -np.inf if place == 0 else 0.1, 0.5), measured="join")
        for place, name in enumerate(names(count))
    ]
    return run_page.verdicts_figure(found)


def costs(_: int) -> Picture:
    found = {
        "together": Estimate(1.2, 1.0, 1.4),
        "alone": Estimate(1.3, -np.inf, np.inf),
        "personal": Estimate(1.1, 1.0, 1.2),
    }
    return model_costs(SimpleNamespace(owner=STRANGE[0], rows=120, costs=found))  # type: ignore[arg-type]


def negotiation(count: int) -> Picture:
    rng, budgets = np.random.default_rng(2), np.geomspace(0.01, 10, 60)
    payoffs = {
        name: value * (1 - np.exp(-3 * budgets)) - cost * budgets - 0.2
        for name, value, cost in zip(names(count), rng.gamma(3, 2, count), rng.gamma(2, 0.4, count), strict=True)
    }
    chosen = {name: float(budgets[np.argmax(curve)]) for name, curve in payoffs.items() if curve.max() > 0.5}
    money = np.geomspace(1, 1e4, 12)
    spend = {"contracts": (money, 1 / (1 + money) ** 0.3), "one price for all": (4 * money, 1 / (1 + money) ** 0.3)}
    return game_figures.negotiation(budgets, payoffs, chosen, spend if count > 1 else {})


def equal_owners(_: int) -> Picture:
    counts = np.unique(np.geomspace(2, 1000, 40).round())
    payoff = {"each_owner": 1 - 20 / counts, "shared": 3 - 20 / counts}
    fitness = {"each_owner": 4 / counts, "shared": 8 / counts**2}
    return game_figures.equal_owners(counts, payoff, fitness, STRANGE[0])


def joined(count: int) -> Picture:
    rng = np.random.default_rng(3)
    records = np.sort(rng.integers(150, 4000, count))
    if count > 1:
        records[-1] = 20_000
    means = 40 / records * rng.lognormal(0, 0.1, count)
    owners = tuple(
        Joined(name, int(rows), 0.02, Interval(mean, 0.5 * mean, 1.6 * mean), 1.0, Estimate(mean, 0.0, 1.0), 1.0,
               float(mean * rng.normal(1, 0.4)), mean / 2)
        for name, rows, mean in zip(names(count), records, means, strict=True)
    )  # fmt: skip
    one, large = Chapter(None, None, owners), Chapter(None, None, owners[-1:] * 3)  # type: ignore[arg-type]
    title = f"{count} owners: who gains by learning together?"
    return joined_owners([(ONE_NOISE, one), (OWN_NOISE, one)], title, large if count == 3 else None)


def laws(count: int) -> Picture:
    rng = np.random.default_rng(4)
    kinds = enumerate(("Gaussian", "α = 1.95", "α = 1.9"))
    runs = [(law, rng.lognormal(place, 0.7, count)) for place, law in kinds]
    panels = {"adult": runs, STRANGE[0]: runs}
    return noise_laws.quantiles_by_law(panels, "The heavier the tails, the worse the runs", "relative fitness ψ")


def shapes(count: int) -> Picture:
    rng, columns = np.random.default_rng(5), []
    for place, name in enumerate(names(count)):
        if place % 3 == 1:
            values = rng.normal(size=len(STRANGE)) / (1 + place)
            share = np.full(len(STRANGE), 1 / len(STRANGE))
            columns.append(
                ShapeFunction(name, np.empty(0), STRANGE, values, share, np.stack([values - 0.1, values + 0.1]))
            )
        else:
            values = np.append(np.cumsum(rng.normal(size=12)) / (1 + place) / 2, 0.1)
            cuts = np.linspace(0, 60, 13) if place % 2 else np.geomspace(1, 10**6, 13)
            columns.append(ShapeFunction(name, cuts, ("missing",), values, np.full(13, 1 / 13)))
    axis = Axis(STRANGE[0], np.linspace(0, 60, 6), np.empty(0), ())
    cells = rng.normal(size=(5, 5))
    pairs = (PairShape((axis, axis), cells, np.full((5, 5), 0.04)),) if count == 3 else ()
    found = Shapes(np.zeros(1), tuple(columns), "over public rows", "nine in ten of the runs", (), pairs)
    terms = SimpleNamespace(predicts="a number", target=STRANGE[4], smooth=True)
    model: Any = SimpleNamespace(shapes=lambda runs: found, preparation_=SimpleNamespace(model=terms))
    return shapes_of_columns.shape_functions(model)


def survivors(count: int) -> Picture:
    ends = np.linspace(30, 360, 12)
    rates = np.random.default_rng(6).gamma(2.0, 0.001, count)
    return shapes_of_columns.survival_curves(ends, np.exp(-rates[:, None] * ends), "days since admission", "relapse")


def verdict(_: int) -> Picture:
    rates = np.linspace(0, 1, 101)
    curve = tuple(zip(rates, error_tradeoff(0.8, 0.0, rates), strict=True))
    found = Verdict(STRANGE[0], 1.0, 1e-6, Adjacency.REPLACE_ONE, 0.72, 0.99, 5000, False, STRANGE[0], curve)
    return audit_figure(found)


def _membership() -> Membership:
    alarms = np.geomspace(1e-4, 1, 60)
    methods = (("online", 0.8), ("offline", 0.9), ("shadow", 1.0))
    found = tuple(
        Inference(method, Rate(1 / (1 + power), 0.5, 0.7), Rate(0.01, 0.0, 0.02), 0.4,
                  tuple(zip(alarms, alarms**power, strict=True)))
        for method, power in methods
    )  # fmt: skip
    return Membership(found, 1.0, 0.0, Adjacency.REPLACE_ONE, 0.95, 400, 128, 128)


def members(_: int) -> Picture:
    return membership_figure({"Without privacy": _membership(), STRANGE[4]: _membership()})


def own_members(_: int) -> Picture:
    found: Any = SimpleNamespace(membership=_membership(), owner=STRANGE[0])
    return own_figure(found)


def counts(count: int) -> Picture:
    guesses = np.random.default_rng(7).gamma(1.0, 300.0, count)
    cells = tuple(
        CellCount(name, g, g, g, max(g - 60, 0), g + 60) for name, g in zip(names(count), guesses, strict=True)
    )
    asked = SimpleNamespace(title="", model=SimpleNamespace(target=STRANGE[4]))
    return counted(SimpleNamespace(cells=cells, asked=asked, records=int(guesses.sum()), released=count != 3))  # type: ignore[arg-type]


def plant(count: int) -> Picture:
    times = np.arange(90)
    states = np.stack([np.sin(0.1 * times + k) * (1 + k % 7) for k in range(count)], axis=1)
    fine = np.arange(0, 89 + 1 / 8, 1 / 8)
    path = np.stack([np.sin(0.1 * fine + k) * (1 + k % 7) for k in range(count)], axis=1)
    found: Any = SimpleNamespace(
        max_delay=4, period_=1.0, delay_=2.3, delay_interval=lambda: (2.0, 2.7), A_=np.eye(count),
        simulate=lambda start, inputs, finer: path[: 8 * (len(inputs) - 1) + 1] / 2,
        regression_=SimpleNamespace(blocks=np.tile(np.repeat([0.1, 0.3, 2.0, 1.0, 0.1], 2), (count, 1))),
    )  # fmt: skip
    return identified(found, states, np.zeros((90, 2)), names(count))


MANY: dict[str, Callable[[int], Picture]] = {
    "owner-gains": gains,
    "foreseen-gains": foreseen_gains,
    "gains-came-out": gains_came_out,
    "verdicts": verdicts,
    "negotiation": negotiation,
    "joined-owners": joined,
    "fitness-path": fitness,
    "noise-laws": laws,
    "shape-functions": shapes,
    "survival-curves": survivors,
    "counts": counts,
    "plant": plant,
}
ONE: dict[str, Callable[[int], Picture]] = {
    "model-costs": costs,
    "forecast": foreseen,
    "equal-owners": equal_owners,
    "error-tradeoff": tradeoff,
    "privacy-curves": loss_curves,
    "audit": verdict,
    "membership": members,
    "own-membership": own_members,
}


def pictures(only: str = "") -> Iterator[tuple[str, Picture]]:
    """Every figure by name, with as many as it can have, or those whose name begins with `only`."""
    every = [(f"{name}-{count}", draw, count) for name, draw in MANY.items() for count in COUNTS]
    for name, draw, count in [*every, *((name, draw, 1) for name, draw in ONE.items())]:
        if name.startswith(only):
            yield name, draw(count)


def cut(picture: Picture) -> bool:
    """Whether something of a picture leaves the paper."""
    with fonts(), relettered(picture, stand_in):
        picture.draw_without_rendering()
        drawn, paper = picture.get_tightbbox(), picture.bbox_inches.padded(0.01)
    return not (paper.x0 <= drawn.x0 and drawn.x1 <= paper.x1 and paper.y0 <= drawn.y0 and drawn.y1 <= paper.y1)


def hang(folder: Path, only: str = "") -> Path:
    """Draw them, and return the page that shows them."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = []
    for name, picture in pictures(only):
        for kind in ("png", "svg"):
            save(picture, folder / f"{name}.{kind}")
        if cut(picture):
            print(f"{name}: something leaves the paper", file=sys.stderr)  # noqa: T201
        alt = escape(picture.alt)
        shown.append(f'<h2>{name}</h2>\n<img src="{name}.svg" alt="{alt}" width="720">\n<p>{alt}</p>')
    page = folder / "index.html"
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Every figure</title><h1>Every figure</h1>'
    page.write_text("\n".join([head, *shown]), encoding="utf-8")
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "gallery")
    parser.add_argument("--only", default="", help="the beginning of a figure's name")
    asked = parser.parse_args()
    print(hang(asked.folder, asked.only))  # noqa: T201
