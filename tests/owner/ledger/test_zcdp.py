"""A lifetime budget held as zCDP: what fits, what does not, and that nobody changes the rule."""

import json
import math
import sqlite3
from fractions import Fraction

import numpy as np
import pytest
from bookkeeping import costing, each, forget, never, old_ledger, query, reserve, value
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from samples import make_terms, regression_table

import parley
import parley.owner.ledger.opening
import parley.owner.ledger.stored_rows
from parley.errors import BrokenChainError, BudgetExhausted, LedgerError
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import RHO_TOLERANCE, Reservation, epsilon_of, implies_budget, largest_rho
from parley.owner.ledger.backup import back_up, restore
from parley.owner.ledger.chain import COLUMNS, FIRST_PREVIOUS_HASH, row_hash
from parley.owner.owner import reservation
from parley.privacy.accounting.series import SERIES, Series, series_rho
from parley.privacy.mechanisms.gaussian import gaussian_epsilon

EPSILON, DELTA = Fraction(3), Fraction("1e-5")
BUDGETS = [("1", "1e-6"), ("3", "1e-5"), ("0.1", "1e-8"), ("20", "1e-3"), ("0.001", "1e-12")]
GAUSSIAN = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}


def rho_ledger(tmp_path, name="a.ledger"):
    return Ledger(tmp_path / name, lifetime=3, lifetime_delta="1e-5", rule="zcdp")


def cost(terms, rho, rounds=10, **more):
    return Reservation(terms, "a", "learner", Fraction(1), Fraction("1e-6"), rounds, rho=rho, **more)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_rho_is_what_the_best_order_allows(epsilon, delta):
    """Against another library, on a fine grid of orders around the best one."""
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    rho = largest_rho(epsilon, delta)
    best = math.sqrt(math.log(1 / delta) / float(rho))
    orders = 1 + best * np.geomspace(0.1, 10, 20_001)
    other = float(compute_epsilon(orders, float(rho) * orders, float(delta))[0])
    assert other == pytest.approx(float(epsilon), rel=1e-6)
    assert float(epsilon) * (1 - 1e-6) <= epsilon_of(rho, delta) <= epsilon
    assert implies_budget(rho, epsilon, delta)
    assert not implies_budget(rho * Fraction("1.00001"), epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_gaussian_noise_of_that_rho_is_within_the_budget_and_the_bound_is_not_loose(epsilon, delta):
    """Its exact epsilon is known in closed form. And no less fits than by the older, looser rule rho + 2 sqrt(rho
    ln(1/delta))."""
    rho = float(largest_rho(Fraction(epsilon), Fraction(delta)))
    exact = gaussian_epsilon(1 / math.sqrt(2 * rho), float(delta))
    assert 0.8 * float(epsilon) < exact <= float(epsilon)
    assert rho + 2 * math.sqrt(rho * math.log(1 / float(delta))) > float(epsilon)


def test_what_series_cost():
    assert series_rho("laplace", Fraction(1), Fraction(0), 100) == Fraction(1, 200)
    assert (
        series_rho("laplace", Fraction(1), Fraction(0), 100, shared_records=4) == 4 * Fraction(1, 200) / 16
    )  # four copies of (1/4)^2
    one = float(series_rho("gaussian", Fraction(1), Fraction("1e-5"), 1))
    assert one == pytest.approx(1 / (2 * 3.7306**2), rel=1e-4)  # the published sigma of (1, 1e-5)
    assert series_rho("gaussian", Fraction(1), Fraction("1e-5"), 50) == Fraction(one)
    assert series_rho("gaussian", Fraction(2), Fraction("2e-5"), 7, shared_records=2) == 2 * Fraction(one)


@pytest.mark.parametrize(
    "more",
    [
        {},
        GAUSSIAN,
        {**GAUSSIAN, "privacy__shared_records": 2},
        {"privacy__score_epsilon": 0.25, "model__holdout": 0.2, "model__bounds": {"y": [-3, 3]}},
    ],
)
def test_the_rho_of_terms_is_that_of_the_noise_their_owner_draws(more):
    terms = make_terms(60, 40, epsilon=1.0, learning__horizon=12, **more)
    owner = parley.Owner("a", regression_table(60, seed=1))
    stages = owner.prepare(terms).part.stages
    drawn = 0.0
    for stage in stages:
        event = stage.series.mechanism.event
        once = 1 / (2 * event.multiplier**2)  # of a Gaussian, and of a Laplace release of epsilon 1/multiplier
        drawn += terms.privacy.shared_records * len(stage.rounds) * once
    rho = float(reservation(terms, "a").rho)
    # what is accepted again within the tolerance is covered
    assert drawn * (1 + float(RHO_TOLERANCE)) < rho <= drawn * (1 + 3e-6)


def test_several_gaussian_agreements_fit_that_do_not_fit_as_sums(tmp_path):
    terms = [make_terms(60, 40, epsilon=1.0, learning__horizon=k, **GAUSSIAN) for k in range(1, 10)]
    held = parley.Owner("a", regression_table(60, seed=1), ledger=rho_ledger(tmp_path))
    sums = parley.Owner(
        "a", regression_table(60, seed=2), ledger=Ledger(tmp_path / "b.ledger", lifetime=3, lifetime_delta="1e-5")
    )
    for each_terms in terms[:3]:
        sums.accept(each_terms)
    with pytest.raises(BudgetExhausted):
        sums.accept(terms[3])
    fitting = int(largest_rho(EPSILON, DELTA) / reservation(terms[0], "a").rho)
    assert fitting == 8
    for each_terms in terms[:fitting]:
        held.accept(each_terms)
        held.accept(each_terms)  # again: nothing changes
    before = (tmp_path / "a.ledger").read_bytes(), held.ledger.head
    with pytest.raises(
        BudgetExhausted,
        match=r"reserve rho = 0\.2.*lifetime budget is epsilon = 3, delta = 1e-05, or rho = 0\.224",
    ):
        held.accept(terms[fitting])
    assert ((tmp_path / "a.ledger").read_bytes(), held.ledger.head) == before
    most, reserved = held.ledger.rho
    assert reserved == fitting * reservation(terms[0], "a").rho <= most
    assert held.ledger.reserved == (fitting, fitting * Fraction("1e-6"))
    whole = gaussian_epsilon(1 / math.sqrt(2 * float(reserved)), float(DELTA))  # all of them are one Gaussian release
    assert whole <= float(EPSILON)
    held.ledger.verify()


def test_the_rule_is_stated_once_and_for_ever(tmp_path):
    rho_ledger(tmp_path).close()
    for again in (
        Ledger(tmp_path / "a.ledger"),
        rho_ledger(tmp_path),
        Ledger(tmp_path / "a.ledger", lifetime=3, rule="zcdp"),
    ):
        assert again.rho == (largest_rho(EPSILON, DELTA), 0)
        again.close()
    with pytest.raises(LedgerError, match="uses the rule 'zcdp', which never changes"):
        Ledger(tmp_path / "a.ledger", rule="simple")
    Ledger(tmp_path / "b.ledger", lifetime=3, lifetime_delta="1e-5").close()
    with pytest.raises(LedgerError, match="uses the rule 'simple', which never changes"):
        Ledger(tmp_path / "b.ledger", rule="zcdp")
    with sqlite3.connect(tmp_path / "a.ledger") as db, sqlite3.connect(tmp_path / "b.ledger") as simple:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)  # an earlier Parley refuses it unread
        assert simple.execute("SELECT event FROM entries").fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [({}, "needs a delta above 0"), ({"rule": "renyi", "lifetime_delta": 1e-5}, "expected one of")],
)
def test_what_cannot_be_held_makes_no_ledger(tmp_path, more, sentence):
    with pytest.raises(LedgerError, match=sentence):
        Ledger(tmp_path / "a.ledger", lifetime=3, **{"rule": "zcdp", **more})
    assert not (tmp_path / "a.ledger").exists()


