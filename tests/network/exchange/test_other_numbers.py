"""Before anything is asked, parties compare the public numbers that they resolved; who found others is named, and no
ledger is touched."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from kernels import balanced_sample, balanced_terms
from peers import Ring

import parley
from parley.errors import ContradictionError, ExchangeError, NotOffered, Unavailable
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange import messages
from parley.network.exchange import wire_pb2 as wire
from parley.network.exchange.federation import AsynchronousFederation, Federation
from parley.network.exchange.messages import Piece, put_numbers, read_piece, require_agreed
from parley.network.exchange.remote import LocalOwner
from parley.network.hosting.federation import SharedFederation
from parley.network.serving.acceptance import Caller
from parley.owner.ledger import Ledger
from parley.protocol.setup import resolve


def turned(setup, angle=0.5):
    """The setup as a machine might find it whose linear algebra took other directions of the same spread."""
    rotation = setup.preparation.rotation.copy()
    c, s = np.cos(angle), np.sin(angle)
    rotation[:, 1:3] = rotation[:, 1:3] @ np.array([[c, -s], [s, c]])
    return replace(setup, preparation=replace(setup.preparation, rotation=rotation))


class Consortium:
    """Owners in process, one of them on a machine that finds other numbers."""

    def __init__(self, folder, other="b", angle=0.5, **keys):
        self.terms, self.warnings = balanced_terms(folder, components=4, **keys), []
        setup = resolve(self.terms)
        self.run = prepare_run(self.terms, folder / "run.checkpoint")
        self.owners = []
        for k, name in enumerate("abc"):
            owner = parley.Owner(name, balanced_sample(60, seed=k), ledger=Ledger(folder / f"{name}.ledger", 2.0, 1e-5))
            owner.accept(turned(setup, angle) if name == other else setup)
            self.owners.append(owner)
        self.peers = [LocalOwner(owner) for owner in self.owners]
        self.kind = Federation if self.terms.learning.waits else AsynchronousFederation

    def federation(self, deadline=20.0):
        return self.kind(self.run.setup, self.peers, deadline, self.warnings.append)

    def answered(self):
        return [owner.ledger.account(self.terms.hash).answers for owner in self.owners]


@pytest.fixture
def made(tmp_path, request):
    consortium = Consortium(tmp_path, **getattr(request, "param", {}))
    yield consortium
    for owner in consortium.owners:
        owner.ledger.close()


def test_an_owner_with_other_directions_is_named_before_anything_is_spent(made):
    federation = made.federation()
    with pytest.raises(
        ContradictionError, match=r"^before the first round: b: resolved other public numbers.* rotation\[\d, \d\] is"
    ):
        federation.fetch_statements()
    federation.close()
    assert made.answered() == [0, 0, 0]


SKIP = {"learning__straggler": "skip", "learning__quorum": 1}


@pytest.mark.parametrize(
    "made",
    [{}, SKIP, {"learning__staleness": 3, "learning__algorithm": "gradient-descent", "learning__decay": 0.0}],
    indirect=True,
    ids=["wait", "skip", "asynchronous"],
)
def test_nobody_is_asked_who_was_not_compared(made):
    """A learner that asks without a word before it, and an owner that was away when statements were fetched."""
    federation = made.federation()
    with pytest.raises(ExchangeError, match="b: resolved other public numbers"):
        learn(made.run, federation, made.run.begin(resume=False))
    federation.close()
    assert made.answered()[1] == 0


@pytest.mark.parametrize("made", [{"angle": 1e-12}], indirect=True)
def test_rounding_is_borne(made):
    federation = made.federation()
    federation.fetch_statements()
    result, _ = learn(made.run, federation, made.run.begin(resume=False))
    federation.close()
    assert made.answered() == [2, 2, 2]
    assert np.isfinite(result.theta).all()
    assert made.warnings == []


@pytest.mark.parametrize("made", [{"angle": 0.0}], indirect=True)
def test_an_owner_of_an_older_version_is_told_and_goes_on(made, monkeypatch):
    """Its statement has no numbers."""
    monkeypatch.setattr(made.peers[1], "numbers", lambda *question: None)
    federation = made.federation()
    federation.fetch_statements()
    federation.fetch_statements()
    federation.close()
    assert len(made.warnings) == 1
    assert made.warnings[0].startswith("b: an older version, which does not report its public numbers")


def test_numbers_travel_in_pieces(made, monkeypatch):
    monkeypatch.setattr(messages, "NUMBERS_PER_PIECE", 7)
    own, asked = made.run.setup.numbers, []

    def fetch(first):
        asked.append(first)
        message = wire.PublicNumbers()
        put_numbers(own, first, message)
        return read_piece(wire.PublicNumbers.FromString(message.SerializeToString()), "b")

    assert require_agreed(own, "b", fetch)
    assert asked == list(range(1, own.data.size + 1, 7))


def test_a_service_says_them_to_who_asks_and_to_nobody_else(service):
    own, learner = service.owner.agreement(service.terms.hash).setup.numbers, service_caller()
    plain = messages.write_agreement(service.terms.hash, "learner")
    assert messages.read_numbers(service.statement(plain, learner), "a") is None
    asked = messages.write_agreement(service.terms.hash, "learner", numbers=1)
    reply = service.statement(asked, learner)
    assert messages.read_statement(reply, "a").spent == 0
    piece = messages.read_numbers(reply, "a")
    np.testing.assert_array_equal(piece.data, own.data)
    with pytest.raises(parley.errors.UnknownTerms):
        messages.read_numbers(service.statement(asked, service_caller("stranger")), "a")
    far = messages.write_agreement(service.terms.hash, "learner", numbers=10**15)
    assert messages.read_numbers(service.statement(far, learner), "a").data.size == 0


def service_caller(name="learner"):
    return Caller((name,), "key")


def test_whatever_a_party_sends_is_compared_or_refused(made):
    """Too few, too many, none at all, other shapes: nothing is waited for without end, and nothing passes."""
    own = made.run.setup.numbers
    names, shapes, data = own.names, own.shapes, own.data
    lies = {
        "nothing": Piece(names, shapes, np.empty(0)),
        "too many": Piece(names, shapes, np.concatenate([data, data])),
        "other shapes": Piece(names, {**shapes, "rotation": (10**9, 10**9)}, data),
        "other names": Piece({}, shapes, data),
        "not numbers": Piece(names, shapes, np.full(data.size, np.nan)),
        "zeros": Piece(names, shapes, np.zeros(data.size)),
    }
    for lie, piece in lies.items():
        with pytest.raises(ContradictionError):
            require_agreed(own, lie, lambda first, piece=piece: piece)
    with pytest.raises(ContradictionError):
        read_piece(wire.PublicNumbers(data=b"1234567"), "b")
    with pytest.raises(Unavailable):
        require_agreed(own, "b", lambda first: (_ for _ in ()).throw(Unavailable("b: away")))


def test_numbers_say_nothing_of_any_private_row(tmp_path):
    """Two owners whose tables have nothing in common send the same bytes."""
    terms = balanced_terms(tmp_path, components=4)
    sent = []
    for seed in (1, 2):
        owner = parley.Owner("a", balanced_sample(60, seed=seed).assign(x=float(seed)))
        sent.append(owner.prepare(terms).setup.numbers)
    assert sent[0].data.tobytes() == sent[1].data.tobytes()
    assert sent[0].names == sent[1].names


class SomeHost:
    """A host as far as its numbers go."""

    def __init__(self, name, numbers):
        self.name, self._numbers = name, numbers

    def numbers(self, terms, learner, timeout, first):
        if self._numbers is None:
            raise NotOffered(f"{self.name}: Method not found!")
        return Piece(self._numbers.names, self._numbers.shapes, self._numbers.data[first - 1 :])

    def close(self):
        """Nothing to let go of."""


HOSTED = {"privacy__noise": "shared", "privacy__delta": 1e-6, "hosts": [{"name": name} for name in ("h0", "h1", "h2")]}


@pytest.mark.parametrize("made", [{"angle": 0.0, **HOSTED}], indirect=True)
def test_a_host_with_another_grid_is_named_before_anything_is_spent(made):
    """Else it would refuse the owners' share bundles, when they have paid for them."""
    own = made.run.setup.numbers
    other = replace(own, arrays={**own.arrays, "grid": own.arrays["grid"] + [1.0, 0.0]})
    hosts = [SomeHost("h0", own), SomeHost("h1", None), SomeHost("h2", other)]
    federation = SharedFederation(made.run.setup, made.peers, hosts, 5.0, made.warnings.append)
    with pytest.raises(ContradictionError, match=r"h2: resolved other public numbers.*: grid\[1\] is"):
        federation.fetch_statements()
    with pytest.raises(ContradictionError, match="h2: resolved other public numbers"):
        learn(made.run, federation, made.run.begin(resume=False))
    federation.close()
    assert made.answered() == [0, 0, 0]
    assert [sentence[:3] for sentence in made.warnings] == ["h1:"]  # of an older version


