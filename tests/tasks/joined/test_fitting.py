"""Models from joined moments: least squares beside its normal equations, the logistic surrogate beside the optimum."""

from dataclasses import replace

import numpy as np
import pytest
from bank_and_shop import joined_terms, people, tables
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from parley.losses.moments import solve
from parley.owner.owner import Owner
from parley.privacy.sharing.matching.keyed_rows import joined_moments
from parley.protocol.task import RunSettings
from parley.tasks.joined.fitting import fit_moments, mean_moments, normal_line, public_start, without_negative
from parley.tasks.joined.plan import join_plan
from parley.tasks.joined.run import simulate_join
from parley.tasks.joined.tables import people_table


def exact_moments(plan, bank, shop):
    read = [people_table(plan, name, rows) for name, rows in (("bank", bank), ("shop", shop))]
    return joined_moments(
        [table.keyed(plan.law, clip, "x") for table, clip in zip(read, plan.law.clips, strict=True)], plan.law.unit
    )


def joined(count=3000, kind="linear-regression", target="rate", seed=0, **changes):
    frame = people(count, seed)
    bank, shop = tables(frame, 300, 500, target)
    plan = join_plan(joined_terms(len(bank), len(shop), kind=kind, target=target, **changes))
    return plan, bank, shop, bank.merge(shop, on="customer_id")


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_without_noise_the_model_is_that_of_the_normal_equations(intercept, ridge):
    plan, bank, shop, rows = joined(model__intercept=intercept, model__regularisation=ridge, join__digits=18)
    moments = mean_moments(exact_moments(plan, bank, shop), plan.law.unit, 0.0)
    assert moments.people == pytest.approx(len(rows), rel=1e-12)
    fitted = fit_moments(plan, moments)
    X = plan.whole.matrix(rows, "all") / plan.sizes
    y = plan.whole.target(rows, "all") / plan.target_size
    theta = np.linalg.solve(X.T @ X / len(X) + ridge / 2 * np.eye(X.shape[1]), X.T @ y / len(X))
    assert fitted.theta * plan.sizes / plan.target_size == pytest.approx(theta, abs=1e-4)
    assert not fitted.drowned


def test_classes_are_those_of_least_squares():
    frame = people(2000).assign(place=lambda f: np.where(f.rate > 12, "far", np.where(f.rate > 8, "mid", "near")))
    bank, shop = tables(frame, 100, 100, "place")
    plan = join_plan(
        joined_terms(
            len(bank),
            len(shop),
            kind="least-squares-classes",
            target="place",
            join__digits=18,
            model__categories={"place": ["near", "mid", "far"]},
        )
    )
    fitted = fit_moments(plan, mean_moments(exact_moments(plan, bank, shop), plan.law.unit, 0.0))
    rows = bank.merge(shop, on="customer_id")
    X = plan.whole.matrix(rows, "all") / plan.sizes
    one_hot = np.stack([rows["place"] == name for name in ("near", "mid", "far")], axis=1).astype(float)
    theta = np.linalg.lstsq(X, one_hot, rcond=None)[0].T
    assert fitted.theta.reshape(3, -1) * plan.sizes == pytest.approx(theta, abs=2e-4)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Moments of many draws of people and noise: the 90 % interval of each coefficient holds the population's."""
    plan, *_, rows = joined(40_000, seed=100)
    X, y = plan.whole.matrix(rows, "all"), plan.whole.target(rows, "all")
    truth = np.linalg.lstsq(X, y, rcond=None)[0]
    inside, runs = np.zeros(len(truth)), 60
    for run in range(runs):
        plan, bank, shop, _ = joined(3000, seed=run)
        rng = np.random.default_rng(run)
        opened = exact_moments(plan, bank, shop) + plan.law.noise.drawn((plan.law.noise.size,), rng).view(np.int64)
        fitted = fit_moments(plan, mean_moments(opened, plan.law.unit, plan.law.deviation))
        # in the terms' units columns have scale 1, so intervals are about theta itself
        inside += [
            each.low <= true <= each.high
            for each, true in zip(fitted.posterior.intervals(plan.whole), truth, strict=True)
        ]
    share = inside / runs
    assert (share >= 0.9 - 3 * np.sqrt(0.09 / runs)).all(), share


def test_noise_moves_the_model_as_the_posterior_says():
    plan, bank, shop, _ = joined(20_000)
    exact, rng, thetas = exact_moments(plan, bank, shop), np.random.default_rng(3), []
    for _ in range(200):
        noise = plan.law.noise.drawn((plan.law.noise.size,), rng).view(np.int64)
        fitted = fit_moments(plan, mean_moments(exact + noise, plan.law.unit, plan.law.deviation))
        thetas.append(fitted.theta)
    found = np.std(thetas, axis=0)
    said = np.sqrt(np.diag(fitted.posterior.covariance[0]))  # with the draw of people
    assert (found <= said * 1.2).all()
    assert (found >= said * 0.3).all()


