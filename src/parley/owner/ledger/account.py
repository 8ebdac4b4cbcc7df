"""What one agreement may still cost: the arithmetic of promises, on which every ledger agrees."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from parley.errors import BudgetExhausted, OutOfOrder, UnknownTerms

RHO_TOLERANCE = Fraction(1, 10**6)  # another machine's libraries compute a Gaussian's noise to other last digits


@dataclass(frozen=True)
class Head:
    """The end of a ledger's hash chain: how many rows it has, and the hash of the last one. Who knows it can tell an
    older copy."""

    entries: int
    hash: str


@dataclass(frozen=True)
class Account:
    """What one agreement may still cost. Budgets are exact fractions: no tolerance.

    `answered` is the last round answered, `answers` how many were. They differ only where the terms let rounds be
    skipped (`gaps`): a round that the owner missed costs nothing, and is never answered later. `head` is where the
    ledger's chain ended at the moment at which it says so; a study's ledger has no chain. `closed` terms are not
    answered any more.
    """

    terms_hash: str
    learner: str
    epsilon: Fraction
    delta: Fraction
    rounds: int
    gaps: bool = False
    spent: Fraction = Fraction(0)
    answered: int = 0
    answers: int = 0
    closed: bool = False
    head: Head | None = field(default=None, compare=False)

    @property
    def used_up(self) -> bool:
        """Whether no round is left to ask."""
        return self.closed or self.answered >= self.rounds

    @property
    def delta_left(self) -> Fraction:
        """The delta that the next answer would spend: the first one spends it all."""
        return Fraction(0) if self.answers or self.closed else self.delta

    @property
    def left(self) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) that are reserved and not spent."""
        return self.epsilon - self.spent, self.delta_left

    def close(self) -> "Account":
        """The account when nothing is answered any more and everything reserved counts as spent."""
        return replace(self, spent=self.epsilon, closed=True)

    def require_open(self) -> None:
        """Refuse if the terms were closed."""
        if self.closed:
            raise BudgetExhausted(
                "the owner closed these terms, and all that they reserved counts as spent; agree on new ones"
            )

    def debit(self, learner: str, number: int, spent_after: Callable[[int], Fraction]) -> "Account":
        """The account after answering the learner's round `number`, when `spent_after(k)` bounds k answers; or a
        refusal that changes nothing."""
        if learner != self.learner:
            raise UnknownTerms(f"these terms were not accepted for learner {learner!r}")
        self.require_open()
        in_turn = number > self.answered if self.gaps else number == self.answered + 1
        if not in_turn or number > self.rounds:
            where = f"round {self.answered + 1} of {self.rounds}" if self.answered < self.rounds else "no further round"
            raise OutOfOrder(f"round {number} was asked: expected {where}")
        spent = spent_after(self.answers + 1)
        if not self.spent <= spent <= self.epsilon:
            raise BudgetExhausted(
                f"round {number} would bring the epsilon spent to {float(spent):g}: these terms reserve "
                f"{float(self.epsilon):g}"
            )
        return replace(self, spent=spent, answered=number, answers=self.answers + 1)


@dataclass(frozen=True)
class Reservation:
    """What an owner sets aside when it accepts terms.

    `rho` is what all answers cost as zCDP, for a ledger that holds its lifetime budget so; None: nothing is known. It
    holds twice `RHO_TOLERANCE` more than the noise costs, so that it covers noise which is computed anew, on another
    machine, within that tolerance.
    """

    terms_hash: str
    owner: str
    learner: str
    epsilon: Fraction
    delta: Fraction
    rounds: int
    gaps: bool = False
    rho: Fraction | None = None

    def account(self) -> Account:
        """The account before any answer."""
        return Account(self.terms_hash, self.learner, self.epsilon, self.delta, self.rounds, self.gaps)
