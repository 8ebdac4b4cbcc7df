"""Boosted trees as what asks nobody: the public sample's, an owner's by public rows, an owner's by its own."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from samples import make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data.blocks import Remembered
from parley.decisions.games.stakes import stakes
from parley.decisions.knowledge.baselines import PART_FOLDS, SAMPLE_PARTS, _losses, public_trees, trees_alone
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.inside_view import inside_view
from parley.decisions.outlook.worth import worth
from parley.learning.outcome.boosting import FOLDS, TreeRows, tree_losses
from parley.report.words import forecast as said
from parley.report.words import outlook as inside
from parley.terms import write_terms

EASY = {"learning__horizon": 100, "learning__step": 0.4, "privacy__clip": 12.0, "model__intercept": True}


def steps(n, seed=0):
    """Beside a small linear part, a step that no linear model sees."""
    table = regression_table(n, seed)
    return table.assign(y=0.3 * table["y"] + np.sign(table["x0"] * table["x1"]))


def terms_for(tmp_path, table, *sizes, **more):
    table.to_csv(tmp_path / "public.csv", index=False)
    return make_terms(*sizes, epsilon=20.0, model__public=str(tmp_path / "public.csv"), **{**EASY, **more})


def test_where_trees_win_the_public_sample_alone_is_theirs_and_the_verdict_changes(tmp_path):
    terms = terms_for(tmp_path, steps(600), 20_000, 20_000)
    result = parley.forecast(terms, resamples=2)
    content = result.to_json()
    assert content["public_alone_model"] == "boosted trees"
    linear = open_pilot(terms).own_fit.cost * result.expected.pilot.setup.preparation.target_scale**2
    assert linear > content["expected_cost"] > 2 * content["baselines"]["public_sample"]
    assert "(boosted trees)" in said.baseline_line(result.worth)
    assert "boosted trees" in result.worth.sentence()
    assert worth(terms).sentence() == result.worth.sentence()
    for owner, value in zip(result.owners, result.values, strict=True):
        assert (owner.alone_model, value.break_even_epsilon) == ("boosted trees", None)
        assert abs(owner.gain.mean) < 0.05 * (owner.together - owner.alone)  # of a linear model little is kept


def test_where_a_line_is_the_shape_everything_is_as_without_trees(tmp_path, monkeypatch):
    terms = terms_for(tmp_path, regression_table(600, 9), 20_000, 200)
    content = parley.forecast(terms, resamples=2).to_json()
    assert content.pop("public_alone_model") == "linear"
    assert {owner["alone_model"] for owner in content["owners"]} == {"linear"}
    monkeypatch.setattr("parley.decisions.knowledge.baselines._public_trees", lambda pilot, fit: None)
    without = parley.forecast(terms, resamples=2).to_json()
    del without["public_alone_model"]
    assert content == without


def test_trees_of_a_sample_are_grown_once_and_of_any_other_anew(tmp_path, monkeypatch):
    grown = []
    monkeypatch.setattr("parley.decisions.knowledge.baselines._remembered_losses", Remembered(max_entries=128))
    monkeypatch.setattr(
        "parley.decisions.knowledge.baselines.tree_losses",
        lambda *asked: grown.append(asked) or tree_losses(*asked),
    )

    def found(table, **more):
        return public_trees(open_pilot(terms_for(tmp_path, table, 1000, **more)))

    first, times = found(steps(60)), len(grown)
    # the first fold twice: it says that more iterations pay; a mutant that mixes up leaves or folds has fewer
    assert times == 2 * (FOLDS + 1) + len(SAMPLE_PARTS) * PART_FOLDS
    assert found(steps(60)).gain == first.gain
    assert len(grown) == times
    moved = steps(60).assign(x2=lambda table: -table["x2"])
    assert found(moved).gain != first.gain
    assert len(grown) == 2 * times


def test_few_public_rows_have_a_linear_model_only(tmp_path):
    assert public_trees(open_pilot(terms_for(tmp_path, steps(39), 500))) is None


@pytest.mark.parametrize("turned", [{}, {"model__whitening": "public"}])
def test_costs_of_the_sample_and_of_owners_are_what_fresh_rows_show(tmp_path, turned):
    """Trees of so many fresh rows, judged on 6,000 others: mostly within the curve's 90 % interval (12 cases, which
    share samples), and on average within 4 of its standard errors at about the sample's size. Whitened columns are
    turned back."""
    fresh, within, off = steps(6_000, 99), [], []
    for seed in range(4):
        pilot = open_pilot(terms_for(tmp_path, steps(500, seed), 1000, **turned))
        found, preparation = public_trees(pilot), pilot.setup.preparation
        plain = preparation.unturned

        def rows_of(table, pilot=pilot, preparation=preparation, plain=plain):
            design = preparation.design(table, "fresh")
            return TreeRows.from_design(pilot.objective, preparation, design, plain.matrix(table, "fresh"))

        judged = rows_of(fresh)
        for size in (100, 400, 1500):
            least = min(
                tree_losses(rows_of(steps(size, 50 + seed)), judged, leaves).mean(axis=1).min() for leaves in (4, 16)
            )
            mean, error = (float(each[0]) for each in found.curve.at(np.array([float(size)])))
            within.append(abs(least - mean) < 1.645 * error)
            off += [(least - mean) / error] if size == 400 else []
    assert np.mean(within) >= 0.6
    assert abs(np.mean(off)) < 4


def test_games_see_trees_alone_too(tmp_path):
    terms = terms_for(tmp_path, steps(600), 2000, 2000)
    known, pilot = stakes(terms), open_pilot(terms)
    unit = pilot.setup.preparation.target_scale**2
    expected = trees_alone(pilot).at(known.records)[0] * unit
    np.testing.assert_allclose(known.cost.alone(known.records), expected, rtol=1e-9)
    assert np.all(expected < 0)  # below the best linear model


def test_no_private_row_enters_a_forecast(tmp_path):
    """Owners whose tables are named in the terms: whatever is in them, the object is the same."""
    steps(600).to_csv(tmp_path / "public.csv", index=False)
    terms = make_terms(300, 300, epsilon=20.0, model__public=str(tmp_path / "public.csv"), **EASY)
    found = []
    for seed in (1, 2):
        for name in "ab":
            steps(300, seed).to_csv(tmp_path / f"{name}.csv", index=False)
        told = terms.changed(owners={name: {"data": str(tmp_path / f"{name}.csv")} for name in "ab"})
        found.append(json.dumps(parley.forecast(told, resamples=2).to_json()))
    assert found[0] == found[1]


def test_inside_own_rows_decide_whether_trees_are_the_model_alone(tmp_path):
    """The public sample knows only lines, this owner's rows have a step: trees, alone and with the others, so that
    joining adds about nothing. It is told what deciding by that tells."""
    terms = terms_for(tmp_path, regression_table(600, 9), 4000, 4000, 300)
    step = inside_view(terms, parley.Owner("c", steps(300, 4)))
    line = inside_view(terms, parley.Owner("c", regression_table(300, 4)))
    assert "trees" in step.alone_model
    told = step.owner
    assert abs(told.gain.mean) < 0.1 * (told.together - told.alone)  # as a linear model it would be most of it
    assert "trees" not in line.alone_model
    words = " ".join(inside.inside_sentences(step))
    assert "rees trained on the owner's rows" in words
    assert "reveals information about your rows" in words
    assert f"alone ({step.alone_model})" in {row[0] for row in inside.inside_rows(step)}


def test_the_inside_object_says_that_it_is_and_whose_the_model_alone_is(tmp_path):
    terms = terms_for(tmp_path, regression_table(600, 9), 4000, 300)
    write_terms(terms, tmp_path / "terms.toml")
    steps(300, 4).to_csv(tmp_path / "b.csv", index=False)
    call = ["forecast", str(tmp_path / "terms.toml"), "--inside", str(tmp_path / "b.csv"), "--owner", "b", "--json"]
    content = json.loads(CliRunner().invoke(app, call).stdout)
    assert content["inside"] is True
    assert "trees" in content["alone_model"]


@pytest.mark.parametrize("kind", ["linear-svm", "logistic-regression", "softmax-regression"])
def test_classes_that_no_line_parts_have_trees_inside_whatever_the_kind(tmp_path, kind):
    def classes(n, seed):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (n, 3))
        y = (X[:, 0] * X[:, 1] > 0) ^ (rng.random(n) < 0.05)
        return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=np.where(y, "yes", "no"))

    more = {} if kind == "softmax-regression" else {"model__positive": "yes"}
    more |= {"model__regularisation": 0.01, "privacy__clip": 3.0, "learning__step": 0.5, "learning__horizon": 10}
    terms = terms_for(tmp_path, classes(400, 0), 1000, 250, model__kind=kind, **more)
    assert parley.forecast(terms, resamples=2).worth.baselines.public_model == "boosted trees"
    view = inside_view(terms, parley.Owner("b", classes(250, 1)))
    assert "trees" in view.alone_model
    told = view.owner
    assert abs(told.gain.mean) < 0.1 * (told.together - told.alone)


def test_trees_of_any_size_are_remembered_by_what_they_were_asked_for(monkeypatch):
    home = "parley.decisions.knowledge.baselines"
    first, second = SimpleNamespace(digest=b"a"), SimpleNamespace(digest=b"b")
    monkeypatch.setattr(f"{home}._remembered_losses", Remembered(max_entries=8))
    monkeypatch.setattr(f"{home}.tree_losses", lambda rows, new, leaves, iterations: (leaves, *iterations))
    assert _losses(first, second, 300, (1, 1000)) == (300, 1, 1000)
    assert _losses(first, second, 300, (1, 1001)) == (300, 1, 1001)
