import numpy as np
import pytest
from samples import BOUNDS, class_table, make_terms, real_data, regression_table

import parley
from parley.errors import DataError, ParleyError, SettingError, TermsError, UnknownTerms
from parley.learning.algorithms.catalogue import make_algorithm
from parley.owner.ledger import Ledger


def owners(*sizes, table=regression_table):
    return [parley.Owner("abcdefgh"[i], table(size, seed=i)) for i, size in enumerate(sizes)]


def slope(x, y):
    return np.polyfit(np.log(x), np.log(y), 1)[0]


REGRESSION = {
    "model__bounds": BOUNDS,
    "model__radius": 50.0,
    "privacy__clip": None,
    "learning__horizon": 100,
    "learning__step": 1.0,
}
SVM = {
    "model__kind": "linear-svm",
    "model__radius": 500.0,
    "privacy__clip": 8.0,
    "learning__horizon": 50,
    "learning__step": 0.3,
}


@pytest.mark.parametrize(
    ("settings", "table", "epsilons", "sizes"),
    [
        (REGRESSION, regression_table, [8.0, 16.0, 32.0, 64.0], [500, 1000, 2000, 4000]),
        (SVM, class_table, [0.05, 0.1, 0.2, 0.4], [250, 500, 1000, 2000]),
    ],
    ids=["regression", "svm"],
)
def test_relative_fitness_falls_with_the_square_of_budget_and_size(settings, table, epsilons, sizes):
    """W's observation in the noise-dominated regime: log-log slopes of -2 +- 0.1; a wrong noise rule (1/sqrt(n)) would
    give -1."""

    def fitness(n, epsilon):
        result = parley.train(
            make_terms(n, n, epsilon=epsilon, **settings), owners(n, n, table=table), replicates=400, seed=3
        )
        return result.relative_fitness["mean"]

    by_budget = [fitness(sizes[1], epsilon) for epsilon in epsilons]
    by_size = [fitness(n, epsilons[1]) for n in sizes]
    assert slope(epsilons, by_budget) == pytest.approx(-2, abs=0.1)
    assert slope(sizes, by_size) == pytest.approx(-2, abs=0.1)


def test_the_headline_holds_on_the_real_card_data(tmp_path):
    """3 banks x 30,000 card records, eps = 1, T = 100: mean relative fitness below 0.1."""
    cards = real_data("creditcard.parquet").drop(columns="Time")
    cards.iloc[-10_000:].to_parquet(tmp_path / "public.parquet")
    parts = parley.data.split_consecutive(cards, [30_000] * 3)
    terms = parley.Terms.from_dict(
        {
            "model": {
                "kind": "linear-svm",
                "target": "Class",
                "public": str(tmp_path / "public.parquet"),
                "holdout": 0.2,
            },
            "privacy": {"clip": 30.0},
            "owners": [
                {"name": "abc"[i], "records": 30_000, "epsilon": 1.25} for i in range(3)
            ],  # 24,000 rows train: eps n is as in W
        }
    )
    result = parley.train(terms, [parley.Owner("abc"[i], part) for i, part in enumerate(parts)], replicates=5, seed=1)
    assert result.relative_fitness["mean"] < 0.1
    # Fit, yet a poor detector: that is why the task's own metrics stand beside it.
    assert result.metrics["average_precision"] < 0.5


def test_the_result_reports_what_others_rely_on():
    terms = make_terms(500, 300, epsilon=2.0, model__holdout=0.2)
    result = parley.train(terms, owners(500, 300), replicates=6, seed=1)
    content = result.to_json()
    assert set(content["relative_fitness"]) == {"mean", "median", "q25", "q75"}
    assert content["owners"][0] == {
        "name": "a",
        "records": 500,
        "epsilon": 2.0,
        "epsilon_spent": 2.0,
        "clipped_share": result.owners[0].clipped_share,
        "answers": 10,
        "step_epsilon": 0.2,
        "late": 0,
    }
    assert content["terms_hash"] == terms.hash
    assert content["replicates"] == 6
    assert set(content["metrics"]) == {"r2", "mean_absolute_error"}
    assert content["seconds"] > 0
    assert result.cost == pytest.approx(result.optimal_cost * (1 + result.relative_fitness["mean"]))
    assert (result.path >= -1e-12).all()


