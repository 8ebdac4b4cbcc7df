"""Peers in one process, with real services, messages and ledgers: the same model as with a centre, killed wherever it
may be."""

from contextlib import closing

import numpy as np
import pytest
from peers import Ring

import parley
from parley.errors import ContradictionError, ExchangeError, Malformed, SettingError
from parley.learning.peers import prepare_peer
from parley.network.exchange import peer_pb2 as wire

PATH = [["a", "b"], ["b", "c"], ["c", "d"]]


@pytest.fixture
def made(tmp_path):
    rings = []

    def make(*arguments, **settings):
        folder = tmp_path / str(len(rings))
        folder.mkdir()
        rings.append(Ring(folder, *arguments, **settings))
        return rings[-1]

    yield make
    for ring in rings:
        ring.close()


def require_same(ring, unheard=frozenset()):
    """Every ledger at its epsilon, and every peer with the model, the points' spread and the scores of a learner with
    these answers."""
    assert ring.errors == {}
    for owner in ring.owners.values():
        assert owner.ledger.account(ring.terms.hash).spent == 1
        owner.ledger.verify()
    alone = parley.train(ring.terms, list(ring.owners.values()))
    assert {name for names in ring.unheard.values() for name in names} <= unheard
    for outcome in ring.outcomes.values():
        np.testing.assert_array_equal(outcome.result.theta, alone.theta)
        assert outcome.result.consensus_error == alone.consensus_error
        ours, theirs = ((None if r.scores is None else r.scores.to_json()) for r in (outcome.result, alone))
        assert ours == theirs
    np.testing.assert_allclose(alone.theta[0], np.mean([o.point for o in ring.outcomes.values()], axis=0), rtol=1e-12)
    return alone


@pytest.mark.parametrize("graph", ["ring", "grid", "star", "complete", PATH], ids=str)
def test_peers_come_to_the_bit_to_what_a_centre_would(made, graph):
    ring = made(4, graph)
    ring.run()
    alone = require_same(ring)
    points = {tuple(outcome.point) for outcome in ring.outcomes.values()}
    assert (len(points), alone.consensus_error > 0) == ((4, True) if graph != "complete" else (1, False))


@pytest.mark.parametrize(
    "settings",
    [
        {"learning__participation": 0.5},
        {"privacy__score_epsilon": 0.2, "model__holdout": 0.2},
        {"learning__step": 0.05, "model__regularisation": 0.1},
    ],
    ids=["some are asked", "scores", "own step"],
)
def test_so_they_do_by_other_terms(made, settings):
    ring = made(5, "ring", **settings)
    ring.run()
    assert require_same(ring).scores is not None or "model__holdout" not in settings


def test_a_peer_can_be_killed_anywhere(made):
    """Between any two of its calls: in every round, while points and scores are passed on, and while it waits for its
    neighbour to end."""
    settings = {"learning__horizon": 2, "privacy__score_epsilon": 0.2, "model__holdout": 0.2}
    # two steps a round, points, scores, the end; more where it asks before there is something to hear
    fewest = 2 * 2 + 2 + 2 + 1
    for fatal in range(1, fewest + 1):
        ring = made(3, PATH[:2], **settings)
        ring.fatal, ring.deadline = {"a": fatal}, 3.0
        ring.run()
        assert ring.kills == 1
        # who was killed when all had finished finds them gone
        require_same(ring, unheard={"b"} if fatal == fewest else set())


def test_two_may_be_killed_in_one_run(made):
    ring = made(4, "ring")
    ring.fatal = {"b": 7, "c": 9}
    ring.run()
    assert ring.kills == 2
    require_same(ring)


class Lagging(Ring):
    """b does not hear what a said at the end of round 1 before a is killed in round 2."""

    def deaf(self, owner, place):
        return owner == "b" and place == (1, 1) and self.kills == 0


def test_a_neighbour_that_lags_hears_what_was_said_before_the_kill(tmp_path):
    """Its checkpoint has what it said: a mutant that forgets it leaves b waiting for ever."""
    with closing(Lagging(tmp_path, 2, [["a", "b"]])) as ring:
        ring.fatal = {"a": (2, 0)}
        ring.run()
        assert ring.kills == 1
        require_same(ring)


def test_a_checkpoint_that_was_lost_is_told_of_and_all_may_begin_again(made):
    """One alone cannot; all together can, and no budget is spent for it."""
    ring = made(3, PATH[:2], learning__straggler="stop")
    ring.run()
    before = require_same(ring)
    for name in "ab":
        (ring.folder / f"{name}.checkpoint.agreed").unlink()
    (ring.folder / "a.checkpoint").unlink()
    ring.deadline = 1.0
    ring.run()
    lost, waited = ring.errors["a"], ring.errors["b"]
    assert isinstance(lost, ExchangeError)
    assert "b: round 1 is over for this peer, which stores rounds from 5 on. Put the latest checkpoint back" in str(
        lost
    )
    assert "round 6: not all neighbours replied within 1 s, so the run stops (learning.straggler = 'stop'): a: " in str(
        waited
    )
    for file in ring.folder.glob("*.checkpoint*"):
        file.unlink()
    ring.deadline = 20.0
    ring.run()
    np.testing.assert_array_equal(require_same(ring).theta, before.theta)


