"""The part of from_files.md that asks owners for scales, typed from top to bottom; and its table, computed again."""

import re
import shlex
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from quick import quick_studies
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.protocol.setup import resolve
from parley.tasks.statistics.column_statistics.release import StatisticsReader
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement

GUIDE = (Path(__file__).parents[4] / "docs" / "from_files.md").read_text(encoding="utf-8")
WARDS = {"surgery": 0.5, "cardiology": 0.3, "children": 0.2}


def clinic(rows, seed):
    rng = np.random.default_rng(seed)
    age, pressure = rng.integers(0, 95, rows), rng.normal(130, 18, rows).round()
    ward = rng.choice(list(WARDS), rows, p=list(WARDS.values()))
    stay = 2 + 0.05 * age + 0.02 * (pressure - 130) + 2.0 * (ward == "cardiology") + rng.gamma(2, 1, rows)
    table = pd.DataFrame({"age": age.astype(object), "pressure": pressure, "ward": ward, "stay": stay.round(1)})
    table.loc[rng.random(rows) < 0.05, "age"] = None
    table.loc[7, "ward"] = "the one with the ghost"
    return table


def blocks(language):
    """Those of the part that asks owners for scales, as far as one machine can run them."""
    _, _, part = GUIDE.partition("\n## Ask the owners for scales\n")
    return re.findall(rf"^```{language}\n(.*?)^```", part, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True, scope="module")
def quick():
    with quick_studies():
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (terms,) = blocks("toml")
    name = re.match(r"# (\S+)", terms).group(1)
    Path(name).write_text(terms)
    for owner, seed in (("clinic_a", 1), ("clinic_b", 2)):
        rows = next(part["records"] for part in tomllib.loads(terms)["owners"] if part["data"] == f"{owner}.csv")
        clinic(rows, seed).to_csv(f"{owner}.csv", index=False)
    return tmp_path


def typed(line):
    command, *arguments = shlex.split(line)
    assert command == "parley"
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (line, done.output, done.exception)
    return done.output


def test_the_guide_works_as_it_is_typed(folder):
    said = {line: typed(line) for block in blocks("sh") for line in block.splitlines()}
    scales = next(output for line, output in said.items() if line.startswith("parley column-stats"))
    assert "cardiology, children, surgery" in scales
    assert "ghost" not in "".join(said.values()) + Path("ready.toml").read_text() + Path("model.json").read_text()
    foreseen = next(output for line, output in said.items() if line == "parley forecast ready.toml")
    assert "The interval covers all of them" in " ".join(foreseen.split())
    asked, ready = column_statistics_agreement(parley.load_terms("terms.toml")), parley.load_terms("planned.toml")
    assert [owner.epsilon for owner in ready.owners] == [0.7, 0.7]
    assert ready.privacy.delta == 9e-7
    assert (
        Path("ready.toml")
        .read_text()
        .startswith("# Bounds, categories, centres and scales were released by the owners")
    )
    for name in ("clinic-a", "clinic-b"):
        ledger = parley.Ledger(Path("books") / f"{name}.ledger")
        assert ledger.account(asked.hash).spent == Fraction("0.3")
        assert ledger.account(ready.hash).spent == Fraction("0.7")
        assert ledger.reserved == (Fraction(1), Fraction("1e-6"))
        ledger.verify()
    model = parley.load_model("model.json")
    rows = clinic(3000, 3).drop(index=7)
    error = np.sqrt(np.mean((model.predict(rows) - rows["stay"]) ** 2))
    assert error < 0.9 * rows["stay"].std()  # and it learned something


def test_what_the_guide_says_can_be_read_is_so():
    rows = [line.split("|")[2:5] for line in GUIDE.splitlines() if line.startswith(("| 5 col", "| 15 col"))]
    said = iter(int(cell.replace(",", "")) for row in rows for cell in row)
    for columns in (5, 15):
        names, bins = [], []
        for epsilon in (0.1, 0.3, 1.0):
            terms = {
                "model": {"kind": "logistic-regression", "target": "y", "features": [f"x{k}" for k in range(columns)]},
                "privacy": {"mechanism": "gaussian", "delta": 1e-6, "scale_epsilon": epsilon},
                "owners": [{"name": f"o{k}", "records": 10_000, "epsilon": 2.0} for k in range(5)],
            }
            setup = resolve(column_statistics_agreement(parley.Terms.from_dict(terms)))
            names.append(setup.part("o0").training.series.mechanism.threshold * 10_000)
            bins.append(StatisticsReader.from_setup(setup).clear(64) * 50_000)
        assert [next(said) for _ in range(6)] == pytest.approx([*names, *bins], rel=0.03)


def test_the_command_says_what_is_wrong(folder):
    Path("x.toml").touch()
    for arguments, expected in (
        (["--owners", "x.toml", "--seed", "1"], "--owners"),
        (["--ledgers", "books", "--seed", "1"], "--seed"),
        (["--ledgers", "books", "--lifetime", "0.5", "--lifetime-delta", "1e-5"], "scales and learning together need"),
        (["--ledgers", "books", "--lifetime", "1.0", "--lifetime-delta", "1e-7"], "scales and learning together need"),
        (["--ledgers", "books"], "--lifetime 1 --lifetime-delta 1e-06"),
    ):
        done = CliRunner().invoke(app, ["column-stats", "terms.toml", *arguments])
        assert done.exit_code != 0
        assert expected in str(done.exception)
    assert not list(Path().glob("books/*"))
    Path("plain.toml").write_text(Path("terms.toml").read_text().replace("scale_epsilon", "# scale_epsilon"))
    assert "privacy.scale_epsilon: missing" in str(CliRunner().invoke(app, ["column-stats", "plain.toml"]).exception)
    assert "parley column-stats TERMS" in str(CliRunner().invoke(app, ["train", "terms.toml"]).exception)
