"""Many coins in one run: the bound holds for every mechanism, it has power, and halved noise is caught by a single
run."""

from itertools import product

import numpy as np
import pytest
from federated import FAMILY, family_terms
from mutants import half_the_noise
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms
from scipy.optimize import linprog
from scipy.stats import binom

import parley
from parley.audit.attacker import AuditedOwner
from parley.audit.planted import Guesses, audit_one_run, guess_coins, one_run_bound, plant, toss_coins
from parley.errors import SettingError, TermsError

WIDE = {"model__features": [f"x{place}" for place in range(200)], "learning__algorithm": "gradient-descent"}
PEOPLE = {"privacy__person": "who", "privacy__records_per_person": 3}
SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 2, "learning__epochs": 1}
CLASSES = {"model__kind": "softmax-regression", "model__categories": {"y": ["p", "q", "r"]}}
STALE = {"learning__algorithm": "gradient-descent", "learning__staleness": 3, "learning__decay": 0.0}
RUNS = {
    "many owners": make_terms(100, 80, 60, 40, learning__horizon=1),
    "bounds": make_terms(100, 80, privacy__clip=None, model__bounds=BOUNDS, learning__horizon=1),
    "geometric": make_terms(100, 80, privacy__mechanism="geometric", learning__horizon=2),
    "statistics": make_terms(100, 80, **STATISTICS),
    "batches": make_terms(100, 80, **SGD, **GAUSSIAN),
    "secret draws": make_terms(30, **SGD, **GAUSSIAN, learning__sampling="poisson"),
    "waiting for nobody": make_terms(100, 80, **STALE),
    "gossip": make_terms(100, 80, 60, learning__algorithm="gossip", learning__topology="ring"),
    "fedinfer": make_terms(100, 80, learning__algorithm="fedinfer", learning__step=None, **GAUSSIAN),
    "classes": make_terms(100, **CLASSES, learning__horizon=2),
    "svm": make_terms(100, 80, model__kind="linear-svm", learning__horizon=2),
    **{name: family_terms(name, 100, 80, learning__horizon=2) for name in FAMILY},
}


def odds(epsilon):
    return 1 / (1 + np.exp(-epsilon))


def most_right(places, epsilon, delta, least):
    """The largest probability with which any (epsilon, delta)-DP mechanism guesses at least so many of its coins, by a
    linear programme over all of them."""
    words = list(product((-1, 1), repeat=places))
    n, neighbours = len(words), []
    for s, t in product(range(n), repeat=2):
        if sum(a != b for a, b in zip(words[s], words[t], strict=True)) == 1:
            neighbours.append((s, t))
    count = n * n + n * len(neighbours)  # M(t | s), then what of M(. | s) lies above e^eps M(. | s')
    right = np.zeros(count)
    for s, t in product(range(n), repeat=2):
        right[s * n + t] = (sum(a == b for a, b in zip(words[s], words[t], strict=True)) >= least) / n
    above, limits = [], []
    for k, (s, other) in enumerate(neighbours):
        own = n * n + k * n
        for t in range(n):
            line = np.zeros(count)
            line[s * n + t], line[other * n + t], line[own + t] = 1, -np.exp(epsilon), -1
            above.append(line)
            limits.append(0.0)
        line = np.zeros(count)
        line[own : own + n] = 1
        above.append(line)
        limits.append(delta)
    sums = np.zeros((n, count))
    for s in range(n):
        sums[s, s * n : s * n + n] = 1
    found = linprog(-right, A_ub=np.array(above), b_ub=limits, A_eq=sums, b_eq=np.ones(n), bounds=(0, 1))
    return -found.fun


