"""The blocks of the documents run as they are written, or say why they do not; then their commands are read, at
least."""

import hashlib
import json
import shutil
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bank_and_shop import people as joined_people
from bank_and_shop import tables as joined_tables
from blocks import SHELLS, blocks, in_python, in_shell, lines, understood
from measured import measured_gains
from newcomer import typed
from plants import trajectories
from quick import quick_studies
from samples import patients
from series import narma

import parley

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "roles").glob("*.md"))]
# What a page says of many records, said of few.
SMALLER: dict[str, list[tuple[str, str]]] = {
    "README.md": [
        ("--replicates 100", "--replicates 2"),
        (
            "--public public_loans.csv --write terms.toml",
            "--public public_loans.csv --yes --columns lines --write new.toml",
        ),
        ('"int_rate", public', '"int_rate", columns="lines", public'),
        ("--owner bank-a/owner.toml", "--owner bank-a/owner.toml --yes"),
    ],
    "audit.md": [
        ("draws=1_000_000", "draws=20_000"),
        ("--report audit.html", "--report audit.html --runs 1000 --tries 0"),
        ("--report poisoning.html", "--report poisoning.html --runs 20"),
        ("--report membership.html", "--report membership.html --models 8"),
    ],
    "columns.md": [
        ("--write terms.toml", "--yes --columns bins --write terms.toml"),
        ("--replicates 50", "--replicates 2"),
    ],
    "counts.md": [("records = 10000", "records = 200")],
    "deployment.md": [
        ("bank-a=250000", "bank-a=300"),
        ("bank-b=90000", "bank-b=60"),
        ("--yes --write", "--yes --columns lines --write"),
        ("/data/", ""),
        ("--certificate learner.crt", "--certificate learner.crt --yes"),
    ],
    "forecast.md": [
        ("replicates=100, jobs=2", "replicates=2"),
        ("[1000, 10_000]", "[50, 100]"),
        ("heterogeneity terms.toml", "heterogeneity asking.toml"),
    ],
    "from_files.md": [
        (
            "--public public.csv --epsilon 1 --delta 1e-6 --yes",
            "--public public.csv --epsilon 1 --delta 1e-6 --yes --columns lines",
        ),
        ("--report", "--force --report"),  # so few rows that nobody is expected to gain
        ("20_000", "2_000"),
        ("--replicates 20", "--replicates 2"),
    ],
    "joined_tables.md": [
        ("records = 20000", "records = 250"),
        ("records = 18000", "records = 250"),
        ("--replicates 20", "--replicates 2"),
    ],
    "index.md": [("--write", "--yes --columns lines --write")],
    "installing.md": [("~/.local", "local")],
    "networks.md": [
        ("batches=100, epochs=10", "batches=4, epochs=1"),
        ("batches=938, epochs=10", "batches=4, epochs=1"),
    ],
    "owner.md": [
        ("/backup/", ""),
        ("2026-03-01", "found"),  # as is read where the shell would put a date
        ("--assume-spent agreements", "--assume-spent agreements --yes"),
    ],
    "ratings.md": [
        ("--table north.csv --lifetime", "--table elsewhere.csv --lifetime"),  # on another machine
        ("records = 1000 ", "records = 30 "),
        ("records = 40000", "records = 60"),
        ("horizon = 20", "horizon = 2"),
        ("replicates=5", "replicates=1"),
        ("--save items.json", "--save items.json --force"),
        ("--owner north/owner.toml", "--owner north/owner.toml --yes"),
        ("--user 4711", "--user 4"),
    ],
    "reservoir.md": [
        ("records = 1000 ", "records = 40 "),
        ("nodes = 100 ", "nodes = 10 "),
        ("--replicates 20", "--replicates 2"),
    ],
    "trees.md": [("records = 30000", "records = 300"), ("[privacy]", "[learning]\nhorizon = 14\n[privacy]")],
    "stable_noise.md": [("--replicates 200", "--replicates 2")],
}
TERMS = """
[model]
kind = "linear-regression"
target = "int_rate"
features = ["fico", "dti"]
public = "public_loans.csv"
holdout = 0.2
intercept = true
[learning]
algorithm = "gradient-descent"
horizon = 1
start = "public"
[privacy]
clip = 40.0
[[owners]]
name = "bank_a"
records = 300
epsilon = 3.0
value = 1000.0
privacy_cost = { kind = "linear", weight = 1.0 }
data = "bank_a.csv"
[[owners]]
name = "bank_b"
records = 200
epsilon = 3.0
value = 1000.0
privacy_cost = { kind = "linear", weight = 1.0 }
data = "bank_b.csv"
"""


