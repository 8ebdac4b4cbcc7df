"""The blocks of the documents run as they are written, or say why they do not; then their commands are read, at
least."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from blocks import SHELLS, blocks, in_python, in_shell, lines, understood
from quick import quick_studies
from samples import patients

import parley

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FEWER = ("--ledgers books", "--ledgers books --anyway")  # of so few rows nobody is expected to gain
# What a page says of many records, said of few.
SMALLER: dict[str, list[tuple[str, str]]] = {
    "README.md": [("replicates=100", "replicates=2"), ("--replicates 100", "--replicates 2")],
    "audit.md": [("draws=1_000_000", "draws=20_000")],
    "counts.md": [("records = 10000", "records = 200")],
    "first_steps.md": [("--yes --write", "--yes --columns lines --write"), FEWER],
    "forecast.md": [("replicates=100, jobs=2", "replicates=2"), ("[1000, 10_000]", "[50, 100]")],
    "networks.md": [("batches=100, epochs=10", "batches=4, epochs=1")],
    "ratings.md": [
        ("records = 1000 ", "records = 30 "),
        ("records = 40000", "records = 60"),
        ("horizon = 20", "horizon = 2"),
        ("replicates=5", "replicates=1"),
    ],
    "two_files.md": [("20_000", "2_000"), ("--replicates 20", "--replicates 2"), FEWER],
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
    running = [block for block in blocks(page) if block.reason is None and block.language in (*SHELLS, "python")]
    names = PREPARED[page.name]() if running and page.name in PREPARED else {}
    for block in blocks(page):
        assert block.language in (*SHELLS, "json", "python", "toml")
        text = smaller(page.name, block.text)
        if block.reason is not None:
            for _, _, words in lines(block.text) if block.language in SHELLS else ():
                understood(words)
        elif block.language == "python":
            in_python(text, names)
        elif block.language in SHELLS:
            in_shell(text)
        elif block.language == "json":
            json.loads(text)
        else:
            written(text)


def test_what_does_not_run_says_why_and_is_counted(capsys):
    found = {page: blocks(page) for page in PAGES}
    for page, of_page in found.items():
        reasons = page.read_text(encoding="utf-8").count("<!-- not run:")
        assert reasons == sum(block.reason is not None for block in of_page), page
    code = [block for of_page in found.values() for block in of_page if block.language in (*SHELLS, "python")]
    left = [block for block in code if block.reason is not None]
    with capsys.disabled():
        said = [f"{block.page}:{block.line}  {block.reason}" for block in left]
        print(f"\n{len(code) - len(left)} blocks of {len(code)} run; not these:", *said, sep="\n  ")  # noqa: T201
    assert len(left) <= 44


def smaller(page, text):
    for old, new in SMALLER.get(page, ()):
        text = text.replace(old, new)
    return text


def written(text):
    """It is TOML; a whole terms file is written where its first line says."""
    tomllib.loads(text)
    if text.startswith("# terms.toml\n"):
        Path("terms.toml").write_text(text, encoding="utf-8")


def of_readme():
    return {"table": pd.read_csv("new_loans.csv")}


def of_counts():
    people = pd.DataFrame({"marital_status": ["Divorced", "Never-married"] * 100})
    people.to_parquet("a.parquet")
    pd.DataFrame({"smokes": ["yes", "no", "no"] * 20}).to_csv("collected.csv", index=False)
    return {}


def of_fedinfer():
    """A year's release, and the next one's, of other rows; answers of one owner with stable noise."""
    terms = parley.load_terms("terms.toml").changed(learning={"algorithm": "fedinfer", "horizon": 1, "start": None})
    book = parley.data.synthetic_lending(2000, seed=3)
    years = []
    for records in (900, 1000):
        year = terms.changed(only=["bank_a"], owners={"bank_a": {"records": records}})
        years.append(parley.train(year, [parley.Owner("bank_a", book[-records:])], seed=1).model)
    z = np.random.default_rng(1).normal(size=(50, 6))
    values = (z.T @ z / 50)[np.triu_indices(6)][None]
    table = pd.read_csv("new_loans.csv")
    more = {"values": values, "scale": 1e-3, "records": 50}
    return {"model": years[0], "table": table, "last_year": years[0], "this_year": years[1], **more}


def of_first_steps():
    for seed, (name, rows) in enumerate({"north": 300, "south": 200, "public": 100, "new_patients": 9}.items()):
        patients(rows, seed, name).to_csv(f"{name}.csv", index=False)
    return {}


def of_forecast():
    terms = parley.load_terms("terms.toml")
    return {"terms": terms, "market": parley.data.synthetic_lending(250, seed=1)}


def of_identification():
    rng = np.random.default_rng(1)
    inputs = rng.choice([-1.0, 1.0], size=(60, 2))
    states = np.zeros((60, 2))
    for k in range(59):
        states[k + 1] = 0.8 * states[k] + inputs[k] + rng.normal(0, 0.01, 2)
    columns = {"u1": inputs[:, 0], "u2": inputs[:, 1], "x1": states[:, 0], "x2": states[:, 1]}
    pd.DataFrame(columns).to_csv("drive.csv", index=False)
    return {"states": states, "inputs": inputs}


def of_networks():
    torch = pytest.importorskip("torch", reason="networks need the extra parley-dp[torch]")
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(80, 2)).astype("float32"), rng.integers(0, 2, 80)
    more = {"X_public": X[:20], "y_public": y[:20], "X_new": X[:3], "parley": parley}
    return {"module": torch.nn.Linear(2, 2), "X": X, "y": y, **more}


def of_ratings():
    pytest.importorskip("numba", reason="ratings need the extra parley-dp[ratings]")
    rng = np.random.default_rng(1)
    Path("books.txt").write_text("Emma\nDune\nIvanhoe\n", encoding="utf-8")
    for name, readers in (("north", 30), ("south", 60)):
        reader, book = np.repeat(np.arange(readers), 3), np.tile(["Emma", "Dune", "Ivanhoe"], readers)
        ratings = pd.DataFrame({"reader": reader, "book": book, "stars": rng.integers(1, 6, 3 * readers)})
        ratings.to_csv(f"{name}.csv", index=False)
    return {}


PREPARED = {
    "README.md": of_readme,
    "counts.md": of_counts,
    "fedinfer.md": of_fedinfer,
    "first_steps.md": of_first_steps,
    "forecast.md": of_forecast,
    "identification.md": of_identification,
    "networks.md": of_networks,
    "ratings.md": of_ratings,
}
