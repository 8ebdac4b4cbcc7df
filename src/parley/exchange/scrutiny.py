"""What an owner's words must agree with: the terms, the bound and noise that follow from them, and what it said before.

Everything that is compared is public or was said by the owner itself. So wrong numbers of a likely size, noise that is too small, and
books kept beside the ones shown pass: no learner can see those.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from parley import objectives
from parley.account import Head
from parley.accounting import Plan, exact
from parley.data import Preparation
from parley.data.design import summation_slack
from parley.errors import ContradictionError
from parley.exchange.messages import Standing
from parley.mechanisms import Extent, Laplace
from parley.objectives.local_update import local_update
from parley.objectives.moments import moments_length
from parley.objectives.score import score_extent, score_size
from parley.owner import owner_plan, score_noise
from parley.queries import Query, ScoreQuery
from parley.terms import Terms
from parley.validate import Floats

UNLIKELY = 1e-12  # how probable it is at most that an honest answer is refused
TOLERANCE = Fraction(1, 10**6)  # of epsilon: other machines' libraries compute the Gaussian's cost to other last digits

REMEDY = (
    "answers that left are missing from its books. At the owner: parley owner restore, which with --assume-spent counts them as spent; "
    "these terms are over, go on under new ones"
)


@dataclass(frozen=True, eq=False)
class Scrutiny:
    """What one owner may say under the terms."""

    owner: str
    plan: Plan
    epsilon: Fraction
    score_epsilon: Fraction
    rounds: int
    gaps: bool  # whether it may miss rounds
    size: int  # of a training answer
    score_size: int
    records: int  # that a training answer is a mean over
    held_out: int
    answers: Extent
    scores: Extent | None

    def expected(self, query: Query) -> tuple[int, int]:
        """(records, size) of the answer to this query."""
        return (self.held_out, self.score_size) if isinstance(query, ScoreQuery) else (self.records, self.size)

    def check_value(self, query: Query, value: Floats) -> None:
        """Refuse an answer that its bound and its noise cannot have made.

        Formal guarantee: an owner that answers by the terms is refused with probability at most `UNLIKELY` an answer.
        """
        extent = self.scores if isinstance(query, ScoreQuery) else self.answers
        if extent is not None and not extent.holds(value):
            raise ContradictionError(
                f"{self.owner}: its answer to round {query.round} is larger than the agreed bound and noise can make it (an honest one is, "
                f"once in {1 / UNLIKELY:.0e}); find out what it runs, and on which table, before anything it sent is used"
            )

    def check_standing(self, standing: Standing, least: int, answers: int, before: Standing | None) -> None:
        """Refuse an account that does not follow from the plan. `least` is the round just answered (0: none was asked), `answers` how many
        this learner has heard in all, `before` the owner's last word in this run.

        An answer that was stored before leaves the account where it stood. One that the owner closed counts as spent whole, and gets no
        further answer.
        """
        if (standing.epsilon, standing.rounds) != (self.epsilon, self.rounds):
            raise ContradictionError(
                f"{self.owner}: speaks of epsilon {float(standing.epsilon):g} and {standing.rounds} rounds, the terms of "
                f"{float(self.epsilon):g} and {self.rounds}"
            )
        latest = self.rounds if before is None or not least else max(least, before.answered)
        if not least <= standing.answered <= latest:
            raise ContradictionError(
                f"{self.owner}: says that the last round it answered is {standing.answered}, after round {least} was asked: another "
                "learner asks by these terms, or its books are not those of this run"
            )
        if before is not None and (standing.spent < before.spent or standing.answered < before.answered):
            raise ContradictionError(f"{self.owner}: had spent more before: its ledger was rolled back; {REMEDY}")
        closed = standing.spent == self.epsilon and (before is None or standing.answered == before.answered)
        fewest = answers if self.gaps else standing.answered
        if not closed and not any(
            self._near(standing.spent, self.cost(standing.answered, k)) for k in self._counts(standing, fewest)
        ):
            due = float(self.cost(standing.answered, fewest))
            raise ContradictionError(
                f"{self.owner}: says that it has spent {float(standing.spent):g} by round {standing.answered}, where the terms make it "
                f"{'at least ' if self.gaps else ''}{due:g}: its answers are not debited as agreed, or its ledger was rolled back"
            )

    def cost(self, answered: int, answers: int) -> Fraction:
        """The epsilon spent by this many answers, the last to round `answered`."""
        if self.scores is not None and answered == self.rounds and answers > 0:
            return self.plan.spent_after(answers - 1) + self.score_epsilon
        return self.plan.spent_after(answers)

    def _counts(self, standing: Standing, fewest: int) -> Iterator[int]:
        """How many answers may have cost what was spent: most often the fewest; costs never fall as answers grow, so else those around
        the place where it lies."""
        low, high = fewest, standing.answered
        if low <= high:
            yield low
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.cost(standing.answered, middle) >= standing.spent else (middle + 1, high)
        yield from (k for k in (low - 1, low) if fewest < k <= standing.answered)

    def _near(self, said: Fraction, due: Fraction) -> bool:
        return said == due if isinstance(self.plan.mechanism, Laplace) else abs(said - due) <= TOLERANCE * self.epsilon

    def check_head(self, head: Head | None, before: Head | None, grown: bool) -> None:
        """Refuse a ledger that is shorter than it was, has another end of the same length, or did not grow by what it says it booked."""
        if before is None:
            return
        if head is None:
            raise ContradictionError(f"{self.owner}: said how long its ledger was, and says it no longer; {REMEDY}")
        changed = head.entries == before.entries and (grown or head.hash != before.hash)
        if head.entries < before.entries or changed:
            raise self.rolled_back(before, f"it has {head.entries}, ending in {head.hash[:16]}…")

    def check_history(self, standing: Standing, before: Head | None) -> None:
        """Refuse a ledger whose chain, at the length it had before, does not have the hash it had there."""
        if before is not None and standing.head_then != before.hash:
            there = "no such row" if standing.head_then is None else f"{standing.head_then[:16]}… there"
            raise self.rolled_back(before, f"it has {there}")

    def rolled_back(self, before: Head, now: str) -> ContradictionError:
        """The error that says so."""
        return ContradictionError(
            f"{self.owner}: its ledger was rolled back: it had {before.entries} rows, ending in {before.hash[:16]}…, and now {now}; "
            f"{REMEDY}"
        )


def scrutiny(terms: Terms, name: str, preparation: Preparation) -> Scrutiny:
    """What the terms and public knowledge let an owner say."""
    objective = objectives.make(terms.model)
    bound, plan = owner_plan(terms, name, preparation, objective)
    rows, held_out, width = terms.train_rows(name), terms.held_out_rows(name), preparation.width
    slack = summation_slack(rows, width)
    local = local_update(terms, objective, preparation) if terms.learning.asks_updates else None
    size = moments_length(width) if terms.learning.asks_statistics else width
    noise, length = score_noise(terms, name, preparation), score_size(terms.model)
    scores = None if noise is None else score_extent(terms.model, summation_slack(held_out, width)).noisy(noise, length, UNLIKELY)
    return Scrutiny(
        owner=name,
        plan=plan,
        epsilon=exact(terms.owner(name).epsilon),
        score_epsilon=terms.score_epsilon,
        rounds=terms.rounds,
        gaps=terms.learning.straggler == "skip",
        size=size,
        score_size=length,
        records=rows,
        held_out=held_out,
        answers=(bound.extent(slack) if local is None else local.extent(bound, slack)).noisy(plan.mechanism, size, UNLIKELY),
        scores=scores,
    )
