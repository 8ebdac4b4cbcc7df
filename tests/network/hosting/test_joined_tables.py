"""Owners share tables about the same people; hosts match them and open the moments with one noise."""

import os

import numpy as np
import pytest
from bundles_of_owners import CONTENT, TERMS, total
from matched_tables import people, shape_of, table

from parley.errors import AbortedRound, Malformed, Unavailable
from parley.network.exchange.share_bundle import Shape, ShareBundle
from parley.network.hosting.pool import NOT_READY, READY, Match, Pool
from parley.network.hosting.proposal import HostAssignment, TableJoin, Turn
from parley.network.hosting.sums import InProcessHosts
from parley.privacy.sharing.matching import match as match_module
from parley.privacy.sharing.matching.dummies import count_law
from parley.privacy.sharing.matching.keyed_rows import KeyedRows, joined_moments
from parley.privacy.sharing.matching.match import MatchPlan
from parley.privacy.sharing.matching.packed_rows import TableShape, pack_rows
from parley.privacy.sharing.ring import last_share, to_bytes

UNIT, DIGITS = 4000, 12
SHAPE = Shape("gaussian", 12, 15)  # four columns and the constant


def two_tables() -> dict[str, KeyedRows]:
    """The shop, named first by the terms, comes last by name."""
    rng = np.random.default_rng(2)
    pool = people(50, rng)
    return {"shop": table(pool[:30], 1, DIGITS, rng), "bank": table(pool[10:50], 3, DIGITS, rng)}


def hosts_of(tables: dict[str, KeyedRows], folder=None, **clips: int) -> InProcessHosts:
    shapes = [shape_of(rows) for rows in tables.values()]
    shapes = [
        TableShape(each.rows, each.columns, DIGITS, clips.get(owner, each.largest_square))
        for owner, each in zip(tables, shapes, strict=True)
    ]
    records = {owner: len(rows.values) for owner, rows in tables.items()}
    join = TableJoin(tuple(tables), MatchPlan(tuple(shapes), count_law(1.0, 0.01), UNIT))
    turn = Turn(SHAPE, records, len(tables))
    assignment = HostAssignment(TERMS, "learner", ("h0", "h1", "h2"), 1, {SHAPE: 1}, lambda number: turn, join=join)
    return InProcessHosts(assignment, folder)


def deliver(hosts: InProcessHosts, owner: str, rows: KeyedRows, seeds=None) -> None:
    packed, seeds = pack_rows(rows).reshape(-1), seeds or (os.urandom(32), os.urandom(32))
    shares = [*seeds, to_bytes(last_share(packed, seeds, bits=True))]
    pairs = [(shares[place], shares[(place + 1) % 3]) for place in range(3)]
    hosts.receive([ShareBundle(TERMS, 1, CONTENT, owner, len(rows.values), SHAPE, pair) for pair in pairs])


def test_the_opening_is_the_moments_with_one_noise_and_the_same_for_ever() -> None:
    tables = two_tables()
    hosts = hosts_of(tables)
    for owner, rows in tables.items():
        deliver(hosts, owner, rows)
    opened = hosts.open(1, CONTENT)
    assert opened[0].owners == ("bank", "shop")
    noise = total(opened) - joined_moments(list(tables.values()), UNIT)
    assert np.any(noise)
    assert np.abs(noise).max() < 8 * 10 * 2**12
    assert [each.words.tolist() for each in hosts.open(1, CONTENT)] == [each.words.tolist() for each in opened]
    hosts.close()


@pytest.mark.parametrize("owner", ["bank", "shop"])
def test_a_table_beyond_its_clip_aborts_the_round_and_names_its_owner(owner: str) -> None:
    tables = two_tables()
    limit = shape_of(tables[owner]).largest_square - 1
    hosts = hosts_of(tables, **{owner: limit})
    for name, rows in tables.items():
        deliver(hosts, name, rows)
    for _ in range(2):
        with pytest.raises(AbortedRound, match=f"{owner}: a row exceeds the clip"):
            hosts.open(1, CONTENT)
    assert all(journal.counts(TERMS).get("opened", 0) == 0 for journal in hosts.journals)
    hosts.close()


