"""What a simulation says of a model of no use, and of names that no row holds: printed, in JSON, on its page."""

import json

import pytest
from clinics import clinic_terms
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app

USELESS, MISNAMED = "worse than always predicting the mean", "have none of the names listed for column 'job'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("simulations")
    for seed, name in enumerate(("north", "south")):
        regression_table(100, seed=seed).assign(job="Professional, Technical").to_csv(
            place / f"{name}.csv", index=False
        )
    for file, names in (("split", '"Professional", "Technical"'), ("whole", '"Professional, Technical", "Clerk"')):
        terms = clinic_terms(owners={"north": (100, 1e-3), "south": (100, 1e-3)})
        told = terms.replace('"x2"]', f'"x2", "job"]\nholdout = 0.2\ncategories = {{ job = [{names}] }}')
        (place / f"{file}.toml").write_text(told)
    calm = clinic_terms(owners={"north": (100, 1e4), "south": (100, 1e4)}, horizon=20)
    (place / "calm.toml").write_text(calm.replace("[learning]", "holdout = 0.2\n[learning]"))
    return place


def simulated(folder, file, *more):
    done = CliRunner().invoke(app, ["train", str(folder / f"{file}.toml"), "--seed", "1", *more])
    assert done.exit_code == 0, done.output
    return done


def test_names_that_no_row_holds_and_a_model_of_no_use_are_said_wherever_one_looks(folder):
    page = folder / "page.html"
    said = json.loads(simulated(folder, "split", "--json", "--report", str(page)).stdout)["said"]
    for sentence in (USELESS, MISNAMED):
        assert [each for each in said if sentence in each], said
    shown = page.read_text().replace("&#x27;", "'").replace("&#39;", "'")
    assert USELESS in shown
    assert MISNAMED in shown
    printed = " ".join(simulated(folder, "split").output.split())
    assert USELESS in printed
    assert MISNAMED in printed


def test_nothing_is_said_of_names_that_rows_hold_and_of_a_model_that_is_of_use(folder):
    assert MISNAMED not in str(json.loads(simulated(folder, "whole", "--json").stdout)["said"])
    calm = json.loads(simulated(folder, "calm", "--json").stdout)
    assert calm["metrics"]["r2"] > 0
    assert [each.split()[0] for each in calm["said"]] == ["Held-out"]
