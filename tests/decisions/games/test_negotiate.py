from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from samples import GAUSSIAN, class_table, make_terms, regression_table

import parley
from parley.decisions.games.break_even import break_even, equal_owners
from parley.decisions.games.negotiate import common_game, negotiate
from parley.decisions.games.stakes import common_stakes
from parley.errors import DataError, SettingError, TermsError
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.report.words import negotiation as words
from parley.report.words.noise import preferences_title

# so hard to learn that small owners need each other, and so few rows that they are no help
PILOT = regression_table(60, seed=9)
PILOT["y"] = 2 * PILOT["y"] + 3 * np.random.default_rng(2).standard_normal(len(PILOT))
QUIET = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}


def priced_terms(*sizes, value=1e5, weight=0.001, kind="linear", **overrides):
    """Small owners with unbound clips: exact moments, and joining pays."""
    settings = {
        "privacy__clip": 30.0,
        "learning__horizon": 20,
        "learning__step": 1.0,
        "model__radius": 50.0,
        **overrides,
    }
    terms = make_terms(*sizes, epsilon=2.0, **settings)
    return terms.changed(everyone={"value": value, "privacy_cost": {"kind": kind, "weight": weight}})


def test_the_object_that_programs_rely_on():
    content = negotiate(priced_terms(120, 130, 140, **QUIET), PILOT).to_json()
    assert {"owners", "price_of_privacy", "relative_fitness", "largest_gain"} <= set(content)
    for owner in content["owners"]:
        assert {"name", "epsilon", "payoff", "participates", "payment"} <= set(owner)
        assert owner["participates"] == (owner["epsilon"] is not None)
        assert owner["payment"] == 0
    assert content["largest_gain"] < 1e-6


def at_own_budgets(result, near):
    """Whether the game's gains at the terms' own budgets are the outlook's."""
    game, terms, outlook = result.game, result.terms, result.game.stakes.outlook
    budgets = np.array([float(terms.promised_epsilon(part.name)) for part in terms.owners])
    said = replace(outlook, corrected=game.keep_own).expected_gain
    return game.gains(budgets, game.everyone) == pytest.approx(np.maximum(said, 0) if game.keep_own else said, rel=near)


@pytest.mark.parametrize("keep_own", [True, False])
def test_the_payoff_is_by_gains_that_are_the_outlooks_at_its_own_budgets(keep_own):
    sizes = (120, 130, 140) if keep_own else (120, 130, 140, 150, 160, 170)
    result = negotiate(priced_terms(*sizes, value=1e6, **QUIET), PILOT, keep_own=keep_own)
    assert result.deal.members.any()
    assert at_own_budgets(result, 1e-5)
    for owner in result.owners:
        if owner.participates:
            assert owner.payoff == pytest.approx(1e6 * owner.gain - 0.001 * owner.epsilon, rel=1e-6)


def test_a_target_is_reached_by_payments():
    terms = priced_terms(120, 130, 140, value=10.0, weight=1.0)
    free, paid = negotiate(terms, PILOT), negotiate(terms, PILOT, target=1.0)
    assert paid.relative_fitness <= 1.0 * (1 + 1e-9)
    assert free.relative_fitness is None
    assert paid.deal.spend > 0
    assert all(owner.payment > 0 for owner in paid.owners if owner.participates)
    assert all(owner.payoff >= -1e-9 for owner in paid.owners)
    assert paid.posted.spend >= paid.deal.spend
    assert paid.largest_gain < 1e-6


def test_missing_stakes_are_named():
    with pytest.raises(TermsError, match=r"owners\.a: value and privacy_cost are missing"):
        negotiate(make_terms(300, 400), PILOT)
    with pytest.raises(DataError, match="public knowledge"):
        negotiate(priced_terms(300, 400))
    with pytest.raises(SettingError, match="needs two"):
        negotiate(priced_terms(300), PILOT, target=1.0)
    with pytest.raises(SettingError, match="target = nan"):
        negotiate(priced_terms(300, 400), PILOT, target=float("nan"))


