import itertools
import math

import numpy as np
import pandas as pd
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.knowledge.sources import Stated
from parley.decisions.outlook.coalition import CoalitionCost
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.remedies import compare_noise
from parley.decisions.planning.noise_terms import each_owner_terms, shared_terms
from parley.decisions.planning.planner import plan
from parley.protocol.aggregation import DistributedNoise, OneNoise
from parley.protocol.setup import resolve
from parley.report.words.noise import plan_beside
from parley.terms.catalogue import THREE_HOST_SWITCHES, UNNAMED_HOSTS

PILOT = regression_table(3000, seed=9)
PILOT["y"] += 3 * np.random.default_rng(2).standard_normal(3000)  # so hard to learn that small owners need each other
QUIET = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}
WAY = {"privacy__clip": 60.0, "learning__horizon": 20, "learning__step": 1.0, "model__radius": 60.0}


def test_stated_assumptions_are_enough_for_every_kind():
    terms = make_terms(500, 700)
    stated = Stated(np.array([0.7, 0.7, 0.6])[: resolve(terms, PILOT).parameters], 0.02, distance=1.0)
    compared = compare_noise(forecast(terms, stated, resamples=2))
    assert {*compared.kinds} == {"each_owner", "shared", "two_hosts", "distributed"}


def quadratic_case(seed, mechanism):
    """A random regression with one noise whose clip does not bind: owners' tables, their terms, the pooled table as its
    own pilot."""
    rng = np.random.default_rng(seed)
    count, p = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    spread, truth = 10 ** rng.uniform(-1, 0, p), rng.normal(size=p)
    names = [f"x{j}" for j in range(p)]

    def table(n):
        X = np.clip(rng.normal(size=(n, p)), -3, 3) * spread
        return pd.DataFrame(X, columns=names).assign(y=X @ truth + 0.3 * np.clip(rng.normal(size=n), -3, 3))

    tables = [table(int(n)) for n in 10 ** rng.uniform(2.5, 3.5, count)]
    pooled = pd.concat(tables, ignore_index=True)
    curvature = 2 * np.linalg.eigvalsh(pooled[names].cov())[-1]
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": names},
        "learning": {"horizon": int(rng.integers(1, 25)), "step": float(rng.uniform(0.2, 0.9) / curvature)},
        "privacy": {"clip": 400.0, "mechanism": mechanism, "delta": 1e-3, "noise": "shared"},
        "owners": [
            {"name": "abcd"[i], "records": len(t), "epsilon": float(rng.uniform(5, 20))} for i, t in enumerate(tables)
        ],
        "hosts": [{"name": name} for name in UNNAMED_HOSTS],
    }
    return parley.Terms.from_dict(content), tables, pooled


