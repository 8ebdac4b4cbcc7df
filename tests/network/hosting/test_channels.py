"""Three hosts that are killed, started again and delayed at random always get to a session; a late thread of an old one
changes nothing.

PARLEY_SCHEDULES sets how many random schedules are run (default 100).
"""

import contextlib
import os
import random
import threading
import time
from io import StringIO

import pytest
from bundles_of_owners import SHAPE, make_assignment

from parley.errors import OutOfOrder, Unavailable
from parley.network.hosting import channels, pool
from parley.network.hosting.channels import Drawer
from parley.network.hosting.pool import Keys, Pool
from parley.network.hosting.proposal import HostAssignment
from parley.network.serving.log import Log

SCHEDULES = int(os.environ.get("PARLEY_SCHEDULES", "100"))
TOGETHER = 25  # schedules at once: their threads mostly wait
ASSIGNMENT = make_assignment(3, 4, SHAPE)
IDLE = HostAssignment(
    ASSIGNMENT.terms_hash, ASSIGNMENT.learner, ASSIGNMENT.hosts, ASSIGNMENT.rounds, {}, ASSIGNMENT.find
)  # nothing to draw: sessions alone


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """The same rules in a hundredth of the time."""
    quick = {
        "PATIENCE": 1.0,
        "SENDING": 0.5,
        "ARRIVAL": 0.3,
        "TELLING": 0.2,
        "FIRST_PAUSE": 0.01,
        "LONGEST_PAUSE": 0.05,
    }
    for name, seconds in quick.items():
        monkeypatch.setattr(channels, name, seconds, raising=False)
    monkeypatch.setattr(pool, "KEEPALIVE_S", 0.05)


class LatePool(Pool):
    """A host under load may come to its `begin` late."""

    delay = staticmethod(lambda: None)

    def begin(self, attempt, keys):
        self.delay()
        super().begin(attempt, keys)


class OldPool(LatePool):
    """The rule as it was: whoever begins last is the session, and takes it away when it ends."""

    def __init__(self, ahead):
        super().__init__(ahead)
        self._sessions = {}

    def begin(self, attempt, keys):
        self.delay()
        with self._changed:
            self._sessions[attempt] = keys.session
            self._drop(keys)

    def end(self, attempt):
        with self._changed:
            if self._holds(self._sessions.get(attempt, "")):
                self._drop()


class Machine:
    """One host from its start to its death; what it says after that reaches nobody."""

    def __init__(self, trio, index, pool):
        self.trio, self.index, self.pool, self.dead = trio, index, pool, False
        peers = {other: Wire(self, other) for other in range(3) if other != index}
        self.drawer = Drawer(trio.assignment, index, pool, peers, trio.log)

    def kill(self):
        self.dead = True


class Wire:
    """Messages from one machine to whoever is in the other's place when they arrive."""

    def __init__(self, sender, to):
        self.sender, self.to = sender, to

    def carry(self, terms, channel, number, payload, timeout):
        self.sender.trio.delay()
        receiver = self.sender.trio.machines[self.to]
        if self.sender.dead or receiver is None or receiver.dead:
            raise Unavailable("nobody there")
        receiver.drawer.take(self.sender.index, channel, number, payload)
        if self.sender.dead or receiver.dead:
            raise Unavailable("the line is cut")


class Trio:
    """Three machines and their network."""

    def __init__(self, seed, pool=LatePool, assignment=IDLE, longest=0.02):
        self.rng, self.lock, self.assignment, self.log = (
            random.Random(seed),
            threading.Lock(),
            assignment,
            Log(StringIO()),
        )
        self.kind, self.longest = pool, longest
        self.machines = [None] * 3
        self.past = []

    def draw(self, low, high):
        with self.lock:
            return self.rng.uniform(low, high)

    def delay(self):
        """On the way: mostly nothing, now and then for long."""
        if self.draw(0, 1) < 0.2:
            time.sleep(self.draw(0, self.longest))

    def start(self, index):
        pool = self.kind(self.assignment.ahead)
        pool.delay = lambda: time.sleep(self.draw(0.05, 0.6)) if self.draw(0, 1) < 0.5 else None
        self.machines[index] = Machine(self, index, pool)

    def kill(self, index):
        self.machines[index].kill()
        self.past.append(self.machines[index])
        self.machines[index] = None

    def session(self):
        """The session in which all three are."""
        try:
            names = {machine.pool.keys().session for machine in self.machines if machine is not None}
        except Unavailable:
            return None
        return names.pop() if len(names) == 1 and None not in self.machines else None

    def settles(self, seconds=6.0, steady=0.15):
        """Whether all three get to one session, and stay in it."""
        until, since, last = time.monotonic() + seconds, time.monotonic(), None
        while time.monotonic() < until:
            now = self.session()
            if now is None or now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > steady:
                return True
            time.sleep(0.01)
        return False

    def close(self):
        for machine in [*self.past, *self.machines]:
            if machine is not None:
                machine.kill()
                machine.drawer.close()
        self.log.__exit__()


