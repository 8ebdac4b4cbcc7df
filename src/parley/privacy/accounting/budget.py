"""Budgets as exact fractions (W Theorem 1; T section 2.3, simple composition).

A budget written 0.1 means one tenth, not the nearest binary number. T debits of eps/T therefore add up to eps exactly,
and the ledger compares without a tolerance that somebody could hide in.
"""

from collections.abc import Sequence
from fractions import Fraction

from parley.validate import exact, upper, whole

__all__ = ["exact", "per_round", "shared_record_epsilon"]


def per_round(epsilon: Fraction, rounds: int) -> Fraction:
    """What each of `rounds` answers may cost so that together they cost `epsilon`.

    Formal guarantee: pure differential privacy composes by addition, also when later queries depend on earlier answers,
    so `rounds` answers of this cost are `epsilon`-DP together.

    >>> 100 * per_round(exact(1.0), 100)
    Fraction(1, 1)
    """
    return epsilon / whole(rounds, "rounds")


def shared_record_epsilon(epsilons: Sequence[float], shared: int) -> float:
    """What all owners' answers together reveal about a record that up to `shared` of them hold (W section II).

    Every owner adds the noise of eps_l/shared, so a record at `shared` owners is covered by the mean of their budgets.
    W names eps_l; that is right when the budgets are equal. This is the worst case: the mean over the `shared` largest.

    >>> shared_record_epsilon([1.0, 0.1, 3.0], shared=2)
    2.0
    """
    largest = sorted(epsilons, reverse=True)[: whole(shared, "shared_records")]
    return upper(sum((exact(epsilon) for epsilon in largest), Fraction(0)) / shared)
