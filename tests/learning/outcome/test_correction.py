"""Personal models: the joint model, corrected by own rows as far as they bear it out."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, class_table, make_terms, regression_table

import parley
from parley.data import Design
from parley.errors import ModelError
from parley.learning.outcome import correction, load_model, tree_study
from parley.learning.outcome.correction import JOINT, NO_MODEL, Start, corrected
from parley.learning.outcome.model import make_model
from parley.learning.outcome.personal import refine
from parley.learning.outcome.ridge import Centre, Ridge
from parley.learning.outcome.tree_study import CORRECTION_LENGTHS, kept_share
from parley.learning.outcome.verdict import score
from parley.losses import LinearRegression, LogisticRegression

SEEDS = 20
LINEAR, LOGISTIC = "linear-regression", "logistic-regression"


@pytest.fixture(scope="module")
def quick():
    """One kind of trees, and few of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_study, "DEPTH", 2)
        patch.setattr(tree_study, "ITERATIONS", (15,))
        yield


@cache
def preparation(kind: str):
    table = regression_table(10) if kind == LINEAR else class_table(10)
    return parley.Owner("a", table).prepare(make_terms(10, model__kind=kind)).setup.preparation


@cache
def owner_of(kind: str, apart: float, bend: float, rows: int, seed: int):
    """(what an owner corrects: its rows, what pulling alone comes to, the joint model; new rows, and their truth), made
    once, whatever is done to the correction."""
    p, linear, rng = 5, kind == LINEAR, np.random.default_rng([7, seed])
    common = rng.normal(size=p) / np.sqrt(p)
    own, joint = common + apart * rng.normal(size=p), common + 0.3 * np.sqrt(1 / rows) * rng.normal(size=p)
    X, new = rng.normal(size=(rows, p)), rng.normal(size=(4000, p))
    said, truth = (each @ own + bend * np.sign(each[:, 0]) * each[:, 1] for each in (X, new))
    y = said + rng.normal(size=rows) if linear else np.where(rng.random(rows) < 1 / (1 + np.exp(-said)), 1.0, -1.0)
    ridge = Ridge(
        LinearRegression() if linear else LogisticRegression(), preparation(kind), Design(X, y, np.ones(rows))
    )
    none = Centre(NO_MODEL, np.zeros(p), free=False)
    pulled = ridge.averages([[none], [Centre(JOINT, joint, free=False), none]])
    starts = [Start(NO_MODEL, np.zeros(p), None), Start(JOINT, joint, 0)]
    return (ridge, pulled, starts, X), new, truth


def excesses(kind: str, apart: float, bend: float, seeds: int = SEEDS, rows: int = 240) -> np.ndarray:
    """Expected losses above the best possible ones [seeds, 2] of the joint model and of the personal one, for owners
    whose best parameters are so far from the common ones, and whose customers bend so much."""
    found = []
    for seed in range(seeds):
        asked, new, truth = owner_of(kind, apart, bend, rows, seed)
        _, made = corrected(*asked)
        raw = new @ made.theta + (0.0 if made.trees is None else made.trees.added(new.T)[0])
        found.append([_excess(each, truth, kind == LINEAR) for each in (new @ asked[2][1].theta, raw)])
    return np.array(found)


def _excess(raw: np.ndarray, truth: np.ndarray, linear: bool) -> float:
    if linear:
        return float(np.mean((raw - truth) ** 2))
    chance = 1 / (1 + np.exp(-truth))
    best, here = (chance * np.logaddexp(0, -s) + (1 - chance) * np.logaddexp(0, s) for s in (truth, raw))
    return float(np.mean(here - best))


def _errors_ahead(found: np.ndarray) -> float:
    """By how many standard errors the personal models lose more than the joint ones."""
    apart = found[:, 1] - found[:, 0]
    return float(apart.mean() / (apart.std(ddof=1) / np.sqrt(len(apart)) + 1e-300))


