"""An owner's books that went back in time, lost a half, or met another table: nothing is answered twice."""

import contextlib
import json
import shutil
import signal
import sqlite3
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from bookkeeping import OLD, forget
from consortium import LEARNER
from forked import parley_process
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import BudgetExhausted, LedgerError, Refusal
from parley.network.exchange import messages
from parley.network.exchange.remote import LocalOwner, RemoteOwner
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptances
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery


def ask(terms, k=1):
    return GradientQuery.ask(terms.hash, "learner", k, np.full(3, 0.1 * k))


def answered(bank, terms, rounds):
    """Ask the daemon these rounds; the statement after the last."""
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    try:
        return [peer.ask(ask(terms, k), 60, 3, 10).statement for k in rounds][-1]
    finally:
        peer.close()


def refused_start(bank):
    """What the daemon says that does not start."""
    log = bank.folder / "refused.log"
    log.unlink(missing_ok=True)
    process = parley_process(["owner", "serve", str(bank.folder / "a.toml")], log, log)
    process.join(60)
    assert process.exitcode == 2, log.read_text()
    return " ".join(log.read_text().split())


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("killed", [False, True])
def test_a_ledger_that_was_copied_and_put_back_answers_nothing_twice(bank, killed):
    """`cp` beside the running daemon, more rounds, then the copy in its place: 120 answers were left where 60 were
    agreed."""
    terms = bank.write_terms(horizon=60)
    bank.accept(terms)
    bank.start()
    answered(bank, terms, range(1, 11))
    for file in ("a.ledger", "a.ledger-wal"):
        shutil.copy(bank.folder / file, bank.folder / f"{file}.copy")
    told = answered(bank, terms, range(11, 41))
    assert (told.answered, told.head.entries) == (40, 42)
    ending = signal.SIGKILL if killed else signal.SIGTERM
    assert bank.kill("a", ending) == -killed * ending
    if not killed:
        assert (bank.log("a")[-1]["entries"], bank.log("a")[-1]["head"]) == (42, told.head.hash)
    (bank.folder / "a.ledger-wal").unlink(missing_ok=True)
    shutil.copy(bank.folder / "a.ledger.copy", bank.folder / "a.ledger")
    assert "rolled back or replaced. The ledger had 42 rows" in refused_start(bank)
    for file in ("a.ledger", "a.ledger-wal"):
        shutil.copy(bank.folder / f"{file}.copy", bank.folder / file)
    assert "rolled back or replaced. The ledger had 42 rows, but the 12 rows now in the file" in refused_start(bank)
    settings = ["--owner", bank.folder / "a.toml"]
    with pytest.raises(LedgerError, match="rolled back or replaced"):
        run("owner", "accept", bank.folder / "terms.toml", *settings, "--yes")
    said = run("owner", "restore", bank.folder / "a.ledger", *settings, "--assume-spent", "agreements", "--yes")
    assert "chain unbroken" in said
    bank.start()
    with pytest.raises(BudgetExhausted, match="closed"):
        answered(bank, terms, [41])
    assert json.loads(run("owner", "ledger", bank.folder / "a.toml", "--json", "--verify"))["epsilon_spent"] == 1
    other = bank.write_terms("other.toml", horizon=5)  # new terms, out of what the lifetime budget has left
    run("owner", "accept", bank.folder / "other.toml", *settings, "--yes")
    assert answered(bank, other, [1, 2]).answered == 2
    bank.write_terms("third.toml", horizon=6)
    with pytest.raises(BudgetExhausted):
        run("owner", "accept", bank.folder / "third.toml", *settings, "--yes")


def test_a_backup_beside_a_running_daemon_is_whole_and_restores_to_nothing_left(bank):
    terms = bank.write_terms(horizon=60)
    bank.accept(terms)
    bank.start()
    told = answered(bank, terms, range(1, 31))
    settings = ["--owner", bank.folder / "a.toml"]
    assert f"{told.head.entries} entries, chain unbroken, head {told.head.hash}" in run(
        "owner", "backup", bank.folder / "b", *settings
    )
    with pytest.raises(LedgerError, match="never replaces a file"):
        run("owner", "backup", bank.folder / "b", *settings)
    answered(bank, terms, [31])
    with pytest.raises(Exception, match="another daemon serves"):
        run("owner", "restore", bank.folder / "b", *settings, "--assume-spent", "all", "--yes")
    bank.kill("a")
    for file in bank.folder.glob("a.ledger*"):
        file.unlink()
    run("owner", "restore", bank.folder / "b", *settings, "--assume-spent", "all", "--yes")
    bank.start()
    with pytest.raises(BudgetExhausted, match="closed"):
        answered(bank, terms, [31])
    bank.write_terms("other.toml", horizon=5, epsilon=0.01)
    with pytest.raises(BudgetExhausted, match="lifetime budget"):
        run("owner", "accept", bank.folder / "other.toml", *settings, "--yes")


