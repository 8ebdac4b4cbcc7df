"""Federated inference: the pooled ridge fit without noise, intervals that cover, owners that come and go."""

import json

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, GAUSSIAN, IRIS, SPECIES, iris_table, make_terms, regression_table

import parley
from parley.errors import ModelError, SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.outcome.model import load_model
from parley.learning.outcome.predicted_table import predictions
from parley.losses.moments import covariances, noise_covariance, solve
from parley.protocol.queries import Answer
from parley.protocol.setup import resolve
from parley.report.pages.run_page import run_page

ONCE = {"learning__algorithm": "fedinfer", "learning__horizon": None, "learning__step": None, "privacy__clip": None}
SPECIES_MODEL = {
    "model__kind": "least-squares-classes",
    "model__target": "species",
    "model__features": [*IRIS],
    "model__bounds": IRIS,
    "model__categories": {"species": SPECIES},
    "model__radius": None,
}
COEFFICIENTS = np.array([0.5, -0.3, 0.2, 0.0, 0.4])


def terms_of(*sizes, **overrides):
    return make_terms(*sizes, **{**ONCE, "model__bounds": BOUNDS, "model__radius": None, **overrides})


def quiet_run(terms, owners):
    """The model of the terms' algorithm where nobody adds noise."""
    setup = owners[0].simulate(0, 1).resolve(terms)
    algorithm = make_algorithm(setup).without_noise()
    state, asker = algorithm.start(np.zeros(setup.parameters), (1,)), Asker.from_setup(setup)
    for _ in range(algorithm.horizon):
        answers = []
        for name, query in algorithm.questions(state, asker).items():
            owner = next(each for each in owners if each.name == name)
            agreement = owner.simulate(0, 1).accept(setup)
            question = agreement.part.training.question
            answers.append(
                Answer(query.id, name, question.records, question.bounded(query, agreement.tables, (1,)).value)
            )
        total = sum(a.records for a in answers)
        combined = sum(a.records / total * a.value for a in answers)
        state = algorithm.update(state, combined, answers)
    return algorithm, state


@pytest.mark.parametrize("privacy", [{}, GAUSSIAN])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_without_noise_it_is_the_pooled_ridge_fit_in_one_step(privacy, ridge):
    """Owners that differ in everything; the oracle is the normal equation of all rows together."""
    tables = [
        regression_table(300, 1),
        regression_table(120, 2).assign(x0=lambda t: t.x0 * 0.3 + 0.5, y=lambda t: t.y - 0.4),
    ]
    terms = terms_of(300, 120, model__regularisation=ridge, **privacy)
    owners = [parley.Owner(name, table) for name, table in zip("ab", tables, strict=True)]
    _, state = quiet_run(terms, owners)
    rows = pd.concat(tables)
    X, y = rows[["x0", "x1", "x2"]].to_numpy(), rows["y"].to_numpy()
    best = np.linalg.solve(2 * X.T @ X / len(X) + ridge * np.eye(3), 2 * X.T @ y / len(X))
    assert state.round == 2
    np.testing.assert_allclose(state.theta[0], best, atol=1e-8)


def test_without_noise_classes_are_the_pooled_ridge_fit_too():
    flowers = iris_table()
    parts = [flowers[flowers.species == SPECIES[0]], flowers[flowers.species != SPECIES[0]]]  # nobody has all classes
    terms = terms_of(50, 100, **SPECIES_MODEL, model__regularisation=0.01)
    algorithm, state = quiet_run(terms, [parley.Owner(name, part) for name, part in zip("ab", parts, strict=True)])
    X = np.column_stack([flowers[[*IRIS]].to_numpy(), np.ones(150)])
    Y = (flowers.species.to_numpy()[:, None] == np.array(SPECIES)).astype(float)
    best = np.linalg.solve(2 * X.T @ X / 150 + 0.01 * np.eye(5), 2 * X.T @ Y / 150).T
    np.testing.assert_allclose(state.theta[0].reshape(3, 5), best, atol=1e-8)
    assert algorithm.objective.cost(owners_design(flowers, terms), best.ravel()) == pytest.approx(
        float(np.mean(np.sum((X @ best.T - Y) ** 2, axis=1)) + 0.005 * np.sum(best**2))
    )


