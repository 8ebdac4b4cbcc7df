"""Where columns say almost everything, a large public model is the margin: what public rows say of it, and the
forecast."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import parley
from parley.decisions.knowledge import cross_fit as growing
from parley.decisions.knowledge.cross_fit import LARGE_TREES, with_best_growth
from parley.decisions.knowledge.pilot import open_pilot
from parley.errors import DataError
from parley.protocol.setup import pin, resolve

PUBLIC, OWNED = 600, 4000
SIZE = {"count": 60, "leaves": 10, "rate": 0.15, "rows": 1.0, "refitted": 12}


def prices(rows, seed, noise=0.02):
    """A smooth function of three columns, and next to no error."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, rows))
    price = 2 * a + np.sin(3 * b) * (1 + c) + a * c + noise * rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "c": c, "price": price})


def terms(folder, epsilon=4.0, noise=0.02, public=PUBLIC, **trees):
    path = folder / "public.csv"
    prices(public, 1, noise).to_csv(path, index=False)
    model = {
        "kind": "linear-regression", "target": "price", "features": ["a", "b", "c"], "public": str(path),
        "columns": "trees", "trees": trees, "intercept": True,
    }  # fmt: skip
    learning = {"algorithm": "gradient-descent", "horizon": 24, "step": 0.1, "decay": 0.0}
    owners = [{"name": "shop", "records": OWNED, "epsilon": epsilon}]
    privacy = {"mechanism": "gaussian", "delta": 1e-6, "clip": 2.0}
    return parley.Terms.from_dict({"model": model, "learning": learning, "privacy": privacy, "owners": owners})


@pytest.mark.parametrize(("noise", "taken"), [(0.02, LARGE_TREES["refitted"]), (2.0, None)])
def test_a_margin_is_taken_where_public_rows_speak_for_it(tmp_path, monkeypatch, noise, taken):
    monkeypatch.setattr(growing, "CHOOSING_FOLDS", 2)
    found = with_best_growth(terms(tmp_path, noise=noise, public=1200)).model.trees
    assert found.refitted == taken
    assert (found.count, found.leaves) == ((LARGE_TREES["count"], LARGE_TREES["leaves"]) if taken else (100, 8))


def test_trees_of_a_size_that_somebody_chose_are_not_made_larger(tmp_path, monkeypatch):
    monkeypatch.setattr(growing, "CHOOSING_FOLDS", 2)
    assert with_best_growth(terms(tmp_path, count=20)).model.trees.count == 20
    usual = with_best_growth(terms(tmp_path, public=1200, count=100, leaves=8)).model.trees
    assert (usual.count, usual.refitted) == (100, None)


def test_beside_a_box_there_is_no_margin(tmp_path, monkeypatch):
    monkeypatch.setattr(growing, "CHOOSING_FOLDS", 2)
    boxed = terms(tmp_path, public=1200).changed(model={"radius": 10.0})
    assert with_best_growth(boxed).model.trees.refitted is None


@pytest.fixture(scope="module")
def pinned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pinned")
    return pin(terms(folder, **SIZE), folder / "trees.json")


def changed_file(pinned, change):
    """The terms with a file of other margins."""
    file = Path(pinned.model.preparation)
    held = json.loads(file.read_text())
    values = np.array(held["arrays"]["trees.margin.values"])
    held["arrays"]["trees.margin.values"] = change(values).tolist()
    other = file.with_name("other.json")
    other.write_text(json.dumps(held))
    return pinned.changed(model={"preparation": str(other), "preparation_sha256": None})


@pytest.mark.parametrize("change", [np.negative, lambda values: 5 * values], ids=["negated", "five times"])
def test_pinned_trees_that_are_worse_than_those_of_the_sample_are_not_forecast(pinned, change):
    with pytest.raises(DataError, match="were not grown on the public sample with the settings"):
        parley.forecast(changed_file(pinned, change))


def test_of_pinned_trees_that_nobody_grows_here_the_forecast_warns(pinned):
    """One leaf of the margin, a tenth off: as good on the sample, and somebody changed it."""

    def one_leaf(values):
        values[0, 0] += 0.1
        return values

    said = "this machine grows other trees on the public sample than the pinned file holds"
    assert any(said in each for each in parley.forecast(changed_file(pinned, one_leaf)).warnings)
    assert not any(said in each for each in parley.forecast(pinned).warnings)


def test_the_forecast_is_what_training_gives(tmp_path):
    """Within the error of the public rows; below what all trees say without anybody, by as much as was said."""
    proposal = parley.plan(terms(tmp_path, **SIZE))
    agreed, setup, grown = proposal.terms, resolve(proposal.terms), open_pilot(proposal.terms).grown
    unit = setup.preparation.target_scale**2
    result = parley.train(agreed, [parley.Owner("shop", prices(OWNED, 2))], replicates=4, seed=1, measure=False)
    fresh = setup.preparation.design(prices(20_000, 9), "new")
    cost, alone = (unit * float(setup.risk.cost(fresh, t).mean()) for t in (result.theta, setup.preparation.origin))
    assert cost < alone
    assert abs(proposal.expected_cost - cost) < 3 * grown.held_back.spread * unit
    assert proposal.public_fit == pytest.approx(grown.held_back.cost * unit)
    assert 1 / 3 < (proposal.public_fit - proposal.expected_cost) / (alone - cost) < 3


def test_where_noise_would_drown_what_owners_know_nothing_is_lost(tmp_path):
    """Then a plan costs what the public model does without anybody, and says so."""
    proposal = parley.plan(terms(tmp_path, epsilon=1e-3, **SIZE))
    assert proposal.expected_cost == pytest.approx(proposal.public_fit, rel=0.02)