class Liars(Ring):
    """One of them says something else."""

    def changed(self, name, reply):
        message = wire.PeerReply.FromString(reply)
        if name == "b" and message.WhichOneof("outcome") == "words":
            self.lie(message.words)
        return message.SerializeToString()


def numbers(words, change):
    values = np.frombuffer(words.data, dtype="<f8").copy()
    change(values)
    words.data = values.tobytes()


@pytest.mark.parametrize(
    ("lie", "match"),
    [
        (
            lambda w: numbers(w, lambda v: v.__setitem__(0, np.nan)),
            r"b: the message of round 1, step 0 contains numbers that are not finite",
        ),
        (
            lambda w: numbers(w, lambda v: v.__setitem__(0, 1e300)),
            r"b: the message of round 1, step 0 contains numbers that are not finite, or are larger than",
        ),
        (lambda w: setattr(w, "data", w.data[8:]), r"b: expected 1 x 3 numbers in the message of round 1, step 0"),
        (lambda w: setattr(w, "rows", 2), r"b: expected 1 x 3 numbers"),
        (lambda w: setattr(w.place, "round", 2), r"b: expected the message of round 1, step 0"),
        (lambda w: setattr(w.place, "terms", "0" * 64), r"b: expected the message of"),
        (lambda w: setattr(w, "owner", "c"), r"b: expected the message of"),
        (
            lambda w: setattr(w, "length", 1.0),
            r"b: the neighbour takes steps of 1, but this peer takes steps of .*state learning.step in the terms",
        ),
    ],
    ids=["nan", "huge", "short", "rows", "round", "terms", "owner", "step"],
)
def test_words_that_cannot_be_are_refused_by_name(tmp_path, lie, match):
    with closing(Liars(tmp_path, 2, [["a", "b"]])) as ring:
        ring.lie = lie
        _, _, hood, _, _ = ring.station("a")
        ring.services["b"] = ring.station("b")[3]
        ring.services["b"]._board.say((1, 0), np.ones((1, 3)))
        with pytest.raises(ContradictionError, match=match):
            hood.exchange((1, 0), np.zeros((1, 3)))


class Gossips(Ring):
    """d passes on another point of c than it heard."""

    def changed(self, name, reply):
        message = wire.PeerReply.FromString(reply)
        if name == "d" and message.words.place.round == 6 and message.words.place.step == 2:
            numbers(message.words, lambda v: v.__iadd__(0.25))
        return message.SerializeToString()


def test_words_that_come_on_two_ways_must_be_the_same(tmp_path):
    with closing(Gossips(tmp_path, 4, "ring")) as ring:
        run, _, hood, _, _ = ring.station("a")
        for name in "bd":
            ring.services[name] = ring.station(name)[3]
            ring.services[name]._board.say((6, 1), np.ones((1, 3)))
            ring.services[name]._board.say((6, 2), np.ones((2, 3)))
        with pytest.raises(ContradictionError, match="d and others report different values for"):
            hood.spread(run.points_round, np.ones(3))


def test_words_that_no_message_carries_are_refused_before_the_first_round(made, tmp_path, monkeypatch):
    ring = made(5, "star")
    monkeypatch.setattr("parley.network.peering.neighbourhood.MAX_MESSAGE_BYTES", 1024 + 8 * 3 * 3)
    for name in "ab":  # the hub passes on four points, and a leaf hears them
        with pytest.raises(Malformed, match="4 vectors of 3 numbers do not fit into a message"):
            prepare_peer(ring.terms, name, tmp_path / "kept")


def test_terms_with_a_centre_have_no_peers(made, tmp_path):
    ring = made(4)
    with pytest.raises(SettingError, match=r"these terms have no owner 'x'"):
        prepare_peer(ring.terms, "x", tmp_path / "kept")
    centre = ring.terms.changed(learning={"algorithm": "gradient-descent", "topology": None})
    with pytest.raises(SettingError, match=r"peers run only 'gossip'"):
        prepare_peer(centre, "a", tmp_path / "kept")
    (ring.folder / "a.checkpoint").write_text("{}")
    run = prepare_peer(ring.terms, "a", ring.folder / "a.checkpoint")
    with pytest.raises(SettingError, match="continue that run with --resume"):
        run.begin(resume=False)