def owners_design(table, terms):
    return resolve(terms, table).preparation.design(table, "all")


def population(rows, rng):
    X = rng.uniform(-1, 1, (rows, 5))
    return pd.DataFrame(X, columns=list("abcde")).assign(y=X @ COEFFICIENTS + rng.uniform(-0.5, 0.5, rows))


def coverage_terms(epsilon, mechanism):
    bounds = {**{name: [-1, 1] for name in "abcde"}, "y": [-2, 2]}
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": list("abcde"), "bounds": bounds},
            "learning": {"algorithm": "fedinfer"},
            "privacy": {"mechanism": mechanism, "delta": 1e-5 if mechanism == "gaussian" else 0.0},
            "owners": [{"name": name, "records": 2000, "epsilon": epsilon} for name in ("one", "two", "three")],
        }
    )


def covered(epsilon, mechanism, runs, noise=1.0, sampling=1.0):
    """The share of 90 % intervals that hold the population's coefficient. The factors make mutants: of the noise's
    deviation and of the sampling error's."""
    terms, hits = coverage_terms(epsilon, mechanism), []
    for seed in range(runs):
        rng = np.random.default_rng([7, seed])
        owners = [parley.Owner(part.name, population(2000, rng)) for part in terms.owners]
        result = parley.train(terms, owners, seed=seed, measure=False)
        sure = result.model.posterior_
        if noise == sampling == 1.0:
            hits.append([i.low <= true <= i.high for i, true in zip(result.intervals, COEFFICIENTS, strict=True)])
            continue
        matrix, deviation = np.array(result.moments["matrix"]), result.moments["deviation"]
        solved = solve(matrix, 5, deviation, "l2" if mechanism == "gaussian" else "l1", 0.0)
        norm = "l2" if mechanism == "gaussian" else "l1"
        covariance, _ = covariances(matrix, solved, deviation * noise, norm, sure.records / max(sampling, 1e-9) ** 2)
        hits.append(np.abs(result.theta[0] - COEFFICIENTS) <= 1.645 * np.sqrt(np.diag(covariance[0])))
    return float(np.mean(hits))


@pytest.mark.parametrize(("mechanism", "epsilon"), [("gaussian", 0.5), ("gaussian", 3.0), ("laplace", 1.0)])
def test_intervals_cover_the_population(mechanism, epsilon):
    """60 runs of five coefficients: 0.9 within three standard errors of a share (runs are independent, coefficients
    nearly so)."""
    assert abs(covered(epsilon, mechanism, 60) - 0.9) < 3 * np.sqrt(0.09 / 300)


def test_intervals_without_the_noise_or_without_the_draw_do_not_cover():
    assert covered(1.0, "gaussian", 25, noise=0.0) < 0.6
    assert covered(1e3, "gaussian", 25, sampling=0.0) < 0.6


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_noise_of_a_models_gradient_has_the_stated_covariance(norm):
    """Of e_b - E theta, drawn by the packed layout; a layout's sqrt 2 forgotten is off by more."""
    rng, theta, p = np.random.default_rng(0), np.array([0.7, -1.2, 0.4]), 3
    i, j = np.triu_indices(p + 1)
    packed = rng.normal(0, 0.3, (200_000, len(i))) / np.where((i == j) | (norm == "l1"), 1.0, np.sqrt(2))
    E = np.zeros((len(packed), p + 1, p + 1))
    E[:, i, j] = E[:, j, i] = packed
    drawn = np.cov((E[:, :p, p] - E[:, :p, :p] @ theta).T)
    np.testing.assert_allclose(drawn, noise_covariance(theta, 0.3, norm), atol=0.01 * drawn.max())
    other = noise_covariance(theta, 0.3, "l2" if norm == "l1" else "l1")
    assert not np.allclose(drawn, other, atol=0.1 * drawn.max())