@pytest.fixture(scope="module", autouse=True)
def quick():
    with quick_studies():
        yield


@pytest.fixture(scope="module")
def banks(tmp_path_factory):
    """What a reader would have: two banks, a public sample, terms, new rows."""
    made = tmp_path_factory.mktemp("banks")
    book = parley.data.synthetic_lending(700, seed=1)
    parts = {"bank_a": 300, "bank_b": 200, "public_loans": 80, "new_loans": 20, "raw": 60}
    for name, last in zip(parts, np.cumsum([*parts.values()]), strict=True):
        book[last - parts[name] : last].to_csv(made / f"{name}.csv", index=False)
    book[:300].to_parquet(made / "bank_a.parquet")
    (made / "terms.toml").write_text(TERMS, encoding="utf-8")
    return made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_runs(page, banks, tmp_path, monkeypatch):
    """In a folder of the page's own. One that says why it does not run is read: its commands exist and take these
    options."""
    monkeypatch.chdir(shutil.copytree(banks, tmp_path / "here"))
    running = [
        block for block in blocks(page) if not (block.reason or block.run_by) and block.language in (*SHELLS, "python")
    ]
    names = PREPARED[page.name]() if running and page.name in PREPARED else {}
    for block in blocks(page):
        assert block.language in (*SHELLS, "json", "python", "toml")
        text = smaller(page.name, block.text)
        if block.reason or block.run_by:
            for _, _, words in lines(block.text) if block.language in SHELLS else ():
                understood(words)
        elif block.language == "python":
            in_python(text, names)
        elif block.language in SHELLS:
            assert in_shell(text) > 0, f"{block.page}:{block.line}: nothing was typed"
        elif block.language == "json":
            json.loads(text)
        else:
            written(text)


def test_what_does_not_run_says_why_and_is_counted(capsys):
    found = {page: blocks(page) for page in PAGES}
    for page, of_page in found.items():
        reasons = page.read_text(encoding="utf-8").count("<!-- not run:")
        assert reasons == sum(block.reason is not None for block in of_page), page
        for test in (block.run_by for block in of_page if block.run_by):
            assert page.name in (ROOT / test).read_text(encoding="utf-8"), test
    code = [block for of_page in found.values() for block in of_page if block.language in (*SHELLS, "python")]
    left = [block for block in code if block.reason is not None]
    with capsys.disabled():
        said = [f"{block.page}:{block.line}  {block.reason}" for block in left]
        print(f"\n{len(code) - len(left)} blocks of {len(code)} run; not these:", *said, sep="\n  ")  # noqa: T201
    assert len(left) <= 15


def smaller(page, text):
    """With the digits of the public sample that is here, which a page leaves out."""
    for old, new in SMALLER.get(page, ()):
        text = text.replace(old, new)
    return text.replace('public_sha256 = "…"', f'public_sha256 = "{digits("public_loans.csv")}"')


def digits(file):
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def written(text):
    """It is TOML; a whole terms file is written where its first line says."""
    tomllib.loads(text)
    if text.startswith("# terms.toml\n"):
        Path("terms.toml").write_text(text, encoding="utf-8")


def of_readme():
    """Terms that parties on machines of their own could hold, and the books of one of them."""
    public = 'public = "public_loans.csv"'
    terms = TERMS.replace(public, f'{public}\npublic_sha256 = "{digits("public_loans.csv")}"')
    Path("terms.toml").write_text(terms.replace("[learning]", '[learning]\nlearner = "learner"'), encoding="utf-8")
    parley.data.synthetic_lending(300, seed=9).to_csv("elsewhere.csv", index=False)  # on another machine
    assert typed("owner", "init", "bank-a", "--name", "bank_a", "--table", "elsewhere.csv", "--lifetime", 3).code == 0
    return {}


