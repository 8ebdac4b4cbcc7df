"""Who sees every answer of a run, knows both tables, and adds up how much the answers speak for one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from parley.network.exchange import Exchange
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries import Answer, Query, Tables
from parley.protocol.setup import Setup
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class Attacker:
    """The likelihood-ratio test by the claimed law of the noise: no other is sharper where that law is drawn, and
    whatever is drawn, it is a test.

    Where an owner draws something in secret beside its noise, there is no such formula: answers are projected on
    `directions`, how far they differ on average, by round, found on other runs.
    """

    setup: Setup
    name: str
    a: Tables
    b: Tables
    others: Mapping[str, Tables]
    directions: Mapping[int, Floats] = field(default_factory=dict)

    @property
    def guesses(self) -> bool:
        """Whether it needs directions."""
        return self.setup.part(self.name).training.question.draws

    def speaks(self, questions: Mapping[str, Query], value: Floats, replicates: tuple[int, ...]) -> Floats:
        """By how much the owner's answer to these questions speaks for b and against a [*replicates]."""
        query = questions[self.name]
        if self.guesses:
            return np.asarray(value @ self.directions[query.round])
        noise = self.setup.part(self.name).stage(query.round).series.mechanism
        scale = noise.noise_scale
        at_a, at_b = (self._exact(self.name, query, tables, replicates) for tables in (self.a, self.b))
        if isinstance(noise, SharedNoise):
            sizes = {name: self.setup.part(name).stage(query.round).question.records for name in questions}
            total = sum(sizes.values())
            rest = sum(
                (sizes[name] / total * self._exact(name, asked, self.others[name], replicates))
                for name, asked in questions.items()
                if name != self.name
            )
            at_a, at_b = (at * (sizes[self.name] / total) + rest for at in (at_a, at_b))
            scale = noise.over(total).noise_scale
        if noise.norm == "l1":
            return np.asarray((np.abs(value - at_a) - np.abs(value - at_b)).sum(axis=-1) / scale)
        return np.asarray(((at_b - at_a) * (2 * value - at_a - at_b)).sum(axis=-1) / (2 * scale**2))

    def _exact(self, name: str, query: Query, tables: Tables, replicates: tuple[int, ...]) -> Floats:
        return self.setup.part(name).stage(query.round).question.bounded(query, tables, replicates).value


class Overheard:
    """An exchange whose questions are asked twice, and whose answers an attacker listens to: a retry must bring
    nothing new."""

    def __init__(self, exchange: Exchange, attacker: Attacker, replicates: int) -> None:
        self._exchange, self._attacker, self._replicates = exchange, attacker, (replicates,)
        self.statistic: Floats = np.zeros(replicates)
        self.means: dict[int, Floats] = {}  # of the owner's answers, by round
        self.first: Floats = np.empty((0, 0))  # its first answer

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        answers = self._exchange.ask(questions)
        name = self._attacker.name
        if name not in questions:
            return answers
        heard = [self._own(answers)]
        # where one noise is drawn for all, a study draws it anew, and hosts never do
        if not self._attacker.setup.terms.noise.summed and not np.array_equal(
            again := self._own(self._exchange.ask(questions)), heard[0]
        ):
            heard.append(again)
        self.first = self.first if self.first.size else heard[0]
        self.means[questions[name].round] = np.mean(heard, axis=(0, 1))
        if not self._attacker.guesses or self._attacker.directions:
            for value in heard:
                self.statistic += self._attacker.speaks(questions, value, self._replicates)
        return answers

    def _own(self, answers: Sequence[Answer]) -> Floats:
        """The audited owner's answer, or the sum that it is a part of."""
        return next(each.value for each in answers if self._attacker.name in each.owners)