@pytest.mark.parametrize(("seed", "mechanism"), list(itertools.product(range(4), ("laplace", "gaussian"))))
def test_the_exact_forecast_of_one_noise_meets_the_mean_of_many_runs(seed, mechanism):
    """Within 3 standard errors of 2,000 runs; a factor of two would be noticed."""
    terms, tables, pooled = quadratic_case(seed, mechanism)
    expected = forecast(terms, pilot=pooled, resamples=2)
    assert expected.method == "exact-moments"
    owners = [parley.Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
    runs = parley.train(terms, owners, replicates=2000, seed=seed).path[-1]
    error = runs.std(ddof=1) / np.sqrt(len(runs))
    assert abs(runs.mean() - expected.relative_fitness.mean) < 3 * error + 1e-9 * runs.mean()
    assert abs(runs.mean() - 2 * expected.relative_fitness.mean) > 3 * error
    np.testing.assert_allclose(expected.run_quartiles, np.quantile(runs, [0.25, 0.5, 0.75]), rtol=0.25)


def test_a_pilot_run_forecasts_a_classifier_with_one_noise(tmp_path):
    class_table(2000, seed=9).to_csv(tmp_path / "public.csv", index=False)
    settings = {"privacy__clip": 6.0, "learning__horizon": 30, "model__regularisation": 0.5, "learning__step": "auto"}
    apart = make_terms(
        300, 200, model__kind="logistic-regression", model__public=str(tmp_path / "public.csv"), **settings, **QUIET
    )
    terms = shared_terms(apart)
    expected = forecast(terms, resamples=10)
    assert expected.method == "pilot-run"
    owners = [parley.Owner("a", class_table(300, seed=1)), parley.Owner("b", class_table(200, seed=2))]
    truth = parley.train(terms, owners, replicates=60, seed=3).relative_fitness["mean"]
    interval = expected.relative_fitness
    assert interval.low * 0.7 <= truth <= interval.high * 1.4
    other = forecast(apart, resamples=2).relative_fitness.mean
    assert other > 1.4 * interval.mean  # and it is not the forecast of two noises


@pytest.mark.parametrize("privacy", [{}, QUIET])
def test_every_kind_is_the_forecast_of_its_own_terms(privacy):
    apart = make_terms(300, 400, 500, epsilon=2.0, **WAY, **privacy)
    both = {"each_owner": apart, "shared": shared_terms(apart)}
    assert each_owner_terms(both["shared"]).hash == apart.hash
    results = {kind: forecast(terms, PILOT, resamples=2) for kind, terms in both.items()}
    for kind in both:
        noise = compare_noise(results[kind]).to_json()
        for other, result in results.items():
            exact = other == kind or {each.method for each in results.values()} == {"exact-moments"}
            near = 1e-9 if exact else 0.1  # a pilot run's price of noise is that of its own noise
            assert noise[other]["relative_fitness"] == pytest.approx(result.relative_fitness.mean, rel=near)
            assert noise[other]["best_coalition"] == result.best_coalition
            # of the interval of the joint model's error: that of the terms as written
            near = 1e-9 if other == kind else max(near, 1e-3)
            assert noise[other]["gains"] == pytest.approx(
                {owner.name: owner.gain.mean for owner in result.owners}, rel=near
            )
        assert noise[kind]["share_that_gains"] == np.mean(results[kind].outlook.chances >= 0.5)
    assert noise["shared"]["delta"] == (1e-6 if privacy else 1e-9)
    ours, theirs = (noise[kind]["relative_fitness"] for kind in ("shared", "each_owner"))
    assert ours < theirs
    between = noise["distributed"]["relative_fitness"]
    assert ours < between < theirs
    expected = expect(open_pilot(both["shared"], PILOT))
    if expected.method == "exact-moments":  # three owners, one curious: half as much variance again
        louder = expected.excess_at(1.5 * expected.pilot.combined_variance())[-1] / expected.unit
        assert between == pytest.approx(louder, rel=1e-9)


def test_two_hosts_are_forecast_alike_from_whichever_terms():
    apart = make_terms(300, 400, 500, epsilon=2.0, **WAY, **QUIET)
    two = shared_terms(apart).changed(hosts=UNNAMED_HOSTS[:2])
    paired = two.changed(privacy={"draw": "together"})
    direct = forecast(two, PILOT, resamples=2)
    for terms in (apart, two, paired):
        noise = compare_noise(forecast(terms, PILOT, resamples=2)).to_json()
        fitness = {kind: noise[kind]["relative_fitness"] for kind in ("shared", "two_hosts", "each_owner")}
        assert fitness["two_hosts"] == pytest.approx(direct.relative_fitness.mean, rel=1e-9)
        assert fitness["shared"] < fitness["two_hosts"] < fitness["each_owner"]
    planned = {"owner_count": 2, "hosts": 2, "paired": False, "shared": None}
    (said,) = plan_beside(planned)
    assert "would not reduce the noise" in said
    assert 'With privacy.draw = "together", two hosts draw one noise' in said
    assert "the variance is 1.5 times that of two hosts" in plan_beside(planned | {"owner_count": 3})[0]
    for count in (2, 3):
        assert plan_beside(planned | {"owner_count": count, "paired": True}) == []


def test_a_plan_with_three_hosts_names_the_keys_that_its_terms_do_not_use():
    """What they cost is said once; the planner's choice keeps the terms' keys, and never sets one."""
    three = shared_terms(make_terms(300, 400, 500, epsilon=2.0, **WAY, **QUIET))
    for keys in ((), ("hosts_may_cheat",), ("hosts_may_cheat", "check_answers")):
        terms = three.changed(privacy=dict.fromkeys(keys, True))
        made = plan(terms, PILOT)
        chosen = {key for key in THREE_HOST_SWITCHES if getattr(made.terms.privacy, key)}
        assert chosen == {*keys}
        said = plan_beside(made.to_json())
        assert len(said) == (len(keys) < 2)
        for key, facts in THREE_HOST_SWITCHES.items():
            assert any(f"privacy.{key}: {facts.cost}" in line for line in said) == (key not in keys)


def test_unequal_budgets_are_where_one_noise_loses():
    """Everybody gets the smallest epsilon: one shy small owner spoils it, and is not to be asked."""
    terms = make_terms(3000, 3000, 100, epsilon=4.0, **WAY, **QUIET).changed(owners={"c": {"epsilon": 0.05}})
    noise = compare_noise(forecast(terms, PILOT, resamples=2)).to_json()
    assert noise["shared"]["best_coalition"] == ("a", "b")
    assert noise["shared"]["epsilon"] == 4.0


def test_a_kind_that_cannot_be_is_explained():
    terms = make_terms(3000, 3000, epsilon=200.0, **WAY)
    noise = compare_noise(forecast(terms, PILOT, resamples=2)).to_json()
    assert noise["shared"] is None
    assert noise["distributed"] is None
    assert "random bits" in noise["missing"]["shared"]
    assert noise["each_owner"]["relative_fitness"] > 0


def test_break_even_is_the_common_epsilon():
    """At an owner's break-even budget for all, its gain begins to count in half of the draws."""
    terms = shared_terms(make_terms(120, 130, 5000, epsilon=2.0, **WAY, **QUIET))
    few = regression_table(60, seed=9)  # no help to anybody
    few["y"] = 2 * few["y"] + 3 * np.random.default_rng(2).standard_normal(len(few))
    even = {owner.name: owner.break_even_epsilon for owner in forecast(terms, few, resamples=2).values}
    assert sum(bool(e) for e in even.values()) >= 2
    for name, epsilon in even.items():
        if epsilon:
            for side, pays in ((0.98, False), (1.02, True)):
                there = forecast(terms.changed(everyone={"epsilon": epsilon * side}), few, resamples=2)
                place = "abc".index(name)
                assert bool(there.outlook.chances[place] >= 0.5) == pays


def test_the_planner_shows_the_plan_with_hosts_beside_and_keeps_hosts_that_are_there():
    apart = make_terms(300, 400, 500, epsilon=2.0, **WAY)
    proposal = parley.plan(apart, PILOT)
    assert not proposal.terms.noise.summed
    assert proposal.shared.terms.noise.summed
    assert proposal.shared.best.relative_fitness < proposal.best.relative_fitness
    assert proposal.shared.expected_cost < proposal.expected_cost
    assert {choice.mechanism for choice in proposal.shared.choices} == {"laplace"}  # no delta was allowed for more
    assert {choice.delta for choice in proposal.shared.choices} == {1e-9}
    hosted = parley.plan(shared_terms(apart).changed(privacy={"delta": 1e-6}), PILOT)
    assert hosted.shared is None
    assert hosted.terms.noise.summed
    assert {choice.mechanism for choice in hosted.choices} == {"laplace", "gaussian"}
    assert [host.name for host in hosted.terms.hosts] == list(UNNAMED_HOSTS)


def random_noise(rng, size):
    return OneNoise(np.round(10 ** rng.uniform(1, 5, size)), 10 ** rng.uniform(0, 8, size))


def test_the_best_coalition_with_one_noise_equals_brute_force_on_200_instances():
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(200):
        noise = random_noise(rng, int(rng.integers(1, 13)))
        cost = CoalitionCost(float(10 ** rng.uniform(0, 3)), 0.01, float(10 ** rng.uniform(-2, 2)), math.inf)
        chosen = cost.best_coalition(noise)
        size = len(noise.records)
        every = np.arange(1, 2**size)[:, None] >> np.arange(size) & 1  # who belongs to each coalition
        n = every @ noise.records
        v = np.max(every * noise.demands, axis=1) / n**2
        assert float(cost.together(noise, chosen)) == pytest.approx(
            np.min(cost.estimation / n + 0.01 + cost.noise_price * v), rel=1e-12
        )
        sizes.append(chosen.sum() / len(chosen))
    assert 0.1 < np.mean(np.array(sizes) < 1) < 0.99  # somebody is left out now and then


def test_shapley_values_with_one_noise_are_the_mean_over_all_orders_and_add_up():
    rng = np.random.default_rng(1)
    noise, cost = random_noise(rng, 6), CoalitionCost(100.0, 0.01, 1.0, nobody=5.0)
    values, errors = cost.shapley(noise)
    total = np.zeros(6)
    for order in itertools.permutations(range(6)):
        members, before = np.zeros(6, dtype=bool), cost.nobody
        for owner in order:
            members[owner] = True
            after = float(cost.together(noise, members))
            total[owner] += before - after
            before = after
    np.testing.assert_allclose(values, total / math.factorial(6), rtol=1e-9, atol=1e-12)
    assert not errors.any()
    many = random_noise(rng, 40)
    values, errors = cost.shapley(many)
    assert values.sum() == pytest.approx(cost.nobody - float(cost.together(many, np.ones(40, dtype=bool))), rel=1e-9)


def test_shares_of_noise_add_up_to_the_claimed_variance():
    """k owners draw normal shares; without those of the curious the whole noise is left, with them the claimed
    variance."""
    rng = np.random.default_rng(0)
    for k, t in ((3, 1), (5, 2), (10, 1)):
        noise = DistributedNoise(OneNoise(np.full(k, 10.0), np.full(k, 400.0)), curious=t)
        shares = rng.normal(scale=math.sqrt(400.0 / (k - t)), size=(200_000, k))
        assert np.var(shares[:, t:].sum(axis=1)) == pytest.approx(400.0, rel=0.02)
        assert np.var(shares.sum(axis=1) / (10 * k)) == pytest.approx(noise.all_together, rel=0.02)
    nobody_left = DistributedNoise(OneNoise(np.ones(2), np.full(2, 9.0)), curious=5)
    assert nobody_left.all_together == 2 * 9.0 / 4
