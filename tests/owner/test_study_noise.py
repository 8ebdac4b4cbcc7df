"""Noise without an exact sampler is never released, however somebody goes about it: nothing is written, nothing
answered."""

import json

import numpy as np
import pytest
from consortium import LEARNER, Consortium
from samples import make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.audit.canary import require_audited_unit
from parley.cli.app import app
from parley.errors import GuaranteeError, ParleyError, Refusal
from parley.learning.algorithms.algorithm import State
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.deployed import prepare_run
from parley.learning.owners import accepting_owners
from parley.learning.peers import prepare_peer
from parley.network.exchange import messages
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.network.serving.offer import consider
from parley.network.serving.service import OwnerService
from parley.owner.owner import reservation
from parley.privacy.mechanisms import SafeNoise
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve
from parley.terms import write_terms

SENTENCE = "stable noise has no exact sampler, so answers with stable noise cannot be released"
TERMS = make_terms(60, privacy__mechanism="stable", privacy__alpha=1.9, privacy__delta=1e-6)
TABLE = regression_table(60)


@pytest.fixture
def bank(tmp_path):
    consortium = Consortium(tmp_path, names="a", lifetime=9.0, lifetime_delta=0.1)
    yield consortium
    consortium.close()


def test_terms_are_not_accepted(bank):
    """Neither by an offer, nor by the command that a person types."""
    settings = load_owner(bank.folder / "a.toml")
    with pytest.raises(GuaranteeError, match=SENTENCE):
        consider(TERMS, settings)
    write_terms(TERMS, bank.folder / "stable.toml")
    files = str(bank.folder / "stable.toml"), "--owner", str(bank.folder / "a.toml")
    typed = CliRunner().invoke(app, ["owner", "accept", *files, "--yes"])
    assert isinstance(typed.exception, GuaranteeError)
    assert not Acceptances(settings.accepted).hashes()
    assert bank.ledger("a").reserved == (0, 0)


def test_an_owner_with_books_neither_prepares_nor_answers(tmp_path):
    books = parley.Ledger(tmp_path / "a.ledger", lifetime=9.0, lifetime_delta="0.1")
    owner, end = parley.Owner("a", TABLE, ledger=books), books.head
    for go in (owner.prepare, owner.accept, lambda terms: owner.accept(resolve(terms, TABLE))):
        with pytest.raises(GuaranteeError, match=SENTENCE):
            go(TERMS)
    with pytest.raises(ParleyError):
        parley.train(TERMS, [owner])
    assert books.head == end
    with pytest.raises(GuaranteeError, match="no exact sampler"):  # a study, but with noise that could be released
        parley.train(TERMS, [parley.Owner("a", TABLE, noise=SafeNoise())], seed=0)


def test_no_ledger_is_made_for_it(tmp_path):
    TABLE.to_csv(tmp_path / "a.csv", index=False)
    terms = TERMS.changed(owners={"a": {"data": str(tmp_path / "a.csv")}})
    with pytest.raises(GuaranteeError, match=SENTENCE):
        accepting_owners(terms, tmp_path / "books", 9.0, 0.1)
    write_terms(terms, tmp_path / "terms.toml")
    command = ["train", str(tmp_path / "terms.toml")]
    released = CliRunner().invoke(app, [*command, "--ledgers", str(tmp_path / "books"), "--lifetime", "9"])
    assert isinstance(released.exception, GuaranteeError)
    assert not (tmp_path / "books").exists()
    study = CliRunner().invoke(app, [*command, "--replicates", "5", "--seed", "1"])
    assert study.exit_code == 0
    assert "relative fitness ψ, median" in study.output
    assert "What stable noise costs" in study.output


def test_a_daemon_answers_nothing_even_where_its_books_hold_the_terms(bank):
    """Somebody wrote the acceptance and the reservation by hand."""
    settings = load_owner(bank.folder / "a.toml")
    books, acceptances = bank.ledger("a"), Acceptances(settings.accepted)
    with acceptances.storing(Acceptance(TERMS)):
        books.accept(reservation(TERMS, "a"))
    books.close()
    owner = open_owner(settings)
    end = owner.ledger.head
    with (bank.folder / "service.log").open("w") as stream, Log(stream) as log:
        service = OwnerService(owner, acceptances, log)
        service.prepare()
        query = GradientQuery.ask(TERMS.hash, "learner", 1, np.zeros(3))
        with pytest.raises(Refusal):
            messages.read_statement(service.ask(messages.write_query(query), LEARNER), "a")
    said = [json.loads(line) for line in (bank.folder / "service.log").read_text().splitlines()]
    assert any(line["event"] == "not-ready" and SENTENCE in line["reason"] for line in said)
    assert owner.ledger.head == end
    owner.ledger.close()


def test_nothing_is_audited_that_nobody_releases():
    with pytest.raises(GuaranteeError, match=SENTENCE):
        require_audited_unit(TERMS)


def test_no_learner_begins_and_none_goes_on_from_a_checkpoint(tmp_path):
    for begin in (lambda: prepare_run(TERMS, tmp_path / "kept"), lambda: prepare_peer(TERMS, "a", tmp_path / "kept")):
        with pytest.raises(GuaranteeError, match=SENTENCE):
            begin()
    state = State(2, np.zeros(3), {})
    Checkpoint(TERMS.hash, state, {"a": 1}, {"a": 0.1}).save(tmp_path / "kept")
    with pytest.raises(GuaranteeError, match=SENTENCE):
        load_checkpoint(tmp_path / "kept", TERMS, state)
