"""Items learned by terms: through the product's own owners, ledgers and hosts; budgets, the law of the noise, and that
it works."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from raters import ITEMS, rating_content, rating_terms, tastes

import parley
from parley.errors import BudgetExhausted, GuaranteeError, OutOfOrder, ParleyError, Refusal, TermsError
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms import FastNoise
from parley.tasks.ratings.measured import _own_terms, alone, measured, personal, worth_to
from parley.tasks.ratings.question import ItemFactorsQuery, ratings_of
from parley.tasks.ratings.run import ask_items, learned_items

SIZES = {"a": 80, "b": 240}
P = ITEMS * 3


def owners(sizes=None, **rest):
    return [
        parley.Owner(name, tastes(users, place), **rest) for place, (name, users) in enumerate((sizes or SIZES).items())
    ]


def learned(epsilon, **rest):
    content = rating_content(SIZES, epsilon, **rest) | {"learning": {"horizon": 15}}
    return parley.train(parley.Terms.from_dict(content), owners(), seed=0)


def errors(result):
    return {each.name: (each.rmse_alone, each.rmse_together) for each in result.owners}


def test_it_learns_and_the_smaller_owner_gains_where_there_is_no_noise():
    result = learned(1e6)
    alone, together = errors(result)["a"]
    own = owners()[0].prepare(result.terms).tables
    means = ratings_of(own.held_out).values
    assert together < 0.6 * np.sqrt(np.mean(means**2))
    assert together < alone
    assert result.to_json()["metrics"]["rmse"] == pytest.approx(result.rmse[0])
    assert result.to_json()["adjacency"] == "replace-one"
    assert result.spent == {"a": 1e6, "b": 1e6}
    for each in result.owners:
        assert each.ranking.ndcg > 1.1 * each.popularity.ndcg


def test_a_partner_whose_noise_drowns_what_it_says_does_little_harm():
    content = rating_content(SIZES, 1e6) | {"learning": {"horizon": 15}}
    content["owners"][0]["epsilon"] = 0.1
    found = parley.train(parley.Terms.from_dict(content), owners(), seed=0)
    silent = learned(1e6)
    assert errors(found)["b"][1] < errors(silent)["b"][1] + 0.03
    assert errors(found)["a"][1] < errors(silent)["a"][1] + 0.05


def test_replicates_are_single_runs_side_by_side():
    terms = rating_terms(SIZES, 50.0)
    result = parley.train(terms, owners(), replicates=3, seed=1)
    assert len(set(result.rmse)) == 3
    assert result.rmse[0] == pytest.approx(np.mean(result.rmse), rel=0.2)
    assert np.array_equal(parley.train(terms, owners(), replicates=3, seed=1).model.items.V, result.model.items.V)


def ask(terms, owner, theta=None, number=1):
    return owner.answer(ItemFactorsQuery.ask(terms.hash, "learner", number, np.zeros(P) if theta is None else theta))


def test_budgets_are_exact_and_end(tmp_path):
    terms = rating_terms(SIZES, 2.0)
    owner = parley.Owner("a", tastes(80, 0), ledger=Ledger(tmp_path / "a.ledger", 2.0, 1e-6))
    owner.accept(terms)
    for number in range(1, terms.learning.horizon + 1):
        before = owner.ledger.account(terms.hash).spent
        ask(terms, owner, number=number)
        spent = owner.ledger.account(terms.hash).spent
        assert spent > before
        assert (spent == Fraction(2)) == (number == terms.learning.horizon)
    with pytest.raises(OutOfOrder):
        ask(terms, owner, number=terms.learning.horizon + 1)
    with pytest.raises(BudgetExhausted):
        owner.accept(rating_terms(SIZES, 0.5))


def test_answers_carry_the_noise_that_was_calibrated():
    """Calibrated to 2 clip/n over all rounds: answers scatter by as much, neither less nor more."""
    terms = parley.Terms.from_dict(rating_content(SIZES, 1.0) | {"learning": {"horizon": 40}})
    owner = parley.Owner("a", tastes(80, 0), noise=FastNoise(3))
    agreement = owner.accept(terms)
    stage = agreement.part.training
    query = ItemFactorsQuery.ask(terms.hash, "learner", 1, np.zeros(P))
    exact = stage.question.bounded(query, agreement.tables)
    drawn = np.concatenate([ask(terms, owner, number=k + 1).value - exact.value for k in range(40)])
    deviation = stage.series.mechanism.variance**0.5
    assert exact.sensitivity >= 2 * 5.0 / 80
    assert deviation >= 3.7 * 40**0.5 * 2 * 5.0 / 80  # sigma/sensitivity at (1, 1e-6) is above 4
    assert abs(drawn.std() / deviation - 1) < 4 / (2 * len(drawn)) ** 0.5


def test_an_answer_depends_on_the_ratings_and_what_was_asked_alone():
    terms = rating_terms(SIZES)
    agreement = parley.Owner("a", tastes(80, 0)).prepare(terms)
    question, theta = agreement.part.training.question, np.random.default_rng(0).normal(0, 0.3, P)

    def answered(where):
        return question.exact(ItemFactorsQuery.ask(terms.hash, "learner", 1, where), agreement.tables)

    first = answered(theta)
    answered(np.zeros(P))
    assert np.array_equal(answered(theta), first)  # nothing is remembered


def test_laplace_noise_is_pure_and_clips_in_its_norm():
    terms = rating_terms(SIZES, mechanism="laplace", delta=0.0)
    question = parley.Owner("a", tastes(80, 0)).prepare(terms).part.training.question
    assert (question.norm, question.bound.norm) == ("l1", "l1")
    assert parley.train(terms, owners(), seed=0).spent == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(
    "theta",
    [
        np.zeros(P + 1),
        np.full(P, np.nan),
        np.zeros(P, dtype=np.float32),
        np.full(P, 2.1),
        np.full(P, np.inf),
        np.zeros((ITEMS, 3)),
    ],
)
def test_what_is_out_of_place_is_refused_and_costs_nothing(theta, tmp_path):
    terms = rating_terms(SIZES)
    owner = parley.Owner("a", tastes(80, 0), ledger=Ledger(tmp_path / "a.ledger", 1.0, 1e-6))
    owner.accept(terms)
    with pytest.raises(Refusal):
        ask(terms, owner, theta)
    assert owner.ledger.account(terms.hash).spent == 0


class CrashError(Exception):
    pass


def released(folder, terms, crash_at=None, sizes=None):
    """A release by owners with durable ledgers; one of them may go down in the middle of a round."""

    class Fragile(parley.Owner):
        def answer_with_account(self, query, prune=True):
            said = super().answer_with_account(query, prune)
            if query.round == crash_at:
                raise CrashError
            return said

    found = []
    for place, (name, users) in enumerate((sizes or SIZES).items()):
        found.append(Fragile(name, tastes(users, place), ledger=Ledger(folder / f"{name}.ledger", 1.0, 1e-6)))
        found[-1].accept(terms)
    return parley.train(terms, found), found


def test_a_release_goes_on_after_a_crash_with_the_answers_that_were_given(tmp_path):
    terms = rating_terms(SIZES)
    with pytest.raises(CrashError):
        released(tmp_path, terms, crash_at=3)
    result, parties = released(tmp_path, terms)
    assert result.spent == {"a": 1.0, "b": 1.0}
    assert result.released
    assert not result.owners  # nothing measured from private ratings
    # once more: stored answers alone
    assert np.array_equal(released(tmp_path, terms)[0].model.items.V, result.model.items.V)
    own, _ = (
        parties[0]
        .prepare(terms)
        .part.training.question.rule.solved(ratings_of(parties[0].prepare(terms).tables.train), result.model.items.V)
    )
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    # nor does a ledger hold users' factors
    assert not any(number.tobytes() in held for number in own.ravel() if number)
    with pytest.raises(ParleyError):  # another table under the same agreement
        parley.Owner("a", tastes(80, 5), ledger=Ledger(tmp_path / "a.ledger")).accept(terms)


def test_one_noise_for_all_is_drawn_by_hosts_and_debited(tmp_path):
    sizes = {"a": 20, "b": 30}
    content = rating_content(sizes, 1.0, noise="shared") | {"learning": {"horizon": 2}}
    terms = parley.Terms.from_dict(content)
    result, parties = released(tmp_path, terms, sizes=sizes)
    assert result.spent == {"a": 1.0, "b": 1.0}
    assert np.isfinite(result.model.items.V).all()
    with pytest.raises(GuaranteeError, match="the owner sends shares instead of a released answer"):
        ask(terms, parties[0])


def test_one_noise_is_quieter_than_everybodys_own():
    """Of five owners alike one noise has a fifth of the variance."""
    sizes, learning = dict.fromkeys("abcde", 60), {"learning": {"horizon": 15}}
    terms = [
        parley.Terms.from_dict(rating_content(sizes, 8.0, noise=noise) | learning) for noise in ("each-owner", "shared")
    ]
    own, one = (parley.train(each, owners(sizes), replicates=24, seed=0) for each in terms)
    spread = np.hypot(np.std(own.rmse), np.std(one.rmse)) / 24**0.5
    assert np.mean(one.rmse) < np.mean(own.rmse) - 3 * spread


def test_some_owners_a_round_and_missing_ones_are_borne(tmp_path):
    content = rating_content(SIZES, 1e6) | {"learning": {"horizon": 16, "participation": 0.5, "participation_seed": 1}}
    terms = parley.Terms.from_dict(content)
    result = parley.train(terms, owners(), seed=0)
    assert errors(result)["a"][1] < 1.15 * errors(learned(1e6))["a"][1]
    content["learning"] = {"horizon": 12}
    content["owners"][0]["stride"] = 3
    content["privacy"]["clip"] = 100.0  # nobody is scaled down, so that answers count every rating
    terms = parley.Terms.from_dict(content)
    asked = ask_items(terms, owners(), seed=0)
    for place, owner in enumerate(owners()):
        rated = np.bincount(ratings_of(owner.prepare(terms).tables.train).items, minlength=ITEMS)
        assert np.allclose(asked.final.memory["counts"][0, place], rated, atol=5)
    assert asked.final.memory["heard"].tolist() == [[4.0, 12.0]]


def test_a_saved_model_is_judged_inside_and_train_says_where_to_go(tmp_path):
    terms = rating_terms(SIZES, 1e6)
    parties = owners()
    model = learned_model = parley.train(terms, parties, seed=0).model
    model.save(tmp_path / "items.json")
    found = worth_to(terms, parties[0], learned_model)
    assert found.rmse_together == parley.train(terms, parties, seed=0).owners[0].rmse_together
    assert parley.train(terms, parties, seed=0).owners[0].rmse_together == found.rmse_together
    with pytest.raises(TermsError, match="learn items from ratings"):
        parley.plan(terms)
    assert learned_items(ask_items(terms, parties, seed=0))[0].V.shape == (ITEMS, 3)


def test_joint_items_made_ones_own_are_no_worse_than_learning_alone():
    """Where noise drowns what owners say together, ratings held back tell to stay with one's own; else with the joint
    ones."""
    loud, quiet = learned(0.5), learned(1e6)
    for each in loud.owners:
        assert each.rmse_together > 1.1 * each.rmse_alone
        assert each.rmse_personal < 1.02 * each.rmse_alone
    assert quiet.owners[0].rmse_personal < quiet.owners[0].rmse_alone
    owner = owners()[0]
    kept, deviation = personal(loud.terms, owner, quiet.model)
    assert not kept.released
    assert deviation <= 0.2
    # no noise is in it, whatever epsilon says
    assert np.array_equal(alone(loud.terms, owner).V, alone(quiet.terms, owner).V)


def test_a_release_is_not_measured():
    """Figures of private ratings would stand beside what was released."""
    result = parley.train(rating_terms({"a": 40}), [parley.Owner("a", tastes(40, 0))], seed=0)
    with pytest.raises(GuaranteeError, match="does not evaluate a release on owners' private ratings"):
        measured(replace(result, released=True), [])


def test_terms_of_one_owner_alone_keep_nothing_that_only_hosts_can_do():
    terms = parley.Terms.from_dict(rating_content({"a": 20, "b": 20}, 1.0, noise="shared"))
    terms = terms.changed(privacy={"hosts_may_cheat": True, "check_answers": True})
    assert not _own_terms(terms, "a").noise.hosts
