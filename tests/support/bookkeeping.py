"""Small reservations, questions and answers for tests of ledgers."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np

from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.protocol.queries import GradientQuery

COST = Fraction(1, 10)
# written before ledgers had a version: 3 answers of t, 2 of u
OLD = Path(__file__).parents[1] / "owner" / "ledger" / "files" / "version-0.ledger"


def query(round=1, terms="t", learner="learner", theta=0.0):  # noqa: A002
    return GradientQuery.ask(terms, learner, round, np.full(3, float(theta)))


def reserve(terms, epsilon, rounds, owner="a", delta=Fraction(0), learner="learner", gaps=False):
    return Reservation(terms, owner, learner, epsilon, delta, rounds, gaps)


def value(number=1.0):
    return lambda: lambda: np.full(3, number)


def costing(spent):
    return lambda answers: spent


def each(answers):
    return COST * answers


def never():
    raise AssertionError("a refused query must not touch the data")


def filled(tmp_path, answers=4, rounds=10):
    """The path of a closed ledger with one agreement, t, and so many answers under it."""
    path = tmp_path / "a.ledger"
    ledger = Ledger(path, lifetime=max(Fraction(3), COST * rounds))
    ledger.accept(reserve("t", COST * rounds, rounds))
    for k in range(1, answers + 1):
        ledger.answer(query(k), each, {"scale": 1.0}, value(k))
    ledger.close()
    return path


def forget(path):
    """Remove what remembers where the ledger ended."""
    for what in ("verified", "drawing"):
        path.with_name(f"{path.name}.{what}").unlink(missing_ok=True)


def old_ledger(tmp_path):
    """A copy of a ledger without a version."""
    return Path(shutil.copy(OLD, tmp_path / "old.ledger"))
