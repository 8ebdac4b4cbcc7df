"""One plant identified by owners behind daemons."""

import json
from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium
from plants import plant_terms, trajectories
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.terms import write_terms


@pytest.fixture
def consortium(tmp_path):
    made = Consortium(tmp_path, lifetime=500.0, lifetime_delta=1e-5)
    content = plant_terms(3, 60, 500.0, clip=4.0).model_dump(mode="json", exclude_none=True)
    content["owners"] = [{"name": name, "records": SIZES[name], "epsilon": 500.0} for name in "abc"]
    content["model"].pop("target")
    write_terms(parley.Terms.from_dict(content), tmp_path / "terms.toml")
    for place, name in enumerate("abc"):
        trajectories(SIZES[name], place).to_csv(tmp_path / f"{name}.csv", index=False)
    yield made
    made.close()


def typed(*arguments):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_a_plant_between_organisations(consortium):
    folder = consortium.folder
    for name in "abc":
        said = typed("owner", "accept", folder / "terms.toml", "--owner", folder / f"{name}.toml", "--yes")
    assert f"a mean over {SIZES['c']} trajectories as second moments" in said
    consortium.start()
    ask = ["identify", folder / "terms.toml", "--owners", folder / "addresses.toml", "--json"]
    found = json.loads(typed(*ask, "--save", folder / "plant.json"))
    assert found["delay"] == pytest.approx(2.5, abs=5 * found["delay_std"])
    assert found["delay_std"] < 0.2
    consortium.kill("a")
    again = json.loads(typed(*ask, "--resume"))  # a finished run asks nobody
    assert again["delay"] == found["delay"]
    assert np.array(json.loads((folder / "plant.json").read_text())["moments"]).shape == (16, 16)
    terms = parley.load_terms(folder / "terms.toml")
    assert consortium.spent(terms) == dict.fromkeys("abc", Fraction(500))


def test_the_same_on_one_machine(consortium):
    folder = consortium.folder
    text = (folder / "terms.toml").read_text()
    for name in "abc":
        text = text.replace(f'name = "{name}"', f'name = "{name}"\ndata = "{folder / name}.csv"')
    (folder / "here.toml").write_text(text)
    shown = typed("identify", folder / "here.toml", "--seed", "1")
    assert "A simulation: nothing was released." in shown
    assert "with 90% confidence between" in shown
    books = ["--ledgers", folder / "books", "--lifetime", "500", "--lifetime-delta", "1e-6"]
    found = json.loads(typed("identify", folder / "here.toml", *books, "--json"))
    assert [owner["epsilon_spent"] for owner in found["owners"]] == [500.0] * 3
    assert "terms" in str(CliRunner().invoke(app, ["identify", str(folder / "a.csv"), "--seed", "1"]).exception)
    pilot = typed("forecast", folder / "here.toml", "--pilot", folder / "a.csv")
    assert "together, under these terms" in pilot
