"""Is an owner told rightly whether to join? Advice from inside, before training, beside what joining then brought.

Owners that really differ (`common/consortia.py`: banks, occupations, hospitals, states), eps 1 and 3, delta = 1e-6;
terms as `parley init` writes them with a public sample: planned, each owner's own noise, 30 % of everybody's rows held
out.

Truth, for each data set, eps and owner: the mean over 20 trainings, each with fresh noise and a fresh split of
everybody's rows, of what the personal model, as `parley refine` makes it, saves on the owner's own held-out rows
against the model alone, which the same procedure makes of no joint model. How many cases are others beside a ridge
alone, without trees, stands below the tables. Cases within two standard errors of zero are left out.
Advice: what `parley forecast --inside` says of the training rows of a split, on the first `--advised` splits. Each
split is another table that the owner might have had, so what counts is the share of advice that is right, not a
majority; "unknown" is counted apart. Balanced accuracy is the mean of that share over owners that gain and owners that
lose: a constant answer has a half. Owners that lose are few, since a personal model falls back on the model alone. So
the same is counted a second time for owners to whom joining is worth it if it saves 1 % of what they pay alone
(`--worth 0.01`): those that clearly gain more, and those that clearly do not.

    python benchmarks/joining.py [--quick] [--only heart] [--splits 20] [--advised N] [--one-noise] [--jobs 2]
                                 [--json F] [--tabulate]

Wanted: 85 % right, balanced accuracy .8, at most 25 % unknown, fewer than 5 % of owners hurt, by more than two standard
errors. Needs the tables of `common/consortia.py` in PARLEY_DATA (default ../shared/data).
"""

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common.consortia import CONSORTIA, Consortium
from common.decisions import JOIN, STAY, UNKNOWN, Case, Tally
from common.figures import Key, Work, made, written
from joblib import Parallel, delayed

import parley
from parley.decisions.from_files.terms_from_files import RADIUS, Draft, planned
from parley.decisions.outlook.inside_view import Outlook, outlook
from parley.learning.outcome.correction import PersonalModel, said
from parley.learning.outcome.personal import compared, own_model, plain_columns
from parley.report.terminal import console, progress_bar, terminal_table
from parley.validate import Floats

DELTA, EPSILONS, HELD_OUT = 1e-6, (1.0, 3.0), 0.3
ADVISED = {
    "linear-regression": 4,
    "logistic-regression": 2,
}  # splits on which advice is asked for; of classes fewer, which take longer
WORTH = (0.0, 0.01)  # of the cost alone
AT_ONCE = 6  # owners that are looked at after one training
COSTS, ADVICE = "costs", "advice"
QUICK = ("SBA amounts",)


@dataclass(frozen=True)
class Outcome:
    """What became of one owner at one eps: mean costs on held-out rows in each training, and advice for each worth on
    some splits."""

    group: str
    epsilon: float
    owner: str
    alone: tuple[float, ...]
    personal: tuple[float, ...]
    ridge: tuple[float, ...]  # the model alone, if trees were none
    advice: tuple[tuple[str, ...], ...]

    def case(self, worth: float) -> Case:
        return self._case(self.alone, worth)

    def by_ridge(self, worth: float) -> Case:
        """The same if a ridge were all that an owner alone could have."""
        return self._case(self.ridge, worth)

    def _case(self, alone: tuple[float, ...], worth: float) -> Case:
        gains = np.subtract(alone, self.personal) - worth * np.array(alone)
        said = tuple(each[WORTH.index(worth)] for each in self.advice)
        return Case(self.group, self.epsilon, self.owner, tuple(gains.tolist()), said)


