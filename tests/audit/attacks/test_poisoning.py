"""One of five owners lies: the mean fails, the other rules hold; what cannot be noticed is bounded."""

import numpy as np
import pytest
from samples import class_table, make_terms

import parley
from parley.audit.attacks.damage import adversarial_learner, damage
from parley.errors import TermsError
from parley.protocol.aggregation.robust import RULES, plain_mean
from parley.protocol.setup import resolve
from parley_lab.attacks.poisoning import (
    LABEL_FLIPPING,
    LIES_BY_WORDS,
    NO_ATTACK,
    backdoor_success,
    flipped_labels,
    poisoned_run,
    poisoning_study,
    with_trigger,
)

ROBUST = [rule for rule in RULES if rule != "mean"]
ROWS = 600
GAUSSIAN = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}
BOUNDS = {f"x{j}": [-4.0, 4.0] for j in range(3)}


def terms(rows=ROWS, epsilon=4.0, **overrides):
    usual = {
        "model__kind": "logistic-regression",
        "model__regularisation": 0.01,
        "model__bounds": BOUNDS,
        "privacy__clip": 3.0,
        "learning__algorithm": "gradient-descent",
        "learning__horizon": 12,
        "learning__decay": 0.0,
        "learning__step": 2.0,
    }
    return make_terms(*(rows,) * 5, epsilon=epsilon, **{**usual, **overrides})


def tables():
    return {name: class_table(ROWS, seed=place) for place, name in enumerate("abcde")}


@pytest.fixture(scope="module")
def study():
    return poisoning_study(terms(), tables(), "e", tuple(RULES), 16, 0)


def test_the_mean_fails_and_the_other_rules_hold(study):
    """16 runs of each: whatever the liar says, a robust rule stays within ten times the excess cost of the honest
    alone; the mean is beyond a hundred times where answers are scaled, and beyond ten where labels are exchanged."""
    alone = study["without the liar"][NO_ATTACK].mean
    turned, large = (next(words for words in LIES_BY_WORDS if start in words) for start in ("sign", "turns and scales"))
    assert study["mean"][large].mean > 100 * alone
    assert study["mean"][LABEL_FLIPPING].mean > 10 * alone
    for rule in ROBUST:
        for lie, run in study[rule].items():
            assert run.mean < 10 * alone, (rule, lie)
        assert study[rule][LABEL_FLIPPING].mean < study["mean"][LABEL_FLIPPING].mean / 2
    assert study["mean"][turned].mean < 10 * alone  # within the bound, and one against four: slower, no more


def test_answers_beyond_the_bound_name_the_liar_and_lies_within_it_nobody(study):
    for runs in study.values():
        for lie, run in runs.items():
            large = "scales" in lie
            assert run.named("e") == (1.0 if large else 0.0), lie
            assert {notice.owner for notice in run.notices} == ({"e"} if large else set())


def test_a_backdoor_opens_under_the_mean_and_not_under_the_median():
    """The liar's rows say that x2 = -4 means class 1, the opposite of what it means elsewhere: how often models predict
    that of rows of class 0 with the trigger."""
    some, trigger = tables(), {"x2": -4.0}
    rows = with_trigger(some["a"][some["a"].y == 0], "y", trigger, 1)
    poisoned = {**some, "e": with_trigger(some["e"], "y", trigger, 1)}
    owners = [parley.Owner(name, poisoned[name]) for name in poisoned]
    success = {}
    for rule in ("mean", "median"):
        ruled = terms().changed(aggregation={} if rule == "mean" else {"rule": rule, "byzantine": 1})
        run = poisoned_run(ruled, owners, {}, list("abcd"), 8, 0)
        assert run.notices == ()
        success[rule] = backdoor_success(run, owners, rows, 1)
    assert success["mean"] > 0.3
    assert success["median"] < 0.1


def test_labels_are_turned_around():
    table = class_table(10, seed=0)
    assert (flipped_labels(table, "y").y == 1 - table.y).all()
    numbers = table.assign(y=np.arange(10.0))
    assert (flipped_labels(numbers, "y").y == 9 - np.arange(10.0)).all()