def test_the_same_seed_gives_the_same_study_and_owners_are_independent():
    terms = make_terms(200, 200)
    one = parley.train(terms, owners(200, 200), replicates=3, seed=5)
    two = parley.train(terms, list(reversed(owners(200, 200))), replicates=3, seed=5)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert (one.theta != parley.train(terms, owners(200, 200), replicates=3, seed=6).theta).any()
    twins = [parley.Owner(name, regression_table(200)) for name in "ab"]
    answers = [owner.simulate(s, 2) for owner, s in zip(twins, np.random.SeedSequence(1).spawn(2), strict=True)]
    assert (answers[0].noise.laplace(np.zeros(2), 1.0, 1.0) != answers[1].noise.laplace(np.zeros(2), 1.0, 1.0)).all()


def test_replicates_are_parallel_runs_of_one_law():
    """A batch of 2,000 runs has the moments of 2,000 runs one by one (here 300)."""
    terms, parties = make_terms(100, epsilon=3.0), owners(100)
    batch = parley.train(terms, parties, replicates=2000, seed=1).theta
    single = np.concatenate([parley.train(terms, parties, seed=s, measure=False).theta for s in range(300)])
    error = np.sqrt(single.var(axis=0) / 300 + batch.var(axis=0) / 2000)
    assert (np.abs(batch.mean(axis=0) - single.mean(axis=0)) < 4.5 * error).all()
    np.testing.assert_allclose(batch.std(axis=0), single.std(axis=0), rtol=0.2)


def test_a_release_equals_the_learner_that_replays_the_stored_answers(tmp_path):
    terms = make_terms(80, 60, model__holdout=0.25)
    tables = {"a": regression_table(80, seed=0), "b": regression_table(60, seed=1)}
    parties = [
        parley.Owner(name, table, ledger=Ledger(tmp_path / name, lifetime=1.0)) for name, table in tables.items()
    ]
    with pytest.raises(UnknownTerms):
        parley.train(terms, parties)
    for party in parties:
        party.accept(terms)
    result = parley.train(terms, parties)
    assert result.released
    assert result.safe_noise
    assert result.relative_fitness is None
    assert result.cost is None
    assert result.quality is None
    assert result.metrics == {}
    assert [o.epsilon_spent for o in result.owners] == [1.0, 1.0]

    import sqlite3

    stored = {}
    for name in tables:
        with sqlite3.connect(tmp_path / name) as db:
            rows = db.execute("SELECT answer FROM entries WHERE kind='answer' ORDER BY round").fetchall()
        stored[name] = [np.frombuffer(row[0]) for row in rows]
    algorithm = make_algorithm(parties[0].agreement(terms.hash).setup)
    state = algorithm.start(np.zeros(3))
    for a, b in zip(stored["a"], stored["b"], strict=True):
        state = algorithm.update(state, (60 / 105) * a + (45 / 105) * b)
    np.testing.assert_allclose(algorithm.model(state), result.theta[0], rtol=1e-14)


def test_releases_and_studies_do_not_mix(tmp_path):
    terms = make_terms(80, 60)
    durable = parley.Owner("a", regression_table(80), ledger=Ledger(tmp_path / "a", lifetime=1.0))
    durable.accept(terms)
    with pytest.raises(SettingError, match="durable ledgers for all owners"):
        parley.train(terms, [durable, parley.Owner("b", regression_table(60))])
    with pytest.raises(SettingError, match="release once"):
        parley.train(make_terms(80), [durable], replicates=2)


def test_the_learning_owner_adds_noise_to_its_own_answers_and_refines_locally():
    """W's variant with own eps = inf would send a noiseless gradient; here the learner's scale is that of its own
    eps."""
    terms = make_terms(400, 400, epsilon=0.05, learning__learner="a", model__holdout=0.25)
    parties = [parley.Owner("a", regression_table(400, seed=1)), parley.Owner("b", regression_table(400, seed=2))]
    assert parties[0].accept(terms).part.training.series == parties[1].accept(terms).part.training.series
    result = parley.train(terms, parties, seed=1)
    assert [o.epsilon_spent for o in result.owners] == [0.05, 0.05]
    agreement = parties[0].accept(terms)

    def cost(model):
        return float(agreement.setup.objective.cost(agreement.tables.held_out, model.theta_))

    assert cost(result.own_model) < 0.5 * cost(result.model)  # at eps = 0.05 the joint model is mostly noise
    assert parley.train(make_terms(400, 400), parties, seed=1).own_model is None