@dataclass(frozen=True, eq=False)
class Deal:
    """A consortium with the terms of one eps."""

    consortium: Consortium
    epsilon: float
    terms: parley.Terms
    outlook: Outlook

    def train(self, owners: list[parley.Owner], seed: int) -> Floats:
        """One joint model [P]."""
        for owner in owners:
            owner.prepare(self.outlook.known.setup)  # the public sample is read once
        return parley.train(self.terms, owners, seed=seed, measure=False).theta[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CONSORTIA), action="append", help="this data set; may be repeated")
    parser.add_argument("--splits", type=int, default=20, help="trainings")
    parser.add_argument(
        "--advised", type=int, help="splits on which advice is asked for (left out: 4 for least squares, 2 for classes)"
    )
    parser.add_argument("--one-noise", action="store_true", help="terms with one noise for all, planned for it")
    parser.add_argument(
        "--quick", action="store_true", help=f"{' and '.join(QUICK)}, six trainings, advice on one split"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", type=Path, metavar="F", help="a line for all that is done; what it holds is kept")
    parser.add_argument("--tabulate", action="store_true", help="only print what the file holds")
    asked = parser.parse_args()
    names = asked.only or (QUICK if asked.quick else list(CONSORTIA))
    splits, advised = (6, 1) if asked.quick else (asked.splits, asked.advised)  # None: by the kind of model
    began, figures = time.perf_counter(), written(asked.json)
    for name in [] if asked.tabulate else names:
        consortium = CONSORTIA[name]()
        some = min(ADVISED[consortium.kind] if advised is None else advised, splits)
        with tempfile.TemporaryDirectory() as scratch, progress_bar(name) as report:
            public = Path(scratch) / "public.parquet"
            consortium.public.to_parquet(public)
            deals = Parallel(min(len(EPSILONS), asked.jobs))(
                delayed(make_deal)(consortium, epsilon, asked.one_noise, public) for epsilon in EPSILONS
            )
            figures |= made(work(deals, asked.one_noise, splits, some), asked.jobs, asked.json, report)
        console.print(f"{name}: done after {time.perf_counter() - began:.0f} s", style="dim", markup=False)
    found = [outcome for name in names for outcome in outcomes(figures, name, asked.one_noise)]
    trainings = max((len(each.alone) for each in found), default=0)
    console.print(f"{trainings} trainings, {sum(len(each.advice) for each in found)} pieces of advice", markup=False)
    for worth in WORTH:
        title = f"\njoining is worth it if it saves {f'{worth:.0%} of the cost alone' if worth else 'anything'}"
        console.print(terminal_table(table(found, worth), title=title), soft_wrap=True)
        told = Counter(
            said for case in (each.case(worth) for each in found) if case.truth == STAY for said in case.advice
        )
        turned = sum(each.case(worth).truth != each.by_ridge(worth).truth for each in found)
        console.print(f"beside a ridge alone, {turned} of {len(found)} cases would be others")
        console.print(
            f"told to those that lose: {', '.join(f'{said} {told[said]} times' for said in (STAY, JOIN, UNKNOWN))}"
        )
    console.print("wanted: 85 % right, balanced .8 or more, unknown 25 % at most, hurt below 5 %", markup=False)


def make_deal(consortium: Consortium, epsilon: float, one_noise: bool, public: Path) -> Deal:
    """Planned on the public sample as `parley init` does it."""
    model = {
        "kind": consortium.kind,
        "target": consortium.target,
        "public": str(public),
        "intercept": True,
        "radius": RADIUS,
    }
    terms = parley.Terms.from_dict(
        {
            "model": {**model, "holdout": HELD_OUT},
            "learning": {},
            "privacy": {"mechanism": "gaussian", "delta": DELTA, "clip": 1.0},
            "owners": [
                {"name": owner_name(i), "records": len(t), "epsilon": epsilon} for i, t in enumerate(consortium.tables)
            ],
        }
    )
    proposal = planned(Draft(terms, ())).proposal
    if proposal is None or (one_noise and proposal.shared is None):
        raise SystemExit(f"{consortium.name}: these terms cannot be planned")
    chosen = proposal.shared.terms if one_noise and proposal.shared is not None else proposal.terms
    return Deal(consortium, epsilon, chosen, outlook(chosen))


def owner_name(place: int) -> str:
    return f"owner-{place}"


def work(deals: list[Deal], one_noise: bool, splits: int, advised: int) -> dict[Key, Work]:
    """All that is to be done for these deals, what takes longest first."""
    name, owners = deals[0].consortium.name, len(deals[0].consortium.tables)
    asked = {
        (ADVICE, name, one_noise, split, deal.epsilon, i): (asked_for, (deal, split, i))
        for split in range(advised)
        for deal in deals
        for i in range(owners)
    }
    trained = {
        (COSTS, name, one_noise, split, first): (one_split, (deals, split, first))
        for split in range(splits)
        for first in range(0, owners, AT_ONCE)
    }
    return trained | asked


def outcomes(figures: dict[Key, Any], name: str, one_noise: bool) -> Iterator[Outcome]:
    """What the figures say of every eps and owner of which there are several trainings and some advice."""
    costs, said = defaultdict[tuple[float, str], list[Any]](list), defaultdict[tuple[float, str], list[Any]](list)
    for (what, group, noise, *_), figure in figures.items():
        if (group, noise) == (name, one_noise):
            into = costs if what == COSTS else said
            for epsilon, owner, each in figure:
                into[epsilon, owner].append(each)
    for (epsilon, owner), each in costs.items():
        if len(each) > 1 and said[epsilon, owner]:
            alone, personal, ridge = map(tuple, zip(*each, strict=True))
            yield Outcome(name, epsilon, owner, alone, personal, ridge, tuple(map(tuple, said[epsilon, owner])))


def dealt(consortium: Consortium, split: int) -> list[parley.Owner]:
    """The owners with their rows in the order of this split."""
    rng = np.random.default_rng([1, split])
    shuffled = [table.iloc[rng.permutation(len(table))] for table in consortium.tables]
    return [parley.Owner(owner_name(i), table) for i, table in enumerate(shuffled)]


def one_split(deals: list[Deal], split: int, first: int) -> list[tuple[float, str, list[float]]]:
    """(eps, owner, mean costs of its model alone, its personal one and a ridge alone) of some owners from this place
    on."""
    owners, names = dealt(deals[0].consortium, split), list(deals[0].consortium.owners)
    joint = [deal.train(owners, split) for deal in deals]
    chosen = range(first, min(first + AT_ONCE, len(owners)))
    found = {names[i]: held_out_costs(owners[i], deals, joint) for i in chosen}
    return [(deal.epsilon, name, costs[d].tolist()) for name, costs in found.items() for d, deal in enumerate(deals)]


def asked_for(deal: Deal, split: int, place: int) -> list[tuple[float, str, list[str]]]:
    """(eps, owner, what it is told at each worth)"""
    view = deal.outlook.inside(dealt(deal.consortium, split)[place])
    return [(deal.epsilon, list(deal.consortium.owners)[place], [view.advice(worth) for worth in WORTH])]


def held_out_costs(owner: parley.Owner, deals: list[Deal], joint: list[Floats]) -> Floats:
    """Mean costs on the owner's held-out rows of its model alone, its personal one and a ridge alone [deals, 3], in the
    target's own units."""
    if any(deal.terms.model != deals[0].terms.model for deal in deals):  # rows are prepared in other ways: apart
        return np.concatenate(
            [held_out_costs(owner, [deal], [model]) for deal, model in zip(deals, joint, strict=True)]
        )
    agreement = owner.prepare(deals[0].terms)
    setup, held_out = agreement.setup, agreement.tables.held_out.in_memory()
    columns, new_columns = plain_columns(owner, agreement)
    alone, personal = compared(agreement, np.array(joint), columns)

    def cost(model: PersonalModel) -> float:
        return float(
            setup.risk.record_losses(*said(setup.risk, held_out, model.theta, model.trees, new_columns)).mean()
        )

    ridge = cost(own_model(agreement))
    return np.array([[cost(alone), cost(each), ridge] for each in personal]) * setup.preparation.target_scale**2


def table(found: list[Outcome], worth: float) -> list[list[str]]:
    """A line for each data set and eps, for each data set, and for all."""
    lines = [
        ["", "eps", "all", "gain", "lose", "not clear", "right", "balanced", "unknown", "hurt" if not worth else "lose"]
    ]
    groups = list(dict.fromkeys(each.group for each in found))
    for group in groups:
        mine = [each for each in found if each.group == group]
        for epsilon in EPSILONS:
            lines.append(line(group, f"{epsilon:g}", [each for each in mine if each.epsilon == epsilon], worth))
        lines.append(line(group, "both", mine, worth))
    return [*lines, line("all", "both", found, worth)] if len(groups) > 1 else lines


def line(group: str, epsilon: str, found: list[Outcome], worth: float) -> list[str]:
    made = Tally.of(each.case(worth) for each in found)
    left_out = made.cases - made.gainers - made.losers
    right, unknown, hurt = (
        f"{value:.0%}" if np.isfinite(value) else "-" for value in (made.right, made.unknown, made.hurt)
    )
    balanced = f"{made.balanced:.2f}" if np.isfinite(made.balanced) else "-"
    counts = [str(count) for count in (made.cases, made.gainers, made.losers, left_out)]
    return [group, epsilon, *counts, right, balanced, unknown, hurt]


if __name__ == "__main__":
    main()
