"""Is the outlook right? What it says of owners' gains beside what joining then brought, on simulated consortia.

Consortia of 2 to 40 owners with 120 to 3,000 rows, a public sample, eps .3 to 10, own or shared noise; half of them
linear, half of them alike or nearly; numbers and classes; terms as `parley init` writes them with plain columns. One
training each. An owner's gain is what its personal model is expected to save against its model alone on 4,000 new rows
of its own law, whose targets are known in expectation.

Printed, with standard errors over consortia: how often 90 % intervals cover the gain, how often `join` and `stay` are
right (the gain exceeds 0.5 % of the cost alone or does not), from outside and, with --inside, with own rows; beside
"everybody joins".

    python benchmarks/outlook.py [--consortia 200] [--first 0] [--inside] [--jobs 2] [--json F]
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import parley
from parley.decisions.from_files.terms_from_files import draft_terms
from parley.decisions.outlook.inside_view import inside_view
from parley.errors import ParleyError
from parley.learning.outcome.correction import rows_with_trees
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.validate import Floats

NEW = 4_000  # rows that judge
JUDGED = 8  # owners of a consortium, at most: the first ones, and they are in no order
New = tuple[pd.DataFrame, Floats]  # their columns, and what their targets are in expectation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consortia", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--inside", action="store_true", help="views of own rows too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--json", type=Path, metavar="F", help="add a line for each consortium; without it, all at once"
    )
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.consortia)
    found = Parallel(n_jobs=asked.jobs)(delayed(judged)(seed, asked.inside, asked.json) for seed in seeds)
    told = [each for each in found if each is not None]
    print(
        f"{len(told)} consortia, {sum(len(each['owners']) for each in told)} owners; {len(found) - len(told)} refused"
    )
    for line in lines(told):
        print(line)


def judged(seed: int, inside: bool, file: Path | None = None) -> dict[str, Any] | None:
    """What was said of one consortium's owners, and what came of it; None where there are no terms to judge."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = _judged(seed, inside, Path(folder))
        except ParleyError as error:
            print(f"{seed}: {error}"[:200])
            return None
    if file is not None:
        with file.open("a") as out:
            out.write(json.dumps(told) + "\n")
    return told


