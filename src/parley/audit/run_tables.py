"""Two neighbouring tables that whole runs are on, whatever a record is: where a row without a target contributes
nothing, tables of the agreed size (`canary`); else as small as the terms allow, their canaries the two of some at the
ends of what the terms allow whose answers lie farthest apart (`exact.pair_search`)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from parley.audit.canary import CanarySearch, compressed
from parley.audit.exact.cell_pool import FRAME
from parley.audit.exact.pair_search import PairSearch, answerable, exact_answer, farthest, plain_trial
from parley.audit.exact.trial import Asked, StageQuestions, Trial, Unit
from parley.data.sources import Table
from parley.errors import TermsError
from parley.owner.owner import Owner
from parley.protocol.queries import Tables
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION

CANARIES = 3  # times as many as a search begins with
MANY = 64  # records: of fewer, noise would lead a model far astray


class AuditedOwner(Owner):
    """An owner of a table that an audit made, of which hardly any row has a target."""

    def _tables(self, setup: Setup) -> Tables:
        tables = super()._tables(setup)
        return Tables(compressed(tables.train), compressed(tables.held_out))


@dataclass(frozen=True, eq=False)
class RunTables:
    """The audited owner with either table, and everybody else."""

    setup: Setup
    own: tuple[Owner, Owner]
    others: Mapping[str, Owner]

    @classmethod
    def find(cls, terms: Terms, name: str, stage: int = 0) -> "RunTables":
        """The pair for this stage of what an owner is asked: training, or the score."""
        setup = resolve(terms)
        others = [part.name for part in terms.owners if part.name != name]
        if terms.task != PREDICTION:
            return _small(setup, name, others)
        pair = CanarySearch(setup, name, stage).neighbours()
        rest = {other: AuditedOwner(other, CanarySearch(setup, other).empty_table) for other in others}
        return cls(setup, (AuditedOwner(name, pair.a), AuditedOwner(name, pair.b)), rest)


def _small(setup: Setup, name: str, others: list[str]) -> RunTables:
    """The same on tables as small as the terms allow."""
    search = PairSearch(setup, name)
    for records in _sizes(setup, name, search.shape.records + 1):
        sizes = {part.name: {"records": records} for part in setup.terms.owners}
        try:
            small = setup.under(setup.terms.changed(owners=sizes))
            asked = Asked(small, small.part(name).training.question)
        except TermsError:
            continue
        break
    else:
        raise TermsError(f"{name}: these terms cannot be asked about a table of any size up to the agreed one")
    base, a, b = _farthest(search, asked)

    def table(unit: Unit) -> Table:
        return FRAME.write(search.shape.table(base, unit), Path())

    rest = {other: Owner(other, table(base.a)) for other in others}
    return RunTables(small, (Owner(name, table(a)), Owner(name, table(b))), rest)


def _sizes(setup: Setup, name: str, least: int) -> Iterator[int]:
    """How many records a table may have, of which the first that is allowed is taken: few, for whoever else is in it
    hides the canary, but `MANY` where others have no target; as many as are agreed at last."""
    agreed, batches = setup.terms.owner(name).records, setup.terms.learning.batches or 1
    few = MANY if setup.task.predicts else least
    yield from (size for size in (few, max(few, batches), 2 * max(few, batches)) if size < agreed)
    yield agreed


def _farthest(search: PairSearch, asked: Asked) -> tuple[Trial, Unit, Unit]:
    """The others, and the two canaries whose answers lie farthest apart where a run begins."""
    rng = np.random.default_rng(0)
    questions = StageQuestions(asked.setup, search.name, 0)
    queries = list(questions.queries(asked, questions.query(0).arrays, 0))
    for base in _others(search, asked, plain_trial(search, rng)):
        units, tables = answerable(search, base, asked, rng, CANARIES)
        if len(units) < 2:
            continue
        # of L1 differences of one size noise hides those in a single number least
        apart, a, b = farthest([exact_answer(asked, queries, each) for each in tables], "l2")
        if apart > 0:
            return base, units[a], units[b]
    raise TermsError(f"{search.name}: no record was found that moves its answers; nothing can be audited")


def _others(search: PairSearch, asked: Asked, plain: Trial) -> Iterator[Trial]:
    """Everybody else: without a target if that is allowed, so that nobody else is seen; the canary stands at any place,
    for some may be held out."""
    count = asked.setup.terms.owner(search.name).records - search.shape.records
    targets = [{asked.setup.terms.model.target: None}] if asked.setup.task.predicts else []
    for blank in (*targets, {}):
        other = tuple({**row, **blank} for row in plain.others[0])
        for place in range(min(count, 8) + 1):
            yield replace(plain, others=(other,) * count, place=place)


def few_owners(terms: Terms, name: str) -> Terms:
    """The terms with one owner in the place of all others: no answer of the audited one depends on how many they
    are, beyond the model that it is asked at."""
    others = [part for part in terms.owners if part.name != name]
    learning = terms.learning
    if len(others) < 2 or learning.topology is not None or learning.participation is not None:
        return terms
    together = {"records": sum(part.records for part in others), "epsilon": min(part.epsilon for part in others)}
    kept = [part.name for part in terms.owners if part.name in (name, others[0].name)]
    quorum = None if learning.quorum is None else {"quorum": min(learning.quorum, 2)}
    # what the learner makes of answers is no part of what they tell
    return terms.changed(learning=quorum, only=kept, owners={others[0].name: together}, aggregation={})