@pytest.mark.parametrize(
    "rounds",
    [{}, {"learning__horizon": 4}, {"learning__horizon": 4, "learning__participation": 0.5}, {"strides": (1, 2)}],
)
def test_the_moments_are_unbiased_and_as_noisy_as_stated(rounds):
    """4,000 replicates with owners that differ: mean and deviation of the moments, however often each owner answers."""
    strides, rounds = rounds.get("strides"), {key: value for key, value in rounds.items() if key != "strides"}
    terms = terms_of(
        400, 150, epsilon=2.0, **GAUSSIAN, **rounds, **({} if strides is None else {"learning__horizon": 4})
    )
    if strides is not None:
        terms = terms.changed(owners={name: {"stride": stride} for name, stride in zip("ab", strides, strict=True)})
    tables = [regression_table(400, 1), regression_table(150, 2).assign(y=lambda t: t.y + 1.0)]
    owners = [parley.Owner(name, table) for name, table in zip("ab", tables, strict=True)]
    parties = [owner.simulate(seed, 4000) for seed, owner in enumerate(owners)]
    setup = parties[0].resolve(terms)
    for party in parties:
        party.accept(setup)
    algorithm, asker = make_algorithm(setup), Asker.from_setup(setup)
    state = algorithm.start(np.zeros(3), (4000,))
    for _ in range(terms.learning.horizon):
        asked = algorithm.questions(state, asker)
        answers = [party.answer(asked[party.name]) for party in parties if party.name in asked]
        total = sum(a.records for a in answers)
        state = algorithm.update(state, sum(a.records / total * a.value for a in answers), answers)
    _, quiet = quiet_run(terms, owners)
    moments, (deviation, records) = state.memory["moments"], algorithm.certainty(state)
    exact = quiet.memory["moments"][0]
    np.testing.assert_allclose(moments.std(axis=0), deviation, rtol=0.05)
    np.testing.assert_allclose(moments.mean(axis=0), exact, atol=5 * deviation / np.sqrt(4000))
    assert records == pytest.approx(550)


def test_who_drops_out_keeps_what_it_gave_and_who_never_came_is_no_part_of_it():
    terms = terms_of(400, 150, 200, learning__horizon=3, **GAUSSIAN).changed(
        learning={"straggler": "skip", "quorum": 1}, owners={"b": {"trust": 0.5}}
    )
    setup = resolve(terms, regression_table(10))
    algorithm = make_algorithm(setup)
    rng, size = np.random.default_rng(0), 10
    values = {(name, k): rng.normal(size=size) for name in "ab" for k in range(3)}
    state = algorithm.start(np.zeros(3))
    for k, present in enumerate(["ab", "a", "a"]):
        answers = [Answer("q", name, {"a": 400, "b": 150}[name], values[name, k]) for name in present]
        state = algorithm.update(state, answers[0].value, answers)
    mean_a = np.mean([values["a", k] for k in range(3)], axis=0)
    shares = np.array([400.0, 75.0]) / 475
    np.testing.assert_allclose(state.memory["moments"], shares[0] * mean_a + shares[1] * values["b", 0], rtol=1e-12)
    deviation, records = algorithm.certainty(state)
    own = [setup.part(name).training.series.mechanism.variance for name in "ab"]
    assert deviation**2 == pytest.approx(shares[0] ** 2 * own[0] / 3 + shares[1] ** 2 * own[1])
    assert records == pytest.approx(1 / (shares[0] ** 2 / 400 + shares[1] ** 2 / 150))


def test_a_checkpoint_brings_the_state_back(tmp_path):
    terms = terms_of(400, 150, learning__horizon=4).changed(owners={"b": {"stride": 2}})
    algorithm = make_algorithm(resolve(terms, regression_table(10)))
    state = algorithm.start(np.zeros(3))
    answer = Answer("q", "a", 400, np.random.default_rng(0).normal(size=10))
    after = algorithm.update(state, answer.value, [answer])
    Checkpoint(terms.hash, after, {"a": 1}, {}).save(tmp_path / "run")
    back = load_checkpoint(tmp_path / "run", terms, state).state
    assert back.round == 2
    for name, array in after.memory.items():
        np.testing.assert_array_equal(back.memory[name], array)


