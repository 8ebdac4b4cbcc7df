"""Items learned from released updates: budgets, the law of the noise, and that it works."""

from fractions import Fraction

import numpy as np
import pytest

from parley.data.ratings import Ratings, divide, hold_out
from parley.errors import GuaranteeError, Malformed, OutOfOrder, ParleyError, Refusal, SettingError, UnknownTerms
from parley.learning.factor_updates import UpdateOwner, UpdateRule, learn_items, solved_error
from parley.ledger import Ledger
from parley.mechanisms import FastNoise, SafeNoise
from parley.objectives.user_updates import UserUpdate
from parley.queries.item_factors import ItemFactorsQuery

RULE = UpdateRule(rounds=12, factors=2, update=UserUpdate(clip=5.0, ridge=2.0), users_spread=0.5)


def planted(users=600, items=40, share=0.5, seed=0):
    rng = np.random.default_rng(seed)
    P, Q, b = rng.normal(0, 1, (users, 2)), rng.normal(0, 0.6, (items, 2)), rng.normal(0, 0.7, items)
    u, i = np.nonzero(rng.random((users, items)) < share)
    values = np.clip(np.round(3 + b[i] + np.einsum("nf,nf->n", P[u], Q[i]) + 0.3 * rng.standard_normal(len(u))), 1, 5)
    return Ratings(u.astype(np.int32), i.astype(np.int32), values, tuple(map(str, range(users))), tuple(map(str, range(items))))


def owners_of(epsilons, rule=RULE, shares=(1, 4), noise=FastNoise):
    rng = np.random.default_rng(0)
    halves = [hold_out(part, 0.2, rng) for part in divide(planted(), shares, rng)]
    owners = [
        UpdateOwner(train, np.unique(train.users), rule, noise(place) if noise is FastNoise else noise(), epsilon)
        for place, ((train, _), epsilon) in enumerate(zip(halves, epsilons, strict=True))
    ]
    return owners, halves


def learned(epsilons, **rest):
    owners, halves = owners_of(epsilons, **rest)
    V = learn_items(owners, 40, RULE, 0).V
    return [owner.error(V, test) for owner, (_, test) in zip(owners, halves, strict=True)], V


def test_it_learns_and_a_noisy_partner_does_little_harm():
    (clean, _), _ = learned([None, None])
    (private, partner), V = learned([0.1, None])
    owners, halves = owners_of([None, None])
    nothing = owners[0].error(np.zeros((40, 3)), halves[0][1])
    assert clean < 0.6 * nothing
    assert private < clean + 0.05
    assert partner < 0.6 * nothing
    assert solved_error(V, *halves[0], RULE) == pytest.approx(owners[0].error(V, halves[0][1]))


def ask(owner, V, number=1):
    return owner.answer(ItemFactorsQuery.ask(owner.agreement, "learner", number, V))


def test_budgets_are_exact_and_end():
    (owner, _), _ = owners_of([2.0, 2.0])
    V = np.zeros((40, 3))
    for done in range(RULE.rounds):
        before = owner.spent
        ask(owner, V, done + 1)
        assert owner.spent > before
        assert (owner.spent == Fraction(2)) == (done == RULE.rounds - 1)
    with pytest.raises(OutOfOrder):
        ask(owner, V, RULE.rounds + 1)


def test_answers_carry_the_noise_that_was_calibrated():
    """Calibrated to 2 clip/n over all rounds: answers scatter by as much, neither less nor more."""
    (owner, _), _ = owners_of([1.0, 1.0])
    exact = owner.rule.update.mean(owner._table, np.zeros((40, 3)))
    drawn = np.concatenate([ask(owner, np.zeros((40, 3)), k + 1).ravel() - exact.value for k in range(RULE.rounds)])
    least = 3.73 * RULE.rounds**0.5 * 2 * 5.0 / len(owner)  # sigma/sensitivity at (1, 1e-5)
    assert exact.sensitivity >= 2 * 5.0 / len(owner)
    assert owner.deviation >= least
    assert abs(drawn.std() / owner.deviation - 1) < 4 / (2 * len(drawn)) ** 0.5


def test_an_answer_depends_on_the_ratings_and_what_was_asked_alone():
    (owner, _), _ = owners_of([None, None])
    V = np.random.default_rng(0).normal(0, 0.3, (40, 3))
    first = ask(owner, V)
    ask(owner, np.zeros((40, 3)))
    assert np.array_equal(ask(owner, V), first)  # nothing is remembered


