"""The audit of joined tables: a person across tables, in whole numbers, by attacks, and before three hosts. Mutants
that protect a person less must be found."""

import json
from dataclasses import replace
from math import isqrt

import numpy as np
import pytest
from bank_and_shop import content, joined_terms, people, tables
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing.matching import dummies, match
from parley.privacy.sharing.matching.dummies import CountLaw, count_law, law_of_counts
from parley.privacy.sharing.matching.keyed_rows import count_common, joined_moments
from parley.privacy.sharing.matching.packed_rows import TableShape
from parley.tasks.joined import law, neighbours, plan
from parley.tasks.joined import tables as joined_tables
from parley.tasks.joined.audit import attack_moments, audit_counts, audit_joined, probe_hosts
from parley.tasks.joined.neighbours import RowPool, all_cases, hostile_row, search_pairs, squares
from parley.tasks.joined.plan import join_plan
from parley.terms import write_terms

DRAWN = SharedNoise.drawn
CLUB = {"name": "club", "records": 90, "epsilon": 1.0, "columns": ["grade"]}


def three_owners(**changes):
    made = content(**changes)
    made["model"]["categories"] = {"grade": ["low", "mid", "high"]}
    return parley.Terms.from_dict(made | {"owners": [*made["owners"], CLUB]})


BINS = {"model__columns": "bins", "shop__clip": 1.2}
RATE = {"kind": "linear-regression", "target": "rate", "bank__clip": 1.3, "join__digits": 20}


def found_pair(terms, pairs=600, seed=1):
    rng, made = np.random.default_rng(seed), join_plan(terms)
    pool = RowPool.of_plan(made, rng)
    return made, pool, search_pairs(made, pool, pairs, rng)


@pytest.fixture(scope="module")
def sound():
    return found_pair(joined_terms())


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.mark.parametrize(
    ("terms", "pairs"), [(joined_terms(), 10_000), (three_owners(), 1000), (joined_terms(**RATE), 1000)]
)
def test_no_neighbouring_tables_are_further_apart_than_is_claimed(terms, pairs):
    _, pool, searched = found_pair(terms, pairs)
    assert pool.kept
    assert (searched.pairs, searched.violations) == (pairs, 0)
    assert 0.88 <= searched.share <= 1


def test_the_search_takes_in_bins_and_dates():
    _, pool, searched = found_pair(joined_terms(**BINS, join__date="%Y-%m-%d"), 300)
    assert pool.kept
    assert not searched.violations


def test_neighbours_have_the_same_sizes_and_differ_in_one_person():
    rng, made = np.random.default_rng(0), join_plan(three_owners())
    pool = RowPool.of_plan(made, rng)
    rows = [[pool.draw(rng, owner) for owner in range(3)] for _ in range(2)]
    others = [neighbours.hostile_table(shape, rng) for shape in pool.shapes]
    keys = rng.integers(0, 2**64, size=(2, 2), dtype=np.uint64)
    cases = all_cases(3)
    assert len({*cases}) == len(cases) == 5**3 - 4**3 + 3**3 - 2**3
    moved = set()
    for case in cases:
        one, other = case.tables(*rows, others, keys)
        assert [len(table.keys) for table in one] == [len(table.keys) for table in other]
        differ = [at for at in range(3) if not np.array_equal(one[at].values, other[at].values)]
        assert {*differ} <= case.changed
        assert case.same or not case.changed & case.newcomer
        moved.add(np.any(joined_moments(one, 5) != joined_moments(other, 5)))
        counts = [count_common([table.keys for table in side]) for side in (one, other)]
        assert not case.same or counts[0] == counts[1]
    assert moved == {True, False}


def test_hostile_rows_fill_the_clip_and_keep_it():
    rng = np.random.default_rng(0)
    for _ in range(200):
        columns, digits = int(rng.integers(1, 9)), int(rng.integers(4, 20))
        shape = TableShape(4, columns, digits, int(rng.integers(1, columns << 2 * digits)))
        row = hostile_row(shape, rng.permutation(columns), bool(rng.integers(2)), rng)
        assert row.min() >= -(1 << digits)
        assert row.max() < 1 << digits
        assert squares(row[None])[0] <= shape.largest_square
    one = hostile_row(TableShape(4, 3, 12, 5000**2), np.array([2]), True, rng)
    assert abs(one[2]) in (4095, 4096)
    few = hostile_row(TableShape(4, 3, 12, 4000**2), np.array([2, 0, 1]), False, rng)
    assert squares(few[None])[0] == 4000**2