def test_peers_compare_with_their_neighbours_before_they_ask(tmp_path, monkeypatch):
    """One of four on a ring has another start: its neighbours and it refuse, and nobody has spent anything."""
    monkeypatch.setattr("parley.network.peering.neighbourhood.REFUSAL_LINGER_S", 0.5)
    ring = Ring(tmp_path)
    ring.deadline = 1.0
    station = ring.station

    def altered(name):
        run, federation, hood, service, begin = station(name)
        if name == "c":
            numbers = run.run.numbers
            arrays = {**numbers.arrays, "bound": numbers.arrays["bound"] * 1.01}
            for each in (hood, service):
                each._run = replace(run.run, numbers=replace(numbers, arrays=arrays))
        return run, federation, hood, service, begin

    ring.station = altered
    threads = run_all(ring)
    assert {"b", "c", "d"} <= set(ring.errors)
    for name in "bd":
        assert isinstance(ring.errors[name], ExchangeError)
    assert isinstance(ring.errors["c"], ContradictionError)
    assert "bound is" in str(ring.errors["c"])
    assert all(owner.ledger.account(ring.terms.hash).answers == 0 for owner in ring.owners.values())
    ring.close()
    for thread in threads:
        thread.join(10)


def run_all(ring):
    """All peers; one whose neighbours are gone waits for them, which is what it should do."""
    ring.outcomes, ring.unheard, ring.errors = {}, {}, {}
    threads = [threading.Thread(target=ring.peer, args=(name,), daemon=True) for name in ring.owners]
    for thread in threads:
        thread.start()
    for thread, name in zip(threads, ring.owners, strict=True):
        thread.join(1 if name == "a" else 20)
    return threads