@pytest.mark.parametrize("kind", [LINEAR, LOGISTIC])
def test_owners_of_one_law_do_not_lose_and_a_mutant_that_always_refines_does(kind, quick, monkeypatch):
    assert _errors_ahead(excesses(kind, apart=0.0, bend=0.0)) < 2
    for room in (correction, tree_study):
        monkeypatch.setattr(room, "kept_share", lambda along: 1.0)
    assert _errors_ahead(excesses(kind, apart=0.0, bend=0.0)) > 4


@pytest.mark.parametrize("kind", [LINEAR, LOGISTIC])
def test_an_owner_of_another_law_gains(kind, quick):
    found = excesses(kind, apart=0.3, bend=1.0, seeds=8, rows=600)
    assert _errors_ahead(found) < -4
    assert found[:, 1].mean() < 0.7 * found[:, 0].mean()


def test_of_a_correction_nothing_is_kept_within_a_standard_error_and_most_far_beyond():
    rng = np.random.default_rng(0)
    apart = rng.normal(size=200)
    apart -= apart.mean()
    shares = []
    for errors in (-1.0, 0.9, 2.0, 10.0):
        gain = apart + errors * apart.std(ddof=1) / np.sqrt(200)
        shares.append(kept_share(5.0 - CORRECTION_LENGTHS[:, None] * gain))
    np.testing.assert_allclose(shares, [0.0, 0.0, 0.75, 0.99], atol=1e-9)


def test_a_correction_that_goes_too_far_is_shortened():
    """The best length of (1 - 2 c)^2 is a half; a mutant that knows all or nothing keeps none of it."""
    noise = np.random.default_rng(0).normal(size=400)
    along = (1 - 2.0 * CORRECTION_LENGTHS[:, None] + 0.3 * noise) ** 2
    assert 0.45 < kept_share(along) <= 0.5
    assert kept_share(along[[0] * 10 + [10]]) == 0.0


def bent(rows: int, seed: int, classes: bool = False) -> pd.DataFrame:
    """Customers of another law than `regression_table`: the sign of one column turns what another one does."""
    table = regression_table(rows, seed)
    said = 3 * np.sign(table["x0"]) * table["x1"]
    chance = np.random.default_rng(seed).random(rows)
    return table.assign(y=(chance < 1 / (1 + np.exp(-2 * said))).astype(int) if classes else table["y"] / 3 + said / 2)


@pytest.fixture(scope="module", params=["plain", "bins", "components", "classes", "hinge", "softmax"])
def refined(request, quick, tmp_path_factory):
    """(the personal model, how it was chosen, terms, its owner), of an owner whose rows bend."""
    classes = request.param in ("classes", "hinge", "softmax")
    public = tmp_path_factory.mktemp("refined") / "public.csv"
    regression_table(200, seed=9).to_csv(public, index=False)
    extra = {
        "plain": {},
        "bins": {"model__columns": "bins", "model__bins": 3},
        "components": {"model__public": str(public), "model__components": 2},
        "classes": {"model__kind": LOGISTIC},
        "hinge": {"model__kind": "linear-svm"},
        "softmax": {"model__kind": "softmax-regression", "model__categories": {"y": ["0", "1"]}},
    }[request.param]
    terms = make_terms(500, model__holdout=0.2, model__bounds=None if classes else BOUNDS, **extra)
    owner = parley.Owner("a", bent(500, 1, classes))
    setup = owner.prepare(terms).setup
    joint = make_model(setup.preparation, np.zeros(setup.parameters), terms.hash, released=True)
    return *refine(joint, terms, owner), terms, owner


def test_trees_are_saved_and_loaded_as_numbers_and_say_the_same(refined, tmp_path):
    own, how, terms, owner = refined
    assert "trees" in how.made_of
    assert own.trees_ is not None
    own.save(tmp_path / "own.json")
    again, new = load_model(tmp_path / "own.json"), bent(300, 2)
    np.testing.assert_array_equal(again.predict(new), own.predict(new))
    np.testing.assert_array_equal(again.predict(new[["x0", "x1", "x2"]].to_numpy()), own.predict(new))
    verdict = score(terms, owner, again)
    assert verdict.cost_together == verdict.costs["personal"].mean
    assert verdict.joint_gain.mean == verdict.personal_gain.mean
    assert not again.released_


