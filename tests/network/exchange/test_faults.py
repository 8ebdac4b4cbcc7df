"""Whatever breaks between a learner and its owners: no budget is lost, none is overspent, and the run goes on.

PARLEY_NETWORK_KILLS sets how many processes are killed (default 12).
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import ask

from parley.errors import ContentMismatch, OutOfOrder, Unavailable
from parley.network.exchange.remote import RemoteOwner
from parley.protocol.queries import GradientQuery


@pytest.mark.parametrize("rule", ["wait", "skip"])
def test_kill_any_process_at_any_point_and_restart(banks, rule):
    """Under `wait` every budget ends exactly spent; under `skip` an owner spends what it answered, whether in time or
    not."""
    kills = int(os.environ.get("PARLEY_NETWORK_KILLS", "12")) // 2
    rng = random.Random(5)
    epsilon = 2.0 / (8 * kills)  # on a fast machine many runs are over before anybody is killed
    killed, runs, budget = 0, 0, Fraction(str(epsilon))
    skip = ["--deadline", "0.3"] if rule == "skip" else []
    banks.start()
    while killed < kills:
        runs += 1
        file, horizon = f"terms{runs}.toml", 40 + runs
        extra = 'quorum = 2\nstraggler = "skip"' if skip else ""
        terms = banks.write_terms(file, horizon=horizon, epsilon=epsilon, extra=extra)
        banks.accept(terms)
        seen = {name: {} for name in "abc"}
        learner = banks.learner("--resume", *skip, file=file)
        while learner.exitcode != 0:
            learner.join(rng.uniform(0.05, 0.5))
            if learner.exitcode is None and killed < kills:
                victim = rng.choice(["a", "b", "c", "learner"])
                killed += 1
                if victim == "learner":
                    os.kill(learner.pid, signal.SIGKILL)
                    learner.join()
                    learner = banks.learner("--resume", *skip, file=file)
                else:
                    banks.kill(victim)
                    banks.start(victim)
            assert learner.exitcode in (None, 0, -signal.SIGKILL), banks.said()
            for name in "abc":
                now = banks.answers(name)
                assert seen[name].items() <= now.items()  # no answer was lost or changed
                seen[name] = now
        told = banks.learn("--resume", *skip, file=file)
        given = {name: banks.ledger(name).account(terms.hash).answers for name in "abc"}
        assert banks.spent(terms) == {name: budget * given[name] / horizon for name in "abc"}
        used = {owner["name"]: owner["answers"] for owner in told["owners"]}
        if skip:
            assert all(used[name] <= given[name] <= horizon for name in "abc")
            assert sum(used.values()) >= 2 * horizon
        else:
            assert used == given == dict.fromkeys("abc", horizon)
            assert banks.replay(terms) == told["theta"]


def test_an_owner_that_cannot_be_reached_is_waited_for_or_ends_the_run_as_the_terms_say(banks):
    terms = banks.write_terms(extra='straggler = "stop"')
    banks.accept(terms)
    banks.start("a", "b")
    said = banks.fail("--deadline", "1")
    assert "so the run stops (learning.straggler = 'stop'): c:" in said
    assert len(said.strip().splitlines()) == 2  # that, and that it is not forecast
    assert banks.spent(terms) == dict.fromkeys("abc", 0)  # no owner was asked before everybody was there
    patient = banks.write_terms("patient.toml")
    banks.accept(patient)
    learner = banks.learner("--deadline", "0.5", file="patient.toml")
    time.sleep(1.5)
    banks.start("c")
    learner.join(60)
    assert learner.exitcode == 0, banks.said()
    assert "waiting for late owners: c:" in banks.said()
    assert banks.spent(patient) == dict.fromkeys("abc", 1)


def test_a_slow_owner_is_asked_again_and_debited_once(banks):
    terms = banks.write_terms(horizon=5)
    banks.accept(terms)
    banks.start()
    os.kill(banks.daemons["b"].pid, signal.SIGSTOP)
    learner = banks.learner("--deadline", "0.3")
    time.sleep(1.5)
    os.kill(banks.daemons["b"].pid, signal.SIGCONT)
    learner.join(60)
    assert learner.exitcode == 0, banks.said()
    assert banks.spent(terms) == dict.fromkeys("abc", 1)
    kept = json.loads((banks.folder / "terms.checkpoint").read_text())
    assert kept["answers"] == dict.fromkeys("abc", 5)
    assert kept["spent"] == dict.fromkeys("abc", 1.0)


class BadLine(threading.Thread):
    """A TCP line to `port` that cuts connections short and flips bits now and then."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self._target, self._rng = port, random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.damage = 0

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near):
        with contextlib.suppress(OSError), near, socket.create_connection(("127.0.0.1", self._target)) as far:
            while True:
                for source in select.select([near, far], [], [])[0]:
                    data = bytearray(source.recv(4096))
                    chance = self._rng.random()
                    if not data or chance < 0.02:
                        return
                    if chance < 0.06:
                        self.damage += 1
                        data[self._rng.randrange(len(data))] ^= 0x10
                    (far if source is near else near).sendall(data)

    def close(self):
        self._listening.close()


def test_a_line_that_cuts_and_corrupts_costs_no_budget_and_changes_no_number(banks):
    terms = banks.write_terms(horizon=12)
    banks.accept(terms)
    banks.start()
    lines = [BadLine(banks.ports[name], seed) for seed, name in enumerate("abc")]
    [line.start() for line in lines]
    banks.write_addresses(**{name: f'"127.0.0.1:{line.port}"' for name, line in zip("abc", lines, strict=True)})
    theta = banks.learn("--deadline", "5")["theta"]
    [line.close() for line in lines]
    assert sum(line.damage for line in lines) > 0
    assert banks.spent(terms) == dict.fromkeys("abc", 1)
    assert banks.replay(terms) == theta


def test_duplicated_and_reordered_messages_get_the_stored_answers(bank):
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    first, second = ask(terms, 1), ask(terms, 2, (0.1, 0.0, 0.0))
    with pytest.raises(OutOfOrder):
        peer.ask(second, 60, 3, 10)
    crowd = []
    threads = [
        threading.Thread(target=lambda: crowd.append(peer.ask(first, 60, 3, 10).answer.value.tobytes()))
        for _ in range(8)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(crowd) == 8
    assert len(set(crowd)) == 1
    later = peer.ask(second, 60, 3, 10)
    assert peer.ask(first, 60, 3, 10).answer.value.tobytes() == crowd[0]  # an old message comes again after a newer one
    assert later.statement.spent == peer.statement(terms.hash, "learner", 10).spent == Fraction(2, 3)
    with pytest.raises(ContentMismatch):
        peer.ask(GradientQuery(first.id, terms.hash, "learner", 1, np.ones(3)), 60, 3, 10)
    peer.close()


def test_a_full_disk_under_the_ledger_stops_answers_and_leaks_nothing(bank):
    terms = bank.write_terms(horizon=120, extra='straggler = "stop"')
    bank.accept(terms)
    bank.start(largest_file=60_000)
    said = bank.fail("--deadline", "2")
    assert "cannot answer at the moment" in said
    ledger = bank.ledger("a")
    ledger.verify()
    done = ledger.account(terms.hash)
    assert 0 < done.answered < 120
    assert done.spent == Fraction(done.answered, 120)
    ledger.close()
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    with pytest.raises(Unavailable):
        peer.ask(ask(terms, done.answered + 1), 60, 3, 10)
    peer.close()
    bank.kill("a")
    bank.start()
    assert bank.replay(terms) == bank.learn("--resume")["theta"]
    assert bank.spent(terms) == {"a": 1}