def test_ledgers_from_before_are_held_by_simple_sums(tmp_path, own_state):
    ledger = Ledger(old_ledger(tmp_path))
    assert ledger.rho is None
    with pytest.raises(BudgetExhausted, match="would reserve"):
        ledger.accept(reserve("new", Fraction(100), 1))
    with pytest.raises(LedgerError, match="which never changes"):
        Ledger(ledger.path, rule="zcdp")


def test_noise_whose_rho_is_not_known_is_refused_and_nothing_is_written(tmp_path):
    ledger = rho_ledger(tmp_path)
    end = ledger.head
    for ask in (ledger.accept, ledger.require_room):
        with pytest.raises(LedgerError, match=r"is not known\. Agree on laplace or gaussian noise"):
            ask(cost("t", None))
    assert ledger.head == end
    assert Series.rho(Fraction(1), Fraction("1e-6"), 3) is None  # what a new mechanism says that does not know better
    assert {name for name, kind in SERIES.items() if kind.rho(Fraction(1), Fraction("1e-6"), 3) is None} == set()


def test_terms_that_cost_more_than_was_reserved_are_not_taken_for_those_accepted(tmp_path):
    ledger = rho_ledger(tmp_path)
    ledger.accept(cost("t", Fraction(1, 100)))
    ledger.accept(cost("t", Fraction(1, 100) * (1 + RHO_TOLERANCE)))  # other last digits
    for other in (Fraction(1, 100) * (1 + 2 * RHO_TOLERANCE), None):
        with pytest.raises(LedgerError, match="accepted with another"):
            ledger.accept(cost("t", other))


