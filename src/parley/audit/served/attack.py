"""A served owner as a black box: the daemon that production runs, over TLS and gRPC, on an audit table with books of
its own."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from parley.audit.distinguishing import check_confidence
from parley.audit.planted import Coins, Guesses, plant
from parley.audit.served.noise_law import RepeatVerdict, ServedVerdict, find_repeats, judge_noise
from parley.audit.served.table import HERE, PROGRAM, ServedTable, daemon, make_table, open_table
from parley.errors import ContradictionError, ExchangeError, SettingError, Unavailable
from parley.learning.algorithms.algorithm import Progress
from parley.network.exchange.answer_checks import Scrutiny
from parley.network.exchange.messages import AccountStatement, AnswerReply
from parley.network.exchange.remote import Peer, RemoteOwner
from parley.protocol.queries import Query
from parley.protocol.stages import Part
from parley.terms import Terms
from parley.validate import Floats, upper, whole

PATIENCE = 60.0  # seconds for an answer
FEWEST = 2  # tables, each served by a start of its own: noise must not come again at the next
PAUSE = 0.1  # seconds before an owner that is not ready is asked again


@dataclass(frozen=True, eq=False)
class Heard:
    """What one table's daemon answered, all rounds at one parameter, each question asked twice."""

    coins: Coins
    scores: Floats  # by how much all answers speak for each coin
    answers: Floats  # [rounds, size]
    exact: Floats | None  # what the table says in each of them; None where that is drawn in secret
    changed: frozenset[int]  # rounds whose question got another answer when it was asked again
    charged: frozenset[int]  # rounds that were not debited as agreed, or debited again
    statement: AccountStatement  # where the books stood after the last answer


def audit_served(
    terms: Terms,
    name: str,
    folder: Path,
    tables: int = FEWEST,
    program: Sequence[str] = PROGRAM,
    seed: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
) -> ServedVerdict:
    """Make audit tables in a new folder, start `program owner serve` on each, ask all rounds of the agreed training as
    the certified learner, each twice and the last once more after a restart, and judge what comes back.

    Formal guarantee: whatever the daemon does, if its answers are as private as claimed, `lower_bound` exceeds the
    claim with probability at most 1 - confidence (`one_run_bound`); honest noise is called another, or drawn before,
    with probability at most `noise_law.FALSE_ALARM`.
    """
    began, tables = time.perf_counter(), whole(tables, "tables", least=FEWEST)
    check_confidence(terms.privacy.delta, confidence)
    planted, rng = plant(terms, name), np.random.default_rng(seed)
    if folder.exists():
        raise SettingError(f"{folder}: exists already; an audit makes tables and books of its own, in a new folder")
    rounds, heard = len(planted.setup.part(name).training.rounds), []
    for number in range(tables):
        table = make_table(folder / f"table-{number + 1}", planted, HERE, rng)
        with daemon(program, table.settings_file) as address, reached(table, address) as owner:
            heard.append(attack(table, owner, _within(progress, number * rounds, tables * rounds)))
    with daemon(program, table.settings_file) as address, reached(table, address) as owner:
        heard[-1] = asked_once_more(table, owner, heard[-1])
    return judge(terms, planted.setup.part(name), heard, confidence, time.perf_counter() - began)


def prepare(terms: Terms, name: str, folder: Path, listen: str, seed: int | None = None) -> ServedTable:
    """A new audit table with its books, for a daemon that somebody else starts and that listens there."""
    return make_table(folder, plant(terms, name), listen, np.random.default_rng(seed))


def audit_address(
    terms: Terms,
    name: str,
    folder: Path,
    address: str,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
) -> ServedVerdict:
    """The same of a daemon that somebody else started on the audit table in a folder, and that listens at an
    address."""
    began, planted = time.perf_counter(), plant(terms, name)
    check_confidence(terms.privacy.delta, confidence)
    rounds, table = len(planted.setup.part(name).training.rounds), open_table(folder, planted)
    with reached(table, address) as owner:
        heard = attack(table, owner, _within(progress, 0, rounds))
    return judge(terms, planted.setup.part(name), [heard], confidence, time.perf_counter() - began)


@contextmanager
def reached(table: ServedTable, address: str) -> Iterator[RemoteOwner]:
    """The owner at this address, asked as the learner whom the audit's own authority certified."""
    owner = RemoteOwner(table.planted.name, address, table.identity)
    try:
        yield owner
    finally:
        owner.close()