def test_a_plain_copy_of_a_daemons_ledger_has_all_rows_but_those_of_the_last_second(bank):
    """It is still no backup; but who makes one by habit loses little, where 1 of 163 rows was copied."""
    terms = bank.write_terms(horizon=60)
    bank.accept(terms)
    bank.start()
    told = answered(bank, terms, range(1, 21))
    until, copied = time.monotonic() + 30, 0
    while copied < told.head.entries and time.monotonic() < until:
        time.sleep(0.2)
        shutil.copy(bank.folder / "a.ledger", bank.folder / "copy")
        # copied in the middle of a write
        with contextlib.suppress(sqlite3.Error), sqlite3.connect(bank.folder / "copy") as db:
            (copied,) = db.execute("SELECT COUNT(*) FROM entries").fetchone()
    assert copied == told.head.entries == 22
    assert bank.daemons["a"].exitcode is None


def test_an_acceptance_that_the_ledger_forgot_stops_the_daemon_and_is_booked_by_a_restore(bank):
    """The whole ledger went back to a day before the acceptance; only the file tells."""
    shutil.copy(bank.folder / "a.ledger", bank.folder / "early")
    terms = bank.write_terms(horizon=5)
    bank.accept(terms)
    forget(bank.folder / "a.ledger")
    shutil.copy(bank.folder / "early", bank.folder / "a.ledger")
    said = refused_start(bank)
    assert "the ledger was rolled back or replaced" in said
    assert "parley owner restore" in said
    settings = ["--owner", bank.folder / "a.toml"]
    for file in ("terms.toml", "other.toml"):
        bank.write_terms(file, horizon=5 if file == "terms.toml" else 6)
        # not even the same terms: they may have been answered
        with pytest.raises(LedgerError, match="rolled back or replaced"):
            run("owner", "accept", bank.folder / file, *settings, "--yes")
    run("owner", "restore", bank.folder / "early", *settings, "--assume-spent", "agreements", "--yes")
    bank.start()
    with pytest.raises(BudgetExhausted):
        answered(bank, terms, [1])
    ledger = bank.ledger("a")
    assert (ledger.account(terms.hash).closed, ledger.reserved) == (True, (1, 0))
    ledger.close()


def test_terms_whose_file_is_missing_stop_the_daemon_until_they_are_accepted_again_or_closed(bank):
    terms = bank.write_terms(horizon=5)
    bank.accept(terms)
    (bank.folder / "accepted-a" / f"{terms.hash}.json").unlink()
    said = refused_start(bank)
    assert f"parley owner close {terms.hash[:16]}" in said
    settings = ["--owner", bank.folder / "a.toml"]
    bank.write_terms("other.toml", horizon=6)
    with pytest.raises(LedgerError, match="is missing"):
        run("owner", "accept", bank.folder / "other.toml", *settings, "--yes")
    run("owner", "accept", bank.folder / "terms.toml", *settings, "--yes")
    (bank.folder / "accepted-a" / f"{terms.hash}.json").unlink()
    run("owner", "close", terms.hash[:16], *settings, "--yes")
    with pytest.raises(Refusal, match="0 agreements match"):
        run("owner", "close", "nothing", *settings, "--yes")
    run("owner", "accept", bank.folder / "other.toml", *settings, "--yes")
    assert "closed" in run("owner", "ledger", bank.folder / "a.toml")
    bank.start()


def test_a_learner_is_not_answered_from_another_table(bank):
    """16 answers came from one table and the rest from another."""
    terms = bank.write_terms(horizon=20)
    bank.accept(terms)
    bank.start()
    answered(bank, terms, [1, 2])
    bank.kill("a")
    regression_table(60, seed=9).to_csv(bank.folder / "a.csv", index=False)
    bank.start()
    with pytest.raises(Refusal, match="cannot answer at the moment"):
        answered(bank, terms, [3])
    assert any(line["event"] == "not-ready" and "differs from the current" in line["reason"] for line in bank.log("a"))
    later = bank.write_terms("later.toml", horizon=3)
    run("owner", "accept", bank.folder / "later.toml", "--owner", bank.folder / "a.toml", "--yes")
    assert answered(bank, later, [1]).answered == 1


