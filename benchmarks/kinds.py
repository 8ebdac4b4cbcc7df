"""Does the plan take the best kind of model? Every kind at the same eps on every table, with and without a public
sample.

Five owners, each with its own noise (or one for all, `--hosts`), up to 2,000 rows each, drawn at random; 1,000 public
rows, a sixth where a table is small; delta as `init` has it. Each kind is planned as `init` plans it (`--columns`,
`--kind`), trained once, and tested on up to 10,000 rows that nobody had: log loss, or the mean square error over the
target's variance. `planned` is what `init` took by itself. Without a sample (`--declared`) ranges are what somebody
might know: from 0, where nothing is below, to the 99.9 % quantile, rounded up to one digit. A table then gets boosted
trees if enough is heard per column, else straight lines; how much is enough, all other tables say.

    python benchmarks/kinds.py [--tables loans,heart] [--epsilon 1] [--runs 5] [--first 0] [--declared] [--hosts]
                               [--jobs 2] [--json F]

Needs PARLEY_DATA (default ../shared/data).
"""

import argparse
import json
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from outlook_of_tables import TABLES, Cut

import parley
from parley.decisions.from_files.column_choice import Tried, evidence_per_column
from parley.decisions.from_files.terms_from_files import Draft, draft_terms
from parley.errors import ParleyError
from parley.terms import Terms

OWNERS, EACH, PUBLIC, NEW = 5, 2000, 1000, 10_000
SAMPLED, DECLARED = ("lines", "bins", "hinges", "trees", "margin", "boosted"), ("lines", "bins", "hinges", "boosted")
LEFT_OUT = "relapse"  # lifetimes, for which there are lines alone