def test_an_own_model_that_cannot_be_had_does_not_cost_the_joint_one(tmp_path, monkeypatch):
    def fails(*_):
        raise SettingError("no minimum")

    monkeypatch.setattr("parley.learning.outcome.result.personal_model", fails)
    table = class_table(40)
    terms = make_terms(
        40, model__kind="logistic-regression", model__radius=None, model__holdout=0.2, learning__learner="a"
    )
    owner = parley.Owner("a", table, ledger=Ledger(tmp_path / "a", lifetime=1.0))
    owner.accept(terms)
    result = parley.train(terms, [owner])
    assert result.own_model is None
    assert np.isfinite(result.model.theta_).all()


def test_relative_fitness_does_not_drown_in_large_targets():
    table = regression_table(500)
    far = table.assign(y=table["y"] + 1e7, x2=1.0)
    settings = {"model__radius": None, "privacy__clip": 1e9, "learning__step": 0.1}
    result = parley.train(make_terms(500, **settings), [parley.Owner("a", far)], seed=1)
    X = far[["x0", "x1", "x2"]].to_numpy()
    residual = far["y"].to_numpy() - X @ np.linalg.lstsq(X, far["y"].to_numpy(), rcond=None)[0]
    assert result.optimal_cost == pytest.approx(np.square(residual).mean(), rel=1e-6)


def test_owners_must_be_those_of_the_terms_with_the_same_columns():
    with pytest.raises(TermsError, match="as in the terms, found"):
        parley.train(make_terms(200, 200), owners(200))
    with pytest.raises(SettingError, match="a different name for each owner"):
        parley.train(make_terms(200), owners(200) * 2)
    with pytest.raises(SettingError, match="seed = -1"):
        parley.train(make_terms(200), owners(200), seed=-1)
    with pytest.raises(SettingError, match="replicates = 0"):
        parley.train(make_terms(200), owners(200), replicates=0)
    other = parley.Owner("b", regression_table(200).rename(columns={"x2": "z"}))
    with pytest.raises(DataError, match=r"list the common columns under model\.features"):
        parley.train(make_terms(200, 200, model__features=None), [owners(200)[0], other])


def test_clipping_that_binds_is_reported():
    tight = parley.train(make_terms(500, privacy__clip=0.05), owners(500), seed=0)
    loose = parley.train(make_terms(500, privacy__clip=50.0), owners(500), seed=0)
    assert tight.owners[0].clipped_share > 0.8
    assert loose.owners[0].clipped_share == 0.0


def test_bounds_instead_of_clipping_go_through_statistics_and_agree_with_records():
    settings = {"model__bounds": BOUNDS, "learning__horizon": 20}
    by_bounds = make_terms(300, privacy__clip=None, **settings)
    bound = parley.Owner("a", regression_table(300)).accept(by_bounds).part.training.question.bound
    assert not bound.clips
    by_clip = make_terms(300, privacy__clip=bound.value * (1 - 1e-9), **settings)
    assert parley.Owner("a", regression_table(300)).accept(by_clip).part.training.question.bound.clips
    one, two = (parley.train(t, owners(300), replicates=4, seed=2) for t in (by_bounds, by_clip))
    np.testing.assert_allclose(one.theta, two.theta, rtol=1e-6)


def test_rowwise_is_near_the_noiseless_optimum_where_rows_suffice():
    terms, owner = make_terms(300), owners(300)[0]
    table = owner.table.frame()
    reference = np.linalg.lstsq(table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(parley.alone(terms, owner), reference, rtol=0.01)


def test_progress_is_called_every_round():
    calls = []
    parley.train(make_terms(50), owners(50), seed=0, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 10) for k in range(1, 11)]


def test_a_search_begins_where_it_is_told_to_in_every_replicate():
    terms = make_terms(50, model__radius=5.0, learning__horizon=1, learning__step=1e-9)
    width = parley.train(terms, owners(50), seed=0, measure=False).theta.shape[1]
    starts = np.linspace(-4.0, 4.0, 2 * width).reshape(2, width)
    apart = parley.train(terms, owners(50), replicates=2, seed=0, measure=False, start=starts).theta
    np.testing.assert_allclose(apart, starts, atol=1e-4)
    same = parley.train(terms, owners(50), replicates=2, seed=0, measure=False, start=starts[1]).theta
    np.testing.assert_allclose(same, starts[[1, 1]], atol=1e-4)
    with pytest.raises(SettingError, match=f"start: expected {width} numbers"):
        parley.train(terms, owners(50), seed=0, start=starts)
    for bad in (9.0, np.nan):
        with pytest.raises(ParleyError):  # by the owner, who is asked there
            parley.train(terms, owners(50), seed=0, start=np.full(width, bad))