def test_a_daemon_that_holds_the_old_table_does_not_answer_for_the_new_one(bank):
    """The file changed under a running daemon, and a person accepted terms for it: the daemon still has the old
    rows."""
    bank.accept(bank.write_terms("first.toml", horizon=2))
    bank.start()
    regression_table(60, seed=9).to_csv(bank.folder / "a.csv", index=False)
    terms = bank.write_terms(horizon=3)
    run("owner", "accept", bank.folder / "terms.toml", "--owner", bank.folder / "a.toml", "--yes")
    with pytest.raises(Refusal, match="cannot answer at the moment"):
        answered(bank, terms, [1])
    bank.kill("a")
    bank.start()
    assert answered(bank, terms, [1]).answered == 1


@pytest.fixture
def service(bank):
    terms = bank.write_terms(horizon=5)
    bank.accept(terms)
    settings, stream = load_owner(bank.folder / "a.toml"), StringIO()
    owner = open_owner(settings)
    with Log(stream) as log:
        made = OwnerService(owner, Acceptances(settings.accepted), log)
        made.prepare()
        made.terms, made.owner, made.stream = terms, owner, stream
        yield made
    owner.ledger.close()


def test_every_reply_carries_the_end_of_the_chain_and_what_it_was(service):
    terms, ledger, heads = service.terms, service.owner.ledger, []
    for k in (1, 2, 3):
        told = messages.read_answer(
            service.ask(messages.write_query(ask(terms, k)), LEARNER), ask(terms, k), "a", 60, 3
        )
        assert told.statement.head == ledger.head
        heads.append(told.statement.head)
    assert [head.entries for head in heads] == [3, 4, 5]
    for entries, then in ((0, None), (3, heads[0].hash), (5, heads[2].hash), (6, None), (2**63 - 1, None)):
        content = messages.write_agreement(terms.hash, "learner", entries)
        statement = messages.read_statement(service.statement(content, LEARNER), "a")
        assert (statement.head, statement.earlier_hash) == (heads[2], then)
        assert LocalOwner(service.owner).statement(terms.hash, "learner", 1, entries) == statement
    repeated = messages.read_answer(
        service.ask(messages.write_query(ask(terms, 1)), LEARNER), ask(terms, 1), "a", 60, 3
    )
    assert repeated.statement.head == heads[2]
    while "standing" not in service.stream.getvalue():
        pass
    lines = [json.loads(line) for line in service.stream.getvalue().splitlines()]
    assert [(line["entries"], line["head"]) for line in lines if line["event"] == "answer"][:3] == [
        (head.entries, head.hash) for head in heads
    ]


def test_a_ledger_from_before_tables_were_known_learns_them_at_the_first_start(bank):
    """Trust on first use, with a line in the log; a second table is then refused."""
    terms = bank.write_terms(horizon=5)
    bank.accept(terms)
    _without_version(bank.folder / "a.ledger")
    bank.start()
    assert [line["terms"] for line in bank.log("a") if line["event"] == "table"] == [terms.hash]
    assert answered(bank, terms, [1]).answered == 1
    bank.kill("a")
    regression_table(60, seed=9).to_csv(bank.folder / "a.csv", index=False)
    bank.start()
    with pytest.raises(Refusal, match="cannot answer at the moment"):
        answered(bank, terms, [2])


def _without_version(path: Path) -> None:
    """The same agreement in a file as it was written before there were versions."""
    from parley.owner.ledger.chain import COLUMNS, FIRST_PREVIOUS_HASH, first_row_hash

    ledger = Ledger(path)
    rows = [
        tuple(entry.get(column) if column != "content" else None for column in COLUMNS) for entry in ledger.entries()
    ]
    ledger.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    with sqlite3.connect(OLD) as old, sqlite3.connect(path) as db:
        for (statement,) in old.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
            db.execute(statement)
        previous = FIRST_PREVIOUS_HASH
        for row in rows:
            link = first_row_hash(previous, row)
            db.execute(f"INSERT INTO entries VALUES ({', '.join('?' * 17)})", (*row, previous, link))
            previous = link
