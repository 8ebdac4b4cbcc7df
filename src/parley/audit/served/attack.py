"""A served owner as a black box: the production daemon, over TLS and gRPC, on an audit table with its own ledger."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parley.audit.attacker import AuditedOwner
from parley.audit.distinguishing import check_confidence
from parley.audit.planted import Coins, Guesses, PlantedPairs, plant, toss_coins
from parley.audit.served.noise_law import RepeatVerdict, ServedVerdict, find_repeats, judge_noise
from parley.durable import create, make_folder
from parley.errors import ContradictionError, ExchangeError, SettingError, TermsError, Unavailable
from parley.learning.algorithms.algorithm import Progress
from parley.network.exchange.answer_checks import Scrutiny
from parley.network.exchange.messages import AccountStatement, AnswerReply
from parley.network.exchange.remote import Peer, RemoteOwner
from parley.network.identity.certificate_authority import issue, make_authority, make_request
from parley.network.identity.settings import Identity, OwnerSettings, load_owner
from parley.network.serving.offer import consider
from parley.network.serving.opening import open_ledger
from parley.owner.acceptance_summary import require_ledger
from parley.owner.ledger.account import Head
from parley.owner.other_books import REASON_FOR_AUDITS
from parley.protocol.queries import Query, Tables
from parley.protocol.stages import Part
from parley.terms import Terms
from parley.validate import Floats, upper, whole

CERTIFICATE_DAYS = 60  # that its certificates are good for
TABLE_FORMAT = "parley-audit-1"


@dataclass(frozen=True, eq=False)
class ServedTable:
    """An audit's table, its folder, and where its ledger's chain ended when its terms were accepted. Other books, or
    this ledger with another table, cannot show the same."""

    folder: Path
    planted: PlantedPairs
    coins: Coins
    accepted: Head

    @property
    def settings_file(self) -> Path:
        """The settings file that starts its daemon."""
        return self.folder / "owner" / "owner.toml"

    @property
    def settings(self) -> OwnerSettings:
        return load_owner(self.settings_file)

    @property
    def identity(self) -> Identity:
        """The attacker's identity: the learner named in the terms, certified by the audit's own authority."""
        folder = self.folder / "learner"
        name = self.planted.setup.terms.learning.learner
        return Identity(authority=folder / "ca.crt", certificate=folder / f"{name}.crt", key=folder / f"{name}.key")

    def exact(self, query: Query) -> Floats | None:
        """Return the table's exact answer to a training question [size]; None if rows are drawn in secret."""
        question = self.planted.setup.part(self.planted.name).training.question
        return None if question.draws else question.bounded(query, self._prepared).value.reshape(-1)

    @cached_property
    def _prepared(self) -> Tables:
        owner = AuditedOwner(self.planted.name, self.planted.table(self.coins))
        return owner.prepare(self.planted.setup).tables


def make_table(folder: Path, planted: PlantedPairs, listen: str, rng: np.random.Generator) -> ServedTable:
    """Make an audit table and its ledger in a new folder: toss its coins and accept its terms.

    It holds nobody's rows. Its ledger's lifetime budget is what the terms cost, so nothing else can ever be asked.
    """
    terms, name = planted.setup.terms, planted.name
    require_other_learner(terms, name)
    if folder.exists():
        raise SettingError(f"{folder}: the folder already exists; name a new folder for the audit's table and ledger")
    owner, coins = folder / "owner", toss_coins(len(planted), rng)
    for place in (folder, owner, folder / "learner", folder / "authority"):
        make_folder(place)
    planted.table(coins).to_parquet(owner / "table.parquet")
    _certify(folder, {name: owner, terms.learning.learner: folder / "learner"})
    lifetime = upper(terms.promised_epsilon(name)), terms.privacy.delta
    settings = open_ledger(owner, name, owner / "table.parquet", *lifetime, listen, movable=True)
    certificate = folder / "learner" / f"{terms.learning.learner}.crt"
    offer = consider(terms, settings, certificate, other_books=REASON_FOR_AUDITS)
    offer.accept()
    ledger = require_ledger(offer.owner)
    head = ledger.head
    ledger.close()
    content = {"format": TABLE_FORMAT, "terms": terms.hash, "owner": name, "coins": coins.tolist(), "head": vars(head)}
    create(folder / "audit.json", json.dumps(content).encode())
    return ServedTable(folder, planted, coins, head)


def open_table(folder: Path, planted: PlantedPairs) -> ServedTable:
    """Return the audit table that was made in this folder for these terms and this owner; refuse any other."""
    try:
        content: dict[str, Any] = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
        known = (content["format"], content["terms"], content["owner"], len(content["coins"]))
        coins, head = np.array(content["coins"], dtype=np.int64), Head(**content["head"])
    except (OSError, ValueError, KeyError, TypeError):
        raise SettingError(f"{folder}: expected a folder that an audit made (parley audit --served)") from None
    if known != (TABLE_FORMAT, planted.setup.hash, planted.name, len(planted)):
        raise SettingError(
            f"{folder}: the audit table in this folder was made for other terms or another owner; name a new folder"
        )
    return ServedTable(folder, planted, coins, head)


