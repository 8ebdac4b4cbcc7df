"""Randomised answers drawn on people's own devices, and estimates from them. Answers are protected before they leave a
person (A section 3.3, local privacy), so there is no owner or ledger, and reading them is free."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np

from parley.errors import DataError, SettingError
from parley.privacy.mechanisms.exact_samplers import DrawWords, random_words
from parley.privacy.mechanisms.randomised_response import WORD_COUNT, RandomisedResponse
from parley.validate import printable

NORMAL_QUANTILE = 1.96  # deviations within which 95 of 100 normal numbers lie


@dataclass(frozen=True)
class Survey:
    """A question with listed answers, each given with this epsilon.

    Formal guarantee: a drawn answer is (epsilon, 0)-private for its person, whoever collects it and whatever else is
    known: it is at most e^epsilon times likelier under one true name than under another. Drawing again for the same
    person costs as much again.

    >>> Survey(("yes", "no"), math.log(3) * (1 + 1e-12)).truthful.__round__(6)
    0.5
    """

    names: tuple[str, ...]
    epsilon: float

    def __post_init__(self) -> None:
        if len(self.names) < 2 or len(set(self.names)) < len(self.names) or "" in self.names:
            raise SettingError("names: expected two or more different names, none of them empty")
        if not 0 < self.epsilon < math.inf:
            raise SettingError(f"epsilon = {self.epsilon!r}: expected a positive number")

    @property
    def truthful(self) -> float:
        """The probability that an answer is the true one; otherwise it is any of the names."""
        return self.mechanism(1).share

    def answered(self, truths: Sequence[str], draw: DrawWords = random_words) -> list[str]:
        """Return one drawn answer for each of these truths."""
        places = {name: place for place, name in enumerate(self.names)}
        if not all(truth in places for truth in truths):
            raise SettingError(f"truth: expected one of {', '.join(map(printable, self.names))}")
        told = self.mechanism(max(len(truths), 1)).answer(np.array([places[t] for t in truths], dtype=np.int64), draw)
        return [self.names[place] for place in told]

    def counted(self, answers: Sequence[str]) -> "CollectedCounts":
        """Return the counts of these answers; an unlisted one is a `DataError`."""
        if not answers:
            raise DataError("answers: expected at least one answer")
        counts = [list(answers).count(name) for name in self.names]
        if sum(counts) < len(answers):
            place = next(at for at, answer in enumerate(answers) if answer not in self.names)
            raise DataError(f"answers: the value in row {place + 1} is not one of the names in the question")
        return CollectedCounts(self, tuple(counts))

    def mechanism(self, records: int) -> RandomisedResponse:
        """Return the randomised response for this number of people."""
        return RandomisedResponse.calibrate(Fraction(self.epsilon), len(self.names), records, 1, 2 / records)


@dataclass(frozen=True)
class CollectedCounts:
    """The counts of a survey's answers, and estimates of the truth."""

    survey: Survey
    answers: tuple[int, ...]

    @property
    def people(self) -> int:
        return sum(self.answers)

    @property
    def unbiased(self) -> tuple[float, ...]:
        """Unbiased estimates; they may be negative, or exceed the number of people."""
        w, m = self.survey.truthful, len(self.survey.names)
        return tuple((count - self.people * (1 - w) / m) / w for count in self.answers)

    @property
    def deviation(self) -> float:
        """An upper bound on an estimate's deviation due to the draws."""
        return self.people * self.survey.mechanism(self.people).noise_scale

    @property
    def likeliest(self) -> tuple[float, ...]:
        """The nonnegative counts, adding up to all people, under which these answers are likeliest. Positive counts
        have expected answers proportional to their answers, for the largest k of the commonest names that keeps all
        positive. Fractions avoid cancellation at tiny epsilon."""
        w = Fraction(self.survey.mechanism(self.people).truthful, WORD_COUNT)
        other = self.people * (1 - w) / len(self.answers)
        ranked = sorted(self.answers, reverse=True)
        factors = [(self.people * w + k * other) / of_k for k, of_k in enumerate(accumulate(ranked), start=1)]
        last = [factor for count, factor in zip(ranked, factors, strict=True) if count * factor > other][-1]
        return tuple(float(max((count * last - other) / w, Fraction(0))) for count in self.answers)

    def within(self, estimate: float) -> tuple[float, float]:
        """Return an unbiased estimate's approximate 95% interval, for many people and a name that is not rare."""
        reach = NORMAL_QUANTILE * self.deviation
        low, high = (float(min(max(end, 0.0), self.people)) for end in (estimate - reach, estimate + reach))
        return low, high

    @property
    def rows(self) -> list[tuple[str, int, float, float]]:
        """(name, answers, unbiased, likeliest) of every name."""
        return list(zip(self.survey.names, self.answers, self.unbiased, self.likeliest, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley answers count --json` prints."""
        return {
            "people": self.people,
            "epsilon": self.survey.epsilon,
            "truthful": self.survey.truthful,
            "deviation": self.deviation,
            "names": [
                {
                    "name": name,
                    "answers": answers,
                    "unbiased": true_of,
                    "likeliest": best,
                    "within": self.within(true_of),
                }
                for name, answers, true_of, best in self.rows
            ],
        }
