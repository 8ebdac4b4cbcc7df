"""What a person sees before accepting: every figure that bounds a record, and warnings where terms do not fit the
table."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
from raters import rating_terms, tastes
from samples import BOUNDS, GAUSSIAN, class_table, make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data.headers import Range, ranges
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.warnings import budget_warning, figures, find_warnings


def owner_of(tmp_path, table):
    return parley.Owner("a", table, ledger=parley.Ledger(tmp_path / "a.ledger", lifetime=3.0))


def warned_of(owner, terms):
    return [warning.about for warning in find_warnings(owner, owner.prepare(terms))]


def test_every_figure_that_bounds_a_record_is_told(tmp_path):
    owner = owner_of(tmp_path, class_table(300))
    class_table(60, seed=9).to_csv(tmp_path / "public.csv", index=False)
    digest = hashlib.sha256((tmp_path / "public.csv").read_bytes()).hexdigest()
    terms = make_terms(
        300,
        model__kind="logistic-regression",
        model__class_weight={"1": 7.25},
        model__bounds={"x0": [-3.5, 3.75]},
        model__radius=6.5,
        model__public=str(tmp_path / "public.csv"),
        privacy__clip=0.875,
    )
    agreement = owner.prepare(terms)
    words = " ".join(acceptance_summary(owner, agreement))
    for told in (
        "clip: 0.875",
        "7.25 for class 1",
        "±6.5",
        "x0 -3.5 to 3.75",
        "x1 ",
        "x2 ",
        digest,
        "from privacy.clip",
    ):
        assert told in words
    found = figures(agreement)
    assert found["bounds"]["x0"] == [-3.5, 3.75]
    assert set(found["bounds"]) == {"x0", "x1", "x2"}
    assert (found["clip"], found["radius"], found["class_weight"], found["public_sha256"]) == (
        0.875,
        6.5,
        {"1": 7.25},
        digest,
    )
    assert found["record_bound"] == agreement.part.training.question.bound.value
    assert found["noise_scale"] == agreement.part.training.series.mechanism.scale
    json.dumps(found, allow_nan=False)


def test_terms_that_fit_the_table_raise_no_warning(tmp_path):
    owner = owner_of(tmp_path, regression_table(300))
    assert warned_of(owner, make_terms(300)) == []
    assert warned_of(owner, make_terms(300, model__bounds=BOUNDS)) == []
    assert "none" in " ".join(acceptance_summary(owner, owner.prepare(make_terms(300))))


def test_the_attack_on_a_flag_is_warned_of(tmp_path):
    """A range of 1e-45 and a class weight of 1e45 for a flag that is 0 or 1: the terms bring the count of it back at
    any size."""
    table = class_table(300).assign(x0=lambda t: (t["x0"] > 0).astype(int))
    settings = {"model__bounds": {"x0": [0, 1e-45]}, "model__class_weight": {"1": 1e45}, "model__features": ["x0"]}
    owner, terms = owner_of(tmp_path, table), make_terms(300, model__kind="logistic-regression", **settings)
    found = find_warnings(owner, owner.prepare(terms))
    assert [warning.about for warning in found[:2]] == ["model.bounds.x0", "model.class_weight.1"]
    share = f"{(table['x0'] == 1).mean():.1%}"
    assert share in found[0].sentence
    assert "1e+45 times" in found[0].sentence


@pytest.mark.parametrize(
    ("override", "about"),
    [
        ({"model__bounds": BOUNDS | {"x1": [-0.5, 0.5]}}, ["model.bounds.x1"]),
        ({"model__bounds": BOUNDS | {"x1": [-5000.0, 5000.0]}}, ["model.bounds.x1"]),
        ({"model__bounds": BOUNDS | {"y": [1e6, 2e6]}}, ["model.bounds.y"]),
        ({"privacy__clip": 1e-20}, ["privacy.clip"]),
        ({"privacy__clip": 1e20}, ["privacy.clip"]),
    ],
)
def test_terms_far_from_the_table_are_warned_of(tmp_path, override, about):
    table = regression_table(300)
    assert warned_of(owner_of(tmp_path, table), make_terms(300, **override)) == about
    (tmp_path / "parts").mkdir()
    table.iloc[:100].to_parquet(tmp_path / "parts" / "a.parquet")
    table.iloc[100:].to_parquet(tmp_path / "parts" / "b.parquet")
    streamed = parley.Owner("a", tmp_path / "parts")
    assert warned_of(streamed, make_terms(300, **override)) == about


def test_rows_that_look_like_several_of_one_person_are_warned_of(tmp_path):
    table = regression_table(300)
    twice = table.assign(customer_id=[f"c{i % 150}" for i in range(300)])
    owner = owner_of(tmp_path, twice)
    [warning] = find_warnings(owner, owner.prepare(make_terms(300)))
    assert warning.about == "privacy.person"
    assert "50.0% of the rows repeat a value of column 'customer_id'" in warning.sentence
    assert warned_of(owner, make_terms(300, privacy__person="customer_id", privacy__records_per_person=2)) == []
    assert warned_of(parley.Owner("a", table.assign(customer_id=range(300))), make_terms(300)) == []
    copied = pd.concat([table.iloc[:150]] * 2)
    assert warned_of(parley.Owner("a", copied), make_terms(300)) == ["privacy.person"]


def test_a_person_whose_name_is_written_in_two_ways_is_warned_of():
    table, terms = regression_table(300), make_terms(300, privacy__person="who", privacy__records_per_person=2)
    names = [f"c{place // 2}" for place in range(300)]
    assert warned_of(parley.Owner("a", table.assign(who=names)), terms) == []
    names[1:6:2] = ["C0", " c1 ", "c2.0"]  # the last is another name: only whole numbers are written with decimals
    owner = parley.Owner("a", table.assign(who=names))
    [warning] = find_warnings(owner, owner.prepare(terms))
    assert warning.about == "privacy.person"
    assert warning.sentence.startswith("4 names in column 'who' differ from another name only in capitalisation")
    assert "c0" not in warning.sentence.lower()


def test_a_public_sample_of_the_owners_own_rows_is_warned_of(tmp_path):
    """Not a copy of the file, which is refused: other columns, another order, another format."""
    table = regression_table(300)
    terms = make_terms(300, model__public=str(tmp_path / "public.csv"))
    table.iloc[::-7].to_csv(tmp_path / "public.csv", index=False)
    assert warned_of(parley.Owner("a", table), terms) == ["model.public"]
    regression_table(60, seed=5).to_csv(tmp_path / "public.csv", index=False)
    assert warned_of(parley.Owner("a", table), terms) == []
    coarse = table.round(0)  # rows that many people share
    coarse.iloc[::-7].to_csv(tmp_path / "public.csv", index=False)
    assert "model.public" not in warned_of(parley.Owner("a", coarse), terms)


def test_ranges_are_those_of_the_whole_table():
    table = pd.DataFrame({"a": [0, 5, 10, 20], "b": ["1", "2", "3", "4.5"]})
    found = ranges(table, {"a": (0.0, 10.0), "b": (-np.inf, np.inf)}, "t")
    assert found == {"a": Range(0, 20, 0.25), "b": Range(1, 4.5, 0)}
    assert ranges(table.iloc[:0], {"a": (0.0, 1.0)}, "t") == {}


def test_accept_shows_warnings_and_says_all_of_it_as_json(tmp_path):
    """The sentences on stderr, one object on stdout; and no warning holds a record's value."""
    pytest.importorskip("grpc", reason="grpcio is not installed; pip install 'parley-dp[deploy]'")
    table = regression_table(300)
    table.loc[7, "x0"] = 98765.4321
    table.to_csv(tmp_path / "a.csv", index=False)
    settings = f'name = "a"\ntable = "a.csv"\nledger = "a.ledger"\naccepted = "accepted"\nsocket = "{tmp_path / "s"}"\n'
    (tmp_path / "owner.toml").write_text(settings)
    parley.Ledger(tmp_path / "a.ledger", lifetime=3.0).close()
    (tmp_path / "terms.toml").write_text(
        """
        [model]
        kind = "linear-regression"
        target = "y"
        features = ["x0", "x1", "x2"]
        bounds = { x0 = [-1, 1] }
        radius = 5.0
        [privacy]
        clip = 4.0
        [[owners]]
        name = "a"
        records = 300
        epsilon = 1.00001
        """
    )
    arguments = ["owner", "accept", str(tmp_path / "terms.toml"), "--owner", str(tmp_path / "owner.toml"), "--json"]
    refused = CliRunner().invoke(app, arguments, input="n\n")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout.partition("\n")[2])["accepted"] is False  # the runner echoes the answer first
    accepted = CliRunner().invoke(app, [*arguments, "--yes"])
    content = json.loads(accepted.stdout)
    assert content["accepted"] is True
    assert [warning["about"] for warning in content["doubts"]] == ["model.bounds.x0"]
    assert content["figures"]["bounds"] == {"x0": [-1, 1], "x1": [None, None], "x2": [None, None], "y": [None, None]}
    words = accepted.stderr.replace("\n", " ")
    assert "Check model.bounds.x0" in words
    assert "ε = 1.001" in words  # never rounded down
    assert "98765" not in accepted.output
    assert "98,765" not in accepted.output


