"""Lines, bins or trees: what public rows say of each, the forecast for trees, and what `init` takes."""

import json

import numpy as np
import pandas as pd
import pytest
from samples import make_terms
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data.split import HeldBack
from parley.decisions.from_files.column_choice import (
    CLEARLY_BETTER_RATIO,
    COLUMN_WAYS,
    MIN_INFORMATIVE_ROWS,
    choose_columns,
    informative_rows,
    open_ways,
)
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import _least, draft, planned
from parley.decisions.knowledge import cross_fit as growing
from parley.decisions.knowledge.baselines import Baselines
from parley.decisions.knowledge.cross_fit import CrossFit, cross_fit
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.planning.planner import Proposal
from parley.errors import DataError
from parley.protocol.setup import resolve

PUBLIC, OWNED = 500, 8000


def steps(rows, seed):
    """Two columns that matter by where they lie, not by how large they are."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, rows))
    margin = 3.0 * ((np.abs(a) > 0.5) ^ (b > 0)) - 1.5 + 0.3 * c
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": (rng.logistic(size=rows) < margin).astype(int)})


def humps(rows, seed):
    """Columns that add up, each by where it lies."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, rows))
    margin = 2.5 * (np.abs(a) > 0.5) + 2 * (b > 0) - 2.2 + c
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": (rng.logistic(size=rows) < margin).astype(int)})


def lines(rows, seed):
    """A straight line."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, rows))
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": (rng.logistic(size=rows) < 3 * a - 2 * b).astype(int)})


def trees_terms(path, rows=OWNED, epsilon=1.0):
    model = {
        "kind": "logistic-regression", "target": "y", "features": ["a", "b", "c"], "public": str(path),
        "columns": "trees", "trees": {"count": 30, "leaves": 6, "rate": 0.2},
    }  # fmt: skip
    learning = {"algorithm": "gradient-descent", "horizon": 24, "step": 1.0, "decay": 0.0}
    privacy = {"mechanism": "gaussian", "delta": 1e-6, "clip": 5.6}
    owners = [{"name": "bank", "records": rows, "epsilon": epsilon}]
    return parley.Terms.from_dict({"model": model, "learning": learning, "privacy": privacy, "owners": owners})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of both laws, as files."""
    made = tmp_path_factory.mktemp("laws")
    for law in (steps, humps, lines):
        with_names(law(PUBLIC, 1), 3).to_csv(made / f"{law.__name__}-public.csv", index=False)
        with_names(law(OWNED, 2), 4).to_csv(made / f"{law.__name__}.csv", index=False)
    return made


def with_names(table, seed):
    """The table with a column of names and gaps that says nothing."""
    return table.assign(d=np.random.default_rng(seed).choice(["p", "q", None], len(table), p=[0.5, 0.4, 0.1]))


def test_trees_are_judged_by_rows_that_they_were_not_grown_on(folder):
    terms = trees_terms(folder / "steps-public.csv")
    found, setup, fresh = cross_fit(resolve(terms)), resolve(terms), steps(20_000, 9)
    theta = setup.preparation.origin
    own, other = setup.risk.cost(setup.public, theta), setup.risk.cost(setup.preparation.design(fresh, "new"), theta)
    assert own < other
    assert abs(found.held_back.cost - other) < 3 * found.held_back.spread
    assert found.held_back.cost > own  # a mutant that judges by the rows themselves
    assert found.curvature > 1  # whose probabilities lie too close to 0 and 1


