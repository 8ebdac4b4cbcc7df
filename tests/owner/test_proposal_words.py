"""Who else is in, and what would be left: said on the side on which it still holds."""

from fractions import Fraction

import parley
from parley.owner.acceptance_summary import MAX_LISTED_OWNERS, left_after, others_in
from parley.owner.ledger.account import Reservation


def terms_of(owners):
    parts = [{"name": f"o{k}", "records": 1000 + k, "epsilon": 0.5} for k in range(owners)]
    return parley.Terms.from_dict(
        {"model": {"kind": "linear-svm", "target": "y"}, "privacy": {"clip": 1.0}, "owners": parts}
    )


def costs(epsilon, delta="0", rho=None):
    return Reservation("0" * 64, "a", "learner", Fraction(epsilon), Fraction(delta), 3, rho=rho)


def test_others_are_named_some_of_many():
    assert others_in(terms_of(1), "o0") == "These terms name no other owners."
    assert "o0 (1,000 records, ε = 0.5), o2 (1,002 records, ε = 0.5). This list" in others_in(terms_of(3), "o1")
    many = others_in(terms_of(MAX_LISTED_OWNERS + 31), "o0")
    assert f"o{MAX_LISTED_OWNERS} (" in many
    assert f"o{MAX_LISTED_OWNERS + 1} (" not in many
    assert "and 30 more. This list" in many


def test_what_is_left_is_rounded_down_and_what_does_not_fit_is_said(tmp_path):
    books = parley.Ledger(tmp_path / "simple", lifetime=2.0, lifetime_delta=1e-5)
    assert "ε = 1.666 of 2, δ = 9e-06 of 1e-05" in left_after(books, costs("1/3", "1e-6"), known=False)
    assert "ε = 2 of 2, δ = 1e-05 of 1e-05" in left_after(books, costs("1/3"), known=True)
    assert "do not fit" in left_after(books, costs("21/10"), known=False)
    books.close()


def test_a_lifetime_held_as_zcdp_is_left_in_rho(tmp_path):
    books = parley.Ledger(tmp_path / "zcdp", lifetime=3.0, lifetime_delta=1e-5, rule="zcdp")
    assert "ρ = 0.2" in left_after(books, costs("1", "1e-6", rho=Fraction(1, 100)), known=False)
    assert "do not fit" in left_after(books, costs("1", "1e-6"), known=False)
    books.close()
