"""Checks of an owner's words against the terms, their bound and noise, and its earlier words. Only public facts and the
owner's own words are compared. So wrong numbers of a likely size, too little noise, and books kept beside the ones
shown pass: no learner can see those."""

from collections.abc import Iterator
from fractions import Fraction

from parley.errors import ContradictionError, Malformed
from parley.network.exchange.messages import AccountStatement
from parley.numerals import counted
from parley.owner.ledger.account import Head
from parley.privacy.mechanisms.mechanism import FALSE_ALARM_PROBABILITY
from parley.protocol.queries import Query
from parley.protocol.stages import Part
from parley.validate import Floats

TOLERANCE = Fraction(1, 10**6)  # of epsilon: other machines' libraries compute the Gaussian's cost to other last digits

RESTORE_ADVICE = (
    "the ledger lacks answers that the owner sent. The owner runs parley owner restore, which counts them as spent "
    "(--assume-spent). These terms have ended; agree on new terms"
)


class Scrutiny:
    """What one owner may say under the terms; `gaps`: it may miss rounds; `shared`: its numbers go to hosts instead."""

    def __init__(self, part: Part, gaps: bool, shared: bool = False) -> None:
        self.owner, self._part, self._gaps, self._shared = part.name, part, gaps or part.gaps, shared
        self._extents = [
            stage.question.noisy_extent(stage.series.mechanism, FALSE_ALARM_PROBABILITY) for stage in part.stages
        ]

    @property
    def size(self) -> int:
        """The most numbers that an answer has."""
        return max(stage.question.size for stage in self._part.stages)

    def expected(self, query: Query) -> tuple[int, int]:
        """Return (records, size) of the answer to this query."""
        question = self._part.stage(query.round).question
        return question.records, 0 if self._shared else question.sent_size(query)

    def round_before(self, number: int) -> int:
        """Return the round in which this owner was asked before this one; 0: none."""
        rounds = [each for stage in self._part.stages for each in stage.rounds if each < number]
        return rounds[-1] if rounds else 0

    def check_value(self, query: Query, value: Floats) -> None:
        """Refuse an answer that its bound and noise cannot have made.

        Formal guarantee: an owner that answers by the terms is refused with probability at most
        `FALSE_ALARM_PROBABILITY` an answer.
        """
        if self._shared:
            return
        stage = self._part.stage(query.round)
        try:
            seen = stage.question.seen(value)
        except Malformed as error:
            raise ContradictionError(
                f"{self.owner}: the answer to round {query.round} cannot be read: {error}"
            ) from None
        if not self._extents[self._part.stages.index(stage)].holds(seen):
            raise ContradictionError(
                f"{self.owner}: the answer to round {query.round} is larger than the agreed bound plus noise can "
                f"explain (at most one in {1 / FALSE_ALARM_PROBABILITY:.0e} honest answers is as large). Find out "
                "which software and table the owner uses before you use its answers"
            )

    def check_statement(
        self, statement: AccountStatement, least: int, answers: int, before: AccountStatement | None
    ) -> None:
        """Refuse an account that does not follow from the schedule. `least` is the round just answered (0: none was
        asked), `answers` how many this learner has received, `before` the last statement in this run. A repeated stored
        answer leaves the account unchanged. An account that the owner closed counts as spent whole, and gets no further
        answer."""
        if (statement.epsilon, statement.rounds) != (self._part.epsilon, self._part.rounds):
            raise ContradictionError(
                f"{self.owner}: the owner reports epsilon {float(statement.epsilon):g} and "
                f"{counted(statement.rounds, 'round')}, but the terms have epsilon {float(self._part.epsilon):g} and "
                f"{counted(self._part.rounds, 'round')}"
            )
        if statement.answered and not any(statement.answered in stage.rounds for stage in self._part.stages):
            raise ContradictionError(
                f"{self.owner}: the owner reports an answer to round {statement.answered}, but the terms do not ask "
                "this owner in that round"
            )
        latest = self._part.rounds if before is None or not least else max(least, before.answered)
        if not least <= statement.answered <= latest:
            raise ContradictionError(
                f"{self.owner}: the owner reports round {statement.answered} as its last answered round, but the "
                f"learner last asked this owner in round {least}. Another learner uses these terms, or the owner uses "
                "another ledger"
            )
        if before is not None and (statement.spent < before.spent or statement.answered < before.answered):
            raise ContradictionError(
                f"{self.owner}: the owner reported more spending before, so its ledger was rolled back; "
                f"{RESTORE_ADVICE}"
            )
        closed = statement.spent == self._part.epsilon and (before is None or statement.answered == before.answered)
        fewest = answers if self._gaps else statement.answered
        if not closed and not any(
            self._near(statement.spent, self.cost(statement.answered, k)) for k in self._counts(statement, fewest)
        ):
            due = float(self.cost(statement.answered, fewest))
            raise ContradictionError(
                f"{self.owner}: the owner reports epsilon {float(statement.spent):g} spent by round "
                f"{statement.answered}, but the terms require {'at least ' if self._gaps else ''}{due:g}. The owner "
                "did not debit its answers as agreed, or its ledger was rolled back"
            )

    def cost(self, answered: int, answers: int) -> Fraction:
        """Return the epsilon spent by this many answers, the last to round `answered`."""
        return self._part.cost(answered, answers) if answers > 0 else Fraction(0)

    def _counts(self, statement: AccountStatement, fewest: int) -> Iterator[int]:
        """Yield how many answers may have cost this: the fewest, then a bisection's candidates."""
        low, high = fewest, statement.answered
        if low <= high:
            yield low
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.cost(statement.answered, middle) >= statement.spent else (middle + 1, high)
            )
        yield from (k for k in (low - 1, low) if fewest < k <= statement.answered)

    def _near(self, said: Fraction, due: Fraction) -> bool:
        return abs(said - due) <= (0 if self._part.training.series.exact else TOLERANCE * self._part.epsilon)

    def check_head(self, head: Head | None, before: Head | None, grown: bool) -> None:
        """Refuse a ledger that is shorter than before, differs at equal length, or did not grow as booked."""
        if before is None:
            return
        if head is None:
            raise ContradictionError(
                f"{self.owner}: the owner no longer reports the length of its ledger; {RESTORE_ADVICE}"
            )
        changed = head.entries == before.entries and (grown or head.hash != before.hash)
        if head.entries < before.entries or changed:
            raise self.rolled_back(before, f"has {counted(head.entries, 'row')}, ending in {head.hash[:16]}…")

    def check_history(self, statement: AccountStatement, before: Head | None) -> None:
        """Refuse a ledger whose chain has another hash at its former length."""
        if before is not None and statement.earlier_hash != before.hash:
            row = "no such row" if statement.earlier_hash is None else f"{statement.earlier_hash[:16]}… in this row"
            raise self.rolled_back(before, f"has {row}")

    def rolled_back(self, before: Head, now: str) -> ContradictionError:
        """Return the error that an owner's ledger went back in time."""
        return ContradictionError(
            f"{self.owner}: the owner's ledger was rolled back. The ledger had {counted(before.entries, 'row')}, "
            f"ending in {before.hash[:16]}…, and now the ledger {now}; {RESTORE_ADVICE}"
        )
