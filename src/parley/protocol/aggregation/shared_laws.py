"""How much noise hosts draw for the sum of all owners' answers: enough for every owner's people, for all rounds, in
finitely many bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from parley.errors import GuaranteeError, TermsError
from parley.privacy.accounting import SharedLaw, Span, Spans, bits_delta, most_epsilon, shared_law
from parley.protocol.aggregation.mean import pieces
from parley.protocol.queries import Question
from parley.protocol.schedule import Schedule, uses
from parley.protocol.stages import StagePlan
from parley.terms import Terms


@dataclass(frozen=True, eq=False)
class SharedLaws:
    """The laws of one noise for all, stage by stage. `questions`: every owner's, by stage, for one noise covers all."""

    terms: Terms
    schedule: Schedule
    plans: Sequence[StagePlan]
    questions: Sequence[Sequence[Question]]

    def __post_init__(self) -> None:
        if any(question.together > 1 for questions in self.questions for question in questions):
            raise GuaranteeError("noise: hosts draw it for each answer by itself; these need one noise for all answers")

    def law(self, stage: int = 0, epsilon: Fraction | None = None) -> SharedLaw:
        """The law of the one noise of a stage (0: training, 1: the score), if owners promised this epsilon in all; left
        out: as they do.

        The total variation of its random bits is paid from delta, before anything else is. An epsilon for which delta
        does not suffice is refused in terms; where somebody only asks what would be, the largest that it suffices for
        is taken.
        """
        if (stage, epsilon) in self._laws:
            return self._laws[stage, epsilon]
        delta = Fraction(str(self.terms.privacy.delta))
        numbers = self._numbers
        most, common = most_epsilon(delta, numbers), self.terms.common_epsilon
        if not common <= most:
            raise TermsError(
                f"privacy.delta: expected at least {2 * float(bits_delta(common, numbers)):.1e} for noise that hosts "
                "draw: so much do finitely many random bits cost; fewer rounds or a smaller epsilon cost less"
            )
        promised = common if epsilon is None else min(epsilon, most)
        if (stage, promised) not in self._laws:
            left = delta - bits_delta(promised, numbers)
            budget = (self.terms.score_epsilon, Fraction(0)) if stage else (promised - self.terms.score_epsilon, left)
            copies, plan = self.terms.privacy.shared_records, self.plans[stage]
            question = self.questions[stage][0]
            self._laws[stage, promised] = shared_law(
                plan.mechanism,
                *budget,
                self.most_uses(plan),
                self._sizes[stage],
                self._spans[stage],
                copies,
                question.rate,
                pieces(self.terms, question),
                self.terms.noise.draws,
            )
        self._laws[stage, epsilon] = self._laws[stage, promised]
        return self._laws[stage, promised]

    @cached_property
    def _laws(self) -> dict[tuple[int, Fraction | None], SharedLaw]:
        return {}

    @cached_property
    def _spans(self) -> list[Spans]:
        return [Spans.of(self._span(question) for question in questions) for questions in self.questions]

    @cached_property
    def _sizes(self) -> list[int]:
        return [questions[0].size for questions in self.questions]

    @cached_property
    def _numbers(self) -> int:
        """How many numbers about one person are opened at most."""
        return sum(self._openings(plan) * size for plan, size in zip(self.plans, self._sizes, strict=True))

    def _most_answers(self, plan: StagePlan) -> int:
        """How many answers the owner gives that is asked most often."""
        if plan.kind == "score":
            return 1
        return max(len(self.schedule.rounds_of(part.name)) for part in self.terms.owners)

    def _openings(self, plan: StagePlan) -> int:
        """In how many openings one person can be: with records at several owners, in the rounds of each of them."""
        return (
            1
            if plan.kind == "score"
            else min(self.schedule.horizon, self.terms.privacy.shared_records * self._most_answers(plan))
        )

    def most_uses(self, plan: StagePlan) -> int:
        """How many of its answers one record can be in, of the owner where that is most."""
        return 1 if plan.kind == "score" else self._most_training_uses

    @cached_property
    def _most_training_uses(self) -> int:
        return max(uses(self.terms.learning, self.schedule.rounds_of(part.name)) for part in self.terms.owners)

    def _span(self, question: Question) -> Span:
        """How far an owner's answers go."""
        largest = max(float(np.max(np.abs(question.extent.low))), float(np.max(np.abs(question.extent.high))))
        roundings = 2 if question.rate < 1 else pieces(self.terms, question)
        return Span(question.records, question.sensitivity, question.extent.size, largest, roundings)