@pytest.mark.parametrize("law", [{}, GAUSSIAN])
def test_the_damage_of_a_round_is_bounded(law, monkeypatch):
    monkeypatch.setattr("parley.audit.attacks.damage.MAX_DRAWS", 300)
    found = damage(terms(**law))
    assert found.liars == ("a",)
    assert found.undetectable == pytest.approx(2 * 0.2 * 3.0)
    by_rule = {rule.rule: rule for rule in found.rules}
    assert set(by_rule) == set(RULES)
    assert by_rule["mean"].agreed
    assert by_rule["mean"].outside > 1e4
    for rule in ROBUST:
        assert by_rule[rule].outside < 2 * by_rule[rule].noise
        assert by_rule[rule].shift < by_rule["mean"].shift / 5
    assert found.to_json()["learner"]["at_worst"] <= 1
    bounded = damage(terms(**law).changed(aggregation={"rule": "mean", "byzantine": 1})).rules[0]
    assert bounded.agreed
    assert bounded.shift <= bounded.outside < found.undetectable  # half of it is the honest noise's


FEWER = {
    "participation": ({"learning__participation": 0.4}, 2),
    "quorum": ({"learning__quorum": 3, "learning__straggler": "skip"}, 3),
    "everybody": ({}, 5),
}


@pytest.mark.parametrize("fewer", FEWER)
def test_the_bound_is_that_of_the_round_that_hears_fewest(fewer, monkeypatch):
    """An honest answer at one end of the bound, turned around, moves the mean of the lightest round by the bound
    itself, and what noise hides is within the other."""
    monkeypatch.setattr("parley.audit.attacks.damage.MAX_DRAWS", 300)
    overrides, heard = FEWER[fewer]
    agreed = make_terms(200, 100, 100, 100, 100, epsilon=0.1, **overrides)
    found = damage(agreed)
    edge = np.eye(3)[0] * found.bound
    records, values = np.array([200, *(100,) * (heard - 1)]), np.zeros((heard, 3))
    moved = [plain_mean(np.vstack([sign * edge, values[1:]]), records) for sign in (1, -1)]
    assert found.undetectable == pytest.approx(np.abs(moved[0] - moved[1]).sum())
    assert found.undetectable < found.rules[0].shift <= found.unnoticed  # noise hides more, and not more than said
    assert found.to_json()["unnoticed"] == found.unnoticed


def test_where_rows_are_drawn_in_secret_the_bound_is_that_of_a_likely_draw(monkeypatch):
    """20 batches of 2,000 rows: all of them may be drawn, and never are."""
    monkeypatch.setattr("parley.audit.attacks.damage.MAX_DRAWS", 200)
    drawn = {"algorithm": "private-sgd", "batches": 20, "horizon": 40, "sampling": "poisson", "decay": None}
    agreed = terms(2000, **{f"learning__{key}": value for key, value in drawn.items()})
    found, question = damage(agreed), resolve(agreed).part("a").training.question
    assert question.extent.size == pytest.approx(20 * 3.0)
    assert 3.0 < found.bound < 2 * 3.0
    rows = np.random.default_rng(0).binomial(2000, 1 / 20, 100_000)
    for share in (0.1, 1e-3):
        most = question.likely_extent(share).size / 3.0 * 2000 / 20
        assert np.mean(rows > most) <= share
        assert np.mean(rows > most - 3) > share / 4  # and it is not far away


def test_rules_that_owners_cannot_agree_on_are_left_out():
    found = damage(make_terms(100, 100, 300))
    assert [rule.rule for rule in found.rules] == ["mean"]
    with pytest.raises(TermsError, match=r"without shared noise, learning\.staleness or gossip"):
        damage(terms(learning__staleness=8))


def test_a_learner_that_chooses_parameters_learns_more_and_never_more_than_noise_hides():
    """At the start a logistic gradient is half of what it can be."""
    found = adversarial_learner(resolve(terms(privacy__clip=10.0)), "a")
    assert found.at_start < found.at_worst <= 1
    assert found.at_worst > 1.2 * found.at_start
    batched = terms(learning__algorithm="private-sgd", learning__batches=4, learning__decay=None)
    assert adversarial_learner(resolve(batched), "a") is None


def test_the_bound_alone_holds_a_liar_to_what_explains_an_answer_and_touches_no_honest_one():
    """The mean of answers within their bounds: honest runs are as without it, to the last digits; a liar is bounded,
    and no more."""
    owners = [parley.Owner(name, table) for name, table in tables().items()]
    plain, bounded = terms(), terms().changed(aggregation={"rule": "mean", "byzantine": 1})
    one, other = (poisoned_run(each, owners, {}, "abcde", 16, 3).theta for each in (plain, bounded))
    np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    lie = {"e": LIES_BY_WORDS["turns and scales them by 100"]}
    loose, held = (poisoned_run(each, owners, lie, "abcd", 8, 3).mean for each in (plain, bounded))
    assert held < loose / 2