def test_payoff_curves_peak_at_the_chosen_budgets():
    terms = priced_terms(120, 130, 140, value=1e6, weight=10.0, **QUIET)
    result = negotiate(terms, PILOT)
    epsilons, curves = result.payoff_curves()
    assert result.deal.members.all()
    for owner in result.owners:
        assert epsilons[np.argmax(curves[owner.name])] == pytest.approx(owner.epsilon, rel=0.05)
        assert curves[owner.name].max() <= owner.payoff + 1e-9


def test_a_classifier_negotiates_by_a_pilot_run():
    terms = priced_terms(300, 400, model__kind="logistic-regression", model__regularisation=0.1, privacy__clip=4.0)
    result = negotiate(terms, class_table(1500, seed=3), target=5.0)
    assert any("pilot run" in warning for warning in result.warnings)
    assert result.largest_gain < 1e-6
    assert result.deal.members.sum() == 2


def test_a_score_is_paid_for_by_budgets_and_never_eats_them():
    """Every chosen budget lies above the score's part, the payoff is still the forecast's, and a score that leaves no
    budget is refused."""
    more = {"model__holdout": 0.2, "model__bounds": {"y": [-9, 9]}, **QUIET}
    terms = priced_terms(120, 130, 140, value=1e6, privacy__score_epsilon=0.3, **more)
    result = negotiate(terms, PILOT)
    assert result.deal.members.any()
    assert all(owner.epsilon > 0.3 for owner in result.owners if owner.participates)
    assert at_own_budgets(result, 1e-5)
    epsilons, _ = result.payoff_curves()
    assert epsilons[0] == pytest.approx(0.31)
    greedy = terms.changed(privacy={"score_epsilon": 9.99}, everyone={"epsilon": 20.0})
    with pytest.raises(TermsError, match="largest budget is 10"):
        negotiate(greedy, PILOT)


def hosted(terms):
    return terms.changed(privacy={"noise": "shared"}, hosts=["a", "b", "c"])


def test_with_one_noise_the_payoff_is_the_forecasts_at_the_common_budget():
    """Put the common budget into the terms and forecast them; the noise's law jumps by up to 0.4 % between the knots of
    the game's."""
    terms = hosted(priced_terms(120, 130, 140, value=1e4, weight=5.0, **QUIET))
    result = negotiate(terms, PILOT)
    content = result.to_json()
    assert all(owner.participates for owner in result.owners)
    low, high = content["equilibria"]
    assert low < content["common_epsilon"] == high
    assert content["largest_gain"] < 1e-6
    there = parley.forecast(terms.changed(everyone={"epsilon": high}), PILOT, resamples=2)
    assert there.relative_fitness.mean == pytest.approx(result.relative_fitness, rel=0.01)
    assert at_own_budgets(result, 0.01)
    for owner in result.owners:
        assert owner.payoff == pytest.approx(1e4 * owner.gain - 5 * high, rel=1e-6)
    epsilons, curves = result.payoff_curves()
    for preferences in content["standings"]:
        assert epsilons[np.argmax(curves[preferences["name"]])] == pytest.approx(preferences["peak"], rel=0.05)


def test_with_one_noise_owners_join_that_stay_out_otherwise():
    apart = priced_terms(120, 130, 140, value=1e3, weight=6.0, **QUIET)
    assert negotiate(apart, PILOT).relative_fitness is None
    together = negotiate(hosted(apart), PILOT)
    assert together.deal.members.sum() == 3
    paid = negotiate(hosted(apart), PILOT, target=0.7 * together.relative_fitness)
    content = paid.to_json()
    assert content["common_epsilon"] > together.deal.epsilon[0]
    assert content["spend"] > 0
    assert content["relative_fitness"] <= 0.7 * together.relative_fitness * (1 + 1e-6)
    assert content["members_gain"] == pytest.approx((paid.deal.payoff - together.deal.payoff).sum())
    assert negotiate(
        hosted(apart), PILOT, target=0.7 * together.relative_fitness, balance=True
    ).deal.spend == pytest.approx(0)


