"""A daemon under attack over its own interface: an honest one holds, faulty ones are caught, other books refused."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from consortium import free_port
from faulty_parley import served
from federated import family_terms
from newcomer import typed
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms

from parley.audit.planted import plant
from parley.audit.served.attack import (
    _debited_once,
    asked_once_more,
    attack,
    audit_address,
    audit_served,
    judge,
    make_table,
    open_table,
    prepare,
    reached,
)
from parley.errors import ExchangeError, Refusal, SettingError, TermsError, Unavailable
from parley.network.exchange.answer_checks import Scrutiny
from parley.network.exchange.messages import AccountStatement
from parley.network.exchange.remote import LocalOwner
from parley.network.serving.daemon import open_owner
from parley.owner.ledger.account import Head
from parley.privacy.mechanisms import FastNoise, SafeNoise
from parley.terms import write_terms

FAULTY = Path(__file__).parents[2] / "support" / "faulty_parley.py"
TERMS = make_terms(260, 80, model__features=[f"x{j}" for j in range(240)], learning__horizon=2)


@pytest.fixture(scope="module")
def planted():
    return plant(TERMS, "a")


@pytest.fixture
def table(planted, tmp_path):
    return make_table(tmp_path / "audit", planted, "127.0.0.1:0", np.random.default_rng(3))


def verdict_of(table, fault="seeded"):
    with served(table.settings_file, fault) as address, reached(table, address) as owner:
        heard = attack(table, owner)
    with served(table.settings_file, fault) as address, reached(table, address) as owner:
        heard = asked_once_more(table, owner, heard)
    return judge(TERMS, table.planted.setup.part(table.planted.name), [heard])


def test_an_honest_daemon_holds_and_much_of_its_epsilon_is_proved(table):
    verdict = verdict_of(table)
    assert verdict.holds
    assert verdict.faults == ()
    assert 0.1 < verdict.lower_bound <= verdict.claimed_epsilon == 1
    assert (verdict.rounds, verdict.changed, verdict.charged, verdict.guesses.places) == (2, 0, 0, 240)
    assert verdict.noise is not None
    assert verdict.noise.numbers == 240
    assert (verdict.repeats.answers, verdict.repeats.numbers, verdict.repeats.of_numbers) == (0, 0, 480)


FOUND = {
    "half_the_noise": "there is less noise than claimed",
    "fresh_noise_on_a_retry": "a repeated question gets another answer",
    "one_noise_for_all_rounds": "there is less noise than claimed",
    "another_law": "the noise is not of the claimed law",
}


@pytest.mark.parametrize("fault", FOUND)
def test_faulty_daemons_are_caught(table, fault):
    verdict = verdict_of(table, fault)
    assert not verdict.holds
    assert FOUND[fault] in verdict.faults
    assert verdict.to_json()["faults"] == list(verdict.faults)
    assert verdict.charged == 0  # the books are in order: they show nothing of it
    if fault == "half_the_noise":
        assert verdict.leaks  # the guessed coins alone show it


def test_other_books_and_another_table_are_refused(planted, table, tmp_path):
    other = make_table(tmp_path / "other", planted, "127.0.0.1:0", np.random.default_rng(0))
    with served(table.settings_file) as address:
        with reached(table, address) as owner:
            with pytest.raises(ExchangeError, match="does not serve the audit table's ledger"):
                attack(replace(table, accepted=other.accepted), owner)
            attack(table, owner)
            with pytest.raises(ExchangeError, match="this audit table was used before"):
                attack(table, owner)
        with reached(other, address) as stranger, pytest.raises(Unavailable):  # another authority certified it
            attack(other, stranger)
    other.settings.table.write_bytes(table.settings.table.read_bytes())  # another table under the other ledger
    refused = pytest.raises(Refusal, match="cannot answer")
    with served(other.settings_file) as address, reached(other, address) as owner, refused:
        attack(other, owner)
    assert open_table(table.folder, planted).coins.tolist() == table.coins.tolist()
    with pytest.raises(SettingError, match="for other terms"):
        open_table(table.folder, plant(TERMS, "a", most=4))
    with pytest.raises(SettingError, match="that an audit made"):
        open_table(tmp_path, planted)


SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 2, "learning__epochs": 2}
KINDS = {  # terms, and how many differences of answers are noise alone
    "gaussian": (make_terms(60, 40, **GAUSSIAN), 15),
    "geometric": (make_terms(60, 40, privacy__mechanism="geometric"), 15),
    "statistics": (make_terms(60, 40, **STATISTICS), None),
    "batches": (make_terms(60, 40, **SGD, **GAUSSIAN), None),
    "secret draws": (make_terms(30, **SGD, **GAUSSIAN, learning__sampling="poisson"), None),
    "participation": (make_terms(60, 40, 30, learning__participation=0.5, learning__participation_seed=1), 9),
    "stragglers": (make_terms(60, 40, learning__straggler="skip", learning__quorum=1), 15),
    "score": (make_terms(60, 40, model__holdout=0.2, model__bounds=BOUNDS, privacy__score_epsilon=0.1), 15),
    "people": (make_terms(60, 40, privacy__person="who", privacy__records_per_person=3), 15),
    "scaffold": (family_terms("scaffold", 60, 40, learning__horizon=4), 6),
    "classes": (make_terms(60, model__kind="softmax-regression", model__categories={"y": ["p", "q", "r"]}), 60),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_terms_can_be_attacked(kind, tmp_path, monkeypatch):
    """In process, with the samplers that owners release with: these have no seed, so false alarms are made rare."""
    monkeypatch.setattr("parley.audit.served.noise_law.FALSE_ALARM", 1e-9)
    terms, differences = KINDS[kind]
    made = make_table(tmp_path / "audit", plant(terms, "a"), "127.0.0.1:0", np.random.default_rng(0))
    owner = open_owner(made.settings)
    owner.accept(terms)
    verdict = judge(terms, made.planted.setup.part("a"), [attack(made, LocalOwner(owner))], 1 - 1e-9)
    owner.ledger.close()
    assert verdict.faults == ()
    assert (verdict.noise and verdict.noise.numbers) == differences
    assert (verdict.repeats is None) == (kind == "secret draws")
    assert verdict.rounds == len(made.planted.setup.part("a").training.rounds)


@pytest.mark.parametrize("kind", ["gaussian", "geometric", "statistics", "batches", "people"])
def test_a_fixed_seed_is_seen_whatever_is_asked(kind, tmp_path, monkeypatch):
    """What the table says is taken off to the last digits, so the same noise for two tables is the same."""
    terms, heard = KINDS[kind][0], []
    planted = plant(terms, "a")
    for number in range(2):
        made = make_table(tmp_path / f"{number}", planted, "127.0.0.1:0", np.random.default_rng(number))
        same = FastNoise(3)
        for law in ("laplace", "gaussian", "geometric"):
            monkeypatch.setattr(SafeNoise, law, staticmethod(getattr(same, law)))
        owner = open_owner(made.settings)
        owner.accept(terms)
        heard.append(attack(made, LocalOwner(owner)))
        owner.ledger.close()
    verdict = judge(terms, planted.setup.part("a"), heard)
    assert verdict.repeats.answers == verdict.rounds / 2
    assert "noise from an earlier answer comes again" in verdict.faults


def test_a_daemon_that_somebody_else_started(tmp_path):
    small = make_terms(100, 80, learning__horizon=1)
    made = prepare(small, "b", tmp_path / "audit", "127.0.0.1:0", seed=1)
    with served(made.settings_file) as address:
        verdict = audit_address(small, "b", tmp_path / "audit", address)
    assert verdict.holds
    assert verdict.noise is None  # one round has no second
    with pytest.raises(SettingError, match="already exists"):
        prepare(small, "b", tmp_path / "audit", "127.0.0.1:0")


AGAIN = {  # faults that the law of the noise hardly shows, and answers and numbers that come again, of 8 and 24
    "seeded": (0, 0),
    "fixed_seed": (4, 12),
    "one_noise_for_two_questions": (2, 6),
    "noise_again_with_the_other_sign": (4, 12),
    "one_number_for_all_coordinates": (0, 16),
}


@pytest.mark.parametrize("fault", AGAIN)
def test_noise_that_comes_again_is_caught(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "parley.audit.served.attack.daemon", lambda program, settings_file: served(settings_file, fault)
    )
    verdict = audit_served(make_terms(100, 80, learning__horizon=4), "a", tmp_path / "audit", seed=1)
    assert (verdict.repeats.answers, verdict.repeats.numbers) == AGAIN[fault]
    assert verdict.holds == (fault == "seeded")
    assert ("noise from an earlier answer comes again" in verdict.faults) == (fault != "seeded")


def test_tables_are_counted_together(tmp_path, monkeypatch):
    monkeypatch.setattr("parley.audit.served.attack.daemon", lambda program, settings_file: served(settings_file))
    small, done = make_terms(100, 80, learning__horizon=2), []
    verdict = audit_served(small, "a", tmp_path / "audit", 2, seed=1, progress=lambda *at: done.append(at))
    assert (verdict.tables, verdict.rounds, verdict.guesses.places) == (2, 4, 6)
    assert verdict.noise is not None
    assert verdict.noise.numbers == 6
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert sorted(folder.name for folder in (tmp_path / "audit").iterdir()) == ["table-1", "table-2"]


def test_terms_by_which_nobody_else_is_served_are_refused(tmp_path):
    own = make_terms(100, 80, learning__learner="a")
    with pytest.raises(TermsError, match="audit the owner under terms with another learner"):
        prepare(own, "a", tmp_path / "audit", "127.0.0.1:0")
    with pytest.raises(SettingError, match="cannot be started"):
        audit_served(make_terms(100), "a", tmp_path / "audit", program=("/no/such/parley",))
    with pytest.raises(SettingError, match="tables"):  # one start does not show whether noise comes again at the next
        audit_served(make_terms(100), "a", tmp_path / "other", tables=1)


def test_a_second_debit_is_seen():
    part = plant(TERMS, "a", most=5).setup.part("a")
    rules, half = Scrutiny(part, gaps=False), part.epsilon / 2
    before = AccountStatement(part.epsilon, 0 * half, 0, 2, Head(2, "a" * 64))
    first = AccountStatement(part.epsilon, half, 1, 2, Head(3, "b" * 64))
    assert _debited_once(first, first, 1, 1, before, rules)
    twice = AccountStatement(part.epsilon, 2 * half, 2, 2, Head(4, "c" * 64))
    assert not _debited_once(first, twice, 1, 1, before, rules)
    free = AccountStatement(part.epsilon, 0 * half, 1, 2, Head(3, "b" * 64))
    assert not _debited_once(free, free, 1, 1, before, rules)
    unwritten = AccountStatement(part.epsilon, half, 1, 2, before.head)
    assert not _debited_once(unwritten, unwritten, 1, 1, before, rules)


class Restarted:
    """An owner with a fault that shows after a restart."""

    def __init__(self, owner, fault):
        self._owner, self._fault = owner, fault

    def ask(self, *asked):
        return self._fault(self._owner.ask(*asked))


def debited_again(reply):
    spent = reply.statement.spent + reply.statement.epsilon / 2
    return replace(reply, statement=replace(reply.statement, spent=spent))


def another_row(reply):
    head = reply.statement.head
    return replace(reply, statement=replace(reply.statement, head=Head(head.entries + 1, "f" * 64)))


def another_answer(reply):
    return replace(reply, answer=replace(reply.answer, value=reply.answer.value + 1))


RESTARTS = {  # what is seen after one: questions with another answer, wrong debits
    "sound": (lambda reply: reply, 0, 0),
    "debit": (debited_again, 0, 1),
    "row": (another_row, 0, 1),
    "answer": (another_answer, 1, 0),
}


@pytest.mark.parametrize("fault", RESTARTS)
def test_the_books_are_looked_at_after_a_restart(fault, tmp_path):
    terms = make_terms(60, 40, learning__horizon=2)
    made = make_table(tmp_path / "audit", plant(terms, "a"), "127.0.0.1:0", np.random.default_rng(0))
    owner = open_owner(made.settings)
    owner.accept(terms)
    heard = attack(made, LocalOwner(owner))
    broken, changed, charged = RESTARTS[fault]
    heard = asked_once_more(made, Restarted(LocalOwner(owner), broken), heard)
    owner.ledger.close()
    assert (len(heard.changed), len(heard.charged)) == (changed, charged)


def test_the_command_starts_the_real_program_and_prints_what_it_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_terms(make_terms(100, 80, learning__horizon=20), tmp_path / "terms.toml")
    program = f"{sys.executable} {FAULTY} half_the_noise"
    run = typed(
        "audit", "terms.toml", "--served", "audit", "--program", program, "--report", "a.html", "--json", "--seed", "1"
    )
    assert run.code == 1, run.err
    (owner,) = json.loads(run.out)["owners"]
    assert (owner["name"], owner["runs"], owner["rounds"], owner["holds"]) == ("a", 2, 40, False)
    assert "Broken: there is less noise than claimed" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert '"stopped"' in (tmp_path / "audit/table-1/owner/daemon.log").read_text()  # nothing is left running
    again = typed("audit", "terms.toml", "--served", "audit")
    assert again.code == 2
    assert "already exists" in again.err


def test_the_command_prepares_and_attacks_what_somebody_else_serves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_terms(make_terms(100, 80, learning__horizon=8), tmp_path / "terms.toml")
    command = ("audit", "terms.toml", "--served", "audit", "--owner", "b", "--at", f"127.0.0.1:{free_port()}")
    run = typed(*command)
    assert run.code == 0
    assert "parley owner serve audit/owner/owner.toml" in run.out
    elsewhere = (tmp_path / "audit" / "owner").rename(tmp_path / "elsewhere")  # where the daemon runs
    with served(elsewhere / "owner.toml"):
        run = typed(*command)
    assert run.code == 0, run.err
    assert "No finding contradicts the daemon's claims." in run.out
    assert "noise scale" in run.out


def test_options_that_do_nothing_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_terms(TERMS, tmp_path / "terms.toml")
    at = ("--served", "x", "--at", "h:1")
    for wrong in (("--tables", "2"), (*at, "--tables", "2"), ("--served", "x", "--plot", "x.png")):
        assert typed("audit", "terms.toml", *wrong).code == 2
