"""Hosts with real journals, keys and messages, and no network between them."""

import shutil
from dataclasses import replace

from fleet import state_of

from parley.network.exchange.host_connections import read_ends, read_ends_reply, write_ends, write_ends_reply
from parley.network.exchange.witnesses import Sender, Witnesses
from parley.network.hosting.journal import Journal, close_everything
from parley.network.identity import certificate_authority
from parley.network.identity.certificates import Signer
from parley.network.identity.settings import Identity
from parley.owner.ledger.witnessed import Ends

ONE, TWO = "1" * 64, "2" * 64  # agreements


class Party:
    """A host with a journal on a disk of its own, which others call."""

    def __init__(self, folder, name):
        self.folder, self.name, self.disk, self.answers = folder, name, folder / f"disk-{name}", None
        self.copies = 0
        certificate_authority.make_request(folder, name)
        certificate_authority.issue(folder, folder / f"{name}.csr", 365)
        self.disk.mkdir()
        self.start()

    def start(self):
        with state_of(self.disk / "state"):
            self.journal = Journal(self.disk / "journal")
        self.warnings = []
        self.witnesses = Witnesses(
            self.name, "journal", self.journal.witnessed, Signer(self.identity), self.warnings.append
        )

    @property
    def identity(self):
        files = {"authority": "ca.crt", "certificate": f"{self.name}.crt", "key": f"{self.name}.key"}
        return Identity(**{key: self.folder / file for key, file in files.items()}, revoked=self.folder / "ca.crl")

    def write(self, *rounds, terms=ONE):
        for number in rounds:
            self.journal.propose(terms, number, "held")

    def copy(self):
        """Its disk as it is now."""
        self.witnesses.flush()
        self.copies += 1
        return shutil.copytree(self.disk, self.folder / f"copy-{self.name}-{self.copies}")

    def put_back(self, copy):
        self.journal.close()
        shutil.rmtree(self.disk)
        shutil.copytree(copy, self.disk)
        self.start()

    def exchange_ends(self, ends, timeout):
        """As another party calls it; `answers` changes what it says."""
        self.heard = read_ends(write_ends(ends))
        if isinstance(self.answers, Exception):
            raise self.answers
        reply = self.witnesses.answer(self.heard, Sender(self.heard.own.party))
        return read_ends_reply(write_ends_reply(self.answers(reply) if self.answers else reply), self.name)

    def ask(self, *others, terms=ONE, key=None):
        """What its daemon asks after a start."""
        self.witnesses.ask_once(lambda: [(terms, other, key) for other in others], 1.0)

    def tell(self, other, terms=ONE, key=None):
        self.ask(other, terms=terms, key=key)
        self.witnesses.tell(terms, other, key, 1.0)

    def kept(self, other, terms=ONE):
        end = self.journal.witnessed.kept(other.name, "journal", terms)
        return None if end is None else end.head.entries


def ask(party, other, **changes):
    """What `other` says to a message of `party` that was changed."""
    end, _ = party.witnesses.own_end(ONE)
    return other.witnesses.answer(replace(Ends(ONE, end), **changes), Sender(party.name))


def restored(party):
    """The party restores its journal; agreements of before are closed."""
    with party.journal._db.transaction() as db:
        close_everything(db, party.disk / "journal", [])
    party.journal.close()
    party.start()