def test_one_round_is_sufficient_statistics():
    """The same release and the same model, but for rounding, with the same intervals."""
    tables = [regression_table(400, 1), regression_table(150, 2)]
    found = []
    for algorithm in ("fedinfer", "sufficient-statistics"):
        terms = terms_of(400, 150, learning__algorithm=algorithm)
        owners = [parley.Owner(name, table) for name, table in zip("ab", tables, strict=True)]
        found.append(parley.train(terms, owners, seed=3))
    np.testing.assert_allclose(found[0].theta, found[1].theta, rtol=1e-12)
    assert found[1].intervals is not None
    for one, other in zip(found[0].intervals, found[1].intervals, strict=True):
        assert {k: v for k, v in vars(one).items() if isinstance(v, str)} == {
            k: v for k, v in vars(other).items() if isinstance(v, str)
        }
        assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-9)


def test_predictions_and_their_deviation_survive_a_file(tmp_path):
    terms = terms_of(400, epsilon=10.0, model__intercept=True, **GAUSSIAN)
    result = parley.train(terms, [parley.Owner("a", regression_table(400))], seed=0)
    result.model.save(tmp_path / "model.json")
    model, rows = load_model(tmp_path / "model.json"), regression_table(7, 5)
    mean, std = model.predict(rows, return_std=True)
    X = np.column_stack([rows[["x0", "x1", "x2"]], np.ones(7)])
    np.testing.assert_allclose(
        std, np.sqrt(np.einsum("ni,ij,nj->n", X, result.model.posterior_.covariance[0], X)), rtol=1e-12
    )
    np.testing.assert_array_equal(mean, model.predict(rows))
    assert model.intervals() == result.intervals
    assert json.loads((tmp_path / "model.json").read_text())["posterior"]["repaired"] is False
    with pytest.raises(SettingError, match="level"):
        model.intervals(1.0)


def test_intervals_are_in_the_columns_own_units(tmp_path):
    """A public sample scales the columns; the coefficients are those of the raw ones all the same."""
    public = regression_table(500, 9) * [10.0, 1.0, 0.1, 7.0]
    public.to_csv(tmp_path / "public.csv", index=False)
    table = regression_table(5000, 1) * [10.0, 1.0, 0.1, 7.0]
    overrides = {"model__public": str(tmp_path / "public.csv"), "model__intercept": True, "model__bounds": None}
    for extra in ({}, {"model__whitening": "public"}):
        terms = terms_of(5000, epsilon=1e4, **overrides, **extra)
        result = parley.train(terms, [parley.Owner("a", table)], seed=0)
        X = np.column_stack([table[["x0", "x1", "x2"]], np.ones(5000)])
        best = np.linalg.lstsq(X, table["y"], rcond=None)[0]
        assert [each.name for each in result.intervals] == ["x0", "x1", "x2", "(constant)"]
        for each, true in zip(result.intervals, best, strict=True):
            assert each.estimate == pytest.approx(true, abs=3 * each.std + 1e-9)
            assert each.std < 0.1 * max(1, abs(true))


def test_a_gradient_model_has_no_deviation():
    result = parley.train(make_terms(200), [parley.Owner("a", regression_table(200))], seed=0)
    assert result.intervals is None
    with pytest.raises(ModelError, match="fedinfer"):
        result.model.predict(regression_table(3), return_std=True)