def test_a_budget_that_delta_cannot_pay_random_bits_for_is_not_offered():
    """At so small a delta hosts cannot draw noise for epsilon = 10: the box of budgets ends before, and terms at its
    end are drawable."""
    terms = hosted(priced_terms(120, 130, 140, value=1e6, **{**QUIET, "privacy__delta": 3e-13}))
    box = negotiate(terms, PILOT).game.budget_range
    assert 1.0 < box[1] < 10.0
    parley.forecast(terms.changed(everyone={"epsilon": box[1]}), PILOT, resamples=1)
    with pytest.raises(TermsError, match="random bits"):
        parley.forecast(terms.changed(everyone={"epsilon": box[1] * 1.01}), PILOT, resamples=1)


def test_the_more_owners_the_more_one_noise_pays_and_the_less_each_ones_own():
    many = equal_owners(priced_terms(120, 130, 140, value=3e3, weight=10.0, **QUIET), PILOT)
    assert many.like == "b"
    one, own = many.payoff["shared"], many.payoff["each_owner"]
    assert (np.diff(one) > 0).all()
    assert own[-1] < 0 < one[-1]
    assert np.argmax(own) < len(own) - 5  # free riding: from some number on, more owners are worse for each
    assert (np.diff(many.fitness["each_owner"]) > 0).all()
    assert (np.diff(many.fitness["shared"]) < 0).all()


@pytest.mark.parametrize("shared", [False, True])
def test_a_target_that_more_rounds_would_reach_is_not_blamed_on_records(shared):
    """Without any noise two short rounds end far from the optimum: no budget and no record helps, rounds do."""
    noise = GAUSSIAN if shared else {}
    few = priced_terms(40_000, 30_000, learning__horizon=2, learning__step=0.05, **noise)
    pilot = regression_table(1500, seed=9)
    with pytest.raises(SettingError, match="Change the horizon"):
        negotiate(hosted(few) if shared else few, pilot, target=1e-3)
    many = priced_terms(300, 200, learning__horizon=100, learning__step=0.3, **noise)
    with pytest.raises(SettingError, match="more records"):
        negotiate(hosted(many) if shared else many, pilot, target=1.0)


def test_titles_name_the_adjacency_of_the_terms():
    for unit, adjacency in (("record", "(ε: replace-one)"), ("owner", "(ε: replace-one-owner)")):
        result = SimpleNamespace(terms=priced_terms(300, 400, privacy__unit=unit), target=None)
        assert words.title(result).endswith(adjacency)
        assert words.wishes_title(result).endswith(adjacency)
    assert "(replace-one-owner)" in preferences_title({"adjacency": "replace-one-owner"})


def test_break_even_is_where_joining_begins_to_pay():
    """With each owner's noise by the forecast's own gains; with one noise for all by the game's payoffs."""
    terms = priced_terms(120, 130, 140, **QUIET).changed(everyone={"epsilon": 9.0})
    found = break_even(terms, PILOT)
    for each, gain in zip(found.owners, parley.forecast(terms, PILOT).outlook.expected_gain, strict=True):
        assert each.gain == pytest.approx(gain, rel=1e-9)
        assert 0 < each.gain < each.most
        assert each.value * each.gain == pytest.approx(1.0)
    common = hosted(terms)
    gains = common_game(common, common_stakes(common, PILOT)).gains(np.full(3, 9.0), np.ones(3, dtype=bool))
    assert [each.gain for each in break_even(common, PILOT).owners] == pytest.approx(gains.tolist(), rel=0.01)
    noisy = break_even(terms.changed(everyone={"epsilon": 0.01}), PILOT)
    alone = [owner.alone for owner in noisy.outlook.owners]  # what noise seems to save is less than counts
    assert all(each.gain < 0.5 * LEAST_GAIN * cost for each, cost in zip(noisy.owners, alone, strict=True))
    nothing = [replace(each, gain=0.0) for each in noisy.owners]
    assert all(each.value is None for each in nothing)
    assert "joining is not worthwhile at any value" in words.break_even_line(nothing)