def require_other_learner(terms: Terms, name: str) -> None:
    """Refuse terms whose learner is the owner itself, and terms without a learner."""
    if terms.learning.topology is not None or terms.learning.learner == name:
        raise TermsError(
            f"{name}: this owner is its own learner, so no other party may ask its daemon; audit the owner under terms "
            "with another learner"
        )


def _certify(folder: Path, members: dict[str, Path]) -> None:
    """Create an authority for this audit, and a certificate for each member in its folder."""
    authority = folder / "authority"
    make_authority(authority, "Parley audit", CERTIFICATE_DAYS)
    for name, place in members.items():
        make_request(place, name)
        certificate, _ = issue(authority, place / f"{name}.csr", CERTIFICATE_DAYS)
        for file in (certificate, authority / "ca.crt", authority / "ca.crl"):
            shutil.copy(file, place)


START_TIMEOUT_S = 60.0  # seconds for a daemon to start, and to stop
DEFAULT_PROGRAM = (sys.executable, "-m", "parley")  # that serves, unless another is named
LOOPBACK_ADDRESS = "127.0.0.1:0"  # on this machine, at any port


@contextmanager
def daemon(program: Sequence[str], settings_file: Path) -> Iterator[str]:
    """Run the owner's daemon as a process until the block ends, and yield its address."""
    log = settings_file.with_name("daemon.log")
    with log.open("wb") as lines:
        command = [*program, "owner", "serve", str(settings_file)]
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=lines, stderr=lines)  # noqa: S603 - the operator's own program
        except OSError as error:
            raise SettingError(f"{program[0]}: cannot be started: {error.strerror}") from None
    try:
        yield listening(log, lambda: process.poll() is None)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def listening(log: Path, alive: Callable[[], bool]) -> str:
    """Wait for the daemon to serve, and return the address in its log."""
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and alive():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if '"serving"' in line and line.endswith("}"):
                return str(json.loads(line)["listen"])
        time.sleep(0.02)
    raise SettingError(f"{log}: the daemon did not start; read the reason in this log file")


ANSWER_TIMEOUT_S = 60.0  # seconds for an answer
LEAST_TABLES = 2  # tables, each served by a start of its own: noise must not come again at the next
RETRY_PAUSE_S = 0.1  # seconds before an owner that is not ready is asked again


@dataclass(frozen=True, eq=False)
class TableAnswers:
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
    tables: int = LEAST_TABLES,
    program: Sequence[str] = DEFAULT_PROGRAM,
    seed: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
) -> ServedVerdict:
    """Make audit tables in a new folder, serve each by `program owner serve`, and judge the answers. Ask all training
    rounds as the certified learner, each twice, and the last one again after a restart.

    Formal guarantee: for any daemon, if its answers are as private as claimed, `lower_bound` exceeds the claim with
    probability at most 1 - confidence (`one_run_bound`). Honest noise is called another law's, or drawn before, with
    probability at most `noise_law.FALSE_ALARM`.
    """
    began, tables = time.perf_counter(), whole(tables, "tables", least=LEAST_TABLES)
    check_confidence(terms.privacy.delta, confidence)
    planted, rng = plant(terms, name), np.random.default_rng(seed)
    if folder.exists():
        raise SettingError(f"{folder}: the folder already exists; name a new folder for audit tables and ledgers")
    rounds, answers_by_table = len(planted.setup.part(name).training.rounds), []
    for number in range(tables):
        table = make_table(folder / f"table-{number + 1}", planted, LOOPBACK_ADDRESS, rng)
        with daemon(program, table.settings_file) as address, reached(table, address) as owner:
            answers_by_table.append(attack(table, owner, _offset_progress(progress, number * rounds, tables * rounds)))
    with daemon(program, table.settings_file) as address, reached(table, address) as owner:
        answers_by_table[-1] = asked_once_more(table, owner, answers_by_table[-1])
    return judge(terms, planted.setup.part(name), answers_by_table, confidence, time.perf_counter() - began)


def prepare(terms: Terms, name: str, folder: Path, listen: str, seed: int | None = None) -> ServedTable:
    """Make an audit table and ledger for a daemon that somebody else starts at this address."""
    return make_table(folder, plant(terms, name), listen, np.random.default_rng(seed))


def audit_address(
    terms: Terms,
    name: str,
    folder: Path,
    address: str,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
) -> ServedVerdict:
    """Audit a daemon that somebody else started at this address on the audit table in a folder."""
    began, planted = time.perf_counter(), plant(terms, name)
    check_confidence(terms.privacy.delta, confidence)
    rounds, table = len(planted.setup.part(name).training.rounds), open_table(folder, planted)
    with reached(table, address) as owner:
        answers_by_table = attack(table, owner, _offset_progress(progress, 0, rounds))
    return judge(terms, planted.setup.part(name), [answers_by_table], confidence, time.perf_counter() - began)


