"""Bayes-Nash equilibria: against every function from concerns to strategies, and against the games in which all is
known."""

from itertools import product

import numpy as np
import pytest

from parley.decisions.games import solve
from parley.errors import SettingError
from parley_lab.papers.pejo2018.games.gain_table import GainTable, equilibrium
from parley_lab.papers.pejo2018.games.joint_learning import PUBLISHED, Interpolation, published
from parley_lab.papers.pejo2018.games.prior import Prior
from parley_lab.papers.pejo2018.games.private_concern import bayesian_equilibrium, switches
from parley_lab.papers.pejo2018.games.private_concern_fit import bayesian_equilibrium_of_fit

LEVELS = np.array([0.0, 0.3, 0.7])


def gains(seed):
    return np.random.default_rng(seed).normal(1.0, 1.0, (3, 3))


def all_equilibria(G, priors):
    """By the definition, over all functions from concerns to strategies, rising or not: (rules, sum of expected
    payoffs)."""
    out, keeps = len(LEVELS), [*LEVELS, 1.0]

    def pays(own, other, concern):
        return 0.0 if out in (own, other) else max(G[own, other], 0.0) - concern * (1 - keeps[own])

    def worth(own, concern, rule, prior):
        return sum(w * pays(own, other, concern) for other, w in zip(rule, prior.weights, strict=True))

    found = []
    rules = [list(product(range(out + 1), repeat=len(prior.concerns))) for prior in priors]
    for first, second in product(*rules):
        total, settled = 0.0, True
        for own, other, mine, theirs in ((first, second, *priors), (second, first, *priors[::-1])):
            for strategy, concern, weight in zip(own, mine.concerns, mine.weights, strict=True):
                values = [worth(k, concern, other, theirs) for k in range(out + 1)]
                settled &= values[strategy] >= max(values) - 1e-12
                total += weight * values[strategy]
        if settled:
            found.append((first, second, total))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_no_equilibrium_is_missed_and_the_best_is_taken(seed):
    priors = Prior((0.1, 1.0), (1.0, 3.0)), Prior((0.3, 2.0), (2.0, 1.0))
    known = all_equilibria(gains(seed), priors)
    found = bayesian_equilibrium(GainTable.alike(LEVELS, gains(seed)), priors)
    assert sum(found.payoff) == pytest.approx(max(total for _, _, total in known), abs=1e-9)
    both = [1 for first, second, _ in known if min(first) < 3 and min(second) < 3]
    assert found.count == len(both)
    for player in found.players:
        assert list(player.privacy) == sorted(player.privacy)  # the more concerned keep no less
        assert min(player.payoff) >= -1e-12


@pytest.mark.parametrize("seed", range(20))
def test_a_concern_that_everybody_knows_is_the_game_of_complete_information(seed):
    table, concern = GainTable.alike(LEVELS, gains(seed)), (0.4, 1.1)
    found, known = bayesian_equilibrium(table, tuple(map(Prior.point, concern))), equilibrium(table, concern)
    assert tuple(player.privacy[0] for player in found.players) == known.privacy
    assert found.payoff == pytest.approx(known.payoff)
    assert found.price == pytest.approx(known.price)
    assert found.together == (known.strategies is not None)


def test_switches_are_where_the_best_answer_changes():
    table, others = GainTable.alike(LEVELS, gains(4) + 1.0), np.array([0.3, 0.2, 0.3, 0.2])
    steps = switches(table, 0, others)
    assert len(steps) > 2

    def best(concern):
        values = [
            *(others[:-1] @ (np.maximum(table.gains[0][i], 0) - concern * (1 - p)) for i, p in enumerate(LEVELS)),
            0.0,
        ]
        return [*LEVELS, 1.0][int(np.argmax(values))]

    for concern in np.linspace(0, 1.2 * steps[-1][0], 301):
        last = max(at for at, _ in steps if at <= concern)
        if min(abs(concern - at) for at, _ in steps) > 1e-9:
            assert best(concern) == dict(steps)[last]


@pytest.mark.parametrize("text", ["1,2,3,4,5,6", "1,2,3", "1"])
def test_where_learning_together_only_hurts_everybody_stays_out(text):
    """Six equal weights add up to a little less than 1: what is left of 1 then is a rounding, and nobody's taking
    part."""
    prior = Prior.read(text)
    found = bayesian_equilibrium(GainTable.alike([0.0, 0.5], [[-1.0, -2.0], [-2.0, -3.0]]), (prior, prior))
    assert (found.count, found.together, found.payoff, found.price) == (0, 0, (0, 0), None)
    assert all(player.privacy == (1.0,) * len(prior.concerns) for player in found.players)