def test_answers_gaps_and_closing_are_as_they_were(tmp_path):
    ledger = rho_ledger(tmp_path)
    ledger.accept(cost("t", Fraction(1, 100)))
    ledger.accept(cost("u", Fraction(1, 50), gaps=True))
    ledger.answer(query(1), each, {}, value())
    ledger.answer(query(4, terms="u"), each, {}, value())
    assert (ledger.account("t").gaps, ledger.account("u").gaps) == (False, True)
    ledger.close_terms("t", "owner")
    assert ledger.rho[1] == Fraction(3, 100)  # what was reserved counts, whether it was asked for or not
    with pytest.raises(BudgetExhausted, match="closed"):
        ledger.answer(query(2), costing(Fraction(2, 10)), {}, never)
    ledger.close()
    again = Ledger(tmp_path / "a.ledger")
    assert again.rho[1] == Fraction(3, 100)
    assert again.verify() == 6


@pytest.mark.parametrize("everything", [True, False])
def test_a_restore_counts_what_was_lost_as_rho(tmp_path, everything):
    ledger = rho_ledger(tmp_path)
    ledger.accept(cost("t", Fraction(1, 100)))
    back_up(ledger, tmp_path / "backup")
    ledger.close()
    (tmp_path / "a.ledger").unlink()
    restore(tmp_path / "backup", tmp_path / "a.ledger", "a", [cost("lost", Fraction(1, 50))], everything)
    restored = Ledger(tmp_path / "a.ledger")
    most, reserved = restored.rho
    assert reserved == (most if everything else Fraction(3, 100))
    assert all(account.closed for _, account in restored.accounts())
    if everything:
        with pytest.raises(BudgetExhausted):
            restored.accept(cost("new", Fraction(1, 10**9)))
    else:
        restored.accept(cost("new", Fraction(1, 50)))
    restored.verify()


def rebuilt(path, change):
    """The ledger with its rows changed and all hashes computed anew."""
    forget(path)
    with sqlite3.connect(path) as db:
        change(db)
        previous = FIRST_PREVIOUS_HASH
        for *row, pad in db.execute(f"SELECT {', '.join(COLUMNS)}, pad FROM entries ORDER BY seq").fetchall():
            link = row_hash(previous, tuple(row), pad)
            db.execute("UPDATE entries SET previous=?, hash=? WHERE seq=?", (previous, link, row[0]))
            previous = link


def stating(seq, balance=None, **facts):
    def change(db):
        (event,) = db.execute("SELECT event FROM entries WHERE seq=?", (seq,)).fetchone()
        said = {
            name: fact
            for name, fact in ({} if event is None else json.loads(event) | facts).items()
            if fact is not None
        }
        db.execute(
            "UPDATE entries SET event=?, balance=COALESCE(?, balance) WHERE seq=?", (json.dumps(said), balance, seq)
        )

    return change


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (1, stating(1, rho="1/4")),  # more than the budget amounts to
        (1, stating(1, rule="other")),
        (1, stating(1, rho=None)),
        (2, stating(2, rho="1/200")),  # the balance says otherwise
        (2, stating(2, balance="-1/100", rho="-1/100")),
        (2, stating(2, rho=None)),
        (3, stating(3, balance="1/4", rho="6/25")),  # beyond the lifetime budget
        (3, stating(3, balance="1/40")),
    ],
)
def test_verification_adds_rho_up_again(tmp_path, row, change):
    ledger = rho_ledger(tmp_path)
    for terms in ("t", "u"):
        ledger.accept(cost(terms, Fraction(1, 100)))
    ledger.close()
    rebuilt(tmp_path / "a.ledger", lambda db: None)
    Ledger(tmp_path / "a.ledger").close()
    rebuilt(tmp_path / "a.ledger", change)
    with pytest.raises(BrokenChainError, match=f"row {row}"):
        Ledger(tmp_path / "a.ledger")


def test_a_remembered_verification_goes_on_with_its_rho(tmp_path, monkeypatch):
    monkeypatch.setattr(parley.owner.ledger.ledger, "MAX_ROWS_VERIFIED_FULLY", 0)
    ledger = rho_ledger(tmp_path)
    ledger.accept(cost("t", Fraction(1, 100)))
    ledger.remember()
    ledger.accept(cost("u", Fraction(1, 50)))
    ledger.remember()
    ledger.close()
    known = parley.owner.ledger.opening.recall(tmp_path / "a.ledger.verified")
    assert known.rho == (largest_rho(EPSILON, DELTA), Fraction(3, 100))
    assert Ledger(tmp_path / "a.ledger").rho == known.rho
