"""Does one noise make learning together pay? Owners' errors alone, with each owner's own noise, and with one noise for
all.

1. Real loans, least squares from one release of statistics, (eps, delta = 1e-6): many small owners to few larger ones,
rows dealt at random or by state. Errors are those on each owner's own held-out rows. Alone an owner trains without
noise: plain least squares, or ridge whose weight it finds by cross-validation. Beside every outcome stands the forecast
from the public sample, made before training.
2. Planned terms for three tasks, 30 owners x 800 rows, eps = 1: what the planner makes of each kind of noise, and the
excess cost that is left. "Same plan": the plan for each owner's noise, run with one noise.

Everything is trained by `parley.train` from terms that differ in `privacy.noise` and what was planned for it. Prepared
from public knowledge alone: a random sample of rows that no owner has bounds every column at its 1 % and 99 % quantiles
and standardises it, the target too, so that an error is a share of the target's variance. The clip of a record's z z'
is, for each kind of noise, the one with the best forecast.

    python benchmarks/one_noise.py [--quick] [--part table|planner] [--splits 4] [--replicates 20] [--plot
    one_noise.png]

Needs lendingclub.parquet, and for the second part adult.parquet and sba_loans.parquet, in PARLEY_DATA (default
../shared/data).
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from common import books
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from sklearn.linear_model import RidgeCV

import parley
from parley.data import split_consecutive
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.forecast import Forecast
from parley.learning.outcome import alone
from parley.report.figures.colours import ALONE, GRID, INK, LIMIT, MUTED, TOGETHER
from parley.report.figures.picture import save
from parley.validate import Floats

DELTA, PUBLIC = 1e-6, 3000
EACH, ONE = KINDS = ("each-owner", "shared")
SHAPES = ((100, 100, 200), (60, 250, 250), (30, 500, 500))  # owners, rows to learn from, rows held out
PLANNED, PLANNED_RUNS = (30, 800, 400), 10
EPSILONS = (1.0, 3.0)
SPLITS = ("random", "by state")
CLIPS = tuple(
    float(f"{4 * 2 ** (k / 2):.3g}") for k in range(9)
)  # 4 to 64: |z|^2 is 12 on average; below 4 hardly a record is not scaled
PENALTIES = np.logspace(-1, 3, 17)


@dataclass(frozen=True, eq=False)
class Market:
    """Rows to be divided among owners, and the terms by which they learn but for sizes and budgets."""

    name: str
    table: pd.DataFrame  # the features, the target, and "state" where it is known
    model: dict[str, object]

    def terms(self, shape: tuple[int, int, int], epsilon: float, **learning: object) -> parley.Terms:
        count, rows, held_out = shape
        owners = [{"name": f"owner-{i}", "records": rows + held_out, "epsilon": epsilon} for i in range(count)]
        terms = parley.Terms.from_dict(
            {
                "model": {**self.model, "holdout": held_out / (rows + held_out)},
                "learning": learning,
                "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 3.0},
                "owners": owners,
            }
        )
        assert terms.train_rows("owner-0") == rows
        return terms

    def owners(self, shape: tuple[int, int, int], split: str, seed: int) -> list[parley.Owner]:
        """Some of the rows, dealt at random or sorted by state before they are cut into owners."""
        count, rows, held_out = shape
        drawn = self.table.iloc[np.random.default_rng(seed).permutation(len(self.table))[: count * (rows + held_out)]]
        if split == "by state":
            drawn = drawn.sort_values("state", kind="stable")
        return [
            parley.Owner(f"owner-{i}", part)
            for i, part in enumerate(split_consecutive(drawn, [rows + held_out] * count))
        ]


@dataclass(eq=False)
class Cell:
    """What became of one setting: errors on the owners' own held-out rows and relative fitness, over all splits."""

    alone: list[Floats] = field(default_factory=list)  # [owners] for each split
    ridge: list[Floats] = field(default_factory=list)
    # [replicates, owners]
    together: dict[str, list[Floats]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    fitness: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def gain(self, kind: str, against: list[Floats]) -> float:
        """The share of owners, over splits and replicates, whose error is smaller together."""
        return float(np.mean([np.mean(joint < own) for joint, own in zip(self.together[kind], against, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="the table alone: one split, two shapes")
    parser.add_argument("--part", choices=["table", "planner"])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        market = loans(Path(scratch))
        if asked.part in (None, "table"):
            shapes = SHAPES[::2] if asked.quick else SHAPES
            cells = table(market, shapes, 1 if asked.quick else asked.splits, asked.replicates)
            if asked.plot is not None:
                save(picture(cells, shapes), asked.plot)
        if asked.part == "planner" or (asked.part is None and not asked.quick):
            planner([market, adult(Path(scratch)), sba(Path(scratch))], min(asked.replicates, PLANNED_RUNS))


def table(
    market: Market, shapes: Sequence[tuple[int, int, int]], splits: int, replicates: int
) -> dict[tuple[object, ...], Cell]:
    """Every setting trained, printed beside its forecast."""
    began = time.perf_counter()
    print(
        f"{market.name}: 10 features and a constant, one release of statistics, delta = {DELTA:g}; {splits} splits x "
        f"{replicates} runs"
    )
    print(
        "error: mean on owners' own held-out rows, in variances of the target; (f): forecast; gain: share of owners "
        "better off together"
    )
    print("than alone by least squares / by ridge; psi: relative fitness; !: outside the forecast's 90 % interval\n")
    print(f"owners x rows eps split    |  alone ridge     (f) | {heading('each own (f)')} | {heading('one    (f)')}")
    cells: dict[tuple[object, ...], Cell] = {}
    advice = []
    for shape in shapes:
        planned = {(kind, epsilon): best_clip(market, shape, epsilon, kind) for kind in KINDS for epsilon in EPSILONS}
        foreseen = {
            key: parley.forecast(terms, differences=Heterogeneity.stated(0.0)) for key, terms in planned.items()
        }
        outcome = {split: measured(market, shape, split, planned, splits, replicates) for split in SPLITS}
        for epsilon in EPSILONS:
            for split, found in outcome.items():
                cell = cells[shape, epsilon, split] = found[epsilon]
                said = {kind: foreseen[kind, epsilon] for kind in KINDS}
                print(line(shape, epsilon, split, cell, said), flush=True)
                for kind in KINDS:
                    first = said[kind].owners[0]
                    advice.append((first.together < first.alone) == (cell.gain(kind, cell.ridge) > 0.5))
    spread = max(scatter(cell.together[kind]) for cell in cells.values() for kind in KINDS)
    if splits > 1:
        print(f"\nlargest standard error of an error over splits: {spread:.4f}", end="")
    print(
        f"\nthe forecast advised what most owners were better off with in {sum(advice)} of {len(advice)} cases; "
        f"{since(began)}\n"
    )
    return cells


def heading(name: str) -> str:
    return f"{name:^13} {'gain':^11} {'psi':>8} {'':9}"


def line(shape: tuple[int, int, int], epsilon: float, split: str, cell: Cell, foreseen: dict[str, Forecast]) -> str:
    unit = target_variance(foreseen[ONE].terms)
    text = f"{shape[0]:5} x {shape[1]:5} {epsilon:3g} {split:8} | {np.mean(cell.alone):6.3f} "
    text += f"{np.mean(cell.ridge):.3f} ({foreseen[ONE].owners[0].alone / unit:.3f})"
    for kind in KINDS:
        said, fitness = foreseen[kind].relative_fitness, float(np.mean(cell.fitness[kind]))
        outside = " " if said.low <= fitness <= said.high else "!"
        text += (
            f" | {np.mean(cell.together[kind]):6.3f} ({foreseen[kind].owners[0].together / unit:.3f}) "
            f"{cell.gain(kind, cell.alone):4.0%} /{cell.gain(kind, cell.ridge):4.0%} {fitness:8.4f} "
            f"({said.mean:.4f}){outside}"
        )
    return text


def best_clip(market: Market, shape: tuple[int, int, int], epsilon: float, kind: str) -> parley.Terms:
    """The terms with the clip that the forecast likes best: public knowledge alone."""
    plain = market.terms(shape, epsilon, algorithm="sufficient-statistics", horizon=1)
    plain = plain if kind == EACH else with_one_noise(plain)
    pilot = open_pilot(plain)
    candidates = [plain.changed(privacy={"clip": clip}) for clip in CLIPS]
    return min(candidates, key=lambda terms: expect(pilot.under(terms)).fitness(0))


def with_one_noise(terms: parley.Terms) -> parley.Terms:
    """The same terms, three owners being the hosts."""
    return terms.changed(privacy={"noise": ONE}, hosts=[part.name for part in terms.owners[:3]])


def measured(
    market: Market,
    shape: tuple[int, int, int],
    split: str,
    planned: dict[tuple[str, float], parley.Terms],
    splits: int,
    replicates: int,
) -> dict[float, Cell]:
    """The outcome for each epsilon. All kinds of noise and budgets see the same owners."""
    cells = {epsilon: Cell() for epsilon in EPSILONS}
    for seed in range(splits):
        owners = market.owners(shape, split, seed)
        some = next(iter(planned.values()))
        own, ridge = alone_errors(some, owners), ridge_errors(some, owners)
        for (kind, epsilon), terms in planned.items():
            result = parley.train(terms, owners, replicates=replicates, seed=seed, whole_path=False)
            cells[epsilon].together[kind].append(errors(terms, owners, result.theta))
            cells[epsilon].fitness[kind].append(float(result.path[-1].mean()))
        for cell in cells.values():
            cell.alone.append(own)
            cell.ridge.append(ridge)
    return cells


def errors(terms: parley.Terms, owners: Sequence[parley.Owner], theta: Floats) -> Floats:
    """The cost of models [replicates, p] on each owner's held-out rows [replicates, owners], as prepared."""
    agreements = [owner.prepare(terms) for owner in owners]
    return np.array([each.setup.objective.cost(each.tables.held_out, theta) for each in agreements]).T


def alone_errors(terms: parley.Terms, owners: Sequence[parley.Owner]) -> Floats:
    """The cost of each owner's own model, without noise, on its own held-out rows [owners]."""
    return np.array([errors(terms, [owner], alone(terms, owner)[None, :])[0, 0] for owner in owners])


def ridge_errors(terms: parley.Terms, owners: Sequence[parley.Owner]) -> Floats:
    """The same for ridge regression, its weight found by leaving one row out at a time; the constant, the last column,
    is free."""
    found = []
    for owner in owners:
        train, held_out = owner.prepare(terms).tables.train, owner.prepare(terms).tables.held_out
        model = RidgeCV(PENALTIES).fit(train.X[:, :-1], train.y)
        found.append(float(np.mean((model.predict(held_out.X[:, :-1]) - held_out.y) ** 2)))
    return np.array(found)


def planner(markets: Sequence[Market], replicates: int) -> None:
    """What each kind of noise leaves of the excess cost where the planner chose the terms."""
    count, rows, _ = PLANNED
    print(
        f"planned terms, {count} owners x {rows} rows, eps = 1, delta = {DELTA:g}; {replicates} runs; costs on own "
        f"held-out rows"
    )
    for market in markets:
        began = time.perf_counter()
        proposal = parley.plan(market.terms(PLANNED, 1.0))
        if proposal.shared is None:
            raise SystemExit("these terms allow no noise for all")
        owners = market.owners(PLANNED, "random", 0)
        own = alone_errors(proposal.terms, owners)
        print(f"{market.name}: alone {np.mean(own):.4f}")
        excess = {}
        for name, terms, foreseen in (
            ("each owner's noise", proposal.terms, proposal.best.relative_fitness),
            ("one noise, same plan", with_one_noise(proposal.terms), None),
            ("one noise, own plan", proposal.shared.terms, proposal.shared.best.relative_fitness),
        ):
            result = parley.train(terms, owners, replicates=replicates, seed=0, whole_path=False)
            joint = errors(terms, owners, result.theta)
            excess[name] = float(result.path[-1].mean())
            said = "" if foreseen is None else f" (forecast {foreseen:.3g})"
            print(
                f"  {name:20} psi {excess[name]:.3g}{said}, cost {joint.mean():.4f}, {np.mean(joint < own):.0%} of "
                f"owners gain; "
                f"{terms.learning.algorithm}, {terms.privacy.mechanism}, T = {terms.learning.horizon}",
                flush=True,
            )
        each, same, best = excess.values()
        print(
            f"  one noise cuts the excess cost {each / best:.1f} x ({each / same:.1f} x by the same plan); "
            f"{since(began)}"
        )


def loans(scratch: Path) -> Market:
    """Interest rates from ten numbers; states are known up to 2011."""
    features = (
        "loan_amnt", "term", "emp_length", "annual_inc", "dti", "inq_last_6mths", "open_acc", "revol_bal", "revol_util",
        "total_acc",
    )  # fmt: skip
    return market(books.loans(), features, scratch, ["state"])


def adult(scratch: Path) -> Market:
    """Who earns more than 50,000, by logistic regression."""
    features = (
        "age", "workclass", "education_num", "marital_status", "occupation", "relationship", "race", "sex",
        "capital_gain", "capital_loss", "hours_per_week",
    )  # fmt: skip
    return market(books.adult(), features, scratch)


def sba(scratch: Path) -> Market:
    """Which small-business loans are not paid back, by logistic regression."""
    features = (
        "Term", "NoEmp", "NewExist", "CreateJob", "RetainedJob", "UrbanRural", "DisbursementGross", "GrAppv",
        "SBA_Appv", "ApprovalFY",
    )  # fmt: skip
    return market(books.sba(), features, scratch)


def market(book: books.Book, features: Sequence[str], scratch: Path, more: Sequence[str] = ()) -> Market:
    """The book shuffled and cut into a public sample and the rest; names become places in the alphabet, missing cells a
    constant."""
    table = book.shuffled(0).integers(features, more)
    public = table.iloc[:PUBLIC]
    public.to_parquet(scratch / f"{book.name}.parquet")
    ends = {column: [float(q) for q in public[column].quantile([0.01, 0.99])] for column in features}
    model = {
        "kind": book.kind,
        "target": book.target,
        "features": list(features),
        "public": str(scratch / f"{book.name}.parquet"),
        "bounds": ends,
    }
    return Market(book.name, table.iloc[PUBLIC:], {**model, "intercept": True})


def picture(cells: dict[tuple[object, ...], Cell], shapes: Sequence[tuple[int, int, int]]) -> Figure:
    """How an owner's error changes when it joins, against ridge alone, at eps = 1: a bar for the mean, a dot for each
    owner in one run."""
    figure, rng = Figure(figsize=(11, 4.6), layout="constrained"), np.random.default_rng(0)
    styles = ((EACH, LIMIT, "each owner adds its own noise"), (ONE, TOGETHER, "one noise for all"))
    for axes, split in zip(figure.subplots(1, 2, sharey=True), SPLITS, strict=True):
        for place, shape in enumerate(shapes):
            cell = cells[shape, 1.0, split]
            for x, (kind, colour, name) in zip((place - 0.2, place + 0.2), styles, strict=True):
                mean = float(np.mean(cell.together[kind]) / np.mean(cell.ridge) - 1)
                joint = cell.together[kind][0]
                typical = joint[np.argsort(joint.mean(axis=1))[len(joint) // 2]] / cell.ridge[0] - 1
                axes.bar(x, mean, 0.34, color=colour, alpha=0.4, label=name if place == 0 else None)
                axes.scatter(
                    x + rng.uniform(-0.13, 0.13, len(typical)), typical, s=8, color=colour, linewidths=0, zorder=3
                )
                axes.annotate(
                    f"{cell.gain(kind, cell.ridge):.0%}\ngain", (x, -0.365), ha="center", color=INK, fontsize=9
                )
        axes.axhline(0, color=ALONE, linewidth=1.6, zorder=2, label="alone: ridge, without noise")
        axes.set_xticks(range(len(shapes)), [f"{shape[0]} owners\n{shape[1]} rows each" for shape in shapes])
        axes.set_title(
            f"rows dealt {'at random' if split == 'random' else split}", loc="left", color=INK, fontsize=10.5
        )
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=MUTED)
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
        axes.set_ylim(-0.38, 0.3)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    figure.axes[0].set_ylabel("change of error on own held-out rows (down: better)", color=INK)
    figure.axes[1].legend(frameon=False, labelcolor=INK, fontsize=9, loc="upper right")
    title = "What joining does to an owner's error: interest rates of real loans, ε = 1"
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontweight="bold")
    return figure


def target_variance(terms: parley.Terms) -> float:
    """Of the public sample: forecasts come in the target's own units."""
    return open_pilot(terms).setup.preparation.target_scale ** 2


def scatter(values: Sequence[Floats]) -> float:
    """The standard error of a mean over splits."""
    means = [float(np.mean(each)) for each in values]
    return float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0


def since(began: float) -> str:
    return f"{time.perf_counter() - began:.0f} s"


if __name__ == "__main__":
    main()