def of_audit():
    """The terms that the demo writes, and a model of the banks."""
    Path("parley-demo").mkdir()
    for file in ("terms.toml", "public_loans.csv"):
        shutil.copy(file, "parley-demo")
    terms = Path("terms.toml").read_text(encoding="utf-8").replace('bank_a"\n', 'bank-a"\n')
    Path("terms.toml").write_text(terms, encoding="utf-8")
    assert typed("train", "terms.toml", "--seed", 1, "--save", "model.json").code == 0
    return {}


def of_columns():
    for name in ("bank_a", "bank_b", "public_loans"):
        table = pd.read_csv(f"{name}.csv")
        table = table[["fico", "dti", "annual_inc", "home_ownership"]].assign(
            defaulted=(table["int_rate"] > 14).astype(int)
        )
        table.to_csv(f"{name}.csv", index=False)
    pd.read_csv("public_loans.csv")[:9].to_csv("new.csv", index=False)
    return {}


def of_counts():
    people = pd.DataFrame({"marital_status": ["Divorced", "Never-married"] * 100})
    people.to_parquet("a.parquet")
    pd.DataFrame({"smokes": ["yes", "no", "no"] * 20}).to_csv("collected.csv", index=False)
    return {}


def of_fedinfer():
    """A year's release, and the next one's, of other rows."""
    terms = parley.load_terms("terms.toml").changed(learning={"algorithm": "fedinfer", "horizon": 1, "start": None})
    book = parley.data.synthetic_lending(2000, seed=3)
    years = []
    for records in (900, 1000):
        year = terms.changed(only=["bank_a"], owners={"bank_a": {"records": records}})
        years.append(parley.train(year, [parley.Owner("bank_a", book[-records:])], seed=1).model)
    return {"model": years[0], "table": pd.read_csv("new_loans.csv"), "last_year": years[0], "this_year": years[1]}


def of_from_files():
    for seed, (name, rows) in enumerate({"north": 300, "south": 200, "public": 100, "new_patients": 9}.items()):
        patients(rows, seed, name).to_csv(f"{name}.csv", index=False)
    return {}


def of_forecast():
    """Another sample, moments that owners released, the assumptions that the page states, terms that ask for
    differences."""
    terms = parley.load_terms("terms.toml")
    shutil.copy("public_loans.csv", "sample.csv")
    assumed = next(block for block in blocks(ROOT / "docs" / "forecast.md") if block.text.startswith("curvature"))
    Path("spectrum.toml").write_text(assumed.text, encoding="utf-8")
    begun = TERMS.replace('start = "public"\n', "")
    Path("terms.toml").write_text(begun, encoding="utf-8")
    asking = TERMS.replace("[privacy]", "[privacy]\ndifference_epsilon = 0.3")
    Path("asking.toml").write_text(asking, encoding="utf-8")
    once = begun.replace('"gradient-descent"\nhorizon = 1', '"sufficient-statistics"').replace("clip = 40.0\n", "")
    for seed, (name, rows) in enumerate({"bank_a": 300, "bank_b": 200}.items(), start=7):  # a table has one ledger
        parley.data.synthetic_lending(rows, seed=seed).to_csv(f"earlier_{name}.csv", index=False)
    Path("once.toml").write_text(once.replace('data = "', 'data = "earlier_'), encoding="utf-8")
    released = typed("train", "once.toml", "--ledgers", "released", "--lifetime", 3, "--force", "--json")
    assert released.code == 0, released.said
    Path("released.json").write_text(released.out, encoding="utf-8")
    return {"terms": terms, "market": parley.data.synthetic_lending(250, seed=1)}


def of_index():
    for seed, (name, rows) in enumerate({"ours": 300, "theirs": 200, "public": 100}.items()):
        patients(rows, seed, name).to_csv(f"{name}.csv", index=False)
    return {}


def of_identification():
    rng = np.random.default_rng(1)
    inputs = rng.choice([-1.0, 1.0], size=(60, 2))
    states = np.zeros((60, 2))
    for k in range(59):
        states[k + 1] = 0.8 * states[k] + inputs[k] + rng.normal(0, 0.01, 2)
    columns = {"u1": inputs[:, 0], "u2": inputs[:, 1], "x1": states[:, 0], "x2": states[:, 1]}
    pd.DataFrame(columns).to_csv("drive.csv", index=False)
    for seed, (name, runs) in enumerate({"plant-0": 2000, "simulated": 100}.items()):
        trajectories(runs, seed).to_csv(f"{name}.csv", index=False)
    return {"states": states, "inputs": inputs}


