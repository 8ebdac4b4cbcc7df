"""Random schedules: share bundles here and there, openings at any host, restarts, an old journal, a host that tells
everybody something else. Whatever happens, the two honest hosts open one set under one noise for a question, and a
noise for one question."""

import random
import shutil
from collections import defaultdict
from functools import partial

import pytest
from bundles_of_owners import CONTENT, RECORDS, SHAPE, TERMS, Forger, attempts, bundles

from parley.errors import ParleyError
from parley.network.exchange.share_bundle import Opening
from parley.network.hosting.host import Host
from parley.network.hosting.journal import Journal
from parley.network.hosting.proposal import Record

ROUNDS = (1, 2)


def run_schedule(hosts, folder, seed):
    """What the honest hosts opened: for each round the records, for each noise the rounds."""
    rng = random.Random(seed)
    corrupt = rng.randrange(3)
    honest = [i for i in range(3) if i != corrupt]
    careless = rng.choice(honest)  # its journal may be put back
    sent = {(owner, number): bundles(owner, 7, number) for owner in RECORDS for number in ROUNDS}
    opened, uses = defaultdict(set), defaultdict(set)

    def forge():
        for index in honest:
            left_out = {name for name in RECORDS if rng.random() < 0.3}
            hosts.hosts[index]._peers[corrupt] = Forger(hosts.hosts[corrupt], hosts.journals[index], left_out)

    def deliver():
        for each in sent.values():
            for index in range(3):
                if rng.random() < 0.8:
                    attempts(partial(hosts.hosts[index].receive, each[index]))

    def open_somewhere():
        number = rng.choice(ROUNDS)
        where = [i for i in range(3) if rng.random() < 0.8]
        for index, told in zip(
            where, attempts(*(partial(hosts.hosts[i].open, number, CONTENT) for i in where)), strict=True
        ):
            if isinstance(told, Opening) and index in honest:
                record = hosts.journals[index].entry(TERMS, number).record
                opened[number].add((record, told.owners))
                uses[f"{Record.from_text(record).session}/{Record.from_text(record).noise}"].add(number)

    def restart():
        hosts.restart(rng.randrange(3))

    def put_back():
        hosts.journals[careless].close()
        old = folder / f"{rng.random()}.journal"
        shutil.copy(folder / "old.journal", old)
        hosts.restart(careless, Journal(old))

    hosts.journals[careless].close()
    shutil.copy(folder / f"h{careless}.journal", folder / "old.journal")
    deliver()
    for _ in range(14):
        step = rng.choices([deliver, open_somewhere, restart, put_back, forge], [4, 6, 1, 1, 2])[0]
        try:
            step()
            hosts.draw(SHAPE)
        except ParleyError:
            hosts.drop()
    return opened, uses


@pytest.mark.parametrize("seed", range(25))
def test_at_most_one_set_and_noise(trio, tmp_path, seed):
    opened, uses = run_schedule(trio(tmp_path, quorum=1, patience=0.03), tmp_path, seed)
    assert all(len(records) == 1 for records in opened.values())
    assert all(len(rounds) == 1 for rounds in uses.values())


def opened_by(trio, tmp_path, seed):
    folder = tmp_path / str(seed)
    folder.mkdir()
    return run_schedule(trio(folder, quorum=1, patience=0.03), folder, seed)[0]


def test_the_schedules_find_a_missing_rule(trio, tmp_path, monkeypatch):
    monkeypatch.setattr(Host, "_require_same", lambda self, number, record: None)
    assert any(len(records) > 1 for seed in range(25) for records in opened_by(trio, tmp_path, seed).values())


def test_the_schedules_open_something(trio, tmp_path):
    assert any(opened_by(trio, tmp_path, seed) for seed in range(25))