def test_a_sensitivity_without_the_constant_is_found(monkeypatch):
    def forgetful(clips, unit, digits):
        each = [clip * clip for clip in clips]
        return isqrt(sum(each) ** 2 + sum(min(1 << 2 * digits, square) * square for square in each)) + 1

    monkeypatch.setattr(law, "joined_sensitivity", forgetful)
    made, _, searched = found_pair(joined_terms())
    assert searched.violations
    assert searched.share > 1
    assert int(searched.apart.astype(object) @ searched.apart.astype(object)) > made.law.moved**2


def test_moves_are_compared_with_the_claim_in_whole_numbers():
    apart = np.array([3 * 2**40, 4 * 2**40])
    for claim, exceeds in ((5 * 2**40, False), (5 * 2**40 - 1, True), (5 * 2**40 + 1, False)):
        assert neighbours._exceeds(apart, np.linalg.norm(apart.astype(float)) / claim, claim) == exceeds


def test_a_clip_that_hosts_do_not_know_for_one_owner_is_found(monkeypatch):
    def loose(rows, columns, digits, square):
        return TableShape(rows, columns, digits, columns << 2 * digits if columns == 3 else square)

    monkeypatch.setattr(plan, "TableShape", loose)
    made, pool, searched = found_pair(joined_terms())
    assert searched.violations
    failed = [probe.tables for probe in probe_hosts(made, pool, np.random.default_rng(0)) if not probe.holds]
    assert failed == ["a row of bank beyond its clip"]


def test_hosts_that_do_not_check_one_owners_clip_are_found(monkeypatch, sound):
    checked = match.require_small_rows

    def blind(party, values, shape, table):
        if table != 1:
            checked(party, values, shape, table)

    monkeypatch.setattr(match, "require_small_rows", blind)
    failed = [probe.tables for probe in probe_hosts(*sound[:2], np.random.default_rng(0)) if not probe.holds]
    assert failed == ["a row of shop beyond its clip"]


def test_hosts_that_accept_a_key_twice_are_found(monkeypatch, sound):
    monkeypatch.setattr(match, "require_rising_keys", lambda party, rows, table: None)
    failed = [probe.tables for probe in probe_hosts(*sound[:2], np.random.default_rng(0)) if not probe.holds]
    assert "a key twice in the table of shop" in failed


def test_hosts_that_count_dummies_are_found(monkeypatch, sound):
    share_moments = match.share_moments

    def counting(party, matched, unit):
        return share_moments(party, replace(matched, dummies=matched.dummies.map(np.zeros_like)), unit)

    monkeypatch.setattr(match, "share_moments", counting)
    failed = [probe.tables for probe in probe_hosts(*sound[:2], np.random.default_rng(0)) if not probe.holds]
    assert failed == ["hostile rows at the clip"]


def test_an_owner_that_does_not_shorten_its_rows_is_found(monkeypatch):
    monkeypatch.setattr(joined_tables, "shortened", lambda values, squared: values)
    made = join_plan(joined_terms(**RATE))
    pool = RowPool.of_plan(made, np.random.default_rng(0))
    assert not pool.kept
    assert not probe_hosts(made, pool, np.random.default_rng(0))[0].holds