def test_a_budget_that_promises_nothing_is_warned_of(tmp_path):
    owner = owner_of(tmp_path, regression_table(300))
    assert "owners.a.epsilon" in warned_of(owner, make_terms(300, epsilon=1e5))
    assert "owners.a.epsilon" not in warned_of(owner, make_terms(300, epsilon=8.0))
    failing = budget_warning(make_terms(300, 200, **GAUSSIAN | {"privacy__delta": 0.999}), ["a"])
    assert "A delta of 0.999 gives almost no protection" in failing.sentence
    assert budget_warning(make_terms(300, 200, **GAUSSIAN), ["a"]) is None
    many = budget_warning(make_terms(300, 200, epsilon=1e5), ["a", "b"])
    assert many is not None
    assert "(and of 1 more owner)" in many.sentence
    said = parley.forecast(make_terms(300, epsilon=1e5), regression_table(500, seed=3)).warnings
    assert any("almost no protection" in warning for warning in said)


def test_a_catalogue_that_holds_little_of_what_was_rated_is_warned_of():
    pytest.importorskip("numba", reason="numba is not installed; pip install 'parley-dp[ratings]'")
    owner, terms = parley.Owner("a", tastes(40, 0)), rating_terms({"a": 40})
    assert warned_of(owner, terms) == []
    [warning] = find_warnings(owner, owner.prepare(terms.changed(model={"items": 60})))
    assert warning.about == "model.items"
    assert "no rating is of an item in model.items" in warning.sentence
    assert "called 1, 2, ..." in warning.sentence
    few = terms.changed(model={"items": ["film 1", "film 2", "another"]})
    [warning] = find_warnings(owner, owner.prepare(few))
    share = 1 - owner.table.frame()["film"].isin(["film 1", "film 2"]).mean()
    assert f"{np.floor(1000 * share) / 10:.1f}% of the ratings are not of an item in model.items:" in warning.sentence
    assert warned_of(owner, terms.changed(model={"items": [f"film {place}" for place in range(8)]})) == []