def test_flowers_are_told_apart_and_the_score_knows_its_deviation():
    terms = terms_of(75, 75, epsilon=1e4, **SPECIES_MODEL, **GAUSSIAN)
    flowers = iris_table()
    result = parley.train(terms, [parley.Owner("a", flowers[:75]), parley.Owner("b", flowers[75:])], seed=0)
    said, std = result.model.predict(flowers, return_std=True)
    assert np.mean(said == flowers.species) > 0.8
    assert std.shape == (150,)
    assert len(result.intervals) == 15
    assert result.intervals[0].outcome == "setosa"
    np.testing.assert_allclose(result.model.predict_proba(flowers).sum(axis=1), 1.0)


def test_drowned_moments_are_repaired_and_say_so():
    terms = terms_of(50, epsilon=0.05)
    result = parley.train(terms, [parley.Owner("a", regression_table(50))], seed=0)
    assert result.model.posterior_.repaired
    assert np.isfinite(result.theta).all()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model": {"kind": "logistic-regression"}}, "gradient method"),
        (
            {"learning": {"algorithm": "averaged-subgradient"}, "privacy": {"clip": 1.0}, "everyone": {"trust": 0.5}},
            "trust",
        ),
        (
            {"everyone": {"trust": 0.5}, "privacy": {"noise": "shared", "delta": 1e-6}, "hosts": ["h1", "h2", "h3"]},
            "whose answers",
        ),
        (
            {
                "learning": {"straggler": "skip", "quorum": 1},
                "privacy": {"noise": "shared", "delta": 1e-6},
                "hosts": ["h1", "h2", "h3"],
            },
            "whose answers",
        ),
        ({"learning": {"step": 0.1}}, "takes no steps"),
        ({"learning": {"algorithm": "sufficient-statistics", "horizon": 3}}, "releases once"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(TermsError, match=match):
        terms_of(100, 100).changed(**changes)


def test_one_noise_for_all_is_inferred_from_too():
    one = {"privacy": {"noise": "shared", "mechanism": "gaussian", "delta": 1e-6}, "hosts": ["h1", "h2", "h3"]}
    terms = terms_of(300, 200, learning__horizon=2).changed(**one)
    owners = [parley.Owner("a", regression_table(300, 1)), parley.Owner("b", regression_table(200, 2))]
    result = parley.train(terms, owners, seed=0)
    assert result.model.posterior_.records == 500
    assert all(each.std > 0 for each in result.intervals)


def test_the_forecast_knows_it(tmp_path):
    """Ten thousand rows like the public sample's: the mean relative fitness of a study, within the forecast's interval
    of it."""
    public = regression_table(2000, 9)
    public.to_csv(tmp_path / "public.csv", index=False)
    terms = terms_of(1500, 1500, epsilon=1.0, model__public=str(tmp_path / "public.csv"), **GAUSSIAN)
    expected = parley.forecast(terms, resamples=8)
    owners = [parley.Owner("a", regression_table(1500, 1)), parley.Owner("b", regression_table(1500, 2))]
    found = parley.train(terms, owners, replicates=400, seed=0).relative_fitness["mean"]
    assert expected.relative_fitness.mean == pytest.approx(found, rel=0.2)


def test_plans_are_made_of_terms_without_a_clip(tmp_path):
    regression_table(400, 9).to_csv(tmp_path / "public.csv", index=False)
    terms = terms_of(900, 500, model__public=str(tmp_path / "public.csv"), model__bounds=None).changed(
        everyone={"trust": 1.0}
    )
    algorithms = {choice.algorithm for choice in parley.plan(terms).choices}
    assert {"fedinfer", "sufficient-statistics"} <= algorithms


def test_the_page_and_predictions_say_how_sure_they_are():
    result = parley.train(terms_of(900, epsilon=5.0, **GAUSSIAN), [parley.Owner("a", regression_table(900))], seed=0)
    assert "How certain are the coefficients?" in run_page(result)
    frame = predictions(result.model, regression_table(4, 2))
    np.testing.assert_array_equal(frame["std_y"], result.model.predict(regression_table(4, 2), return_std=True)[1])
    content = result.to_json()
    assert [each["name"] for each in content["intervals"]] == ["x0", "x1", "x2"]
    assert content["repaired"] is False
