"""Terms that somebody proposes, their hashes, and what an owner's daemon says to them."""

import contextlib
import hashlib
from io import StringIO

from consortium import toml_terms

import parley
from parley.network.exchange.messages import read_state, write_proposal
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.inbox import Inbox, now
from parley.network.serving.log import Log
from parley.network.serving.service import ProposalService

LEARNER = Caller(("learner",), "key", peer="127.0.0.1:1")


def terms_of(learner="learner", epsilon=1.0, **settings):
    """Terms of the owner a."""
    return parley.Terms.from_toml(toml_terms(learner=learner, epsilon=epsilon, names="a", **settings))


def hashed(text):
    """The hash of a text, which is that of the terms if it is how Parley writes them."""
    return hashlib.sha256(text.encode()).hexdigest()


@contextlib.contextmanager
def proposal_service(folder, days=30, clock=now):
    """The proposals' side of the owner a's daemon, in process, with the `inbox` and the `acceptances` that it reads."""
    acceptances = Acceptances(folder / "accepted")
    with Log(StringIO()) as log:
        made = ProposalService("a", Inbox(folder / "inbox", acceptances, days, clock), acceptances, log)
        made.inbox, made.acceptances = Inbox(folder / "inbox", acceptances, days, clock), acceptances
        yield made


def told(service, terms_hash, text="", caller=LEARNER):
    """What the caller hears, with a text or without."""
    return read_state(service.propose(write_proposal(terms_hash, text), caller), "a", terms_hash)


def withdrawn(service, terms, caller=LEARNER):
    """What the caller hears who withdraws these terms."""
    return read_state(service.withdraw(write_proposal(terms.hash), caller), "a", terms.hash)


def proposed(service, terms, caller=LEARNER):
    """What the caller hears who proposes these terms."""
    return told(service, terms.hash, terms.canonical, caller)