def attack(table: ServedTable, owner: Peer, done: Callable[[int], None] = lambda count: None) -> Heard:
    """Ask every round of training at the parameter where a run begins, each twice; refused if the owner has other books
    than the audit table's."""
    planted = table.planted
    part, rules = planted.setup.part(planted.name), Scrutiny(planted.setup.part(planted.name), gaps=False)
    scores, answers, changed, charged = np.zeros(len(planted)), list[Floats](), set[int](), set[int]()
    before, exact = _own_books(owner, table), list[Floats]()
    for count, number in enumerate(part.training.rounds, 1):
        query = planted.search.query(number)
        first, again = (_asked(owner, query, rules) for _ in range(2))
        fresh = first.answer.value.tobytes() != again.answer.value.tobytes()
        for reply in (first, again) if fresh else (first,):
            scores += planted.speaks(query, reply.answer.value)
        answers.append(first.answer.value)
        exact.extend(() if (value := table.exact(query)) is None else (value,))
        if fresh:
            changed.add(number)
        if not _debited_once(first.statement, again.statement, number, count, before, rules):
            charged.add(number)
        before = first.statement
        done(count)
    known = np.array(exact) if exact else None
    return Heard(table.coins, scores, np.array(answers), known, frozenset(changed), frozenset(charged), before)


def asked_once_more(table: ServedTable, owner: Peer, heard: Heard) -> Heard:
    """The same with the last question asked once more, of a daemon that was started anew: its answer was stored, and
    its books must stand where they stood."""
    part = table.planted.setup.part(table.planted.name)
    number = part.training.rounds[-1]
    again = _asked(owner, table.planted.search.query(number), Scrutiny(part, gaps=False))
    fresh = again.answer.value.tobytes() != heard.answers[-1].tobytes()
    return replace(
        heard,
        changed=heard.changed | ({number} if fresh else set()),
        charged=heard.charged | (set() if again.statement == heard.statement else {number}),
    )


def _own_books(owner: Peer, table: ServedTable) -> AccountStatement:
    """Where the agreement stands before anything is asked, if the ledger's chain is that of the audit table and holds
    no answer yet."""
    terms, known = table.planted.setup.terms, table.accepted
    statement = owner.statement(terms.hash, terms.learning.learner, PATIENCE, known.entries)
    if statement.earlier_hash != known.hash:
        raise ExchangeError(
            f"{owner.name}: who listens there serves other books than the audit table's; nothing was asked"
        )
    if statement.answered:
        raise ExchangeError(f"{owner.name}: this audit table was asked already; make a new one")
    return statement


def _asked(owner: Peer, query: Query, rules: Scrutiny) -> AnswerReply:
    """The owner's answer, waited for as long as asking again may help."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return owner.ask(query, *rules.expected(query), PATIENCE)
        except Unavailable:
            if time.monotonic() > until:
                raise
            time.sleep(PAUSE)


def _debited_once(
    first: AccountStatement,
    again: AccountStatement,
    number: int,
    answers: int,
    before: AccountStatement,
    rules: Scrutiny,
) -> bool:
    """Whether a round was debited as the terms say, and the same question again changed nothing in the books."""
    try:
        rules.check_statement(first, number, answers, before)
    except ContradictionError:
        return False
    return again == first and first.head != before.head


def judge(
    terms: Terms, part: Part, heard: Sequence[Heard], confidence: float = 0.99, seconds: float = 0.0
) -> ServedVerdict:
    """What all tables' answers come to."""
    question, mechanism = part.training.question, part.training.series.mechanism
    pairs = len(part.training.rounds) // 2
    noise = None
    if pairs and not question.batched:  # both answers of a pair are about the same rows, at the same parameter
        apart = [each.answers[1 : 2 * pairs : 2] - each.answers[0 : 2 * pairs : 2] for each in heard]
        noise = judge_noise(np.concatenate(apart), mechanism)
    return ServedVerdict(
        owner=part.name,
        claimed_epsilon=upper(terms.training_epsilon(part.name)),
        delta=terms.privacy.delta,
        guesses=Guesses.of(*(np.concatenate(each) for each in zip(*((h.coins, h.scores) for h in heard), strict=True))),
        confidence=confidence,
        tables=len(heard),
        rounds=sum(len(each.answers) for each in heard),
        changed=sum(len(each.changed) for each in heard),
        charged=sum(len(each.charged) for each in heard),
        noise=noise,
        repeats=_repeats(part, heard),
        seconds=seconds,
    )


def _repeats(part: Part, heard: Sequence[Heard]) -> RepeatVerdict | None:
    """Whether noise of any answer came before, in the same table or in another, where it is known."""
    left = [each.answers - each.exact for each in heard if each.exact is not None]
    if not left:
        return None
    largest = max(float(np.abs(each.exact).max()) for each in heard if each.exact is not None)
    return find_repeats(np.concatenate(left), part.training.series.mechanism, largest)


def _within(progress: Progress, before: int, total: int) -> Callable[[int], None]:
    """Progress of one part of the work."""
    return lambda done: progress(before + done, total)
