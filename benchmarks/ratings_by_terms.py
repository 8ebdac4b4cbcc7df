"""Items learned by terms on MovieLens: what two owners of 1:4 gain at several budgets, with their own noise and with one.

    python benchmarks/ratings_by_terms.py --data DIR [--write FOLDER]

DIR holds `ml1m.parquet`, `ratings.dat` or `ratings.csv`. --write leaves tables and terms in FOLDER, for
`parley train FOLDER/terms.toml` and for daemons.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.remove(str(Path(__file__).parent))  # numba would take coverage.py here for the package of that name

import numpy as np
import pandas as pd

import parley
from parley.data.ratings import divide, enough, find_ratings
from parley.learning.items import SILENT, learn_items
from parley.terms import load_terms, write_terms

CASES = [
    ("no privacy", SILENT, SILENT, "each-owner"),
    ("one concerned", 1.0, SILENT, "each-owner"),
    ("both", 8.0, 8.0, "each-owner"),
    ("both, one noise", 8.0, 8.0, "shared"),
    ("both", 1.0, 1.0, "each-owner"),
]


def written(data: Path, folder: Path) -> parley.Terms:
    """Two owners' tables, the public list of items and the terms, as files."""
    ratings = enough(find_ratings(data))
    users, items, owners = np.array(ratings.user_names), np.array(ratings.item_names), []
    for name, part in zip(("north", "south"), divide(ratings, [1, 4], np.random.default_rng(0)), strict=True):
        frame = pd.DataFrame({"user": users[part.users], "item": items[part.items], "rating": part.values})
        frame.to_parquet(folder / f"{name}.parquet")
        owners.append({"name": name, "records": frame["user"].nunique(), "epsilon": 1.0, "data": str(folder / f"{name}.parquet")})
    columns = {"user": "user", "item": "item", "target": "rating", "bounds": {"rating": [1.0, 5.0]}}
    terms = parley.Terms.from_dict(
        {
            "title": "MovieLens",
            "model": {"kind": "matrix-factorization", **columns, "items": ratings.item_names, "holdout": 0.2},
            "privacy": {"mechanism": "gaussian", "delta": 1e-5, "clip": 5.0},
            "owners": owners,
        }
    )
    write_terms(terms, folder / "terms.toml")
    return load_terms(folder / "terms.toml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.write or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        terms = written(arguments.data, folder)
        owners = [parley.Owner(part.name, str(part.data)) for part in terms.owners]
        print(f"{'':16} {'ε':>12}   " + "   ".join(f"{part.name}: alone together personal" for part in terms.owners))
        for name, small, large, noise in CASES:
            hosts = ("h0", "h1", "h2") if noise == "shared" else ()
            budgets = {"north": {"epsilon": small}, "south": {"epsilon": large}}
            result = learn_items(terms.changed(privacy={"noise": noise}, owners=budgets, hosts=hosts), owners, seed=1)
            errors = "   ".join(f"{o.rmse_alone:12.4f} {o.rmse_together:8.4f} {o.rmse_personal:8.4f}" for o in result.owners)
            found = result.to_json()["metrics"]
            ranks = f"recall@10 {found['recall@10']:.4f} ({found['popularity']['recall@10']:.4f} popular)"
            print(f"{name:16} {small:g}, {large:g}".ljust(30) + f" {errors}   {ranks}", flush=True)


if __name__ == "__main__":
    main()
