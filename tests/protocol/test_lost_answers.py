"""Answers that get lost: what a round hears, what the mean is made of, where training then ends, and what it costs.

The oracle enumerates. A round is a Markov chain over the sets of owners heard so far, one step per deadline; the mean
and the second moment of gradient descent follow from the chain's end, for the owners' own tables.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from samples import BOUNDS, make_terms, regression_table

import parley
from parley.decisions.expectation.expectation import ByMoments, ByRuns, expect
from parley.decisions.knowledge.pilot import open_pilot
from parley.errors import TermsError
from parley.protocol.lost_answers import LossyRounds

SIZES = 40, 60, 100
EQUAL, UNEQUAL = (0.7, 0.7, 0.7), (0.9, 0.6, 0.3)
STEP, ROUNDS, CLIP = 0.5, 12, 8.0


def lossy_terms(availability, sizes=SIZES, quorum=1, epsilon=1.0, **overrides):
    """Descent on least squares whose clip never binds; answers arrive with these probabilities."""
    usual = {"algorithm": "gradient-descent", "decay": 0.0, "horizon": ROUNDS, "step": STEP, "straggler": "skip"}
    given = {f"learning__{key}": value for key, value in usual.items()} | {"learning__quorum": quorum}
    terms = make_terms(*sizes, epsilon=epsilon, **given, model__bounds=BOUNDS, privacy__clip=CLIP, **overrides)
    return terms.changed(owners={name: {"availability": each} for name, each in zip("abc", availability, strict=False)})


def tables_of(sizes=SIZES, seed=1):
    ends, rows = np.cumsum(sizes), regression_table(sum(sizes), seed)
    return [rows[end - size : end].reset_index(drop=True) for end, size in zip(ends, sizes, strict=True)]


def owners_of(tables):
    return [parley.Owner(name, table) for name, table in zip("abc", tables, strict=False)]


def law_of_heard(availability, quorum):
    """{who is heard: probability}, by the chain."""
    ending, going, count = {}, {(0,) * len(availability): 1.0}, len(availability)
    for _ in range(400):
        ahead = {}
        for before, weight in going.items():
            for came in product((0, 1), repeat=count):
                chance = weight
                for had, now, each in zip(before, came, availability, strict=True):
                    chance *= (1.0 if now == had else 0.0) if had else (each if now else 1 - each)
                if chance > 0:
                    where = ending if sum(came) >= quorum else ahead
                    where[came] = where.get(came, 0.0) + chance
        going = ahead
    return ending


def expected_fitness(tables, availability, quorum, epsilon):
    """E psi of gradient descent on these tables, by the second moment of (1, theta); the cost is (x theta - y)^2."""
    X, y = ([table[columns].to_numpy() for table in tables] for columns in (["x0", "x1", "x2"], "y"))
    n = np.array([len(table) for table in tables], dtype=float)
    bend, pull = [x.T @ x / len(x) for x in X], [x.T @ z / len(x) for x, z in zip(X, y, strict=True)]
    loud = 2 * (ROUNDS * 2 * CLIP / n / epsilon) ** 2  # of Laplace noise: T releases of sensitivity 2 clip/n
    moment = np.zeros((4, 4))
    moment[0, 0] = 1.0
    for _ in range(ROUNDS):
        after = np.zeros((4, 4))
        for heard, chance in law_of_heard(availability, quorum).items():
            w = np.array(heard) * n / (np.array(heard) @ n)
            step = np.eye(4)
            step[1:, 1:] -= 2 * STEP * np.einsum("l,lij->ij", w, bend)
            step[1:, 0] = 2 * STEP * w @ pull
            after += chance * (step @ moment @ step.T)
            after[1:, 1:] += chance * STEP**2 * (w**2 @ loud) * np.eye(3)
        moment = after
    H, b, p = np.einsum("l,lij->ij", n / n.sum(), bend), n @ pull / n.sum(), np.linalg.solve
    best = p(H, b)
    least = n @ [np.mean(z**2) for z in y] / n.sum() - b @ best
    error = moment[1:, 1:] - np.outer(moment[1:, 0], best) - np.outer(best, moment[1:, 0]) + np.outer(best, best)
    return np.trace(H @ error) / least


def mean_of_runs(terms, tables, replicates, seed=3):
    """(mean psi of simulated runs, its standard error)."""
    found = parley.train(terms, owners_of(tables), replicates=replicates, seed=seed, whole_path=False)
    fitness = found.path[-1]
    return fitness.mean(), fitness.std() / replicates**0.5


@pytest.mark.parametrize("quorum", [1, 2, 3])
@pytest.mark.parametrize("availability", [EQUAL, UNEQUAL])
def test_rounds_hear_whom_deadlines_let_them(availability, quorum):
    rounds = LossyRounds.from_terms(lossy_terms(availability, quorum=quorum))
    drawn, law = rounds.draw((200_000,), np.random.default_rng(5)), law_of_heard(availability, quorum)
    assert drawn.sum(axis=1).min() >= quorum
    for heard, chance in law.items():
        share = (drawn == heard).all(axis=1).mean()
        assert abs(share - chance) < 5 * (chance * (1 - chance) / len(drawn)) ** 0.5 + 1e-12


@pytest.mark.parametrize("quorum", [1, 2])
@pytest.mark.parametrize("availability", [EQUAL, UNEQUAL])
def test_the_mean_of_those_heard_has_the_moments_of_the_chain(availability, quorum):
    rounds, n = LossyRounds.from_terms(lossy_terms(availability, quorum=quorum)).moments, np.array(SIZES, dtype=float)
    law = law_of_heard(availability, quorum)
    heard, chance = np.array([*law]), np.array([*law.values()])
    w = heard * n / (heard @ n)[:, None]
    assert rounds.noise_factors == pytest.approx(chance @ w**2 / (n / n.sum()) ** 2, rel=0.01)
    assert rounds.sum_noise_factor == pytest.approx(chance @ (n.sum() / (heard @ n)) ** 2, rel=0.01)
    assert rounds.answers == pytest.approx(chance @ heard.sum(axis=1), rel=0.01)
    afresh, alike = rounds.chance
    # by draws of single rows, one for each owner, instead of the formula
    g = np.random.default_rng(1).standard_normal((100_000, 3)) / n**0.5
    away = (g @ w.T) - (g @ n / n.sum())[:, None]
    assert afresh + alike == pytest.approx((away**2 @ chance).mean(), rel=0.01)
    assert alike == pytest.approx(((away @ chance) ** 2).mean(), rel=0.03, abs=1e-5)


@pytest.mark.parametrize(
    ("availability", "quorum", "epsilon"), [(EQUAL, 1, 30.0), (UNEQUAL, 1, 60.0), (UNEQUAL, 2, 1e4), (EQUAL, 1, 1e4)]
)
def test_simulated_runs_end_where_the_chain_says_and_wrong_probabilities_do_not(availability, quorum, epsilon):
    tables = tables_of()
    expected = expected_fitness(tables, availability, quorum, epsilon)
    terms = lossy_terms(availability, quorum=quorum, epsilon=epsilon, model__radius=None)
    mean, error = mean_of_runs(terms, tables, 6000)
    assert abs(mean - expected) < 4 * error
    wrong = lossy_terms([each * 0.6 for each in availability], quorum=quorum, epsilon=epsilon, model__radius=None)
    mean, error = mean_of_runs(wrong, tables, 6000)
    assert abs(mean - expected) > 8 * error


@pytest.mark.parametrize("algorithm", ["gradient-descent", "averaged-subgradient"])
@pytest.mark.parametrize("noise", ["each-owner", "shared"])
@pytest.mark.parametrize("availability", [EQUAL, UNEQUAL])
def test_moments_and_pilot_runs_agree(availability, noise, algorithm):
    terms = lossy_terms(availability, sizes=(400, 600, 1000), epsilon=8.0)
    if algorithm != terms.learning.algorithm:
        terms = terms.changed(learning={"algorithm": algorithm, "decay": None, "step": 0.9})
    if noise == "shared":
        privacy = {"mechanism": "gaussian", "delta": 1e-6, "noise": "shared"}
        terms = terms.changed(privacy=privacy, hosts=("x", "y", "z"))
    expected = expect(open_pilot(terms, regression_table(4000, 7)))
    assert isinstance(expected, ByMoments)
    assert expected.exact
    by_runs = ByRuns(expected.pilot, expected.here, ())
    fitness = by_runs.excess_of(by_runs.ending(1, 4000)[1]) / expected.unit
    assert abs(expected.fitness(0) - fitness.mean()) < 4 * fitness.std() / 4000**0.5


def test_forecasts_hold_for_owners_of_one_law_and_need_the_chance_between_their_rows():
    sizes = 400, 600, 1000
    terms = lossy_terms(UNEQUAL, sizes=sizes, epsilon=1e4)  # next to no noise: what is left is chance
    expected = expect(open_pilot(terms, regression_table(20_000, 7)))
    means = [mean_of_runs(terms, tables_of(sizes, seed), 20)[0] for seed in range(80)]
    error = np.std(means) / len(means) ** 0.5
    assert abs(np.mean(means) - expected.fitness(0)) < 4 * error
    blind = replace(expected, moments=replace(expected.moments, shift=None))
    assert abs(np.mean(means) - blind.fitness(0)) > 6 * error


def test_the_interval_of_the_forecast_covers_simulated_runs():
    sizes, covered = (400, 600, 1000), []
    for seed in range(12):
        terms = lossy_terms(UNEQUAL, sizes=sizes)
        found = parley.forecast(terms, regression_table(300, 100 + seed), seed=seed).relative_fitness
        mean, error = mean_of_runs(terms, tables_of(sizes, seed), 400)
        covered.append(found.low - 2 * error <= mean <= found.high + 2 * error)
    assert sum(covered) >= 10  # of 12 at 95 %: 11.4


def test_certain_answers_change_nothing():
    sure, waits = lossy_terms((1, 1.0, 1)), lossy_terms((1, 1, 1))
    assert "availability" not in sure.canonical
    assert sure.hash == waits.hash
    everybody, tables = sure.changed(learning={"straggler": "wait", "quorum": None}), tables_of()
    one, other = (parley.train(each, owners_of(tables), replicates=3, seed=1) for each in (sure, everybody))
    assert np.array_equal(one.theta, other.theta)
    pilot = regression_table(200, 7)
    assert np.array_equal(parley.forecast(sure, pilot).path, parley.forecast(everybody, pilot).path)


def test_lost_answers_are_paid_for_and_coins_do_not_look_at_tables():
    lost = []
    for seed in (1, 2):
        found = parley.train(lossy_terms(UNEQUAL), owners_of(tables_of(seed=seed)), seed=9)
        assert [owner.epsilon_spent for owner in found.owners] == [1.0, 1.0, 1.0]
        assert all(owner.answers + owner.late == ROUNDS for owner in found.owners)
        lost.append([owner.late for owner in found.owners])
    assert lost[0] == lost[1]
    assert sum(lost[0]) > 0


def test_runs_of_one_study_lose_answers_independently():
    found = parley.train(lossy_terms(EQUAL, epsilon=1e4), owners_of(tables_of()), replicates=200, seed=9)
    alike = parley.train(lossy_terms((1, 1, 1), epsilon=1e4), owners_of(tables_of()), replicates=200, seed=9)
    assert found.theta.std(axis=0).min() > 3 * alike.theta.std(axis=0).max()


def test_a_release_loses_nothing_on_purpose(tmp_path):
    terms, owners = lossy_terms(EQUAL), []
    for name, table in zip("abc", tables_of(), strict=True):
        owners.append(parley.Owner(name, table, ledger=parley.Ledger(tmp_path / f"{name}.ledger", 2.0)))
        owners[-1].accept(terms)
    found = parley.train(terms, owners)
    assert [(owner.answers, owner.late) for owner in found.owners] == [(ROUNDS, 0)] * 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"learning": {"straggler": "wait"}}, "owners.availability: needs learning.straggler = 'skip'"),
        ({"learning": {"straggler": "stop"}}, "owners.availability: needs learning.straggler = 'skip'"),
        (
            {"learning": {"participation": 0.7, "quorum": 1}},
            "owners.availability: not allowed with learning.participation",
        ),
        ({"learning": {"staleness": 5}}, "owners.availability: not allowed with learning.staleness"),
        ({"aggregation": {"rule": "median"}}, "aggregation: not allowed with owners.availability"),
        ({"privacy": {"unit": "owner"}}, "privacy.unit: expected 'record' with owners.availability"),
        ({"owners": {"a": {"availability": 0.0}}}, "owners.a.availability"),
        ({"owners": {"a": {"availability": 1.1}}}, "owners.a.availability"),
        ({"learning": {"algorithm": "scaffold", "decay": None}}, "owners.availability: allowed only with algorithm"),
    ],
)
def test_terms_that_cannot_lose_answers_say_why(changed, words):
    with pytest.raises(TermsError, match=words.replace(".", r"\.")):
        lossy_terms(EQUAL).changed(**changed)