@pytest.mark.parametrize(("places", "epsilon", "delta"), [(3, 0.5, 0.0), (3, 1.0, 0.02), (2, 0.1, 0.1), (3, 0.0, 0.05)])
def test_no_mechanism_at_all_guesses_more_than_the_theorem_says(places, epsilon, delta):
    for least in range(places // 2 + 1, places + 1):
        found = most_right(places, epsilon, delta, least)
        assert binom.sf(least - 1, places, odds(epsilon)) - 1e-7 <= found
        for free in range(places):  # right guesses that delta gave away
            given = places * delta / (2 * (free + 1))
            assert found <= binom.sf(least - free - 1, places, odds(epsilon)) + given + 1e-7


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("guesses", [1, 20, 400])
def test_randomised_response_is_not_called_worse_than_it_is(epsilon, delta, guesses):
    """Exactly, over all outcomes: it tells the truth with odds e^epsilon, and with probability delta in any case."""
    truth = odds(epsilon) + delta * (1 - odds(epsilon))
    for confidence in (0.9, 0.99):
        bounds = np.array([one_run_bound(k, guesses, 400, delta, confidence) for k in range(guesses + 1)])
        assert np.all(np.diff(bounds) >= 0)
        wrong = binom.pmf(np.arange(guesses + 1), guesses, truth)[bounds > epsilon].sum()
        assert wrong <= 1 - confidence + 1e-9


@pytest.mark.parametrize("given", [0.01, 0.1, 1.0, 10.0])
def test_coins_that_delta_gives_away_prove_nothing(given):
    """Each coin is told with probability delta, and only those that were told are guessed: (0, delta)-DP."""
    places = 1000
    seen = np.arange(60)
    right = binom.pmf(seen, places, given / places)
    found = np.array([one_run_bound(k, k, places, given / places) for k in seen])
    assert right[found > 0].sum() <= 0.01
    careless = np.array([one_run_bound(k, k, places) for k in seen])  # as if delta were none
    assert (right[careless > 0].sum() > 0.01) == (given == 10.0)


def test_more_places_prove_more_whatever_delta_is():
    found = [one_run_bound(places // 2, places // 2, places, 1e-5) for places in (200, 2000, 12_000, 100_000)]
    assert np.all(np.diff(found) > 0)
    assert found[2] > 5


def test_the_bound_has_power_and_drawn_coins_agree():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        coins = toss_coins(2000, rng)
        said = np.where(rng.random(2000) < odds(1.0), coins, -coins)
        found.append(Guesses.from_scores(coins, said.astype(float)).bound(0.0, 0.99))
    assert np.mean(np.array(found) > 1) <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / 200)
    assert np.median(found) > 0.8
    halved = np.where(rng.random(2000) < odds(2.0), coins, -coins)
    assert Guesses.from_scores(coins, halved.astype(float)).bound(0.0, 0.99) > 1


def test_what_is_no_count_is_refused():
    for wrong in ((5, 4, 10), (4, 11, 10), (-1, 4, 10), (1, 1, 0)):
        with pytest.raises(SettingError):
            one_run_bound(*wrong)
    with pytest.raises(SettingError, match="confidence"):
        one_run_bound(1, 1, 1, confidence=1.0)
    assert one_run_bound(0, 0, 10) == one_run_bound(10, 10, 10, delta=0.5) == 0.0
    assert guess_coins(np.array([0.5, -3.0, 2.0]), 1.0).tolist() == [1, -1, 1]


SINGLE = {  # terms with 200 columns, what a single run proves at least, and at least with half the noise
    "laplace, one round": (make_terms(220, **WIDE, learning__horizon=1), 0.4, 1.0),
    "gaussian": (make_terms(220, epsilon=4.0, **WIDE, **GAUSSIAN, learning__horizon=2), 0.2, 0.8),
}


@pytest.mark.parametrize("case", SINGLE)
def test_a_single_run_proves_much_of_its_epsilon(case):
    terms, least, halved = SINGLE[case]
    verdict = audit_one_run(terms, "a", seed=1)
    assert verdict.holds
    assert least < verdict.lower_bound <= verdict.claimed_epsilon
    assert (verdict.guesses.places, verdict.guesses.made) == (200, 100)
    with half_the_noise():
        mutant = audit_one_run(terms, "a", seed=1)
    assert mutant.lower_bound > halved
    assert mutant.holds == (case == "gaussian")  # its claim is far above what any attack proves
    assert verdict.to_json()["correct"] < mutant.to_json()["correct"]


@pytest.mark.parametrize("case", RUNS)
def test_every_algorithm_has_places_and_holds(case):
    terms = RUNS[case]
    verdict = audit_one_run(terms, "a", runs=4, seed=1, confidence=1 - 0.01 / len(RUNS))
    assert verdict.holds
    assert verdict.guesses.places == 4 * len(plant(terms, "a")) > 8


def test_many_small_tables_prove_as_much_as_a_wide_one():
    terms = make_terms(20, learning__horizon=1)
    verdict = audit_one_run(terms, "a", runs=120, seed=1)
    assert 0.3 < verdict.lower_bound <= 1
    with half_the_noise():
        assert not audit_one_run(terms, "a", runs=120, seed=1).holds


def test_a_place_is_a_person_with_as_many_rows_as_count():
    planted = plant(make_terms(50, 40, **PEOPLE, model__holdout=0.2), "a")
    coins = toss_coins(len(planted), np.random.default_rng(0))
    table = planted.table(coins)
    assert len(table) == 50
    assert sorted(table["who"].value_counts().to_numpy())[-len(planted) :] == [3] * len(planted)
    assert table["y"].notna().sum() == 3 * len(planted)
    one = AuditedOwner("a", table).prepare(planted.setup).tables.train
    coins[0] *= -1
    other = AuditedOwner("a", planted.table(coins)).prepare(planted.setup).tables.train
    changed = np.any(one.in_memory().X != other.in_memory().X, axis=1) | (one.in_memory().y != other.in_memory().y)
    assert np.flatnonzero(changed).tolist() == [0, 1, 2]  # one coin replaces one person, and nobody else


def test_one_noise_for_all_is_refused():
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x0"], "radius": 5.0},
        "learning": {"horizon": 2, "step": 0.2},
        "privacy": {"clip": 4.0, "delta": 1e-6, "noise": "shared"},
        "hosts": [{"name": name} for name in "abh"],
        "owners": [{"name": name, "records": 100, "epsilon": 1.0} for name in "ab"],
    }
    terms = parley.Terms.from_dict(content)
    with pytest.raises(TermsError, match=r"privacy\.noise = 'each-owner'"):
        audit_one_run(terms, "a")
