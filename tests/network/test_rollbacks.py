"""Books that are put back, copied, forgotten in part and killed at random, in one account: no question is answered
twice, and honest restores work.

PARLEY_ROLLBACKS sets how many are tried (default 16); `PARLEY_ROLLBACKS=200 pytest -s tests/network/test_rollbacks.py`
prints the cases and what came of them.
"""

import os
import random
import shutil
import sys
from collections import Counter, defaultdict
from contextlib import closing, suppress

import numpy as np
import pandas as pd
import pytest
from consortium import ask, toml_terms
from curious_host import Victim
from hosted_consortium import HostedConsortium
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import AbortedRound, BrokenChainError, LedgerError, MissingMemoryError, ParleyError, TooLate
from parley.network.hosting.offer import consider as consider_as_host
from parley.network.hosting.sums import HostedSum
from parley.network.identity.settings import load_host, load_owner
from parley.network.serving.daemon import open_owner
from parley.network.serving.offer import consider
from parley.network.serving.opening import open_ledger
from parley.owner.ledger import Ledger
from parley.owner.ledger.chain import Memory
from parley.protocol.queries import GradientQuery

TRIALS = int(os.environ.get("PARLEY_ROLLBACKS", "16"))
ROUNDS = 3
BOOKS = ("*.ledger", "*.ledger-*", "*.journal", "*.journal-*")
BESIDE = ("*.verified", "*.drawing", "*.heads")


class OwnNoise:
    """An owner that draws its own noise, as its daemon and its commands open its books."""

    name = "owner, own noise"

    def make(self, folder):
        table = folder / "table.csv"
        pd.DataFrame({f"x{k}": np.linspace(-1, 1, 60) for k in range(3)} | {"y": 0.1}).to_csv(table, index=False)
        open_ledger(folder / "a", "a", table, 3.0, 0.0, "127.0.0.1:0", movable=False)
        for title in ("first", "second"):
            text = toml_terms(horizon=ROUNDS, names="a").replace('"Test"', f'"{title}"')
            (folder / f"{title}.toml").write_text(text)

    def accept(self, folder, title="first"):
        terms, settings = parley.load_terms(folder / f"{title}.toml"), load_owner(folder / "a" / "owner.toml")
        offer = consider(terms, settings, other_books="another trial's table")
        with closing(offer.owner.ledger):
            offer.accept()

    def answers(self, folder, rounds, title="first", theta=0.0):
        terms = parley.load_terms(folder / f"{title}.toml")
        owner = open_owner(load_owner(folder / "a" / "owner.toml"))
        with closing(owner.ledger):
            owner.accept(terms, other_books="another trial's table")
            for k in rounds:
                yield (terms.hash, k), owner.answer(ask(terms, k, [theta] * 3)).value.tolist()

    def restore(self, folder, file, assume):
        """By the command; what was agreed on is answered no more, and new terms are, if anything is left."""
        settings = str(folder / "a" / "owner.toml")
        words = ["owner", "restore", str(file), "--owner", settings, "--assume-spent", assume, "--yes"]
        ran = CliRunner().invoke(app, words)
        if ran.exit_code and "restore from" in str(ran.exception):  # the ledger in place knows more than the backup
            words[2] = str(folder / "a" / "a.ledger")
            ran = CliRunner().invoke(app, words)
        assert ran.exit_code == 0, (ran.output, ran.exception)
        ledger = Ledger(folder / "a" / "a.ledger")
        assert all(account.closed for _, account in ledger.accounts())
        assert assume == "agreements" or ledger.reserved == ledger.lifetime
        ledger.close()
        if assume == "agreements":
            self.accept(folder, "second")
            return list(self.answers(folder, (1,), "second"))
        return []


