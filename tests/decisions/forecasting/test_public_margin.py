"""Where columns say almost everything, a large public model is the margin: what public rows say of it, and the
forecast."""

import numpy as np
import pandas as pd
import pytest

import parley
from parley.decisions.forecasting import cross_fit as growing
from parley.decisions.forecasting.cross_fit import LARGE, with_best_growth
from parley.decisions.forecasting.pilot import open_pilot
from parley.protocol.setup import resolve

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


@pytest.mark.parametrize(("noise", "taken"), [(0.02, LARGE["refitted"]), (2.0, None)])
def test_a_margin_is_taken_where_public_rows_speak_for_it(tmp_path, monkeypatch, noise, taken):
    monkeypatch.setattr(growing, "GROWTH_FOLDS", 2)
    found = with_best_growth(terms(tmp_path, noise=noise, public=1200)).model.trees
    assert found.refitted == taken
    assert (found.count, found.leaves) == ((LARGE["count"], LARGE["leaves"]) if taken else (100, 8))


def test_trees_of_a_size_that_somebody_chose_are_not_made_larger(tmp_path, monkeypatch):
    monkeypatch.setattr(growing, "GROWTH_FOLDS", 2)
    assert with_best_growth(terms(tmp_path, count=20)).model.trees.count == 20


def test_the_forecast_is_what_training_gives(tmp_path):
    """Within the error of the public rows; below what all trees say without anybody, by as much as was said."""
    proposal = parley.plan(terms(tmp_path, **SIZE))
    agreed, setup, grown = proposal.terms, resolve(proposal.terms), open_pilot(proposal.terms).grown
    unit = setup.preparation.target_scale**2
    result = parley.train(agreed, [parley.Owner("shop", prices(OWNED, 2))], replicates=4, seed=1, measure=False)
    fresh = setup.preparation.design(prices(20_000, 9), "new")
    cost, alone = (unit * float(setup.risk.cost(fresh, t).mean()) for t in (result.theta, setup.preparation.origin))
    assert cost < alone
    assert abs(proposal.expected_cost - cost) < 3 * grown.spread * unit
    assert proposal.public_fit == pytest.approx(grown.cost * unit)
    assert 1 / 3 < (proposal.public_fit - proposal.expected_cost) / (alone - cost) < 3


def test_where_noise_would_drown_what_owners_know_nothing_is_lost(tmp_path):
    """Then a plan costs what the public model does without anybody, and says so."""
    proposal = parley.plan(terms(tmp_path, epsilon=1e-3, **SIZE))
    assert proposal.expected_cost == pytest.approx(proposal.public_fit, rel=0.02)
