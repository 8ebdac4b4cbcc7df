"""What travels between a learner and an owner: frozen, numeric, nothing executable."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class GradientQuery:
    """Round `round` of the agreement `terms` (its hash): the mean record gradient at theta [..., p]; "..." are replicates.

    The id is the learner's to choose and names one question for ever: asked again it gets the same answer. `ask` derives it from
    the content, so that a learner that restarts and computes the same parameter asks the same question.

    >>> query = GradientQuery.ask("ab12", "learner", 1, np.zeros(3))
    >>> query.id == query.content[:32]
    True
    """

    id: str
    terms: str
    learner: str
    round: int
    theta: Floats

    @classmethod
    def ask(cls, terms: str, learner: str, round: int, theta: Floats) -> "GradientQuery":  # noqa: A002
        frozen = theta.view()  # algorithms make a new array each round, so a read-only view is enough
        frozen.flags.writeable = False
        query = cls("", terms, learner, round, frozen)
        return cls(query.content[:32], terms, learner, round, frozen)

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything the answer depends on."""
        return _content("gradient", self)


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
        return hashlib.sha256("\n".join(["statistics", self.terms, self.learner, str(self.round)]).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class ScoreQuery:
    """How good the finished model theta [..., p] is on held-out rows, as `objectives.score` says. Asked once, after the last round.

    >>> ScoreQuery.ask("ab12", "learner", 11, np.zeros(3)).id == GradientQuery.ask("ab12", "learner", 11, np.zeros(3)).id
    False
    """

    id: str
    terms: str
    learner: str
    round: int
    theta: Floats

    @classmethod
    def ask(cls, terms: str, learner: str, round: int, theta: Floats) -> "ScoreQuery":  # noqa: A002
        frozen = theta.view()
        frozen.flags.writeable = False
        return cls(cls("", terms, learner, round, frozen).content[:32], terms, learner, round, frozen)

    @cached_property
    def content(self) -> str:
        """SHA-256 of everything the answer depends on."""
        return _content("score", self)


Query = GradientQuery | StatisticsQuery | ScoreQuery


def _content(kind: str, query: GradientQuery | ScoreQuery) -> str:
    theta = np.ascontiguousarray(query.theta, dtype="<f8")
    head = "\n".join([kind, query.terms, query.learner, str(query.round), str(theta.shape)])
    return hashlib.sha256(head.encode() + b"\n" + theta.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Answer:
    """One owner's noisy answer; `records` is its public n_l, by which answers are weighted."""

    query: str
    owner: str
    records: int
    value: Floats