class WithHosts:
    """Owners and the hosts that draw one noise for them, in one process."""

    def __init__(self, hosts):
        self.name = f"owners, {len(hosts)} hosts"
        self.terms = parley.Terms.from_dict(
            {
                "model": {
                    "kind": "linear-regression", "target": "y", "features": ["x"],
                    "bounds": {"x": [0, 1], "y": [0, 1]}, "radius": 5.0,
                },
                "learning": {"horizon": ROUNDS, "step": 0.1},
                "privacy": {"clip": 2.0, "noise": "shared", "delta": 1e-6},
                "owners": [{"name": name, "records": 20, "epsilon": 5.0} for name in "ab"],
                "hosts": [{"name": name} for name in hosts],
            }
        )  # fmt: skip

    def make(self, folder):
        for owner in self.owners(folder, accepted=False):
            owner.ledger.close()

    def owners(self, folder, accepted=True):
        table = pd.DataFrame({"x": np.linspace(0, 1, 20), "y": 0.3})
        books = {name: folder / f"{name}.ledger" for name in "ab"}
        new = {name: {} if path.exists() else {"lifetime": 9, "lifetime_delta": "1e-5"} for name, path in books.items()}
        owners = [parley.Owner(name, table, ledger=Ledger(path, **new[name])) for name, path in books.items()]
        for owner in owners if accepted else ():
            owner.accept(self.terms, other_books="one table for both owners of every trial")
        return owners

    def accept(self, folder):
        for owner in self.owners(folder):
            owner.ledger.close()

    def answers(self, folder, rounds, theta=0.0):
        owners = self.owners(folder)
        exchange = HostedSum(owners[0].agreement(self.terms.hash).setup, owners, folder / "hosts")
        try:
            for k in rounds:
                query = GradientQuery.ask(self.terms.hash, "learner", k, np.full(1, theta))
                with suppress(AbortedRound, TooLate):
                    yield k, exchange.ask(dict.fromkeys("ab", query))[0].value.tolist()
        finally:
            exchange.close()
            for owner in owners:
                owner.ledger.close()


class OneHost:
    """One of two hosts beside a curious other."""

    name = "one of two hosts"

    def make(self, folder):
        consortium = HostedConsortium(folder, hosts=("h0", "h1"))
        consortium.write_terms("terms.toml", horizon=ROUNDS, epsilon=5.0)
        consortium.close()

    def accept(self, folder):
        consider_as_host(parley.load_terms(folder / "terms.toml"), load_host(folder / "h0.toml")).accept()

    def answers(self, folder, rounds, theta=0.0):
        victim = Victim(folder, parley.load_terms(folder / "terms.toml"))
        try:
            if not victim.service.hosted:
                raise LedgerError("not served")
            for k in rounds:
                with suppress(AbortedRound, TooLate):
                    yield k, victim.opening(k)
        finally:
            victim.close()


class Killed(BaseException):
    """As if the process had ended here."""


