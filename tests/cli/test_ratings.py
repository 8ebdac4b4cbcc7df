"""Ratings as people type them: train, release, score, recommend; and what is said where a command has no use for them."""

import json
import sys

import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.terms import load_terms, write_terms
from raters import rating_terms, tastes

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
    released = json.loads(typed("train", terms, *books, "--save", model, "--json"))
    assert released["released"] is True
    assert released["metrics"]["rmse"] is None
    assert [owner["epsilon_spent"] for owner in released["owners"]] == [4.0, 4.0]
    assert "user 0-" not in model.read_text()
    judged = json.loads(typed("score", model, terms, "--owner", "north", "--json"))["owners"]
    assert judged[0]["rmse_together"] > 0
    assert "the 10 most popular" in typed("score", model, terms, "--all")
    refined = ["refine", model, terms, "--owner", "north", "--save", folder / "own.json"]
    assert json.loads(typed(*refined, "--json"))["deviation"] > 0
    assert "keep it inside" in typed(*refined)
    assert json.loads((folder / "own.json").read_text())["released"] is False
    best = json.loads(typed("recommend", model, terms, "--owner", "north", "--user", "user 0-3", "-k", "2", "--json"))
    assert all(1 <= each["expected"] <= 5 for each in best["items"])
    assert "expected rating" in typed(
        "recommend", model, terms, "--owner", "north", "--user", "user 0-3", "--item", "film 2", "--data", folder / "north.csv"
    )


def test_noise_on_ratings_themselves_is_simulated(folder):
    terms = load_terms(folder / "terms.toml").changed(privacy={"mechanism": "bounded-ratings", "delta": 0.0, "clip": None})
    write_terms(terms, folder / "noisy.toml")
    shown = typed("train", folder / "noisy.toml", "--seed", "1")
    assert "north: ε = 4, for the value of a rating" in shown
    refused = run("train", folder / "noisy.toml", "--ledgers", folder / "books", "--lifetime", "4")
    assert "for simulations" in str(refused.exception)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["train", "TERMS", "--plot", "x.png"], "expected neither for ratings"),
        (["train", "TERMS", "--ledgers", "books", "--seed", "1"], "belong to simulations"),
        (["forecast", "TERMS"], "nothing forecasts items yet"),
        (["plan", "TERMS"], "learn items from ratings"),
        (["negotiate", "TERMS"], "learn items from ratings"),
        (["recommend", "none.json", "TERMS", "--owner", "north", "--user", "x"], "cannot be read as a recommender"),
    ],
)
def test_what_has_no_use_for_ratings_says_so(folder, words, sentence):
    done = run(*[str(folder / "terms.toml") if word == "TERMS" else word for word in words])
    assert done.exit_code != 0
    assert sentence in str(done.exception)


def test_without_the_extra_owners_are_told_before_they_promise_anything(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("parley.objectives.user_terms")]:
        monkeypatch.delitem(sys.modules, name)
    done = run("train", folder / "terms.toml", "--ledgers", folder / "books", "--lifetime", "4", "--lifetime-delta", "1e-6")
    assert "parley[ratings]" in str(done.exception)
    assert not list((folder / "books").glob("*.ledger"))