def test_true_noise_serves_as_well_and_laplace_needs_terms_clipped_in_its_norm():
    (owner, _), _ = owners_of([1.0, 1.0], noise=SafeNoise)
    assert np.isfinite(ask(owner, np.zeros((40, 3)))).all()
    ratings, users = planted(), np.arange(600)
    with pytest.raises(SettingError, match="clipped in L1"):
        UpdateOwner(ratings, users, RULE, FastNoise(0), 1.0, mechanism="laplace")
    flat = UpdateRule(rounds=2, factors=2, update=UserUpdate(clip=5.0, norm="l1"))
    pure = UpdateOwner(ratings, users, flat, FastNoise(0), 1.0, mechanism="laplace")
    ask(pure, np.zeros((40, 3)))
    assert pure.spent == Fraction(1, 2)


def test_owners_of_other_rules_and_strangers_are_refused():
    (owner, _), halves = owners_of([None, None])
    with pytest.raises(SettingError, match="of the same rule"):
        learn_items([owner], 40, UpdateRule(), 0)
    with pytest.raises(SettingError, match="its own users"):
        owner.predict(np.zeros((40, 3)), halves[1][1])
    with pytest.raises(SettingError):
        UpdateRule(rounds=0)


class CrashError(Exception):
    pass


def released(folder, ratings, epsilon=1.0, crash_at=None):
    """A release by two owners with durable ledgers; one of them may go down in the middle of a round."""

    class Fragile(UpdateOwner):
        def answer(self, query):
            value = super().answer(query)
            if query.round == crash_at:
                raise CrashError
            return value

    rule = UpdateRule(rounds=4, factors=1)
    parts = divide(ratings, [1, 1], np.random.default_rng(0))
    owners = [
        Fragile(
            part, np.unique(part.users), rule, SafeNoise(), epsilon, ledger=Ledger(folder / f"{k}.ledger", 1.0, 1e-5), name=f"o{k}"
        )
        for k, part in enumerate(parts)
    ]
    return owners, learn_items(owners, len(ratings.item_names), rule, 0).V


def test_a_release_goes_on_after_a_crash_with_the_answers_that_were_given(tmp_path):
    ratings = planted(users=40, items=6)
    with pytest.raises(CrashError):
        released(tmp_path, ratings, crash_at=3)
    owners, V = released(tmp_path, ratings)
    assert [owner.spent for owner in owners] == [1, 1]
    assert np.array_equal(released(tmp_path, ratings)[1], V)  # once more: stored answers alone
    with pytest.raises(ParleyError):  # the lifetime budget is used up
        released(tmp_path, ratings, epsilon=0.5)
    moved = ratings.with_values(6 - ratings.values)
    with pytest.raises(ParleyError):  # another table under the same agreement
        released(tmp_path, moved)


def test_no_user_factor_is_among_what_the_ledger_holds(tmp_path):
    ratings = planted(users=40, items=6)
    owners, V = released(tmp_path, ratings)
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    own, _ = owners[0].rule.update.solved(owners[0]._table, V)
    assert own.any(axis=1).sum() > 10
    assert not any(number.tobytes() in held for number in own.ravel() if number)


def test_a_release_needs_an_epsilon_and_true_noise(tmp_path):
    ratings = planted(users=40, items=6)
    for noise, epsilon in ((FastNoise(0), 1.0), (SafeNoise(), None)):
        with pytest.raises(GuaranteeError, match="an epsilon and safe noise"):
            UpdateOwner(ratings, np.arange(40), RULE, noise, epsilon, ledger=Ledger(tmp_path / "x.ledger", 1.0))


@pytest.mark.parametrize(
    "V", [np.zeros((40, 4)), np.full((40, 3), np.nan), np.zeros((40, 3), dtype=np.float32), np.full((40, 3), 1e7)]
)
def test_what_is_out_of_place_is_refused_and_costs_nothing(V):
    (owner, _), _ = owners_of([1.0, 1.0])
    with pytest.raises(Refusal):
        ask(owner, V)
    assert owner.spent == 0


def test_two_agreements_in_one_ledger_do_not_lend_each_other_rounds(tmp_path):
    """Asked under another agreement's name an owner would answer with its own noise and debit the other's budget."""
    ratings = planted(users=40, items=6)
    ledger = Ledger(tmp_path / "one.ledger", 4.0, 1e-4)
    first, second = (UpdateOwner(ratings, np.arange(40), RULE, SafeNoise(), eps, ledger=ledger) for eps in (1.0, 2.0))
    V = np.zeros((6, RULE.factors + 1))
    with pytest.raises(UnknownTerms):
        first.answer(ItemFactorsQuery.ask(second.agreement, "learner", 1, V))
    assert (first.spent, second.spent) == (0, 0)
    with pytest.raises(Malformed):
        first.answer(ItemFactorsQuery("id", first.agreement, "learner", True, V))
    assert first.answer(ItemFactorsQuery.ask(first.agreement, "learner", 1, V)).shape == (6, RULE.factors + 2)
    assert second.spent == 0 < first.spent