@contextmanager
def reached(table: ServedTable, address: str) -> Iterator[RemoteOwner]:
    """Connect to the owner at this address as the learner that the audit's authority certified."""
    owner = RemoteOwner(table.planted.name, address, table.identity)
    try:
        yield owner
    finally:
        owner.close()


def attack(table: ServedTable, owner: Peer, done: Callable[[int], None] = lambda count: None) -> TableAnswers:
    """Ask every training round twice at the parameter where a run begins; refuse any ledger but the audit table's."""
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
    return TableAnswers(table.coins, scores, np.array(answers), known, frozenset(changed), frozenset(charged), before)


def asked_once_more(table: ServedTable, owner: Peer, answers_by_table: TableAnswers) -> TableAnswers:
    """Ask the last question again of a restarted daemon, whose stored answer and ledger must be unchanged."""
    part = table.planted.setup.part(table.planted.name)
    number = part.training.rounds[-1]
    again = _asked(owner, table.planted.search.query(number), Scrutiny(part, gaps=False))
    fresh = again.answer.value.tobytes() != answers_by_table.answers[-1].tobytes()
    return replace(
        answers_by_table,
        changed=answers_by_table.changed | ({number} if fresh else set()),
        charged=answers_by_table.charged | (set() if again.statement == answers_by_table.statement else {number}),
    )


def _own_books(owner: Peer, table: ServedTable) -> AccountStatement:
    """Return the ledger's state before the first question; refuse another table's ledger, or one with answers."""
    terms, known = table.planted.setup.terms, table.accepted
    statement = owner.statement(terms.hash, terms.learning.learner, ANSWER_TIMEOUT_S, known.entries)
    if statement.earlier_hash != known.hash:
        raise ExchangeError(
            f"{owner.name}: the daemon at this address does not serve the audit table's ledger; check the address. The "
            "audit asked no question"
        )
    if statement.answered:
        raise ExchangeError(
            f"{owner.name}: this audit table was used before; name a new folder, in which the audit makes a new table"
        )
    return statement


def _asked(owner: Peer, query: Query, rules: Scrutiny) -> AnswerReply:
    """Ask the owner, and ask again while that may help."""
    until = time.monotonic() + ANSWER_TIMEOUT_S
    while True:
        try:
            return owner.ask(query, *rules.expected(query), ANSWER_TIMEOUT_S)
        except Unavailable:
            if time.monotonic() > until:
                raise
            time.sleep(RETRY_PAUSE_S)


def _debited_once(
    first: AccountStatement,
    again: AccountStatement,
    number: int,
    answers: int,
    before: AccountStatement,
    rules: Scrutiny,
) -> bool:
    """Return whether a round was debited as agreed, and asking it again changed nothing in the ledger."""
    try:
        rules.check_statement(first, number, answers, before)
    except ContradictionError:
        return False
    return again == first and first.head != before.head


def judge(
    terms: Terms, part: Part, answers_by_table: Sequence[TableAnswers], confidence: float = 0.99, seconds: float = 0.0
) -> ServedVerdict:
    """Judge the answers of all tables."""
    question, mechanism = part.training.question, part.training.series.mechanism
    pairs = len(part.training.rounds) // 2
    noise = None
    if pairs and not question.batched:  # both answers of a pair are about the same rows, at the same parameter
        differences = [each.answers[1 : 2 * pairs : 2] - each.answers[0 : 2 * pairs : 2] for each in answers_by_table]
        noise = judge_noise(np.concatenate(differences), mechanism)
    return ServedVerdict(
        owner=part.name,
        claimed_epsilon=upper(terms.training_epsilon(part.name)),
        delta=terms.privacy.delta,
        guesses=Guesses.from_scores(
            *(np.concatenate(each) for each in zip(*((h.coins, h.scores) for h in answers_by_table), strict=True))
        ),
        confidence=confidence,
        tables=len(answers_by_table),
        rounds=sum(len(each.answers) for each in answers_by_table),
        changed=sum(len(each.changed) for each in answers_by_table),
        charged=sum(len(each.charged) for each in answers_by_table),
        noise=noise,
        repeats=_repeats(part, answers_by_table),
        seconds=seconds,
    )


def _repeats(part: Part, answers_by_table: Sequence[TableAnswers]) -> RepeatVerdict | None:
    """Find whether any answer's noise was drawn before, in any table, where the noise is known."""
    left = [each.answers - each.exact for each in answers_by_table if each.exact is not None]
    if not left:
        return None
    largest = max(float(np.abs(each.exact).max()) for each in answers_by_table if each.exact is not None)
    return find_repeats(np.concatenate(left), part.training.series.mechanism, largest)


def _offset_progress(progress: Progress, before: int, total: int) -> Callable[[int], None]:
    return lambda done: progress(before + done, total)
