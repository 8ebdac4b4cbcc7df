"""Copies of tables within one account: which are refused by books of their own, which are a question, which pass.

Tables of eight kinds are released by `parley count --ledgers`, and then each of them again by other books: in other
folders, under other names and links, in other formats and orders, with other columns, with some rows changed, as
snapshots of a database; and tables of other people with the same columns, which must pass without a word. Then how
often other tables of few different rows are taken for one another, and what a sketch takes of a table of a million
rows.

    python benchmarks/other_books.py [--rows 2000] [--pairs 200] [--long 1000000]
"""

import argparse
import os
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

COLUMN = "y"
PEOPLE = {"accounts": "account", "customers": "customer"}  # kinds whose terms name a column of people


def frame(kind: str, rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """A table of a kind, of people nobody has seen before."""
    y, few = rng.normal(50, 10, rows).round(2), rng.integers(0, 50, rows)
    if kind == "measurements":
        return pd.DataFrame({"x1": rng.normal(size=rows), "x2": rng.uniform(size=rows), "x3": few, "y": y})
    if kind == "loans":
        amount, income = rng.integers(40, 1600, rows) * 25, rng.lognormal(11, 0.5, rows).round(-2)
        return pd.DataFrame(
            {"amount": amount, "income": income, "grade": rng.choice(list("ABCDE"), rows), "term": few % 2, "y": y}
        )
    if kind == "numbered":
        sex, region = rng.choice(["f", "m"], rows), rng.choice(["north", "south", "east"], rows)
        age = rng.integers(18, 90, rows)
        return pd.DataFrame({"id": np.arange(rows), "age": age, "sex": sex, "region": region, "y": y.round(0)})
    if kind == "accounts":
        account = np.repeat(rng.integers(10**9, 10**10, rows // 2), 2)
        return pd.DataFrame({"account": account, "kind": few % 4, "y": y})
    if kind == "customers":
        return pd.DataFrame({"customer": np.repeat(np.arange(rows // 2), 2), "kind": few % 4, "y": y})
    if kind == "survey":  # fifty different rows in all
        return pd.DataFrame({"a": few % 2, "b": few % 5, "c": few // 10, "d": few % 3, "y": few})
    if kind == "visits":
        day = pd.date_range("2024-01-01", periods=rows, freq="h").strftime("%Y-%m-%d %H:%M")
        return pd.DataFrame({"day": day, "ward": few % 4, "urgent": few % 2, "y": y.round(1)})
    wide = {f"c{k}": rng.normal(size=rows).round(3) for k in range(89)}
    return pd.DataFrame(wide | {"y": y})


KINDS = ("measurements", "loans", "numbered", "accounts", "customers", "survey", "visits", "wide")


def changed(table: pd.DataFrame, share: float, fresh: pd.DataFrame) -> pd.DataFrame:
    """With this share of the rows replaced by other people's."""
    some = int(share * len(table))
    return pd.concat([table.iloc[some:], fresh.iloc[:some]], ignore_index=True)


def snapshot(table: pd.DataFrame, folder: Path, columns: str) -> Path:
    """The table as it comes out of a database."""
    from parley.cli.app import app

    with sqlite3.connect(folder / "bank.db") as db:
        table.reset_index(names="place").to_sql("rows", db, index=False)
    uri, to = f"sqlite:{folder / 'bank.db'}", folder / "snapshot"
    query = f"SELECT place, {columns} FROM rows"
    command = ["owner", "snapshot", "--uri", uri, "--query", query, "--order-by", "place", "--to", str(to)]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, f"{found.output} {found.exception}"
    return to


def written(table: pd.DataFrame, file: Path) -> Path:
    table.to_csv(file, index=False)
    return file


def cases(kind: str, base: Path, table: pd.DataFrame, rng: np.random.Generator) -> dict[str, Callable[[Path], Path]]:
    """What is released again, by name: each makes a table in a folder of its own."""
    rows = len(table)
    key = PEOPLE.get(kind)

    def others(more: int = 0, first: int = 10**11) -> pd.DataFrame:
        found = frame(kind, rows + more, rng)
        return found if key is None else found.assign(**{key: found[key] + first})

    other = others()
    drop = next(name for name in table.columns if name not in (COLUMN, key))

    def linked(folder: Path, link: Callable[[Path, Path], object]) -> Path:
        link(base, folder / "link.csv")
        return folder / "link.csv"

    def parquet(folder: Path, frame: pd.DataFrame, name: str = "copy.parquet") -> Path:
        frame.to_parquet(folder / name)
        return folder / name

    def pieces(folder: Path) -> Path:
        (folder / "parts").mkdir()
        for k, part in enumerate(np.array_split(np.arange(rows), 3)):
            table.iloc[part].to_parquet(folder / "parts" / f"{k}.parquet", index=False)
        return folder / "parts"

    def again(name: str, make: Callable[[], pd.DataFrame]) -> tuple[str, Callable[[Path], Path]]:
        return name, lambda folder: written(make(), folder / "table.csv")

    added = table.assign(more=rng.normal(size=rows))
    return {
        "other folder": lambda folder: base,
        "deep folder": lambda folder: base,
        "byte copy": lambda folder: Path(shutil.copy(base, folder / "copy.csv")),
        "symbolic link": lambda folder: linked(folder, lambda one, two: two.symlink_to(one)),
        "hard link": lambda folder: linked(folder, lambda one, two: os.link(one, two)),
        "CSV to Parquet": lambda folder: parquet(folder, table),
        "folder of Parquet": pieces,
        **dict(
            [
                again("other separator", lambda: table),
                again("rows in other order", lambda: table.sample(frac=1, random_state=1)),
                again("columns renamed", lambda: table.rename(columns={drop: "other"})),
                again("one more column", lambda: added),
                again("three more columns", lambda: added.assign(p=1, q=rng.normal(size=rows))),
                again("one column fewer", lambda: table.drop(columns=drop)),
                again("5 % of rows changed", lambda: changed(table, 0.05, other)),
                again("5 % changed, one column more", lambda: changed(added, 0.05, other.assign(more=0.5))),
                again("20 % of rows added", lambda: pd.concat([table, other.iloc[: rows // 5]])),
                again("half of the rows", lambda: table.iloc[: rows // 2]),
                again("40 % of rows changed", lambda: changed(table, 0.4, other)),
            ]
        ),
        "snapshot, its key beside": lambda folder: snapshot(table, folder, ", ".join(table.columns)),
        "snapshot, one more column": lambda folder: snapshot(added, folder, ", ".join(added.columns)),
        **dict(
            [
                again("other people, same columns", others),
                again("next month, other people", lambda: others(90, 10**12)),
            ]
        ),
    }


def release(kind: str, table: Path, rows: int, books: Path) -> str:
    """What became of a release of this table by these books."""
    from parley.cli.app import app

    person = f'person = "{PEOPLE[kind]}"\nrecords_per_person = 2\n' if kind in PEOPLE else ""
    books.parent.mkdir(parents=True, exist_ok=True)
    terms = books.with_suffix(".toml")
    terms.write_text(
        f'[model]\nkind = "histogram"\ntarget = "{COLUMN}"\nbounds = {{ {COLUMN} = [0, 100] }}\nbins = 4\n'
        f'[privacy]\nmechanism = "geometric"\n{person}'
        f'[[owners]]\nname = "{kind}"\nrecords = {rows}\nepsilon = 1.0\ndata = "{table}"\n'
    )
    found = CliRunner().invoke(app, ["count", str(terms), "--ledgers", str(books), "--lifetime", "1"])
    said = f"{found.output} {found.exception}"
    if found.exit_code == 0:
        return "released"
    assert not books.exists(), said
    if "cannot count rows per person" in said:
        return "no such terms"
    if "is another ledger for the table of" in said:
        return "refused"
    assert "a table that shares rows or people" in said, said
    return "asked"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of other tables of few different rows")
    parser.add_argument("--long", type=int, default=1_000_000, help="rows of the table that is timed")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.environ["PARLEY_STATE"] = str(folder / "state")
        tried = copies(folder, options.rows, rng)
        print(pd.DataFrame(tried).to_string())
        print(dict(Counter(each for column in tried.values() for each in column.values())))
    chances(options.pairs, rng)
    cost(options.long, rng)


def copies(folder: Path, rows: int, rng: np.random.Generator) -> dict[str, dict[str, str]]:
    """What became of every copy of every kind of table."""
    tried: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        table, home = frame(kind, rows, rng), folder / kind
        home.mkdir()
        base = written(table, home / "table.csv")
        assert release(kind, base, rows, home / "books") == "released"
        tried[kind] = {}
        for k, (name, make) in enumerate(cases(kind, base, table, rng).items()):
            place = home / f"case{k}"
            place.mkdir()
            where = make(place)
            if name == "other separator":
                where.write_text(where.read_text().replace(",", ";"))
            held = rows_of(where)
            tried[kind][name] = release(kind, where, held, place / ("deep/er/books" if "deep" in name else "books"))
    return tried


def rows_of(place: Path) -> int:
    from parley.data.sources import find_source

    return len(find_source(place))


def chances(pairs: int, rng: np.random.Generator) -> None:
    """How often two tables of other people are taken for one another, where rows are few or columns count."""
    from parley.data.sketch import overlap, table_sketch
    from parley.data.sources import find_source

    laws: dict[str, Callable[[int], pd.DataFrame]] = {
        "50 different rows": lambda n: frame("survey", n, rng),
        "two truth values": lambda n: pd.DataFrame(rng.integers(0, 2, (n, 2)), columns=["a", "b"]),
        "ten truth values": lambda n: pd.DataFrame(rng.integers(0, 2, (n, 10))).rename(columns=str),
        "number and a truth value": lambda n: pd.DataFrame({"id": np.arange(n), "y": rng.integers(0, 2, n)}),
        "time, input, output": lambda n: pd.DataFrame(
            {"t": np.arange(n) * 0.1, "u": np.sin(np.arange(n) * 0.1), "x": rng.normal(size=n)}
        ),
        "mostly zeros": lambda n: pd.DataFrame((rng.uniform(size=(n, 4)) > 0.9) * rng.integers(1, 9, (n, 4))).rename(
            columns=str
        ),
        "rounded": lambda n: pd.DataFrame(rng.normal(size=(n, 3)).round(1)).rename(columns=str),
    }
    key = rng.bytes(32)
    for name, law in laws.items():
        found = Counter[str]()
        for _ in range(pairs):
            sizes = rng.choice([20, 200, 2000], 2)
            one, two = (table_sketch(find_source(law(int(size))), key) for size in sizes)
            keys = overlap(one, two, None, True).keys
            found["same" if keys >= 0.87 else "asked" if keys >= 0.1 else "other"] += 1
        print(f"{name:28}{pairs} pairs of other tables: {dict(found)}")


def cost(rows: int, rng: np.random.Generator) -> None:
    """The CPU seconds of a sketch and of a digest of a table of 20 columns."""
    from parley.data.sketch import table_sketch
    from parley.data.sources import find_source

    numbers = {f"c{k}": rng.normal(size=rows) for k in range(12)} | {
        f"n{k}": rng.integers(0, 50, rows) for k in range(4)
    }
    table = pd.DataFrame(numbers | {f"s{k}": rng.choice(["alpha", "beta", "gamma"], rows) for k in range(4)})
    with tempfile.TemporaryDirectory() as made:
        for name in ("table.parquet", "table.csv"):
            place = Path(made) / name
            table.to_parquet(place) if name.endswith("parquet") else table.to_csv(place, index=False)
            source, seconds = find_source(place), []
            for work in (source.digest, lambda source=source: table_sketch(source, rng.bytes(32))):
                began = time.process_time()
                work()
                seconds.append(time.process_time() - began)
            print(f"{name}: {rows:,} rows of 20 columns, digest {seconds[0]:.2f} CPU s, sketch {seconds[1]:.2f} CPU s")


if __name__ == "__main__":
    main()