def test_the_forecast_for_trees_is_what_training_gives(folder):
    """Within the error of 500 public rows; what training adds to the trees alone is of the size that was said."""
    proposal = parley.plan(trees_terms(folder / "humps-public.csv", epsilon=4.0))
    terms, setup = proposal.terms, resolve(proposal.terms)
    pilot, owner = open_pilot(terms), parley.Owner("bank", humps(OWNED, 2))
    trained = parley.train(terms, [owner], replicates=8, seed=1, measure=False)
    fresh = setup.preparation.design(humps(20_000, 9), "new")
    cost, alone = (float(setup.risk.cost(fresh, t).mean()) for t in (trained.theta, setup.preparation.origin))
    assert cost < alone
    assert pilot.landscape().least_cost < proposal.expected_cost < pilot.grown.held_back.cost
    assert abs(proposal.expected_cost - cost) < 3 * pilot.grown.held_back.spread
    assert 1 / 3 < (pilot.grown.held_back.cost - proposal.expected_cost) / (alone - cost) < 3


def test_a_clip_that_binds_is_not_judged_and_never_chosen(folder):
    """Moments know nothing of what it hides: with so small a clip next to no noise, and a model that is worse than the
    trees alone."""
    proposal = parley.plan(trees_terms(folder / "humps-public.csv").changed(privacy={"clip": 0.5}))
    assert "the clip scales down too many gradients" in proposal.choices[0].unjudged
    assert proposal.best.clip is None or proposal.best.clip > 2


def test_leaf_values_are_drawn_as_far_off_as_folds_show():
    known = CrossFit(HeldBack(np.array([0.49, 0.51])), noise=1.2, share=0.8, curvature=1.1, scores=np.zeros(1))
    curvature = np.array([1.0, 0.5, 1e-5])
    many = np.concatenate([known.draws(curvature, np.eye(3), 100)])
    assert np.allclose(many.mean(axis=0), 0)
    assert (many[:, 2] == 0).all()  # too flat to be learned in
    expected = 0.8 * 1.2 / 100 / curvature[:2]
    assert ((many[:, :2] ** 2).mean(axis=0) < 4 * expected).all()


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.mark.parametrize(("law", "taken"), [("steps", "trees"), ("lines", None)])
def test_init_takes_what_public_rows_speak_for(folder, tmp_path, monkeypatch, law, taken):
    """Trees grow at one rate: here it is asked which columns are taken, not how fast they grow."""
    monkeypatch.setattr(growing, "GROWTH_SETTINGS", growing.GROWTH_SETTINGS[1:2])
    monkeypatch.setattr(growing, "CHOOSING_FOLDS", 2)
    files = (folder / f"{law}.csv", "--public", folder / f"{law}-public.csv")
    words = ("--target", "y", "--features", "a,b,d", "--delta", 0, "--yes", "--write", tmp_path / "terms.toml")
    run = invoke("init", *files, *words, "--json")
    assert run.exit_code == 0, run.exception
    terms, said = parley.load_terms(tmp_path / "terms.toml"), json.loads(run.stdout)
    assert terms.model.columns == taken
    ways = [each["columns"] for each in said["columns"]]
    assert ("public trees" in ways[0]) is (taken == "trees")
    joined, boosted = "bins joined by lines", "boosted-classification"
    trees, lines = "public trees", "straight lines"
    assert sorted(ways) == ["bins", joined, boosted, trees, lines, f"{lines} beside {trees}"]
    turned = terms.model.whitening is not None  # the other numbers that hang on a machine
    assert (terms.model.preparation is not None) is (taken == "trees" or turned)


