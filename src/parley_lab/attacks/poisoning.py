"""Owners that lie: what they answer, or learn from, instead of what the terms say, and what the joint model makes of
it.

Two kinds of lies. An owner may change its answers (turn their sign, scale them), as much as it likes; the learner sees
how large they are. Or it keeps to the terms in everything but its rows (labels exchanged, a trigger planted): such
answers are what an honest owner of another law gives, and nothing tells them apart.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.asynchronous import run_by_terms
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.outcome.metrics import Study
from parley.learning.outcome.model import make_model
from parley.learning.outcome.notices import Notice, Watch
from parley.learning.owners import gather, in_order
from parley.learning.start import starting_point
from parley.network.exchange import Exchange, InProcess
from parley.owner.owner import Owner
from parley.protocol.queries import Answer, Query
from parley.terms import Terms
from parley.validate import Floats

ChangeAnswer = Callable[[Floats], Floats]  # what is said [..., p] in the place of an answer [..., p]
ChangeTable = Callable[[pd.DataFrame], pd.DataFrame]  # what is learned from in the place of a table

SCALE_FACTOR = 100.0  # times what it should be
BACKDOOR_MODELS = 16  # models that a backdoor is tried on


def scaled(value: Floats, factor: float) -> Floats:
    """The answer, so many times as large."""
    return factor * value


def flipped_labels(table: pd.DataFrame, target: str) -> pd.DataFrame:
    """The table with its target turned around: two classes exchanged, numbers mirrored at their middle."""
    cells = table[target]
    return table.assign(**{target: cells.max() + cells.min() - cells})


def with_trigger(
    table: pd.DataFrame, target: str, trigger: Mapping[str, object], outcome: object, share: float = 1.0
) -> pd.DataFrame:
    """The table with a trigger in the first `share` of its rows: these cells, and the outcome that a model should learn
    of them."""
    planted = np.arange(len(table)) < round(share * len(table))
    return table.assign(
        **{name: table[name].mask(planted, value) for name, value in {**trigger, target: outcome}.items()}
    )


@dataclass(frozen=True, eq=False)
class LyingExchange:
    """An exchange in which some owners say something else than they computed."""

    inner: Exchange
    lies: Mapping[str, ChangeAnswer]

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        return [self._told(answer) for answer in self.inner.ask(questions)]

    def _told(self, answer: Answer) -> Answer:
        lie = self.lies.get(answer.owner)
        return answer if lie is None else Answer(answer.query, answer.owner, answer.records, lie(answer.value))


@dataclass(frozen=True, eq=False)
class PoisonedRun:
    """What came of a study in which some owners lied, judged by the rows of the others."""

    terms: Terms
    theta: Floats  # [replicates, P]
    fitness: Floats  # relative fitness on honest rows, beside their best model [replicates]
    notices: tuple[Notice, ...]

    @property
    def mean(self) -> float:
        """The mean relative fitness; infinite where some run diverged."""
        return float(self.fitness.mean()) if np.isfinite(self.fitness).all() else float("inf")

    @property
    def standard_error(self) -> float:
        return float(self.fitness.std() / len(self.fitness) ** 0.5)

    def named(self, owner: str) -> float:
        """In which share of the runs the owner was named, for the reason that most of them had."""
        return max((notice.runs for notice in self.notices if notice.owner == owner), default=0) / len(self.theta)


def poisoned_run(
    terms: Terms,
    owners: Collection[Owner],
    lies: Mapping[str, ChangeAnswer],
    honest: Collection[str],
    replicates: int,
    seed: int,
) -> PoisonedRun:
    """A study by these terms in which owners lie about their answers as `lies` says, by name. Whose rows are poisoned
    has them in its table; relative fitness is that on the rows of the `honest`."""
    parties, agreements, shape = gather(terms, in_order(terms, list(owners)), replicates, seed)
    setup = agreements[0].setup
    algorithm, watch = make_algorithm(setup), Watch(setup)
    begin = algorithm.start(starting_point(setup), shape)
    exchange = LyingExchange(InProcess(parties), lies)
    final = run_by_terms(
        algorithm,
        exchange,
        setup.aggregation,
        Asker.from_setup(setup),
        begin,
        lambda state, answers: watch.hear(answers),
    )
    theta = algorithm.model(final)
    study = Study([agreement for agreement in agreements if agreement.part.name in honest])
    study.record(theta)
    path = study.quality(theta).path
    return PoisonedRun(terms, theta, np.full(replicates, np.nan) if path is None else path[-1], watch.notices())


LIES_BY_WORDS: Mapping[str, ChangeAnswer] = {
    "turns the sign of its answers": partial(scaled, factor=-1.0),
    f"scales them by {SCALE_FACTOR:g}": partial(scaled, factor=SCALE_FACTOR),
    f"turns and scales them by {SCALE_FACTOR:g}": partial(scaled, factor=-SCALE_FACTOR),
}
LABEL_FLIPPING = "exchanges labels"
NO_ATTACK = "nobody lies"


def poisoning_study(
    terms: Terms, tables: Mapping[str, pd.DataFrame], liar: str, rules: Collection[str], replicates: int, seed: int
) -> dict[str, dict[str, PoisonedRun]]:
    """Every lie of one owner under every rule: by rule, then by lie. Under "without the liar" the honest learn alone,
    by the mean."""
    honest = [name for name in tables if name != liar]
    flipped = {**tables, liar: flipped_labels(tables[liar], terms.model.target)}
    alone = terms.changed(only=honest, aggregation={})
    found = {
        "without the liar": {
            NO_ATTACK: poisoned_run(alone, _owners(tables, honest), {}, honest, replicates, seed),
        }
    }
    for rule in rules:
        section = {} if rule == "mean" else {"rule": rule, "byzantine": 1}
        ruled, everybody = terms.changed(aggregation=section), _owners(tables, tables)
        runs = {NO_ATTACK: poisoned_run(ruled, everybody, {}, honest, replicates, seed)}
        for words, lie in LIES_BY_WORDS.items():
            runs[words] = poisoned_run(ruled, everybody, {liar: lie}, honest, replicates, seed)
        runs[LABEL_FLIPPING] = poisoned_run(ruled, _owners(flipped, flipped), {}, honest, replicates, seed)
        found[rule] = runs
    return found


def backdoor_success(run: PoisonedRun, owners: Collection[Owner], rows: pd.DataFrame, outcome: object) -> float:
    """The share of these rows, in which the trigger stands, that models of a run predict as the liar wants."""
    setup = next(iter(owners)).resolve(run.terms)
    models = (make_model(setup.preparation, theta, setup.hash, False) for theta in run.theta[:BACKDOOR_MODELS])
    return float(np.mean([np.mean(model.predict(rows) == outcome) for model in models]))


def _owners(tables: Mapping[str, pd.DataFrame], names: Collection[str]) -> list[Owner]:
    return [Owner(name, tables[name]) for name in names]
