"""Items learned by terms on MovieLens: what two owners of 1:4 gain at several budgets, with their own noise and with
one.

    python benchmarks/ratings_by_terms.py --data DIR [--write FOLDER]
    python benchmarks/ratings_by_terms.py --made [--write FOLDER]

DIR holds `ml1m.parquet`, `ratings.dat` or `ratings.csv`. --made: made ratings of two libraries, as in docs/ratings.md.
--write leaves tables and terms in FOLDER, for `parley train FOLDER/terms.toml` and for daemons.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import parley
from parley.tasks.ratings.measured import items_worth
from parley.tasks.ratings.table import divide, drop_rare, find_ratings
from parley.terms import load_terms, write_terms
from parley_lab.papers.pejo2018.released_updates import INAUDIBLE

CASES = [
    ("no privacy", INAUDIBLE, INAUDIBLE, "each-owner"),
    ("one concerned", 1.0, INAUDIBLE, "each-owner"),
    ("both", 8.0, 8.0, "each-owner"),
    ("both, one noise", 8.0, 8.0, "shared"),
    ("both", 1.0, 1.0, "each-owner"),
    *(("both", epsilon, epsilon, "each-owner") for epsilon in (16.0, 32.0, 100.0, 300.0)),
]
LIBRARIES = [((1000, 40000), 300, (4.0, 1.0)), ((100, 200), 60, (1.0,))]  # readers, books, budgets


def written(data: Path, folder: Path) -> parley.Terms:
    """Two owners' tables, the public list of items and the terms, as files."""
    ratings = drop_rare(find_ratings(data))
    users, items, frames = np.array(ratings.user_names), np.array(ratings.item_names), []
    for part in divide(ratings, [1, 4], np.random.default_rng(0)):
        frames.append(pd.DataFrame({"user": users[part.users], "item": items[part.items], "rating": part.values}))
    return agreed("MovieLens", frames, ratings.item_names, folder)


def made(sizes: tuple[int, ...], books: int, folder: Path) -> parley.Terms:
    """The same of made ratings: 20 by everybody, tastes of four kinds, and an error of 0.8 that nothing explains."""
    rng = np.random.default_rng(7)
    Q, b, often = rng.normal(0, 0.6, (books, 4)), rng.normal(0, 0.5, books), rng.dirichlet(np.ones(books))
    frames = []
    for place, users in enumerate(sizes):
        rng = np.random.default_rng(place + 1)
        P, a = rng.normal(0, 0.6, (users, 4)), rng.normal(0, 0.4, users)
        u, i = np.repeat(np.arange(users), 20), rng.choice(books, 20 * users, p=often)
        values = 3.3 + b[i] + a[u] + np.einsum("nf,nf->n", P[u], Q[i]) + 0.8 * rng.standard_normal(len(u))
        names = {"user": [f"{place}-{reader}" for reader in u], "item": [str(book + 1) for book in i]}
        frames.append(
            pd.DataFrame({**names, "rating": np.clip(np.round(values), 1, 5)}).drop_duplicates(["user", "item"])
        )
    return agreed("Two libraries", frames, books, folder)


def agreed(title: str, frames: list[pd.DataFrame], items: tuple[str, ...] | int, folder: Path) -> parley.Terms:
    """Terms for the owners of these tables."""
    owners = []
    for name, frame in zip(("north", "south"), frames, strict=True):
        frame.to_parquet(folder / f"{name}.parquet")
        owners.append(
            {"name": name, "records": frame["user"].nunique(), "epsilon": 1.0, "data": str(folder / f"{name}.parquet")}
        )
    columns = {"user": "user", "item": "item", "target": "rating", "bounds": {"rating": [1.0, 5.0]}}
    terms = parley.Terms.from_dict(
        {
            "title": title,
            "model": {"kind": "matrix-factorization", **columns, "items": items, "holdout": 0.2},
            "privacy": {"mechanism": "gaussian", "delta": 1e-5, "clip": 5.0},
            "owners": owners,
        }
    )
    write_terms(terms, folder / "terms.toml")
    return load_terms(folder / "terms.toml")


def measured(terms: parley.Terms, cases: list[tuple[str, float, float, str]]) -> None:
    """A line for each case: who has which error, and how many users are heard through the noise."""
    owners = [parley.Owner(part.name, str(part.data)) for part in terms.owners]
    print(f"{'':16} {'ε':>12}   " + "   ".join(f"{part.name}: alone together personal" for part in terms.owners))
    for name, small, large, noise in cases:
        hosts = ("h0", "h1", "h2") if noise == "shared" else ()
        budgets = {"north": {"epsilon": small}, "south": {"epsilon": large}}
        case = terms.changed(privacy={"noise": noise}, owners=budgets, hosts=hosts)
        result, worth = parley.train(case, owners, seed=1), items_worth(case)
        errors = "   ".join(
            f"{o.rmse_alone:12.4f} {o.rmse_together:8.4f} {o.rmse_personal:8.4f}" for o in result.owners
        )
        found = result.to_json()["metrics"]
        ranks = f"recall@10 {found['recall@10']:.4f} ({found['popularity']['recall@10']:.4f} popular)"
        heard = "" if worth is None else f"   heard {worth.heard:,.1f}"
        print(f"{name:16} {small:g}, {large:g}".ljust(30) + f" {errors}   {ranks}{heard}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data", type=Path)
    source.add_argument("--made", action="store_true")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.write or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.data is not None:
            measured(written(arguments.data, folder), CASES)
            return
        for sizes, books, budgets in LIBRARIES:
            measured(made(sizes, books, folder), [("both", epsilon, epsilon, "each-owner") for epsilon in budgets])


if __name__ == "__main__":
    main()
