"""What one agreement may still cost: the arithmetic of promises, on which every ledger agrees."""

from dataclasses import dataclass, replace
from fractions import Fraction

from parley.errors import BudgetExhausted, OutOfOrder, UnknownTerms
from parley.queries import Query


@dataclass(frozen=True)
class Account:
    """What one agreement may still cost. Budgets are exact fractions: no tolerance."""

    terms: str
    learner: str
    epsilon: Fraction
    delta: Fraction
    rounds: int
    spent: Fraction = Fraction(0)
    answered: int = 0

    def debit(self, query: Query, spent: Fraction) -> "Account":
        """The account after answering `query`, when `spent` bounds all its answers so far; or a refusal that changes nothing."""
        if query.learner != self.learner:
            raise UnknownTerms(f"these terms were not accepted for learner {query.learner!r}")
        if query.round != self.answered + 1 or query.round > self.rounds:
            where = f"round {self.answered + 1} of {self.rounds}" if self.answered < self.rounds else "no further round"
            raise OutOfOrder(f"round {query.round} was asked: expected {where}")
        if not self.spent <= spent <= self.epsilon:
            raise BudgetExhausted(
                f"round {query.round} would bring the epsilon spent to {float(spent):g}: these terms reserve {float(self.epsilon):g}"
            )
        return replace(self, spent=spent, answered=query.round)


@dataclass(frozen=True)
class Reservation:
    """What an owner sets aside when it accepts terms."""

    terms: str
    owner: str
    learner: str
    epsilon: Fraction
    delta: Fraction
    rounds: int

    def account(self) -> Account:
        """The account before any answer."""
        return Account(self.terms, self.learner, self.epsilon, self.delta, self.rounds)
