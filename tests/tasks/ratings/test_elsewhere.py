"""Items learned by owners behind daemons: killed and resumed, budgets exact, and no user's factors among what the
learner gets."""

import json
import os
import signal
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium
from raters import rating_terms, tastes
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.network.exchange import messages
from parley.network.exchange.messages import AccountStatement
from parley.network.exchange.remote import RemoteDaemon
from parley.protocol.queries import Answer
from parley.tasks.ratings.question import ratings_of
from parley.tasks.ratings.recommender import Recommender
from parley.tasks.ratings.run import ask_items, learned_items
from parley.terms import write_terms

ROUNDS = 6


@pytest.fixture
def shops(tmp_path):
    made = Consortium(tmp_path, names="ab", lifetime=3.0, lifetime_delta=1e-5)
    write_terms(rating_terms({name: SIZES[name] for name in "ab"}, 3.0), tmp_path / "terms.toml")
    for place, name in enumerate("ab"):
        tastes(SIZES[name], place).to_csv(tmp_path / f"{name}.csv", index=False)
    made.accept(parley.load_terms(tmp_path / "terms.toml"))
    yield made
    made.close()


def owners_of(shops, terms, names="ab", ledgers=True):
    found = [parley.Owner(n, shops.folder / f"{n}.csv", ledger=shops.ledger(n) if ledgers else None) for n in names]
    for owner in found:
        owner.accept(terms)
    return found


def replayed(shops, terms):
    """The items of an in-process learner that gets the answers stored in the ledgers."""
    owners = owners_of(shops, terms)
    items = learned_items(ask_items(terms, owners))[0]
    for owner in owners:
        owner.ledger.close()
    return items


def test_killed_at_every_turn_it_goes_on_and_spends_what_was_agreed(shops):
    """kill -9 of the learner after it began, of an owner while it is asked, and of the other one when all is done."""
    terms = parley.load_terms(shops.folder / "terms.toml")
    shops.start()
    learner, kept = shops.learner("--resume"), shops.folder / "terms.checkpoint"
    until = time.monotonic() + 100
    while not kept.exists() and learner.exitcode is None and time.monotonic() < until:
        time.sleep(0.002)
    if learner.exitcode is None:
        os.kill(learner.pid, signal.SIGKILL)
        learner.join()
    assert kept.exists()
    shops.kill("b")
    learner = shops.learner("--resume", "--save", str(shops.folder / "items.json"))
    time.sleep(0.2)  # it asks, and one of the two is not there
    shops.kill("a")
    shops.start("a", "b")
    learner.join(100)
    assert learner.exitcode == 0, shops.said()
    told = json.loads((shops.folder / "learner.out").read_text())
    assert [owner["epsilon_spent"] for owner in told["owners"]] == [3.0, 3.0]
    assert shops.spent(terms) == dict.fromkeys("ab", Fraction(3))
    model = Recommender.load(shops.folder / "items.json")
    items = replayed(shops, terms)
    assert np.array_equal(model.items.V, items.V)
    assert np.array_equal(model.items.counts, items.counts)
    assert model.released
    shops.kill("a")
    assert shops.learn("--resume")["owners"] == told["owners"]  # a finished run asks nobody
    assert shops.spent(terms) == dict.fromkeys("ab", Fraction(3))


def users_factors(shops, terms, points):
    """Every user's own numbers at every one of these V, at both owners: what must never be seen."""
    found = []
    for owner in owners_of(shops, terms, ledgers=False):
        agreement = owner.prepare(terms)
        rule, train = agreement.part.training.question.rule, ratings_of(agreement.tables.train)
        found += [rule.solved(train, np.array(V).reshape(12, 3))[0].ravel() for V in points]
    numbers = np.concatenate(found)
    return np.unique(numbers[numbers != 0])


def leaks(got, numbers):
    """How many of these numbers are among the bytes: as they lie in memory, either way round, in short, or written
    out."""
    ways = (
        lambda x: np.float64(x).tobytes(),
        lambda x: np.float64(x).tobytes()[::-1],
        lambda x: np.float32(x).tobytes(),
        lambda x: repr(float(x)).encode(),
    )
    return sum(any(way(x) in got for way in ways) for x in numbers)


def test_no_user_factor_is_in_any_byte_that_the_learner_gets_or_keeps(shops, monkeypatch):
    terms, got, sent = parley.load_terms(shops.folder / "terms.toml"), [], []
    call = RemoteDaemon._call

    def listening(daemon, method, content, timeout):
        sent.append((method, content))
        reply = call(daemon, method, content, timeout)
        got.append(reply)
        return reply

    monkeypatch.setattr(RemoteDaemon, "_call", listening)
    shops.start()
    folder = shops.folder
    words = [
        "learner",
        "run",
        folder / "terms.toml",
        "--owners",
        folder / "addresses.toml",
        "--save",
        folder / "items.json",
        "--force",
        "--json",
    ]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    points = [messages.read_query(content).theta for method, content in sent if method == "Ask"]
    assert len(points) == 2 * ROUNDS
    assert sum(map(len, got)) > 2 * ROUNDS * 8 * 12 * 4  # two owners' answers, of eight bytes a number
    files = [folder / "items.json", folder / "terms.checkpoint"]
    everything = b"\0".join([*got, *(file.read_bytes() for file in files), done.stdout.encode()])
    learned = Recommender.load(folder / "items.json").items.V.ravel()
    numbers = users_factors(shops, terms, [*points, learned])
    assert len(numbers) > 1_000
    assert leaks(everything, numbers) == 0
    assert leaks(everything, learned) == 36  # what does travel is found

    answer = Answer("query", "a", 60, np.append(np.zeros(47), numbers[5]))  # a reply that gives one of them away
    leaking = messages.write_answer(answer, AccountStatement(Fraction(3), Fraction(1), 1, ROUNDS))
    assert leaks(everything + leaking, numbers) == 1
