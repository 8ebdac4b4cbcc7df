import numpy as np
import pytest

import parley
from parley.demo import folder, unions
from parley.demo.unions import BANK, UNIONS, Law, make_unions, public_sample, standardised


def coefficients(table):
    """Least squares of the rate on the standardised columns, names left out so that nothing adds up to one."""
    z = np.column_stack([standardised(table.assign(grade="A"))[:, :9], np.ones(len(table))])
    return np.linalg.lstsq(z, table["int_rate"], rcond=None)[0]


def test_a_country_has_small_unions_in_regions_and_one_large_bank():
    owners = make_unions(3)
    small = [owner.records for owner in owners if owner.name != BANK]
    assert len(small) == UNIONS == 39
    assert (min(small), max(small)) == (150, 2000)
    assert owners[-1].name == BANK
    assert owners[-1].records > 5 * max(small)
    assert len({owner.name for owner in owners}) == 40


def test_tables_are_the_seed_s_own():
    first, again, other = (make_unions(seed)[0].loans(seed) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
    assert not first.equals(make_unions(1)[0].future(len(first), 1))


def test_a_law_shifts_what_it_says_and_future_loans_have_the_same_law():
    columns = len(standardised(public_sample(0).assign(grade="A"))[0])
    shift = np.zeros(columns)
    shift[3] = 1.5
    plain, shifted = Law(np.zeros(columns), np.zeros(columns), 0.0), Law(np.zeros(columns), shift, 2.0)
    difference = coefficients(shifted.loans(40_000, (1, 2))) - coefficients(plain.loans(40_000, (1, 3)))
    expected = np.zeros(10)
    expected[[3, 9]] = 1.5, 2.0
    np.testing.assert_allclose(difference, expected, atol=0.1)  # 2.2 points over the root of 20,000 rows, six times
    union = unions.Union("one", 40_000, shifted)
    np.testing.assert_allclose(coefficients(union.loans(5)), coefficients(union.future(40_000, 5)), atol=0.1)


def test_regions_differ_in_rates_and_in_members():
    owners = {owner.name: owner.law for owner in make_unions(1)}
    apart = np.abs(owners["coast-1"].shift - owners["hills-1"].shift).mean()
    together = np.abs(owners["coast-1"].shift - owners["coast-2"].shift).mean()
    assert apart > together
    assert (owners["coast-1"].leaning == owners["coast-2"].leaning).all()
    assert not (owners["coast-1"].leaning == owners["hills-1"].leaning).any()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    where = tmp_path_factory.mktemp("demo")
    folder.write_unions(where, 1, 4)
    return where


def test_the_terms_are_those_of_the_tables(place):
    one, own = (parley.load_terms(place / file) for file in (folder.SHARED_NOISE_FILE, folder.OWN_NOISE_FILE))
    names = [part.name for part in one.owners]
    assert one.noise.summed
    assert not own.noise.summed
    assert len(one.hosts) == 3
    assert {host.name for host in one.hosts} <= set(names)
    assert [part.name for part in own.owners] == names
    for part in one.owners:
        rows = (place / f"{part.name}.csv").read_text().count("\n") - 1
        assert rows == part.records
    assert one.model == own.model
