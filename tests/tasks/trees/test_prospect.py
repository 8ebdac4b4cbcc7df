"""What boosted trees will cost, told from public rows, beside what training then gives."""

import numpy as np
import pandas as pd
import pytest

import parley
from parley.data.split import HeldBack
from parley.decisions.from_files.column_choice import ColumnWay, Tried, judged_trees
from parley.decisions.planning.planner import Proposal
from parley.errors import DataError
from parley.report.words.terms_comments import columns_line
from parley.tasks.trees import model as fitted

PUBLIC, OWNED, NEW = 900, 6000, 8000


def table(rows, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0, 1, (2, rows))
    name = rng.choice(["u", "v", "w"], rows)
    y = 40 + 6 * np.sin(6 * a) + 4 * (b > 0.4) + 2 * (name == "w") + 2 * rng.normal(size=rows)
    return pd.DataFrame({"a": a, "b": b, "name": name, "y": y, "high": (y > 42).astype(int)})


def terms(kind, epsilon=1.0, owners=2):
    target = "y" if kind == "boosted-regression" else "high"
    bounds = {"a": [0, 1], "b": [0, 1]} | ({"y": [20, 60]} if target == "y" else {})
    model = {"kind": kind, "target": target, "bounds": bounds, "categories": {"name": ["u", "v", "w"]}}
    every = [{"name": f"o{i}", "records": OWNED // owners, "epsilon": epsilon} for i in range(owners)]
    privacy = {"mechanism": "gaussian", "delta": 1e-6}
    return parley.Terms.from_dict({"model": model, "learning": {"horizon": 40}, "privacy": privacy, "owners": every})


def trained_cost(agreed):
    """On new rows, the mean over three trainings."""
    rows, new = table(OWNED, 1), table(NEW, 2)
    parts = np.array_split(np.arange(OWNED), len(agreed.owners))
    owners = [parley.Owner(o.name, rows.iloc[part]) for o, part in zip(agreed.owners, parts, strict=True)]
    costs = []
    for seed in range(3):
        model = parley.train(agreed, owners, seed=seed, measure=False).model
        if agreed.model.classifies:
            p = model.predict_proba(new)[:, 1]
            costs.append(-np.mean(np.log(np.where(new["high"] == 1, p, 1 - p))))
        else:
            costs.append(np.mean((model.predict(new) - new["y"]) ** 2))
    return np.mean(costs)


@pytest.mark.parametrize("kind", ["boosted-regression", "boosted-classification"])
@pytest.mark.parametrize(("epsilon", "owners"), [(0.5, 2), (4.0, 1)])
def test_public_rows_tell_what_training_costs(kind, epsilon, owners):
    """Within a tenth: 900 rows, whose own mean loss is off by 4 %; without the noise it would be off by more."""
    agreed = terms(kind, epsilon, owners)
    expected, cost = fitted.expected_cost(agreed, table(PUBLIC, 0)), trained_cost(agreed)
    assert abs(expected / cost - 1) < 0.1
    if epsilon < 1:
        silent = agreed.changed(owners={owner.name: {"epsilon": 1000.0} for owner in agreed.owners})
        assert fitted.expected_cost(silent, table(PUBLIC, 0)) < 0.85 * cost


def test_init_shows_them_and_names_the_option_where_they_are_better():
    tried = judged_trees(terms("boosted-regression"), table(PUBLIC, 0))
    assert tried.proposal is None
    assert tried.cost == tried.compared == fitted.expected_cost(terms("boosted-regression"), table(PUBLIC, 0))
    for cost, said in ((2 * tried.cost, True), (tried.cost / 2, False)):
        plan = Proposal((), None, 1.0, terms("boosted-regression"), cost, None, HeldBack(np.array([2 * cost] * 3)))
        line = columns_line([Tried(ColumnWay("straight lines", "lines"), plan), tried])
        assert ("--kind boosted-regression chooses a model with a lower expected cost" in line) is said
        assert ("(50.0% less)" if said else "(100.0% more)") in line


def test_a_table_that_says_nothing_of_them_is_not_judged():
    tried = judged_trees(terms("boosted-regression"), table(PUBLIC, 0).drop(columns="a"))
    assert tried.cost == np.inf
    assert "a" in tried.why


def test_a_law_that_more_rows_would_tell_exactly_is_not_judged():
    """Beyond the sample there would be a cost below 0."""
    rows = table(PUBLIC, 0).assign(y=lambda t: 30.0 + 20 * (t["a"] > 0.5))
    with pytest.raises(DataError, match="too few rows"):
        fitted.expected_cost(terms("boosted-regression", 1000.0), rows)