def test_names_that_are_written_otherwise_are_pointed_at(tmp_path):
    """Half of the rows say 'Yes ' where the terms say 'yes': they would count as any other name, and nobody would
    notice."""
    table = regression_table(200).assign(smokes=["yes", "no", "Yes ", "NO"] * 50)
    listed = {"model__features": ["x0", "smokes"], "model__categories": {"smokes": ["yes", "no"]}}
    assert warned_of(owner_of(tmp_path, table), make_terms(200, **listed)) == ["model.categories.smokes"]
    plain = table.assign(smokes=table["smokes"].str.strip().str.lower())
    assert warned_of(parley.Owner("a", plain), make_terms(200, **listed)) == []


def test_a_listed_name_that_no_row_has_is_pointed_at_beside_a_few_unlisted_ones(tmp_path):
    """A tenth of the rows say 'Upper town', the terms say 'Upper': too few to look wrong by their number alone."""
    table = regression_table(200).assign(part=["Upper town", *["north"] * 5, *["south"] * 4] * 20)
    listed = {"model__features": ["x0", "part"], "model__categories": {"part": ["north", "south", "Upper"]}}
    owner, terms = owner_of(tmp_path, table), make_terms(200, **listed)
    [warning] = find_warnings(owner, owner.prepare(terms))
    assert "10.0% of the rows of a have none of the names listed for column 'part'" in warning.sentence
    assert "No row has Upper." in warning.sentence
    for rows in (table.assign(part=table["part"].replace("Upper town", "Upper")), table.replace("Upper town", None)):
        filled = make_terms(200, **listed, model__missing={"part": "fill"})
        assert warned_of(parley.Owner("a", rows), filled) == []
    known = {**listed, "model__categories": {"part": ["north", "south"]}}
    assert warned_of(parley.Owner("a", table), make_terms(200, **known)) == []