def test_half_the_noise_is_found(monkeypatch, sound):
    made, _, searched = sound
    seed = np.random.SeedSequence(3)
    whole = attack_moments(made, searched, 20_000, seed, 0.99)
    assert whole.holds
    assert 0.2 < whole.lower_bound < whole.by_noise < 0.9
    monkeypatch.setattr(
        SharedNoise, "drawn", lambda self, shape, rng: (DRAWN(self, shape, rng).view(np.int64) // 2).view(np.uint64)
    )
    half = attack_moments(made, searched, 20_000, seed, 0.99)
    assert not half.holds
    assert half.by_noise > 0.9


def test_the_same_noise_twice_is_found(monkeypatch, sound):
    monkeypatch.setattr(SharedNoise, "drawn", lambda self, shape, rng: DRAWN(self, shape, np.random.default_rng(0)))
    verdict = attack_moments(*sound[::2], 200, np.random.SeedSequence(0), 0.99)
    assert verdict.noise_repeats
    assert not verdict.holds


@pytest.mark.parametrize(("terms", "moved"), [(joined_terms(), 1), (three_owners(), 3)])
def test_the_counts_cost_what_is_claimed(terms, moved):
    verdict = audit_counts(join_plan(terms))
    assert verdict.holds
    assert verdict.moved == moved
    assert 0.0999 < verdict.epsilon <= 0.1


def test_half_the_dummies_are_found(monkeypatch):
    def halved(epsilon, delta, owners):
        found = law_of_counts(epsilon, delta, owners)
        return dummies._law(found.epsilon, found.dummies // 4)

    monkeypatch.setattr(plan, "law_of_counts", halved)
    verdict = audit_counts(join_plan(joined_terms()))
    assert not verdict.holds
    assert verdict.to_json()["epsilon"] is None


def test_dummies_for_one_count_where_three_move_are_found(monkeypatch):
    monkeypatch.setattr(plan, "law_of_counts", lambda epsilon, delta, owners: count_law(epsilon, delta))
    assert audit_counts(join_plan(joined_terms())).holds
    assert not audit_counts(join_plan(three_owners())).holds


def test_dummies_of_which_every_number_is_as_likely_are_found(monkeypatch):
    even = CountLaw(0.1, tuple((1 << 64) * k // 100 for k in range(99, 0, -1)))
    monkeypatch.setattr(plan, "law_of_counts", lambda epsilon, delta, owners: even)
    assert not audit_counts(join_plan(joined_terms())).holds


def test_a_whole_audit_holds(tmp_path):
    write_terms(joined_terms(), tmp_path / "terms.toml")
    shown = run(tmp_path / "terms.toml", "--runs", 4000, "--tries", 300, "--seed", 4)
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    for words in (
        "No attack revealed more",
        "matches, by hosts",
        "moments, by learner",
        "Would the audit notice a fault?",
    ):
        assert words in text


def test_the_object_holds_what_was_found_and_repeats(tmp_path):
    write_terms(joined_terms(), tmp_path / "terms.toml")
    again = [run(tmp_path / "terms.toml", "--runs", 4000, "--tries", 300, "--seed", 4, "--json") for _ in range(2)]
    first, second = (json.loads(each.stdout) for each in again)
    assert first["inside"] is False
    assert first["holds"] is True
    assert first["search"]["pairs"] == 300
    assert [host["host"] for host in first["hosts"]] == ["bank", "shop", "auditor"]
    assert len(first["probes"]) == 6
    assert all(probe["holds"] for probe in first["probes"])
    assert any(first["mutants"].values())
    assert {**first, "seconds": 0} == {**second, "seconds": 0}


def test_what_breaks_is_named_and_the_exit_code_is_1(monkeypatch, tmp_path):
    write_terms(joined_terms(), tmp_path / "terms.toml")
    monkeypatch.setattr(plan, "law_of_counts", lambda epsilon, delta, owners: count_law(epsilon * 2, delta))
    monkeypatch.setattr(match, "require_rising_keys", lambda party, rows, table: None)
    shown = run(tmp_path / "terms.toml", "--runs", 200, "--tries", 50, "--seed", 4)
    text = " ".join(shown.stdout.split())
    assert shown.exit_code == 1
    assert "Broken: the numbers of matches reveal more than the terms allow; hosts did not treat" in text
    assert "NO" in text


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--poison",), "--poison: not available for the task joined"),
        (("--report", "page.html"), "--report: not available for the task joined"),
        (("--plot", "plot.png"), "--plot: not available for the task joined"),
        (("--served", "folder"), "--served: not available for the task joined"),
        (("--owner", "bank"), "--owner: not available for the task joined"),
        (("--models", "16"), "allowed only when auditing a model"),
        (("--runs", "5"), "runs = 5"),
        (("--tries", "0"), "tries = 0"),
    ],
)
def test_options_that_do_nothing_here_are_refused(tmp_path, monkeypatch, option, words):
    write_terms(joined_terms(), tmp_path / "terms.toml")
    monkeypatch.chdir(tmp_path)
    result = run("terms.toml", *option)
    assert result.exit_code != 0
    assert words in str(result.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["terms.toml"]


def test_an_audit_of_one_owner_with_the_joined_model_is_refused(tmp_path):
    bank, shop = tables(people(300), 20, 30)
    for name, rows in (("bank", bank), ("shop", shop)):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    files = {f"{name}__data": str(tmp_path / f"{name}.csv") for name in ("bank", "shop")}
    write_terms(joined_terms(len(bank), len(shop), **files), tmp_path / "terms.toml")
    trained = CliRunner().invoke(
        app, ["train", str(tmp_path / "terms.toml"), "--seed", "1", "--save", str(tmp_path / "model.json")]
    )
    assert trained.exit_code == 0, trained.output
    result = run(tmp_path / "model.json", "--terms", tmp_path / "terms.toml", "--owner", "bank")
    assert result.exit_code != 0
    assert "no owner answers alone" in str(result.exception)


def test_audits_of_three_owners_and_of_python_hold():
    found = audit_joined(three_owners(), runs=500, seed=2, pairs=100)
    assert found.holds
    assert [probe.tables for probe in found.probes][-1] == "a key twice in the table of club"
    assert found.counts.moved == 3
