"""What travels between a learner and an owner: frozen, numeric, nothing executable.

A query's id is the learner's to choose and names one question for ever: asked again it gets the same answer. `ask` derives it from the
content, so that a learner that restarts and computes the same parameter asks the same question.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class _AtTheta:
    """A question about one parameter theta [..., p]; "..." are replicates."""

    kind: ClassVar[str]
    id: str
    terms: str
    learner: str
    round: int
    theta: Floats

    @classmethod
    def ask(cls, terms: str, learner: str, round: int, theta: Floats) -> Self:  # noqa: A002
        theta = _read_only(theta)
        return cls(cls("", terms, learner, round, theta).content[:32], terms, learner, round, theta)

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything the answer depends on."""
        return _digest([self.kind, self.terms, self.learner, str(self.round)], self.theta)


class GradientQuery(_AtTheta):
    """Round `round` of the agreement `terms` (its hash): the mean record gradient at theta [..., p].

    >>> query = GradientQuery.ask("ab12", "learner", 1, np.zeros(3))
    >>> query.id == query.content[:32]
    True
    """

    kind = "gradient"


class ScoreQuery(_AtTheta):
    """How good the finished model theta [..., p] is on held-out rows, as `objectives.score` says. Asked once, after the last round."""

    kind = "score"


@dataclass(frozen=True, eq=False)
class StatisticsQuery:
    """Round `round` of the agreement `terms`: the mean of z z' over the records z = [x, y], packed as `objectives.moments` says."""

    id: str
    terms: str
    learner: str
    round: int

    @classmethod
    def ask(cls, terms: str, learner: str, round: int) -> "StatisticsQuery":  # noqa: A002
        return cls(cls("", terms, learner, round).content[:32], terms, learner, round)

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything the answer depends on."""
        return _digest(["statistics", self.terms, self.learner, str(self.round)])


@dataclass(frozen=True, eq=False)
class UpdateQuery:
    """Round `round` of the agreement `terms`: the mean direction of `steps` local steps from `start` [..., p]; "..." are replicates."""

    id: str
    terms: str
    learner: str
    round: int
    start: Floats
    steps: int

    @classmethod
    def ask(cls, terms: str, learner: str, round: int, start: Floats, steps: int) -> "UpdateQuery":  # noqa: A002
        start = _read_only(start)
        return cls(cls("", terms, learner, round, start, steps).content[:32], terms, learner, round, start, steps)

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything the answer depends on."""
        return _digest(["update", self.terms, self.learner, str(self.round), str(self.steps)], self.start)


Query = GradientQuery | StatisticsQuery | UpdateQuery | ScoreQuery


@dataclass(frozen=True, eq=False)
class Answer:
    """One owner's noisy answer; `records` is its public n_l, by which answers are weighted."""

    query: str
    owner: str
    records: int
    value: Floats


def _read_only(values: Floats) -> Floats:
    """Algorithms make a new array each round, so a read-only view is enough."""
    view = values.view()
    view.flags.writeable = False
    return view


def _digest(facts: list[str], numbers: Floats | None = None) -> str:
    """SHA-256 of the facts, and of the numbers with their shape."""
    if numbers is None:
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()
    numbers = np.ascontiguousarray(numbers, dtype="<f8")
    digest = hashlib.sha256("\n".join([*facts, str(numbers.shape), ""]).encode())
    digest.update(numbers.data)
    return digest.hexdigest()
