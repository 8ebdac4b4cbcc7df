"""Ratings as people type them: train, release, score, recommend; and what is said where a command has no use for
them."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from raters import rating_terms, tastes
from typer.testing import CliRunner

from parley.cli.app import app
from parley.tasks.ratings.algorithm import Items
from parley.tasks.ratings.report import gain_line
from parley.tasks.ratings.run import OwnItems, Ranking, made_of
from parley.terms import load_terms, write_terms

SIZES = {"north": 50, "south": 90}


@pytest.fixture
def folder(tmp_path):
    terms = rating_terms(SIZES, 4.0)
    for place, (name, users) in enumerate(SIZES.items()):
        tastes(users, place).to_csv(tmp_path / f"{name}.csv", index=False)
        terms = terms.changed(owners={name: {"data": str(tmp_path / f"{name}.csv")}})
    write_terms(terms, tmp_path / "terms.toml")
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def typed(*words):
    done = run(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_from_a_simulation_to_a_recommendation(folder):
    terms, model = folder / "terms.toml", folder / "items.json"
    found = json.loads(typed("train", terms, "--seed", "1", "--replicates", "2", "--json"))
    assert found["metrics"]["rmse"] > 0
    assert found["metrics"]["rmse_spread"] > 0
    assert {"recall@10", "ndcg@10", "popularity"} <= found["metrics"].keys()
    for owner in found["owners"]:
        assert 0 < owner["rmse_alone"] < owner["rmse_together"] * 2
        assert owner["epsilon_spent"] == 4.0
    shown = typed("train", terms, "--seed", "1")
    assert "A simulation: nothing was released." in shown
    assert "No user's factors left their owner." in shown
    books = ["--ledgers", folder / "books", "--lifetime", "4", "--lifetime-delta", "1e-6"]
    released = json.loads(typed("train", terms, *books, "--force", "--save", model, "--json"))
    assert released["released"] is True
    assert released["metrics"]["rmse"] is None
    assert [owner["epsilon_spent"] for owner in released["owners"]] == [4.0, 4.0]
    assert "user 0-" not in model.read_text()
    judged = json.loads(typed("score", model, terms, "--owner", "north", "--json"))["owners"]
    assert judged[0]["rmse_together"] > 0
    assert "The 10 most popular" in typed("score", model, terms, "--all")
    refined = ["refine", model, terms, "--owner", "north", "--save", folder / "own.json"]
    assert json.loads(typed(*refined, "--json"))["deviation"] > 0
    assert "keep it inside" in typed(*refined)
    assert json.loads((folder / "own.json").read_text())["released"] is False
    best = json.loads(typed("recommend", model, terms, "--owner", "north", "--user", "user 0-3", "-k", "2", "--json"))
    assert "expected rating + log(number of" in typed(
        "recommend", model, terms, "--owner", "north", "--user", "user 0-3"
    )
    assert all(1 <= each["expected"] <= 5 for each in best["items"])
    assert "expected rating" in typed(
        "recommend",
        model,
        terms,
        "--owner",
        "north",
        "--user",
        "user 0-3",
        "--item",
        "film 2",
        "--data",
        folder / "north.csv",
    )


def test_noise_on_ratings_themselves_is_simulated(folder):
    terms = load_terms(folder / "terms.toml").changed(
        privacy={"mechanism": "bounded-ratings", "delta": 0.0, "clip": None}
    )
    write_terms(terms, folder / "noisy.toml")
    shown = typed("train", folder / "noisy.toml", "--seed", "1")
    assert "north: ε = 4, for the value of a rating" in shown
    refused = run("train", folder / "noisy.toml", "--ledgers", folder / "books", "--lifetime", "4")
    assert "for simulations" in str(refused.exception)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "TERMS", "--plot", "x.png"], "not available for the task ratings"),
        (["train", "TERMS", "--ledgers", "books", "--seed", "1"], "apply only to simulations"),
        (["forecast", "TERMS"], "forecasts of ratings are not available yet"),
        (["plan", "TERMS"], "ratings cannot be planned"),
        (["negotiate", "TERMS"], "ratings cannot be planned, negotiated"),
        (["recommend", "none.json", "TERMS", "--owner", "north", "--user", "x"], "none.json: no such file"),
    ],
)
def test_what_has_no_use_for_ratings_says_so(folder, words, sentence):
    done = run(*[str(folder / "terms.toml") if word == "TERMS" else word for word in words])
    assert done.exit_code != 0
    assert sentence in str(done.exception)


def test_without_the_extra_owners_are_told_before_they_promise_anything(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("parley.tasks.ratings.user_terms")]:
        monkeypatch.delitem(sys.modules, name)
    books = ["--ledgers", folder / "books", "--lifetime", "4", "--lifetime-delta", "1e-6"]
    done = run("train", folder / "terms.toml", *books, "--force")
    assert "parley-dp[ratings]" in str(done.exception)
    assert not list((folder / "books").glob("*.ledger"))


def test_terms_by_which_everybody_does_better_alone_are_not_released(folder):
    books = ["--ledgers", folder / "books", "--lifetime", "4", "--lifetime-delta", "1e-6"]
    refused = run("train", folder / "terms.toml", *books)
    assert "every owner is expected to learn better item factors alone" in str(refused.exception)
    assert "140 users" in str(refused.exception)
    assert not (folder / "books").exists()
    (folder / "addresses.toml").write_text("[owners]\n")
    refused = run("learner", "run", folder / "terms.toml", "--owners", folder / "addresses.toml")
    assert "release anyway with --force" in str(refused.exception)
    assert not list(folder.glob("*.checkpoint"))
    let = run("learner", "run", folder / "terms.toml", "--owners", folder / "addresses.toml", "--force")
    assert "better item factors alone" not in str(let.exception)
    study = run("train", folder / "terms.toml", "--seed", "1")
    assert "The terms are not worth spending budget on: every owner" in study.stderr
    assert "is better off alone: do not release" in study.stdout
    open_partner = load_terms(folder / "terms.toml").changed(owners={"south": {"epsilon": 1e6}})
    write_terms(open_partner, folder / "open.toml")
    more = ["--ledgers", folder / "books", "--lifetime", "1e6", "--lifetime-delta", "1e-6"]
    assert json.loads(typed("train", folder / "open.toml", *more, "--json"))["released"]


@pytest.mark.parametrize(
    ("errors", "sentence"),
    [
        (
            {"a": (0.68, 1.043)},
            "the error of a grows by 53.4%. Every owner is better off alone: do not release under these terms.",
        ),
        ({"a": (1.0, 0.9), "b": (1.0, 1.0001)}, "the error of a falls by 10.0%, of b stays the same."),
        (
            {"a": (1.0, 0.9), "b": (1.0, 1.1)},
            "of b grows by 10.0%. Without parley refine (personal), these owners are better off alone: b.",
        ),
    ],
)
def test_what_becomes_of_errors_reads_well(errors, sentence):
    none = Ranking(None, None, 0)
    owners = [OwnItems(name, alone, together, none, none) for name, (alone, together) in errors.items()]
    said = gain_line(SimpleNamespace(owners=owners))
    assert said.endswith(sentence)
    assert "-" not in said


def test_a_catalogue_that_holds_nothing_rated_is_told_of_in_a_study(folder):
    terms = load_terms(folder / "terms.toml").changed(model={"items": 60})
    write_terms(terms, folder / "counted.toml")
    shown = typed("train", folder / "counted.toml", "--seed", "1")
    assert "north: no rating is of an item in model.items (model.items is a number, so" in shown
    told = json.loads(typed("train", folder / "counted.toml", "--seed", "1", "--json"))
    assert [owner["unlisted_share"] for owner in told["owners"]] == [1.0, 1.0]
    books = ["--ledgers", folder / "books", "--lifetime", "4", "--lifetime-delta", "1e-6", "--force"]
    released = run("train", folder / "counted.toml", *books)
    assert released.exit_code == 0
    assert "of the ratings" not in released.output  # a release tells nothing of ratings
    assert "unlisted_share" not in typed("train", folder / "counted.toml", *books, "--json")
    assert "of an item in" not in typed("train", folder / "terms.toml", "--seed", "1")


def test_an_owners_own_commands_say_what_they_miss(folder):
    whole = load_terms(folder / "terms.toml")
    write_terms(whole.changed(everyone={"data": None}), folder / "terms.toml")
    items = Items(np.zeros((12, 3)), np.zeros(12))
    made_of(whole.model, items).save(folder / "items.json")
    asked = ["items.json", "terms.toml", "--owner", "north"]
    asked = [str(folder / word) if "." in word else word for word in asked]
    for words in (
        ["recommend", *asked, "--user", "x"],
        ["score", *asked],
        ["refine", *asked, "--save", folder / "own.json"],
    ):
        assert "(owners.north.data); give --data TABLE" in str(run(*words).exception)
    recommend = ["recommend", *asked, "--data", folder / "north.csv"]
    nobody = str(run(*recommend, "--user", "4711").exception)
    assert "expected a user from the column 'who' of" in nobody
    assert "north.csv" in nobody
    nothing = str(run(*recommend, "--user", "user 0-3", "--item", "flim 3").exception)
    assert "did you mean 'film 3'?" in nothing


def test_a_rating_that_is_no_number_is_not_taken_for_a_category(folder):
    table = tastes(50, 0).astype({"stars": object})
    table.loc[2, "stars"] = "abc"
    table.to_csv(folder / "north.csv", index=False)
    said = str(run("train", folder / "terms.toml", "--seed", "1").exception)
    assert "column 'stars', row 3: expected a number; leave out rows" in said
    assert "categories" not in said