def run_schedule(seed, pool=LatePool):
    """Kills and starts at random moments; whether three hosts that live in the end get to a session."""
    trio = Trio(seed, pool)
    try:
        for index in trio.rng.sample(range(3), 3):
            trio.start(index)
            time.sleep(trio.draw(0, 0.02))
        for _ in range(trio.rng.randrange(1, 4)):
            victim = trio.rng.randrange(3)
            time.sleep(trio.draw(0, 0.12))
            trio.kill(victim)
            time.sleep(trio.draw(0, 0.05))
            trio.start(victim)
        return trio.settles()
    finally:
        trio.close()


def run_schedules(seeds, pool=LatePool):
    """Which of them did not end in a session."""
    wedged, seeds = [], list(seeds)
    for start in range(0, len(seeds), TOGETHER):

        def work(seed):
            if not run_schedule(seed, pool):
                wedged.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds[start : start + TOGETHER]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return wedged


def test_three_live_hosts_always_get_to_a_session():
    assert run_schedules(range(SCHEDULES)) == []


def test_the_schedules_find_the_rule_that_was_missing():
    batches = (range(start, start + TOGETHER) for start in range(0, 8 * TOGETHER, TOGETHER))
    assert any(run_schedules(batch, OldPool) for batch in batches)


@pytest.fixture
def trio():
    made = []

    def make(pool=LatePool, assignment=IDLE):
        made.append(Trio(1, pool, assignment, longest=0.0))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("kind", [LatePool, OldPool])
def test_a_late_thread_of_an_old_session_takes_nothing_away(trio, kind):
    """One host is held before its first `begin` until another was killed, started again, and is in a session with
    everybody."""
    hosts, held, came = trio(kind), threading.Event(), threading.Event()
    for index in range(3):
        hosts.start(index)
        hosts.machines[index].pool.delay = lambda: None
    hosts.settles()
    late, first = hosts.machines[1].pool, [True]

    def hold():
        if first:
            first.clear()
            came.set()
            held.wait(20)

    late.delay = hold
    for machine in hosts.machines:
        machine.drawer._hear(b"")  # the next session
    assert came.wait(5)
    hosts.kill(2)
    hosts.start(2)
    hosts.machines[2].pool.delay = lambda: None
    assert hosts.settles()
    held.set()
    time.sleep(0.2)
    assert hosts.settles(2.0) is (kind is LatePool)  # else "not ready" until somebody restarts it by hand


def test_a_pool_listens_to_its_last_attempt_alone():
    pool = Pool({SHAPE: 4})
    old, keys = pool.renew(), Keys("1" * 64, b"a", b"b")
    new = pool.renew()
    with pytest.raises(Unavailable, match="newer session"):
        pool.begin(old, Keys("0" * 64, b"", b""))
    pool.begin(new, keys)
    pool.deposit(old, 1, SHAPE, None)
    pool.end(old)
    assert (pool.keys(), pool.ready()[SHAPE]) == (keys, 0)
    pool.deposit(new, 1, SHAPE, None)
    assert pool.ready()[SHAPE] == 1
    pool.end(new)
    pool.deposit(new, 2, SHAPE, None)
    assert pool.ready()[SHAPE] == 0
    for step in (pool.keys, lambda: pool.begin(new, keys)):  # what has ended does not begin again
        with pytest.raises(Unavailable):
            step()


def test_a_channel_is_opened_once_and_what_comes_late_for_an_old_one_is_refused_at_once(trio):
    hosts = trio()
    hosts.start(1)  # nobody else is there
    drawer = hosts.machines[1].drawer
    for name in ("1" * 64, "2" * 64):
        with contextlib.suppress(OutOfOrder):  # its thread may have found out by then that it is alone
            drawer.take(0, name, 0, b"x")
    with pytest.raises(OutOfOrder, match="only once"):
        drawer.take(0, "1" * 64, 0, b"x")
    with pytest.raises(Unavailable):
        drawer.take(2, "1" * 64, 1, b"x")
    assert drawer._channel.name == "2" * 64
    drawer.take(2, channels.CLOSE_NOTICE_NAME, 0, b"1" * 64)
    assert drawer._channel.name == "2" * 64


def test_noise_is_drawn_after_a_host_died_in_the_middle_of_a_draw(trio):
    hosts = trio(assignment=ASSIGNMENT)
    for index in range(3):
        hosts.start(index)
    for victim in (1, 0, 2):
        until = time.monotonic() + 20
        while not any(machine.pool.ready()[SHAPE] for machine in hosts.machines) and time.monotonic() < until:
            time.sleep(0.005)
        hosts.kill(victim)
        hosts.start(victim)
    until = time.monotonic() + 20
    while {machine.pool.ready()[SHAPE] for machine in hosts.machines} != {4} and time.monotonic() < until:
        time.sleep(0.01)
    assert [machine.pool.ready()[SHAPE] for machine in hosts.machines] == [4, 4, 4]
    assert hosts.session() is not None
