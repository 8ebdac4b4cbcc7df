"""Damaged messages crash nothing, cost nothing and bring nothing out. PARLEY_FUZZ sets how many are sent (default
4000)."""

import os
import random
import signal

import numpy as np
from consortium import LEARNER, ask

from parley.network.exchange import messages
from parley.network.exchange.remote import RemoteOwner
from parley.network.serving.acceptance import Caller


def damaged(rng, pool):
    """A message with some bytes flipped, cut, doubled, swapped, or grown."""
    content = bytearray(rng.choice(pool))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1)
        match rng.randrange(5):
            case 0 if content:
                content[place % len(content)] ^= 1 << rng.randrange(8)
            case 1:
                del content[place:]
            case 2:
                content[place:place] = rng.randbytes(rng.randint(1, 20))
            case 3:
                content[place:place] = content[: rng.randint(0, 60)]
            case _:
                content += rng.choice(pool)[rng.randint(0, 40) :]
    return bytes(content)


def test_fuzzed_messages_crash_nothing_and_cost_nothing(service, bank):
    """One agreement is used up and may only repeat itself; one is fresh, but the caller is not its learner; one is
    open.

    A damaged message may still be a good question by the open one's learner (a bit of a number flipped): then it is
    answered and debited as one, and what was debited is checked to be the next round, inside the box. Nothing else
    costs anything.
    """
    count = int(os.environ.get("PARLEY_FUZZ", "4000"))
    fresh = bank.write_terms("fresh.toml", horizon=2, epsilon=0.1)
    live = bank.write_terms("live.toml", horizon=10 * count, epsilon=0.1)
    bank.accept(fresh)
    bank.accept(live)
    used = [ask(service.terms, k, (0.1 * k, 0.0, -1.0)) for k in (1, 2, 3)]
    for query in used:
        service.ask(messages.write_query(query), LEARNER)
    pool = [messages.write_query(query) for query in (*used, ask(service.terms, 4), ask(fresh), ask(fresh, 2))]
    pool.append(messages.write_agreement(service.terms.hash, "learner"))
    rows, rng = service.owner.ledger.verify(), random.Random(6)
    stored = set(bank.answers("a").values())
    stranger = Caller(("someone",), "key")
    kinds, answered = set(), 0
    for _ in range(count):
        following = messages.write_query(ask(live, answered + 1, rng.choices([0.5, -3.0, 4.999], k=3)))
        content = damaged(rng, [*pool, following, following])
        caller = stranger if fresh.hash.encode() in content else LEARNER
        reply = messages.wire.Reply.FromString(service.ask(content, caller))
        service.statement(content, caller)
        if reply.WhichOneof("outcome") != "answer":
            kinds.add(reply.refusal.code)
        elif live.hash.encode() in content and reply.answer.value.data not in stored:
            question = messages.read_query(content)
            answered += 1
            assert (question.terms_hash, question.learner, question.round) == (live.hash, "learner", answered)
            assert question.theta.shape == (3,)
            assert np.abs(question.theta).max() <= 5.0
            assert reply.answer.statement.answered == answered
            stored.add(reply.answer.value.data)
        else:
            assert reply.answer.value.data in stored
    assert service.owner.ledger.verify() == rows + answered
    assert 0 < answered < count / 2
    assert kinds <= {"malformed", "unknown-terms", "out-of-order", "content-mismatch", "outside-box"}
    assert {"malformed", "unknown-terms", "out-of-order"} <= kinds


def test_fuzzed_messages_over_the_wire_leave_the_daemon_standing(bank):
    """All rounds were asked, so whatever a damaged message says, it costs nothing: a refusal, where it stands, or a
    stored answer."""
    count = int(os.environ.get("PARLEY_FUZZ", "1000"))
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    peer, rng = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity()), random.Random(7)
    for k in (1, 2, 3):
        peer.ask(ask(terms, k), 60, 3, 10)
    rows, stored = bank.ledger("a").head.entries, set(bank.answers("a").values())
    pool = [messages.write_query(ask(terms, k)) for k in (2, 3, 4)]
    for _ in range(count):
        reply = messages.wire.Reply.FromString(peer._call(rng.choice(["Ask", "Stand"]), damaged(rng, pool), 10))
        assert reply.WhichOneof("outcome") in ("refusal", "statement") or reply.answer.value.data in stored
    assert bank.spent(terms) == {"a": 1}
    assert bank.ledger("a").head.entries == rows
    assert peer.statement(terms.hash, "learner", 10).answered == 3
    peer.close()
    bank.kill("a", signal.SIGTERM)
    assert {line["event"] for line in bank.log("a")} <= {
        "ready",
        "serving",
        "refusal",
        "standing",
        "answer",
        "stopping",
        "stopped",
    }