@pytest.mark.parametrize(
    ("costs", "taken"),
    [
        ({"lines": 0.98, "trees": 1.0, "margin": 1.0}, "trees"),  # closer than the public rows can tell
        ({"lines": 0.90, "trees": 1.0, "margin": 1.0}, "lines"),
        ({"lines": 1.20, "trees": 1.0, "margin": 0.998}, "trees"),  # a tie: the first of them
        ({"lines": 1.20, "trees": 1.0, "margin": 0.95}, "margin"),
        ({"lines": 1.0, "bins": 0.998}, "lines"),
        ({"lines": 1.0, "bins": 0.95}, "bins"),
    ],
)
def test_another_way_than_trees_has_to_be_better_by_a_standard_error(folder, costs, taken):
    """The paired one: folds of all ways are hard or easy alike, and differ by 0.04 in standard error."""
    known = draft([folder / "steps.csv"], Wishes("y", folder / "steps-public.csv")).terms
    hard, own = np.linspace(-0.5, 0.5, 10), np.tile([0.06, -0.06], 5)

    def plan(terms, progress):
        columns = terms.model.columns
        way = "lines" if columns is None else columns
        way = "margin" if way == "trees" and terms.model.trees.refitted == 0 else way
        away = own * {"lines": 1.0, "bins": 0.0}.get(way, -1.0)
        return Proposal(
            (), None, 0.0, terms, costs[way], Baselines(1.0, 1.0, "linear"), HeldBack(costs[way] + hard + away)
        )

    ways = [way for way in COLUMN_WAYS if way.wanted in costs]
    best, tried = choose_columns(known, ways, plan, lambda terms: 0.0, lambda done, total: None)
    assert best.way.wanted == taken
    assert tried[0] is best
    assert {each.way.wanted for each in tried} == set(costs)


@pytest.mark.parametrize("wanted", ["lines", "bins"])
def test_no_plan_is_better_than_no_noise_at_all(folder, wanted):
    """So a way that clearly loses with none needs no plan."""
    drafted = draft([folder / "steps.csv"], Wishes("y", folder / "steps-public.csv", columns=wanted))
    (tried,) = planned(drafted).tried
    assert _least(tried.proposal.terms) * CLEARLY_BETTER_RATIO <= tried.compared


def test_of_classes_that_separate_nothing_is_said_before_a_plan_is_made(folder, monkeypatch):
    """A plan puts a box around the parameters; a look before it finds no best model, and drops nothing."""
    drafted = draft([folder / "steps.csv"], Wishes("y", folder / "steps-public.csv", columns="lines"))

    def no_optimum(known):
        raise DataError("no optimum")

    monkeypatch.setattr("parley.decisions.from_files.terms_from_files.best_cost", no_optimum)
    assert _least(drafted.terms) == -np.inf


def test_columns_may_be_asked_for(folder, tmp_path):
    words = ("init", folder / "steps.csv", "--target", "y", "--public", folder / "steps-public.csv", "--yes")
    run = invoke(*words, "--write", tmp_path / "terms.toml", "--columns", "bins")
    assert run.exit_code == 0, run.exception
    assert parley.load_terms(tmp_path / "terms.toml").model.bins == 20
    assert "expected one of" in str(invoke(*words, "--write", tmp_path / "t.toml", "--columns", "bent").exception)


def test_ways_that_are_not_open_are_not_tried(folder):
    terms = trees_terms(folder / "steps-public.csv")
    assert [way.label for way in open_ways(terms, PUBLIC)] == ["as the terms say"]
    plain = terms.changed(model={"columns": None})
    assert [way.wanted for way in open_ways(plain, PUBLIC)] == ["lines", "bins", "hinges", "trees", "margin"]
    assert [way.wanted for way in open_ways(plain, 50)] == ["lines"]
    assert [way.wanted for way in open_ways(plain, None)] == ["lines"]


@pytest.mark.parametrize(("rare", "least", "most"), [(500, 1000, 1000), (200, 639, 641), (2, 7, 8), (0, 0, 0)])
def test_a_public_sample_with_few_rows_of_a_class_tells_little_of_how_columns_bend(rare, least, most):
    public = pd.DataFrame({"y": [1] * rare + [0] * (1000 - rare) + [None] * 5})
    terms = make_terms(10, model__kind="logistic-regression")
    assert least <= informative_rows(terms, public) <= most
    assert informative_rows(make_terms(10), public) == 1000
    ways = [way.wanted for way in open_ways(terms, informative_rows(terms, public))]
    assert (ways == ["lines"]) is (informative_rows(terms, public) < MIN_INFORMATIVE_ROWS)