def test_a_repeated_key_aborts_the_round_and_no_key_is_quoted() -> None:
    tables = two_tables()
    keys = tables["bank"].keys.copy()
    keys[1:4] = keys[0]
    tables["bank"] = KeyedRows(keys, tables["bank"].values, DIGITS)
    hosts = hosts_of(tables)
    for name, rows in tables.items():
        deliver(hosts, name, rows)
    with pytest.raises(AbortedRound, match="bank: a key comes twice") as refusal:
        hosts.open(1, CONTENT)
    assert str(keys[0, 0]) not in str(refusal.value)
    hosts.close()


def test_another_table_under_the_same_question_changes_nothing_that_was_opened() -> None:
    """A host that restarts repeats its opening; without its journal's row the round is over."""
    tables = two_tables()
    hosts = hosts_of(tables)
    for owner, rows in tables.items():
        deliver(hosts, owner, rows)
    first = total(hosts.open(1, CONTENT))
    np.testing.assert_array_equal(total(hosts.open(1, CONTENT)), first)
    hosts.drop()  # the session, and with it noise and keys
    np.testing.assert_array_equal(total(hosts.open(1, CONTENT)), first)
    hosts.close()


def test_a_host_that_restarts_before_the_record_aborts_the_round(tmp_path) -> None:
    tables = two_tables()
    hosts = hosts_of(tables, tmp_path)
    for owner, rows in tables.items():
        deliver(hosts, owner, rows)
    hosts.draw(SHAPE)
    hosts.hosts[1].proposal(1, CONTENT)
    hosts.restart(1)
    with pytest.raises(AbortedRound):
        hosts.open(1, CONTENT)
    hosts.close()


class Impatient:
    """Both other hosts are ready; meanwhile, whoever asked host 0 for the job has gone."""

    def __init__(self, pool: Pool) -> None:
        self.index, self._pool, self.sent = 0, pool, dict[int, bytes]()

    def send(self, to: int, payload: bytes) -> None:
        self.sent[to] = payload

    def receive(self, source: int) -> bytes:
        with pytest.raises(Unavailable):
            self._pool.compute(self._pool.keys().session, "0" * 64, Match([], None), 0.0)
        return READY


def test_host_0_begins_no_match_for_which_it_is_not_ready_itself() -> None:
    hosts = hosts_of(two_tables())
    hosts.draw(SHAPE)
    pool, session = hosts.pools[0], hosts._sessions[0]
    pool.compute_now, session._channel = None, Impatient(pool)
    session._lead_job("0" * 64, [1, 2])
    assert session._channel.sent == {1: NOT_READY, 2: NOT_READY}
    hosts.close()


def test_tables_are_matched_once_whatever_becomes_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second match would show hosts a second number of matches, with fresh dummies, for one debit."""
    matched = []
    honest = match_module.draw_dummies
    monkeypatch.setattr(match_module, "draw_dummies", lambda *about: matched.append(1) or honest(*about))
    tables = two_tables()
    hosts = hosts_of(tables)
    for owner, rows in tables.items():
        deliver(hosts, owner, rows)

    def full(*about, **more):
        raise OSError("no space left")

    for journal in hosts.journals:
        monkeypatch.setattr(journal, "agree", full)
    with pytest.raises(OSError, match="no space left"):
        hosts.open(1, CONTENT)
    monkeypatch.undo()
    monkeypatch.setattr(match_module, "draw_dummies", lambda *about: matched.append(1) or honest(*about))
    with pytest.raises(AbortedRound, match="already used"):
        hosts.open(1, CONTENT)
    assert len(matched) == 3
    hosts.close()


def test_shares_of_another_length_are_refused() -> None:
    tables = two_tables()
    hosts = hosts_of(tables)
    with pytest.raises(Malformed, match="expected shares of"):
        deliver(hosts, "bank", table(people(40, np.random.default_rng(0)), 9, DIGITS, np.random.default_rng(0)))
    hosts.close()