@dataclass(frozen=True, eq=False)
class Split:
    """Tables as files, and what is judged on."""

    cut: Cut
    files: list[str]
    public: str
    test: pd.DataFrame
    classes: bool
    unit: float

    @classmethod
    def of(cls, name: str, run: int, folder: Path) -> "Split":
        cut = TABLES[name]()
        rows = cut.rows.reset_index(drop=True)
        order = np.random.default_rng([29, run]).permutation(len(rows))
        held = min(PUBLIC, len(rows) // 6)
        each = min(EACH, (len(rows) - held) * 7 // 10 // OWNERS)
        ends = held + each * np.arange(OWNERS + 1)
        parts = {f"owner{i}": rows.iloc[order[a:b]] for i, (a, b) in enumerate(pairwise(ends))}
        for who, part in {**parts, "public": rows.iloc[order[:held]]}.items():
            part.to_csv(folder / f"{who}.csv", index=False)
        classes = rows[cut.target].nunique() == 2
        unit = 1.0 if classes else float(rows[cut.target].std())
        files = [str(folder / f"{who}.csv") for who in parts]
        return cls(cut, files, str(folder / "public.csv"), rows.iloc[order[ends[-1] :][:NEW]], classes, unit)

    def drafted(self, way: str | None, epsilon: float, declared: bool, hosts: bool) -> Draft:
        """What `init` makes of these files; by itself, or asked for one kind."""
        wishes: dict[str, Any] = {"epsilon": epsilon, "holdout": 0.0, **self.cut.wishes}
        wishes |= _declared(self.cut) if declared else {"public": self.public}
        if way == "boosted":
            wishes["kind"] = "boosted-classification" if self.classes else "boosted-regression"
        elif way is not None:
            wishes["columns"] = way
        wishes |= {"hosts": ("h1", "h2", "h3")} if hosts else {}
        return draft_terms(self.files, self.cut.target, **wishes)

    def cost(self, terms: Terms, seed: int) -> float:
        owners = [parley.Owner(part.name, file) for part, file in zip(terms.owners, self.files, strict=True)]
        model, y = parley.train(terms, owners, seed=seed, measure=False).model, self.test[self.cut.target].to_numpy()
        if not self.classes:
            return float(np.mean((model.predict(self.test) - y) ** 2)) / self.unit**2
        chance = np.clip(model.predict_proba(self.test)[:, 1], 1e-9, 1 - 1e-9)
        return -float(np.mean(np.log(np.where(y == 1, chance, 1 - chance))))


def _declared(cut: Cut) -> dict[str, Any]:
    """Ranges and names that somebody might know without a sample."""
    bounds, names = dict[str, tuple[float, float]](), dict[str, tuple[str, ...]]()
    for column, cells in cut.rows.items():
        if column == cut.target and cells.nunique() == 2:
            names[column] = tuple(sorted(map(str, cells.unique())))
        elif pd.api.types.is_numeric_dtype(cells):
            low, high = (float(cells.quantile(q)) for q in (0.001, 0.999))
            bounds[str(column)] = 0.0 if low >= 0 else -_round(-low), max(_round(high), 1.0)
        else:
            names[str(column)] = tuple(sorted(map(str, cells.dropna().unique())))
    return {"bounds": bounds, "categories": names}


def _round(number: float) -> float:
    """Up to one digit."""
    if number <= 0:
        return 0.0
    digit = 10 ** math.floor(math.log10(number))
    return math.ceil(number / digit) * digit


def measured(name: str, epsilon: float, run: int, declared: bool, hosts: bool, file: Path | None) -> dict[str, Any]:
    """The test cost of every kind in one split, and which of them `init` takes."""
    told: dict[str, Any] = {"table": name, "epsilon": epsilon, "run": run, "declared": declared, "hosts": hosts}
    costs, expected = dict[str, float](), dict[str, float | None]()
    with tempfile.TemporaryDirectory() as folder:
        split, known = Split.of(name, run, Path(folder)), dict[str, Draft]()
        if not declared:
            best = split.drafted(None, epsilon, declared, hosts)
            told["planned"] = best.tried[0].way.wanted
            told["tried"] = [{**each.to_json(), "held_back": _held_back(each)} for each in best.tried]
            known[told["planned"]] = best
        else:
            known["lines"] = split.drafted("lines", epsilon, declared, hosts)
            told["heard"] = evidence_per_column(known["lines"].terms)
        for way in DECLARED if declared else SAMPLED:
            try:
                made = known.get(way) or split.drafted(way, epsilon, declared, hosts)
                costs[way] = split.cost(made.terms, run)
                expected[way] = None if made.proposal is None else made.proposal.expected_cost
            except ParleyError as error:
                print(f"{name} {epsilon:g} {run} {way}: {error}"[:160])
    told |= {"costs": costs, "expected": {way: cost and cost / split.unit**2 for way, cost in expected.items()}}
    if file is not None:
        with file.open("a") as out:
            out.write(json.dumps(told) + "\n")
    return told


def _held_back(tried: Tried) -> list[float] | None:
    """What the public sample's own model costs in each fold."""
    known = None if tried.proposal is None else tried.proposal.held_back
    return None if known is None else known.costs.tolist()


def lines(told: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each table and eps, and how often what is taken is close to the best."""
    cells = defaultdict[tuple[str, float], list[dict[str, Any]]](list)
    for row in told:
        cells[row["table"], row["epsilon"]].append(row)
    means = {
        key: {way: float(np.mean([row["costs"][way] for row in rows])) for way in rows[0]["costs"]
              if all(way in row["costs"] for row in rows)}
        for key, rows in cells.items()
    }  # fmt: skip
    found, distances = list[str](), list[float]()
    heard = {key: rows[0].get("heard") for key, rows in cells.items()}
    for (table, epsilon), costs in means.items():
        rows, least, usual = cells[table, epsilon], min(costs.values()), ""
        if heard[table, epsilon] is not None:
            others = [(heard[key] or 0.0, each) for key, each in means.items() if key[0] != table]
            usual = "boosted" if heard[table, epsilon] >= threshold(others) else "lines"
        taken = [row.get("planned", usual) for row in rows]
        mean = float(np.mean([row["costs"].get(way, math.inf) for row, way in zip(rows, taken, strict=True)]))
        distances.append(mean / least - 1)
        said = ", ".join(f"{way} {cost:.4f}" for way, cost in costs.items())
        chosen = ", ".join(f"{way} {count}" for way, count in Counter(taken).items())
        found.append(f"{table}, eps {epsilon:g} ({len(rows)}): {said} | taken {chosen}: {distances[-1]:+.1%}")
    for most in (0.01, 0.03):
        found.append(f"within {most:.0%} of the best: {sum(d <= most for d in distances)} of {len(distances)} cells")
    return found


def threshold(known: Sequence[tuple[float, dict[str, float]]]) -> float:
    """From how much that is heard per column on boosted trees are to be taken, of (what is heard, costs): most cells
    within 3 % of the best, then least lost."""
    heard = sorted({each for each, _ in known})

    def lost(least: float) -> tuple[int, float]:
        behind = [costs["boosted" if here >= least else "lines"] / min(costs.values()) - 1 for here, costs in known]
        return sum(each > 0.03 for each in behind), sum(min(each, 1.0) for each in behind)

    return min((0.0, *(math.sqrt(a * b) for a, b in pairwise(heard)), math.inf), key=lost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(name for name in TABLES if name != LEFT_OUT))
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first run")
    parser.add_argument("--declared", action="store_true", help="ranges instead of a public sample")
    parser.add_argument("--hosts", action="store_true", help="one noise for all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="F", help="add a line for each split")
    asked = parser.parse_args()
    cases = [
        (name, epsilon, run, asked.declared, asked.hosts, asked.json)
        for run in range(asked.first, asked.first + asked.runs)
        for epsilon in asked.epsilon or (0.5, 1.0, 4.0)
        for name in asked.tables.split(",")
    ]
    for line in lines(Parallel(n_jobs=asked.jobs)(delayed(measured)(*case) for case in cases)):
        print(line)


if __name__ == "__main__":
    main()