def of_joined_tables():
    """Tables of a bank and a shop, and one with all columns."""
    everybody = joined_people(300)
    bank, shop = joined_tables(everybody, 50, 50)
    bank.to_csv("bank.csv", index=False)
    shop.to_csv("shop.csv", index=False)
    everybody[:9].to_csv("new.csv", index=False)
    return {}


def of_networks():
    torch = pytest.importorskip("torch", reason="networks need the extra parley-dp[torch]")
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 2)).astype("float32"), rng.integers(0, 2, 80)
    more = {"X_public": X[:20], "y_public": y[:20], "X_new": X[:3], "parley": parley}
    return {"module": torch.nn.Linear(2, 2), "X": X, "y": y, **more}


def of_roles():
    """What stands after the page for two banks was typed."""
    for block in blocks(ROOT / "docs" / "deployment.md"):
        if block.language in SHELLS and not (block.reason or block.run_by):
            in_shell(smaller("deployment.md", block.text))
    return {}


def of_ratings():
    pytest.importorskip("numba", reason="ratings need the extra parley-dp[ratings]")
    rng = np.random.default_rng(1)
    Path("books.txt").write_text("Emma\nDune\nIvanhoe\n", encoding="utf-8")
    for place, (name, readers) in enumerate((("north", 30), ("south", 60), ("elsewhere", 30))):
        reader, book = np.repeat(100 * place + np.arange(readers), 3), np.tile(["Emma", "Dune", "Ivanhoe"], readers)
        ratings = pd.DataFrame({"reader": reader, "book": book, "stars": rng.integers(1, 6, 3 * readers)})
        ratings.to_csv(f"{name}.csv", index=False)
    return {}


def of_reservoir():
    narma(40, 1, samples=200).to_csv("site-0.csv", index=False)
    narma(6, 2, samples=200).to_csv("new.csv", index=False)
    return {}


def of_stable_noise():
    """Answers of one owner."""
    z = np.random.default_rng(1).normal(size=(50, 6))
    return {"values": (z.T @ z / 50)[np.triu_indices(6)][None], "scale": 1e-3, "records": 50}


def of_terms():
    with closing(sqlite3.connect("loans.db")) as connection:
        pd.read_csv("bank_a.csv").to_sql("loans", connection, index=False)
    return {}


def of_together_or_alone():
    Path("five.json").write_text(json.dumps(measured_gains()), encoding="utf-8")
    return {}


def of_trees():
    rng = np.random.default_rng(1)
    people = pd.DataFrame(
        {
            "age": rng.integers(15, 90, 300),
            "education_num": rng.integers(1, 17, 300),
            "capital_gain": rng.choice([0, 5000], 300),
            "hours_per_week": rng.integers(10, 80, 300),
            "marital_status": rng.choice(["Divorced", "Never-married", "Widowed"], 300),
            "sex": rng.choice(["Female", "Male"], 300),
        }
    )
    people["income"] = (people["age"] + 10 * rng.normal(size=300) > 50).astype(int)
    people.to_parquet("adult.parquet")
    people[:9].to_csv("new.csv", index=False)
    return {}


PREPARED = {
    "README.md": of_readme,
    "audit.md": of_audit,
    "authority.md": of_roles,
    "columns.md": of_columns,
    "counts.md": of_counts,
    "fedinfer.md": of_fedinfer,
    "forecast.md": of_forecast,
    "from_files.md": of_from_files,
    "identification.md": of_identification,
    "index.md": of_index,
    "joined_tables.md": of_joined_tables,
    "networks.md": of_networks,
    "owner.md": of_roles,
    "ratings.md": of_ratings,
    "reservoir.md": of_reservoir,
    "stable_noise.md": of_stable_noise,
    "terms.md": of_terms,
    "together_or_alone.md": of_together_or_alone,
    "trees.md": of_trees,
}