class Trial:
    """One account with the books of one party, and all that it ever released."""

    def __init__(self, party, template, folder, rng):
        self.party, self.folder, self.rng = party, folder / "books", rng
        self.state, self.released = folder / "state", defaultdict(set)
        shutil.copytree(template, folder)
        os.environ["PARLEY_STATE"] = str(self.state)
        self.snapshots, self.backups = [], []

    def run(self):
        self.work()
        what = self.meddle()
        before = sum(map(len, self.released.values()))
        outcomes = [self.attempt(place) for place in self.places for _ in range(2)]
        outcome = self.judge(outcomes)
        if isinstance(self.party, OwnNoise) and self.rng.random() < 0.5:
            file = self.rng.choice([*self.backups, self.folder / "a" / "a.ledger"])
            assume = self.rng.choice(["agreements", "all"])
            for question, value in self.party.restore(self.folder, file, assume):
                self.released[question].add(str(value))
            with pytest.raises(ParleyError):
                list(self.party.answers(self.places[-1], [ROUNDS], theta=2.0))
            outcome += f"; then restored ({assume})"
        elif sum(map(len, self.released.values())) == before:  # put back all that was there
            for place, kept in ((self.folder, self.snapshots[-1]), (self.state, self.latest)):
                shutil.rmtree(place)
                shutil.copytree(kept, place)
            self.ask(self.folder, range(1, ROUNDS + 1))
            outcome += "; then the latest put back, and it goes on"
        assert all(len(values) == 1 for values in self.released.values()), (what, outcome)
        return what, outcome

    def work(self):
        """Accept, ask some rounds; killed somewhere, perhaps, and started again."""
        steps = [lambda: self.party.accept(self.folder)]
        steps += [
            lambda k=k: self.ask(self.folder, range(1, k + 1)) for k in range(1, self.rng.randrange(1, ROUNDS) + 1)
        ]
        killed = self.rng.randrange(3 * len(steps))
        self.was_killed = killed < len(steps)
        self.snapshot()
        for number, step in enumerate(steps):
            if number == killed:
                self.kill(step)
            step()
            self.snapshot()
        self.latest = self.folder.with_name("latest state")
        shutil.copytree(self.state, self.latest)

    def kill(self, step):
        """End the step after a commit, before it was noted or after."""
        note, left, after = Memory.note, self.rng.randrange(1, 6), self.rng.random() < 0.5

        def killing(memory, end):
            nonlocal left
            left -= 1
            if left == 0 and not after:
                raise Killed
            note(memory, end)
            if left == 0:
                raise Killed

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Memory, "note", killing)
            with suppress(Killed):
                step()

    def snapshot(self):
        self.snapshots.append(self.folder.with_name(f"snapshot {len(self.snapshots)}"))
        shutil.copytree(self.folder, self.snapshots[-1])
        if isinstance(self.party, OwnNoise):
            self.backups.append(self.folder.with_name(f"backup {len(self.backups)}"))
            words = ["owner", "backup", str(self.backups[-1]), "--owner", str(self.folder / "a" / "owner.toml")]
            assert CliRunner().invoke(app, words).exit_code == 0

    def meddle(self):
        """Put something back, forget something, copy the folder."""
        rng = self.rng
        back = rng.choice(["nothing", "books", "books", "books and what lies beside", "the whole folder"])
        older = self.snapshots[rng.randrange(len(self.snapshots) - 1)]
        if back == "the whole folder":
            shutil.rmtree(self.folder)
            shutil.copytree(older, self.folder)
        elif back != "nothing":
            for pattern in (*BOOKS, *(BESIDE if "beside" in back else ())):
                remove(self.folder, pattern)
                for file in older.rglob(pattern):
                    shutil.copy(file, self.folder / file.relative_to(older))
        gone = rng.choice([(), (), ("beside",), ("state",), ("beside", "state")])
        if "beside" in gone:
            for pattern in BESIDE:
                remove(self.folder, pattern)
        if "state" in gone:
            shutil.rmtree(self.state)
        where = rng.choice(["in place", "in place", "in a copy, then in place"])
        self.places = [self.folder]
        if where != "in place":
            self.places.insert(0, shutil.copytree(self.folder, self.folder.with_name("copied")))
        self.expected = "refused" if "state" in gone or back != "nothing" else "answered"
        missing = " and ".join({"beside": "files beside", "state": "the memory"}[each] for each in gone) or "nothing"
        return (self.party.name, back, missing, where, "yes" if self.was_killed else "no")

    def attempt(self, place):
        """Have it accept once more, and ask everything."""
        with suppress(ParleyError):
            self.party.accept(place)
        try:
            self.ask(place, range(1, ROUNDS + 1))
        except ParleyError as refusal:
            return type(refusal)
        return None

    def ask(self, place, rounds):
        for question, value in self.party.answers(place, rounds):
            self.released[question].add(str(value))

    def judge(self, outcomes):
        """What came of it; refused where it must be, and answered where nothing was lost."""
        if self.expected == "refused":
            assert all(kind is not None and issubclass(kind, LedgerError) for kind in outcomes), outcomes
            return "refused: " + ("the memory is missing" if MissingMemoryError in outcomes else "rolled back")
        assert outcomes[:2] == [None, None]
        assert set(outcomes[2:]) <= {BrokenChainError}  # the copy went on
        return "answers, once" if len(outcomes) == 2 else "the copy answers, once; in place it is refused"


def remove(folder, pattern):
    for file in list(folder.rglob(pattern)):
        file.unlink()


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    made = {}
    for party in (OwnNoise(), WithHosts(("h0", "h1")), WithHosts(("h0", "h1", "h2")), OneHost()):
        folder = tmp_path_factory.mktemp("template")
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PARLEY_STATE", str(folder / "state"))
            (folder / "books").mkdir()
            party.make(folder / "books")
        made[party] = folder
    return made


def test_nothing_is_released_twice_and_honest_restores_work(templates, tmp_path, own_state):
    table = Counter()
    parties = list(templates)
    for number in range(TRIALS):
        party = parties[number % len(parties)]
        trial = Trial(party, templates[party], tmp_path / str(number), random.Random(number))
        what, outcome = trial.run()
        table[(*what, outcome)] += 1
        shutil.rmtree(tmp_path / str(number))
    lines = [" | ".join((str(count), *row)) for row, count in sorted(table.items())]
    head = f"{TRIALS} rollbacks, none released twice\ntrials | party | put back | missing | used | killed | outcome"
    sys.stdout.write("\n".join(("", head, *lines, "")))
    assert table.total() == TRIALS


def test_without_what_is_remembered_questions_are_answered_twice(templates, tmp_path, own_state, monkeypatch):
    """The search finds what it looks for."""
    monkeypatch.setattr(Memory, "require_latest", lambda self, db, noted=None: noted)
    party, twice = next(iter(templates)), 0
    for number in range(0, 40, 4):
        trial = Trial(party, templates[party], tmp_path / str(number), random.Random(number))
        with suppress(AssertionError):
            trial.run()
        twice += any(len(values) > 1 for values in trial.released.values())
    assert twice