def test_a_personal_model_with_trees_is_better_on_rows_that_nobody_looked_at(refined):
    own, _, terms, owner = refined
    setup = owner.prepare(terms).setup
    linear, _ = refine(make_model(setup.preparation, np.zeros(setup.parameters), terms.hash, True), terms, owner, False)
    verdicts = [score(terms, owner, model) for model in (own, linear)]
    assert verdicts[0].cost_together < verdicts[1].cost_together


def test_what_was_refined_with_trees_is_not_refined_again(refined):
    own, _, terms, owner = refined
    with pytest.raises(ModelError, match="give the joint model"):
        refine(own, terms, owner)


@pytest.fixture(scope="module")
def saved(quick, tmp_path_factory):
    """What the file of a personal model with trees says."""
    terms, owner = make_terms(300), parley.Owner("a", bent(300, 1))
    setup = owner.prepare(terms).setup
    own, _ = refine(make_model(setup.preparation, np.zeros(3), terms.hash, released=True), terms, owner)
    file = tmp_path_factory.mktemp("saved") / "own.json"
    own.save(file)
    load_model(file)
    return file.read_text()


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["trees"]["trees.left"].__setitem__(0, 0.0),  # a row would go round for ever
        lambda c: c["trees"]["trees.column"].__setitem__(0, 99.0),
        lambda c: c["trees"]["trees.threshold"].__setitem__(0, "__import__('os')"),
        lambda c: c["trees"]["trees.threshold"].__setitem__(0, "inf"),
        lambda c: c["trees"]["trees.values"][0].pop(),
        lambda c: c["trees"].pop("trees.roots"),
        lambda c: c.update(trees=[1.0]),
        lambda c: c.update(released=True),
        lambda c: c.update(format="parley-model-1"),
        lambda c: c.pop("trees"),
    ],
)
def test_trees_that_were_tampered_with_are_refused(change, saved, tmp_path):
    file, content = tmp_path / "own.json", json.loads(saved)
    change(content)
    file.write_text(json.dumps(content))
    with pytest.raises(ModelError):
        load_model(file)


def test_few_rows_have_no_trees(quick):
    for kind, classes in ((LINEAR, False), ("linear-svm", True)):
        terms, owner = make_terms(100, model__kind=kind), parley.Owner("a", bent(100, 1, classes))
        setup = owner.prepare(terms).setup
        own, how = refine(make_model(setup.preparation, np.zeros(setup.parameters), terms.hash, True), terms, owner)
        assert own.trees_ is None
        assert [way.name for way in how.ways] == ["joint", "ridge", "alone"]


def test_few_rows_of_a_class_have_no_trees(quick):
    table = bent(300, 1, classes=True).assign(y=lambda t: (np.arange(len(t)) < 15).astype(int))
    terms, owner = make_terms(300, model__kind=LOGISTIC), parley.Owner("a", table)
    setup = owner.prepare(terms).setup
    _, how = refine(make_model(setup.preparation, np.zeros(setup.parameters), terms.hash, True), terms, owner)
    assert [way.name for way in how.ways] == ["joint", "ridge", "alone"]


def test_an_owner_whose_rows_are_those_of_the_joint_model_is_told_that_it_stays(quick):
    terms, owner = make_terms(600), parley.Owner("a", regression_table(600, seed=4))
    joint = make_model(owner.prepare(terms).setup.preparation, np.linspace(0.8, -0.6, 3), terms.hash, released=True)
    own, how = refine(joint, terms, owner)
    assert how.chosen == "joint"
    np.testing.assert_array_equal(own.theta_, joint.theta_)
    assert how.shares[JOINT] == pytest.approx(1)
    said = how.to_json()
    assert said["chosen"] == "joint"
    assert [way["name"] for way in said["ways"]] == ["joint", "ridge", "trees", "alone"]
    assert said["ways"][2]["share"] == 0
    assert said["loss"] == said["ways"][2]["loss"] == pytest.approx(said["ways"][0]["loss"], rel=0.01)