def _judged(seed: int, inside: bool, folder: Path) -> dict[str, Any]:
    about, tables, public, future = consortium(seed)
    files = [str(folder / f"o{place:02d}.csv") for place in range(len(tables))]
    for file, table in zip([*files, folder / "public.csv"], [*tables, public], strict=True):
        table.to_csv(file, index=False)
    kind = "linear-regression" if about["linear"] else "logistic-regression"
    hosts = ("h1", "h2", "h3") if about["shared"] else ()
    terms = draft_terms(
        files, "y", public=str(folder / "public.csv"), epsilon=about["epsilon"], columns="lines", hosts=hosts, kind=kind
    ).terms
    public = parley.forecast(terms)
    owners = [parley.Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
    model = parley.train(terms, owners, seed=seed, measure=False).model
    rows = []
    for owner, expected, new in list(zip(owners, public.owners, future, strict=True))[:JUDGED]:
        row = expected.to_json() | {"records": expected.records, "real": real_gain(terms, owner, model, new)}
        if inside:
            row["inside"] = inside_view(terms, owner, public=public).owner.to_json()
        rows.append(row)
    return about | {"owners": rows, "consortium": public.outlook.consortium.to_json()}


def consortium(seed: int) -> tuple[dict[str, Any], list[pd.DataFrame], pd.DataFrame, list[New]]:
    """(what it is, the owners' tables, the public sample, new rows of each owner)."""
    rng = np.random.default_rng([7, seed])
    columns, linear, shared = int(rng.integers(4, 12)), bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    count = int(np.exp(rng.uniform(np.log(2), np.log(41))))
    bend = 0.0 if rng.random() < 0.5 else float(rng.uniform(0.3, 1.2))
    ratio = 0.0 if rng.random() < 0.3 else float(1e-4 * 300 ** rng.random())
    epsilon, public = float(rng.choice([0.3, 1, 3, 10])), int(np.exp(rng.uniform(np.log(150), np.log(1500))))
    records = np.exp(rng.uniform(np.log(120), np.log(3000), count)).astype(int)
    common = rng.normal(size=columns) * rng.uniform(0.2, 1)
    mixed = np.linalg.cholesky(0.6 * np.eye(columns) + 0.4 * np.ones((columns, columns)))
    apart = np.linalg.cholesky(np.linalg.inv(mixed @ mixed.T * (1 if linear else 0.2)))

    def law() -> tuple[Floats, float]:
        shift = ratio**0.5 * float(rng.normal()) * (1 if linear else 2)
        return common + ratio**0.5 * apart @ rng.normal(size=columns), shift

    def new(size: int, best: tuple[Floats, float]) -> New:
        X = np.clip(rng.normal(size=(size, columns)) @ mixed.T, -4, 4)
        score = X @ best[0] + best[1] + bend * (np.abs(X[:, 0]) - 0.8) * (1 + X[:, 1])
        expected = score if linear else 1 / (1 + np.exp(-score))
        return pd.DataFrame(X, columns=[f"x{place}" for place in range(columns)]), expected

    def rows(size: int, best: tuple[Floats, float]) -> pd.DataFrame:
        X, expected = new(size, best)
        return X.assign(y=expected + rng.normal(size=size) if linear else (rng.random(size) < expected).astype(int))

    laws = [law() for _ in range(count)]
    about = {"seed": seed, "linear": linear, "shared": shared, "bend": bend, "ratio": ratio, "epsilon": epsilon}
    tables = [rows(int(size), each) for size, each in zip(records, laws, strict=True)]
    return about, tables, rows(public, law()), [new(NEW, each) for each in laws]


def real_gain(terms: parley.Terms, owner: parley.Owner, model: parley.JointModel, new: New) -> float:
    """The cost on new rows of the model alone less that of the personal model, in the target's own units. Expected
    targets suffice: the difference of two losses is linear in the target."""
    agreement = owner.prepare(terms)
    alone, (personal,) = alone_and_personal_models(agreement, model.theta_[None], plain_columns(owner, agreement)[0])
    risk, preparation = agreement.setup.risk, agreement.setup.preparation
    frame, expected = new
    squared = terms.model.kind == "linear-regression"
    columns = preparation.unturned.design(frame.assign(y=expected if squared else 0), owner.name).X

    def saved(y: Floats | int) -> Floats:
        rows = preparation.design(frame.assign(y=y), owner.name)
        before, after = (
            risk.record_losses(*rows_with_trees(risk, rows, each.theta, each.trees, columns))
            for each in (alone, personal)
        )
        return np.asarray(before - after)

    each = saved(expected) if squared else expected * saved(1) + (1 - expected) * saved(0)
    return float(each.mean()) * preparation.target_scale**2


def lines(told: list[dict[str, Any]]) -> list[str]:
    """How often the outlook is right, from outside and from inside."""
    found = []
    views = ("outside", "inside") if told and "inside" in told[0]["owners"][0] else ("outside",)
    for view in views:
        rows = [
            (place, row if view == "outside" else row["inside"], row["real"])
            for place, each in enumerate(told)
            for row in each["owners"]
        ]
        group = np.array([place for place, _, _ in rows])
        said_, real = [row for _, row, _ in rows], np.array([gain for *_, gain in rows])
        low, high, mean, alone = (
            np.array([row[key] for row in said_]) for key in ("gain_low", "gain_high", "gain", "alone")
        )
        counts = real > LEAST_GAIN * alone
        verdict = np.array([row["verdict"] for row in said_])
        found.append(f"{view}: intervals cover {_share((low <= real) & (real <= high), group)}")
        error = 100 * (mean - real) / alone
        found.append(
            f"  gain in % of the cost alone: said {100 * np.mean(mean / alone):.2f}, "
            f"real {100 * np.mean(real / alone):.2f}, rmse {np.sqrt(np.mean(error**2)):.2f}, "
            f"correlation {np.corrcoef(mean / alone, real / alone)[0, 1]:.2f}"
        )
        for name, right in (("join", counts), ("stay", ~counts)):
            some = verdict == name
            found.append(f"  {name}: {some.mean():.0%} of owners, right {_share(right[some], group[some])}")
        found.append(f"  unsure: {np.mean(verdict == 'unsure'):.0%}; everybody joins: right {_share(counts, group)}")
    return found


def _share(right: Any, group: Any) -> str:
    """A share with its standard error, owners of one consortium together."""
    if not len(right):
        return "-"
    share, places = float(np.mean(right)), np.unique(group)
    away = np.array([np.sum(right[group == place] - share) for place in places])
    return f"{share:.1%} +- {np.sqrt(np.sum(away**2)) / len(right):.1%}"


if __name__ == "__main__":
    main()
