"""What tests of daemons share: small consortia, and one owner's service."""

import pytest


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """A state folder of the test's own, for a test that copies books which another test copies, too: an account writes
    to one copy alone."""
    monkeypatch.setenv("PARLEY_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def banks(tmp_path):
    """Three owners and a learner; their daemons end with the test."""
    from consortium import Consortium

    consortium = Consortium(tmp_path)
    yield consortium
    consortium.close()


@pytest.fixture
def bank(tmp_path):
    """One owner."""
    from consortium import Consortium

    consortium = Consortium(tmp_path, names="a")
    yield consortium
    consortium.close()


@pytest.fixture
def service(bank, monkeypatch):
    """The service of one owner, in process, with terms accepted and none of its rounds asked."""
    from parley.network.identity.settings import load_owner
    from parley.network.serving.acceptance import Acceptances
    from parley.network.serving.daemon import open_owner
    from parley.network.serving.log import Log
    from parley.network.serving.service import OwnerService

    monkeypatch.setattr("parley.network.serving.acceptance.RECHECK_AFTER_S", 0.0)
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    settings = load_owner(bank.folder / "a.toml")
    owner = open_owner(settings)
    with (bank.folder / "service.log").open("w") as stream, Log(stream) as log:
        made = OwnerService(owner, Acceptances(settings.accepted), log)
        made.prepare()
        made.terms, made.owner = terms, owner
        yield made
    owner.ledger.close()
