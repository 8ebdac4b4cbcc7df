"""An owner's inside view."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import make_terms, real_data, regression_table
from scipy.stats import f as f_law
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data import Design
from parley.decisions.knowledge.privacy_cost import price_note
from parley.decisions.knowledge.sources import Stated
from parley.decisions.outlook.inside_view import TEST_LEVEL, inside_view, law_test
from parley.errors import DataError, SettingError, UnknownTerms
from parley.learning.outcome.correction import rows_with_trees
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.losses import LinearRegression, LogisticRegression
from parley.protocol.setup import resolve
from parley.terms import load_terms

SETTINGS = {"learning__horizon": 30, "learning__step": 0.7, "privacy__clip": 8.0}


def terms_for(*sizes: int, tmp_path, epsilon: float = 20.0):
    regression_table(600, seed=9).to_csv(tmp_path / "public.csv", index=False)
    return make_terms(*sizes, epsilon=epsilon, model__public=str(tmp_path / "public.csv"), **SETTINGS)


def test_owners_of_the_same_law_are_said_to_differ_as_often_as_the_level_says():
    """In 1,500 pairs of samples; a mutant that takes the public optimum for the truth says so far more often."""
    rng, differs, naive = np.random.default_rng(0), [], []
    for _ in range(1500):
        X = rng.normal(size=(500, 3))
        y = X @ [1.0, -0.5, 0.2] + rng.normal(size=500)
        own, public = (Design(X[part], y[part], np.ones(len(y[part]))) for part in (slice(200), slice(200, None)))
        optimum = LinearRegression().optimum([public])
        test = law_test(LinearRegression(), public, optimum, own)
        differs.append(test.differs)
        naive.append(f_law.sf(test.statistic * (1 + 200 / 300), 3, 297) < TEST_LEVEL)
    error = 3.5 * np.sqrt(TEST_LEVEL * (1 - TEST_LEVEL) / 1500)
    assert abs(np.mean(differs) - TEST_LEVEL) < error
    assert np.mean(naive) - TEST_LEVEL > error


def test_owners_of_the_same_law_are_not_said_to_differ_for_a_name_that_few_public_rows_have():
    """Of two classes, where 1 row of 100 has a name that matters. At the public optimum, which fits its few rows with
    that name too well, a third of the owners would be said to differ."""
    rng, differs, naive = np.random.default_rng(1), [], []
    objective = LogisticRegression()
    for _ in range(300):
        X = np.c_[rng.normal(size=(600, 2)), rng.random(600) < 0.01, np.ones(600)]
        y = np.where(rng.logistic(size=600) < X @ [1.0, -0.5, 1.0, 0.2], 1.0, -1.0)
        public, own = Design(X[:300], y[:300], np.ones(300)), Design(X[300:], y[300:], np.ones(300))
        optimum = replace(objective, regularisation=1e-3).optimum([public], None, 1e-5)
        differs.append(law_test(objective, public, optimum, own).differs)
        gradients = objective.record_gradients(public, optimum)
        apart = objective.mean_gradient(own, optimum) - gradients.mean(axis=0)
        statistic = apart @ np.linalg.solve(np.cov(gradients.T) + 1e-12 * np.eye(4), apart) * 150 / 4
        naive.append(f_law.sf(statistic, 4, 296) < TEST_LEVEL)
    error = np.sqrt(TEST_LEVEL * (1 - TEST_LEVEL) / 300)
    assert np.mean(differs) < TEST_LEVEL + 3 * error
    assert np.mean(naive) > TEST_LEVEL + 6 * error


def test_columns_that_say_nothing_change_no_view(tmp_path):
    """Flags of cells that are never missing have no curvature, and neither has the sum of a category's columns beside a
    constant: moments say the same without them."""
    plain = terms_for(4000, 4000, 40, tmp_path=tmp_path)
    flagged = plain.changed(model={"missing": "fill"})
    assert resolve(flagged).parameters > resolve(plain).parameters
    table = regression_table(40, seed=4)
    one, other = (inside_view(terms, parley.Owner("c", table)).owner for terms in (plain, flagged))
    assert one.gain.mean > 0
    assert other.gain.mean == pytest.approx(one.gain.mean, rel=0.2)
    assert other.verdict == one.verdict


def twelve_branches(folder) -> Path:
    """Terms of twelve branches of 150 to 400 married women by region, with 400 public rows, as `init` writes them."""
    rows = real_data("hi.parquet").drop(columns=["wght"])
    places = np.random.default_rng(7).permutation(len(rows))
    rows.iloc[places[:400]].drop(columns=["region"]).to_csv(folder / "public.csv", index=False)
    left = [group.drop(columns=["region"]) for _, group in rows.iloc[places[400:]].groupby("region", observed=True)]
    files = []
    for branch, size in enumerate(np.linspace(150, 400, 12).astype(int)):
        files.append(folder / f"branch_{branch + 1}.csv")
        left[branch % 4].iloc[:size].to_csv(files[-1], index=False)
        left[branch % 4] = left[branch % 4].iloc[size:]
    words = ["--target", "whi", "--public", str(folder / "public.csv"), "--columns", "lines", "--yes"]
    done = CliRunner().invoke(app, ["init", *map(str, files), *words, "--write", str(folder / "terms.toml")])
    assert done.exit_code == 0, done.output
    return folder / "terms.toml"


def test_twelve_branches_hear_what_training_comes_to(tmp_path):
    """Truth: held-out costs of the personal model beside the model alone, in two trainings by the terms, each with a
    split of its own. Half of the columns of these terms are flat."""
    terms = load_terms(twelve_branches(tmp_path))
    setup = resolve(terms)
    tables = {part.name: pd.read_csv(part.data) for part in terms.owners}
    views = [inside_view(terms, parley.Owner(name, table)).owner for name, table in tables.items()]
    told = Counter(view.verdict for view in views)
    gains = []
    for split in range(2):
        rng = np.random.default_rng(split)
        owners = [parley.Owner(name, table.iloc[rng.permutation(len(table))]) for name, table in tables.items()]
        theta = parley.train(terms, owners, seed=split, measure=False).theta
        for owner in owners:
            agreement = owner.prepare(setup)
            columns, new_columns = plain_columns(owner, agreement)
            alone, (personal,) = alone_and_personal_models(agreement, theta, columns)
            held_out = agreement.tables.held_out.in_memory()
            costs = [
                setup.risk.record_losses(
                    *rows_with_trees(setup.risk, held_out, each.theta, each.trees, new_columns)
                ).mean()
                for each in (alone, personal)
            ]
            gains.append(costs[0] - costs[1])
    expected = np.mean([view.gain.mean for view in views])
    assert abs(np.mean(gains) - expected) < 3 * np.std(gains) / np.sqrt(len(gains))
    assert told["join"] + told["unsure"] > told["stay"]


def test_a_small_owner_among_large_ones_gains_and_nothing_is_spent(tmp_path):
    terms = terms_for(4000, 4000, 40, tmp_path=tmp_path)
    owner = parley.Owner("c", regression_table(40, seed=4))
    view = inside_view(terms, owner)
    assert view.outlook.inside == "c"  # and whoever reads it may know
    assert view.owner.verdict != "stay"
    assert view.owner.personal < view.owner.alone
    assert not view.law.differs
    assert view.owner.gain.low < view.owner.gain.mean < view.owner.gain.high
    assert view.to_json()["owners"] == [view.owner.to_json()]
    with pytest.raises(UnknownTerms):
        owner.ledger.account(terms.hash)


def test_without_a_public_sample_own_rows_stand_for_everybody():
    """Terms that only declare ranges; what the joint model costs is what training gives, if the others are alike. The
    rows that are invented for the public forecast know nothing of that."""
    columns = ("x0", "x1", "x2", "y")
    terms = make_terms(
        4000, 4000, 60, epsilon=5.0, model__intercept=True, model__bounds=dict.fromkeys(columns, (-4.0, 4.0)),
        model__centres=dict.fromkeys(columns, 0.0), model__scales=dict.fromkeys(columns, 2.0), **SETTINGS,
    )  # fmt: skip
    view = inside_view(terms, parley.Owner("c", regression_table(60, seed=4)))
    assert view.law is None
    owners = [
        parley.Owner(name, regression_table(rows, seed=9)) for name, rows in zip("abc", (4000, 4000, 60), strict=True)
    ]
    theta = parley.train(terms, owners, replicates=20, seed=1, whole_path=False).theta
    setup = resolve(terms)
    fresh = setup.risk.record_losses(setup.preparation.design(regression_table(4000, seed=77), "rows"), theta)
    there = view.owner.together_interval
    assert there.low < 4 * float(fresh.mean()) < there.high
    assert there.high < 2 * there.low


def test_an_owner_whose_customers_run_the_other_way_is_seen_to_differ_and_is_not_promised_the_same(tmp_path):
    terms = terms_for(4000, 4000, 400, tmp_path=tmp_path)
    usual = inside_view(terms, parley.Owner("c", regression_table(400, seed=4)))
    contrary = inside_view(terms, parley.Owner("c", regression_table(400, seed=4).assign(y=lambda t: -t["y"])))
    assert not usual.law.differs
    assert contrary.law.differs
    assert contrary.law.p_value < 1e-6
    usual, contrary = usual.owner, contrary.owner
    assert contrary.together > 5 * contrary.alone
    assert usual.together < 2 * usual.alone
    assert contrary.gain.mean < LEAST_GAIN * contrary.alone
    assert contrary.verdict == "stay"


def test_advice_is_about_what_joining_is_worth(tmp_path):
    terms, owner = terms_for(4000, 4000, 40, tmp_path=tmp_path), parley.Owner("c", regression_table(40, seed=4))
    view = inside_view(terms, owner)
    share = view.owner.gain.mean / view.owner.alone
    assert inside_view(terms, owner, worth=min(0.99, 20 * share)).owner.verdict == "stay"
    assert view.least == LEAST_GAIN * view.owner.alone
    with pytest.raises(SettingError, match="worth"):
        inside_view(terms, owner, worth=1.5)


def test_too_few_rows_and_no_public_sample_are_said(tmp_path):
    with pytest.raises(DataError, match="too few for an inside view"):
        inside_view(terms_for(4000, 5, tmp_path=tmp_path), parley.Owner("b", regression_table(5)))
    with pytest.raises((DataError, SettingError)):
        inside_view(make_terms(100, 100), parley.Owner("a", regression_table(100)))
    terms, stated = terms_for(4000, 100, tmp_path=tmp_path), Stated(np.array([0.7, 0.7, 0.6]), 0.02, distance=1.0)
    with pytest.raises(
        DataError, match="compares an owner's rows with public rows"
    ):  # moments and assumptions have no rows
        inside_view(terms, parley.Owner("b", regression_table(100)), stated)


def test_the_command_prints_the_verdict_and_says_that_nothing_leaves(tmp_path):
    terms = terms_for(4000, 4000, 40, tmp_path=tmp_path)
    parley.terms.write_terms(terms, tmp_path / "terms.toml")
    pd.DataFrame(regression_table(40, seed=4)).to_csv(tmp_path / "c.csv", index=False)
    arguments = ["forecast", str(tmp_path / "terms.toml"), "--inside", str(tmp_path / "c.csv"), "--owner", "c"]
    (told,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)["owners"]
    assert told["gain_low"] <= told["gain"] <= told["gain_high"]
    shown = " ".join(CliRunner().invoke(app, arguments).output.split())
    assert f"{told['verdict'].capitalize()}: joining is expected to save" in shown
    assert "keep it inside" in shown
    assert "only with --inside" in str(CliRunner().invoke(app, [*arguments[:2], "--worth", "0.1"]).exception)
    assert (
        json.loads(CliRunner().invoke(app, [*arguments, "--json", "--worth", "0.9"]).stdout)["owners"][0]["verdict"]
        == "stay"
    )
    assert "of simulated draws, joining saves less than the required" in " ".join(
        CliRunner().invoke(app, [*arguments, "--worth", "0.9"]).output.split()
    )
    assert "give both or neither" in str(CliRunner().invoke(app, arguments[:-2]).exception)


def test_the_terms_own_price_decides(tmp_path):
    """An owner that gains is told to stay where its privacy costs it more than that; another owner's price is not its
    own."""
    plain = terms_for(4000, 4000, 40, tmp_path=tmp_path)
    pd.DataFrame(regression_table(40, seed=4)).to_csv(tmp_path / "c.csv", index=False)

    def asked(priced: str, weight: float, *more: str) -> tuple[dict, str]:
        terms = plain.changed(owners={priced: {"value": 10.0, "privacy_cost": {"kind": "linear", "weight": weight}}})
        parley.terms.write_terms(terms, tmp_path / "terms.toml")
        arguments = [
            "forecast",
            str(tmp_path / "terms.toml"),
            "--inside",
            str(tmp_path / "c.csv"),
            "--owner",
            "c",
            *more,
        ]
        content = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
        return content, " ".join(CliRunner().invoke(app, arguments).output.split())

    dear, page = asked("c", 50.0)
    (told,) = dear["owners"]
    assert told["gain"] > 0
    assert dear["price"] == pytest.approx(20.0 * 50 / 10)
    assert dear["least"] == pytest.approx(100 + LEAST_GAIN * told["alone"])
    assert told["verdict"] == "stay"
    assert (
        "saves less than the required 100 (0.5% of the cost alone, plus 100 for privacy: privacy_cost / value)" in page
    )
    cheap, _ = asked("c", 1e-6)
    assert cheap["owners"][0]["verdict"] != "stay"
    terms = plain.changed(owners={"c": {"privacy_cost": {"kind": "linear", "weight": 50.0}}})
    assert "owners.c.value: missing; its privacy_cost counts for nothing" in (price_note(terms, "c") or "")
    parley.terms.write_terms(terms, tmp_path / "half.toml")
    half = CliRunner().invoke(
        app, ["forecast", str(tmp_path / "half.toml"), "--inside", str(tmp_path / "c.csv"), "--owner", "c"]
    )
    assert "Note: owners.c.value: missing" in " ".join(half.output.split())
    assert price_note(plain, "c") is None
    assert "value = 0" in (price_note(terms.changed(owners={"c": {"value": 0.0}}), "c") or "")
    others, _ = asked("a", 50.0)
    assert others["price"] == 0.0
    assert others["owners"][0]["verdict"] != "stay"