def test_who_may_refuse_a_worse_model_learns_with_somebody_who_may_spoil_it():
    """Player 1 gains 2 from an open partner and would lose 3 by a protected one; half of partners are each. By hand."""
    privacy = np.array([0.0]), np.array([0.0, 0.5])
    gains, priors = (
        (np.array([[2.0, -3.0]]), np.array([[2.0], [1.9]])),
        (Prior.point(0.1), Prior((0.1, 1.1), (1.0, 1.0))),
    )
    found = bayesian_equilibrium(GainTable(privacy, gains, (("open",), ("open", "half"))), priors)
    assert [player.privacy for player in found.players] == [(0.0,), (0.0, 0.5)]
    assert found.together == 1
    assert found.payoff == pytest.approx((0.9, 1.625))  # 2/2 - 0.1; (2 - 0.1)/2 + (1.9 - 0.55)/2
    assert found.price == pytest.approx(1 - (1.0 + 1.95) / 4)
    forced = bayesian_equilibrium(GainTable(privacy, gains, (("open",), ("open", "half")), refusable=False), priors)
    assert forced.together == 0  # 2/2 - 3/2 - 0.1 is less than staying out


def test_who_must_fear_a_concerned_partner_may_lose_by_not_knowing():
    """Two strategies by hand: open against open gains 2; against somebody who keeps half, 0.2; keeping half gains 2.2
    and 0.1."""
    table = GainTable.alike([0.0, 0.5], [[2.0, 0.2], [2.2, 0.1]])
    prior = Prior((0.5, 3.9), (1.0, 1.0))
    found = bayesian_equilibrium(table, (prior, Prior.point(0.1)))
    assert found.players[0].privacy == (0.5, 0.5)  # 2.2 - 0.25 = 1.95 and 2.2 - 1.95 = 0.25 against an open one
    assert found.players[1].privacy == (0.0,)  # 0.2 - 0.1 against 0.1 - 0.05
    assert found.payoff == pytest.approx((1.1, 0.1))
    assert found.price == pytest.approx(1 - 2.4 / 4)


@pytest.mark.parametrize("mechanism", ["bDP", "uDP"])
@pytest.mark.parametrize("concern", [(1.0, 1.0), (5.0, 0.2)])
def test_on_a_fit_a_point_prior_is_the_published_game(mechanism, concern):
    found = bayesian_equilibrium_of_fit(PUBLISHED[mechanism], tuple(map(Prior.point, concern)))
    known = solve(published(mechanism, concern))
    assert [player.privacy[0] for player in found.players] == pytest.approx(known.privacy.tolist(), abs=1e-6)
    assert found.price == pytest.approx(known.price_of_privacy, abs=1e-6)
    assert found.payoff == pytest.approx(known.payoff.tolist(), abs=1e-6)


def test_inside_the_interval_only_the_mean_concern_matters_to_the_other():
    """p(c) = p of the mean concern + (c - mean)/(-2 beta2): an exact solution of the linear best responses."""
    gain, prior = PUBLISHED["bDP"], Prior((0.5, 2.0, 3.0), (2.0, 1.0, 1.0))
    found = bayesian_equilibrium_of_fit(gain, (prior, prior))
    known = solve(published("bDP", (prior.mean, prior.mean))).privacy[0]
    expected = [known + (c - prior.mean) / (-2 * gain.beta2) for c in prior.concerns]
    for player in found.players:
        assert player.privacy == pytest.approx(expected, abs=1e-9)


def test_on_a_fit_that_is_convex_only_the_ends_are_played():
    gain, prior = PUBLISHED["hide"], Prior((0.5, 3.0), (1.0, 1.0))
    found = bayesian_equilibrium_of_fit(gain, (prior, prior))
    theirs = np.array(found.players[1].privacy)
    for concern, own in zip(prior.concerns, found.players[0].privacy, strict=True):
        y = np.linspace(0, 1, 101)
        values = gain(theirs[None, :], y[:, None]).mean(axis=1) - concern * (1 - y)
        assert y[int(np.argmax(values))] == own


def test_on_a_fit_losses_count():
    """-3 + 2p: keeping everything loses least, and without [.]+ nothing else is a best answer."""
    gain = Interpolation(eta0=-3.0, alpha1=0.0, alpha2=2.0, eta1=0.0, beta1=0.0, beta2=0.0)
    found = bayesian_equilibrium_of_fit(gain, (Prior.point(0.0), Prior.point(0.0)))
    assert [player.privacy for player in found.players] == [(1.0,), (1.0,)]
    assert found.payoff == (-1.0, -1.0)


def test_priors_that_say_nothing_are_refused():
    for wrong in ("", "a", "1:2:3", "1,1", "-1", "1:0", "nan", "1:inf"):
        with pytest.raises(SettingError):
            Prior.read(wrong)
    many = Prior(tuple(range(30)), (1.0,) * 30)
    with pytest.raises(SettingError, match="step functions"):
        bayesian_equilibrium(GainTable.alike(LEVELS, gains(0)), (many, many))
    with pytest.raises(SettingError, match="different p"):
        bayesian_equilibrium(GainTable.alike([0.0, 0.5, 0.5], gains(0)), (Prior.point(1.0),) * 2)