def test_the_logistic_surrogate_is_exact_for_normal_columns():
    rng = np.random.default_rng(0)
    n, theta = 400_000, np.array([0.8, -0.5, 0.3, 0.6])
    X = rng.multivariate_normal(np.zeros(4), 0.02 * (np.eye(4) + 0.5), n).clip(-1, 1)
    y = np.where(rng.random(n) < expit(X @ (10 * theta) - 1.0), 1.0, -1.0)
    plan = join_plan(joined_terms(model__bounds={c: [-1, 1] for c in ("income", "balance", "spending", "returns")}))
    z = np.column_stack([X[:, :2], y, X[:, 2:], np.ones(n)])
    packed = (z.T @ z)[np.triu_indices(6)]
    found = fit_moments(plan, mean_moments(packed, 1, 0.0)).theta
    true = LogisticRegression(C=1e8, tol=1e-9).fit(X, y)
    optimum = np.append(true.coef_[0], true.intercept_)
    assert found == pytest.approx(optimum, rel=0.02)
    # the line at margin 0 alone would be far away
    tangent = np.linalg.solve(z[:, [0, 1, 3, 4, 5]].T @ z[:, [0, 1, 3, 4, 5]], z[:, [0, 1, 3, 4, 5]].T @ y) * 2
    assert np.abs(tangent - optimum).max() > 0.2 * np.abs(optimum).max()


def test_the_line_for_normal_margins_solves_its_equations():
    rng = np.random.default_rng(1)
    for mean, variance in ((0.0, 1.0), (-2.0, 4.0), (3.0, 0.5)):
        margins = rng.normal(mean, np.sqrt(variance), 10**6)
        slope = np.cov(margins, expit(margins))[0, 1] / margins.var()
        level, found = normal_line(mean, variance)
        assert found == pytest.approx(slope, abs=2e-3)
        assert level + found * mean == pytest.approx(expit(margins).mean(), abs=2e-3)


def test_a_public_start_gives_the_line_of_public_margins(tmp_path):
    people(4000, seed=5).to_csv(tmp_path / "public.csv", index=False)
    public = {"model__public": str(tmp_path / "public.csv"), "model__bounds": {}, "kind": "logistic-regression"}
    plan, bank, shop, rows = joined(4000, target="default", learning__start="public", **public)
    start = public_start(plan)
    assert 0 < start.slope < 0.25
    X = plan.whole.matrix(rows, "all")
    true = LogisticRegression(C=1e8, fit_intercept=False).fit(X, rows["default"]).coef_[0]
    exact = mean_moments(exact_moments(plan, bank, shop), plan.law.unit, 0.0)
    found = fit_moments(plan, exact).theta
    assert np.corrcoef(X @ found, X @ true)[0, 1] > 0.999
    assert np.std(X @ found) == pytest.approx(np.std(X @ true), rel=0.15)
    # where noise hides all, the model is the public one
    drowned = fit_moments(plan, replace(exact, deviation=1e6)).theta
    assert drowned == pytest.approx(start.theta, rel=0.01, abs=0.01)
    plain = join_plan(plan.terms.changed(learning={"start": None}))
    assert np.abs(fit_moments(plain, replace(exact, deviation=1e6)).theta * plan.sizes).max() < 0.01
    assert not np.allclose(fit_moments(plain, exact).theta, found, rtol=1e-3)


def test_one_owners_columns_are_fitted_alone():
    plan, bank, shop, rows = joined(3000, join__digits=18)
    result = simulate_join(plan.terms, [Owner("bank", bank), Owner("shop", shop)], RunSettings())
    assert [each.name for each in result.alone] == ["bank alone", "columns of shop, matched"]
    assert [each.people for each in result.alone] == [len(bank), len(rows)]


def test_eigenvalues_below_zero_lift_no_others():
    """Beside `losses.moments.solve`: the same where all is clear of the noise, and less pulled to zero where not."""
    plan, bank, shop, _ = joined(3000)
    exact = exact_moments(plan, bank, shop).astype(float)
    places = [*plan.features, *plan.targets]
    for deviation, same in ((1e-6, True), (0.5, False)):
        moments = mean_moments(exact, plan.law.unit, 0.0)
        rng = np.random.default_rng(0)
        noise = np.triu(rng.normal(0, deviation, (5, 5)))
        matrix = moments.matrix[np.ix_(places, places)] + noise + np.triu(noise, 1).T
        solved = solve(matrix, 4, deviation, "l1", 0.0)
        made = without_negative(solved, matrix, 0.0)
        assert (made.values >= 0).all()
        assert (made.theta == pytest.approx(solved.theta, abs=1e-12)) is same
        if not same:
            assert solved.values[0] < 0
            assert made.lift == pytest.approx(solved.lift + solved.values[0])
            A = (made.vectors * made.values) @ made.vectors.T + made.lift * np.eye(4)
            assert made.theta[0] == pytest.approx(np.linalg.solve(A, matrix[:4, 4]))
