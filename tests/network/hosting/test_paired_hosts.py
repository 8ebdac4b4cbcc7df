"""Two hosts that draw one noise together: terms, words, openings, aborts, forecasts and audits."""

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from bundles_of_owners import CONTENT, RECORDS, TERMS, VALUES, attempts, bundles_for_two, total
from hosted_consortium import HostedConsortium, torture
from samples import make_terms, regression_table

import parley
from parley.audit.served import one_host
from parley.audit.served.one_host import audit_hosts
from parley.decisions.planning.noise_terms import each_owner_terms, kind_of, shared_terms
from parley.errors import AbortedRound, TermsError
from parley.learning.outcome.guarantee import guarantee, kind_of_run
from parley.network.exchange.in_process import SimulatedSum
from parley.network.exchange.share_bundle import Shape
from parley.network.hosting.journal import Journal
from parley.network.hosting.offer import acceptance_summary
from parley.network.hosting.proposal import HostAssignment, Turn
from parley.network.hosting.sums import InProcessHosts
from parley.owner.acceptance_summary import acceptance_summary as owners_summary
from parley.owner.disclosure import role_warnings
from parley.privacy.mechanisms.shared_noise import Law
from parley.privacy.mechanisms.tabled_recipe import tabled_recipe
from parley.privacy.sharing import pair as pair_module
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve
from parley.report.words.audit import HOSTS_NOTE
from parley.report.words.noise import KIND_LABELS, kind_rows

SHAPE = Shape(Law.LAPLACE, 4, 5)


@pytest.fixture
def paired():
    made = []

    def make(folder=None, rounds=4, shape=SHAPE):
        assignment = HostAssignment(
            TERMS, "learner", ("h0", "h1"), rounds, {shape: 4}, lambda number: Turn(shape, RECORDS, 3), paired=True
        )
        made.append(InProcessHosts(assignment, folder, 2.0))
        return made[-1]

    yield make
    for hosts in made:
        hosts.close()


def deliver(hosts, number=1):
    sent = [
        bundles_for_two(owner, VALUES[owner], number, shape=hosts.assignment.turn(number).shape) for owner in RECORDS
    ]
    for each in sent:
        hosts.receive(each)
    return sent


def together(*sizes, **settings):
    terms = make_terms(*(sizes or (100, 100)), learning__horizon=settings.pop("horizon", 3), **settings)
    return terms.changed(privacy={"noise": "shared", "draw": "together", "delta": 1e-6}, hosts=("h0", "h1"))


@pytest.mark.parametrize("law", Law)
def test_the_opened_sum_carries_one_noise(paired, law):
    """6,000 numbers within 6 standard errors; two whole noises have twice the variance."""
    hosts = paired(shape=Shape(law, 6, 6_000))
    deliver(hosts)
    noise = total(hosts.open(1, CONTENT)) - sum(VALUES.values())
    recipe = tabled_recipe(law, 6).recipe
    due = recipe.variance + recipe.low_variance
    assert due < 1.025 * recipe.variance
    assert abs(noise.var() / due - 1) < 6 * np.sqrt(5 / noise.size)


def test_a_restart_before_the_record_aborts_and_after_it_goes_on(paired, tmp_path):
    hosts = paired(tmp_path)
    deliver(hosts)
    first = hosts.open(1, CONTENT)
    for index in range(2):
        hosts.restart(index)
        again = hosts.open(1, CONTENT)
        assert [each.words.tolist() for each in again] == [each.words.tolist() for each in first]
    deliver(hosts, 2)
    hosts.draw(SHAPE)
    hosts.hosts[0].proposal(2, CONTENT)
    hosts.restart(0)
    hosts.draw(SHAPE)
    for _ in range(2):
        refusals = attempts(*(partial(host.open, 2, CONTENT) for host in hosts.hosts))
        assert all(isinstance(each, AbortedRound) for each in refusals)
    assert [journal.counts(TERMS).get("opened") for journal in hosts.journals] == [1, 1]


def test_a_host_that_lost_its_journal_does_not_open_a_second_noise(paired, tmp_path):
    hosts = paired(tmp_path)
    sent = deliver(hosts)
    hosts.open(1, CONTENT)
    hosts.restart(0, Journal(None))
    hosts.draw(SHAPE)
    for each in sent:
        hosts.hosts[0].receive(each[0])
    with pytest.raises(AbortedRound, match="the noise was dropped"):
        hosts.hosts[0].open(1, CONTENT)


def test_each_noise_is_used_once(paired):
    hosts = paired(rounds=3)
    opened = []
    for number in (1, 2, 3):
        deliver(hosts, number)
        opened.append(tuple(total(hosts.open(number, CONTENT))))
    assert len(set(opened)) == 3
    assert [journal.counts(TERMS)["opened"] for journal in hosts.journals] == [3, 3]


def test_terms_say_it_and_without_the_key_the_hash_is_as_it_was():
    apart = make_terms(100, 100).changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("h0", "h1"))
    assert apart.changed(privacy={"draw": "together"}).hash != apart.hash
    assert apart.changed(privacy={"draw": None}).hash == apart.hash
    assert '"draw"' not in apart.canonical
    for changes, message in (
        ({"hosts": ("h0", "h1", "h2")}, "draw: allowed only with two hosts; three hosts always draw"),
        ({"hosts": (), "privacy": {"noise": "each-owner", "draw": "together"}}, "draw: allowed only with noise"),
        ({"privacy": {"draw": "apart"}}, "draw"),
    ):
        with pytest.raises(TermsError, match=message):
            together().changed(**changes)
    assert kind_of(together()) == "shared"
    assert shared_terms(together()).noise.hosts == 3
    assert each_owner_terms(together()).privacy.draw is None


def test_the_price_is_one_noise_and_two_owners_gain_half():
    two = together(200, 200)
    apart = each_owner_terms(two)
    three = shared_terms(two)
    of_pair, own, of_three = (
        setup.aggregation.noise(setup).all_together for setup in map(resolve, (two, apart, three))
    )
    assert 1 < of_pair / of_three < 1.025
    assert own / of_pair == pytest.approx(2, rel=0.05)
    single = two.changed(privacy={"draw": None})
    assert resolve(single).aggregation.noise(resolve(single)).all_together == pytest.approx(2 * of_three)
    costs = [part.training.series.spent_after(3) for part in (resolve(two).part("a"), resolve(single).part("a"))]
    assert costs[0] == costs[1]  # the same epsilon: either host alone faces one whole noise


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_studies_carry_the_noise_that_hosts_would_add(mechanism):
    terms = together(100, 150, horizon=1).changed(privacy={"mechanism": mechanism})
    owners = [parley.Owner(name, regression_table(rows, seed=rows)) for name, rows in (("a", 100), ("b", 150))]
    parties = [owner.simulate(0, 4000) for owner in owners]
    setup, _ = (party.accept(terms).setup for party in parties)
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros((4000, 3)))
    (answer,) = SimulatedSum(parties, seed=0).ask(dict.fromkeys("ab", query))
    expected = setup.aggregation.noise(setup).all_together
    assert answer.value.var(axis=0, ddof=1).mean() / expected == pytest.approx(1, abs=5 * np.sqrt(5 / 12_000))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_either_host_with_the_learner_faces_one_whole_noise(mechanism, monkeypatch):
    monkeypatch.setattr(one_host, "BATCH_ANSWERS", 2**11)
    terms = together(horizon=1).changed(privacy={"mechanism": mechanism})
    for verdict in audit_hosts(terms, 2**12, seed=1):
        assert verdict.holds
        assert verdict.lower_bound <= verdict.claimed_epsilon == 1
        assert mechanism == "gaussian" or verdict.lower_bound > 0.5
        assert dict(verdict.takes_off) in ({}, {"own low part": 1})


def test_a_mask_that_is_left_out_is_caught(monkeypatch):
    monkeypatch.setattr(one_host, "BATCH_ANSWERS", 2**11)
    zeros = lambda self, words: (np.zeros(words, dtype=np.uint64),) * 3  # noqa: E731
    monkeypatch.setattr(pair_module.Pair, "_triples", zeros)
    monkeypatch.setattr("parley.privacy.sharing.oblivious.hash_rows", np.zeros_like)
    assert not any(verdict.holds for verdict in audit_hosts(together(horizon=1), 2**12, seed=1))


def test_a_release_repeats_its_openings_and_says_what_it_rests_on(tmp_path):
    terms = together(100, 150, horizon=2)
    owners = []
    for name, rows in (("a", 100), ("b", 150)):
        ledger = parley.Ledger(tmp_path / f"{name}.ledger", lifetime=2, lifetime_delta="1e-5")
        owners.append(parley.Owner(name, regression_table(rows, seed=rows), ledger=ledger))
        owners[-1].accept(terms)
    first, again = parley.train(terms, owners), parley.train(terms, owners)
    assert np.array_equal(first.theta, again.theta)
    assert "as long as both hosts h0, h1 follow the protocol" in guarantee(first)
    said = " ".join(owners_summary(owners[0], owners[0].agreement(terms.hash)))
    assert "each host receives one" in said or "send one of the shares to each host" in said
    assert "which the hosts draw together and no host knows" in said
    assert "as long as both hosts h0, h1 follow the protocol, do not act together" in said
    words = " ".join(acceptance_summary(terms, "h0"))
    assert "with the other host, and send your part" in words
    assert "can take away nearly all noise" in words


@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        (("h0", "h1"), []),
        (("learner", "h1"), [("The learner, learner,", "learner")]),
        (("h0", "a"), [("The owner a", "a")]),
        (("a", "learner"), [("The owner a", "a"), ("The learner, learner,", "learner")]),
        (("b", "a"), [("The owner b", "b"), ("The owner a", "a")]),
    ],
)
def test_each_host_with_an_interest_is_named_as_one_that_can_remove_the_noise_alone(hosts, named):
    found = [warning.sentence for warning in role_warnings(together().changed(hosts=hosts))]
    assert len(found) == bool(named)
    for sentence in found:
        assert "as long as no two hosts act together" not in sentence
        assert sentence.endswith("Together, the two hosts can read every owner's exact sums, without noise.")
        for subject, name in named:
            assert (
                f"{subject} is one of two hosts that draw together. By departing from the protocol, {name} alone can "
                "remove nearly all noise, unnoticed." in sentence
            )


def test_reports_label_the_noise_by_the_terms_and_do_not_advise_against_it():
    gained = {"gains": [0.0], "share_that_gains": 1.0, "delta": 1e-6, "relative_fitness": 1.0, "together": 1.0}
    noise = dict.fromkeys(KIND_LABELS, gained)
    for paired, label in ((True, "shared (2 hosts together)"), (False, "shared (3 hosts)")):
        assert label in [row[0] for row in kind_rows(noise, paired)]
        terms = together().changed(privacy={"draw": "together" if paired else None})
        words = kind_of_run(SimpleNamespace(terms=terms, by_word=True))
        assert words.endswith(
            " or a host departed from the protocol." if paired else "unless two hosts acted together."
        )
    assert "draw one noise together" in HOSTS_NOTE
    assert "only tested whether their bytes are evenly distributed" in HOSTS_NOTE


def test_killed_at_random_they_open_nothing_twice(tmp_path: Path):
    """PARLEY_KILLS sets how many processes are killed (default 3)."""
    consortium = HostedConsortium(tmp_path, hosts=("h0", "h1"))
    consortium.draw = 'draw = "together"\n'
    try:
        opened, aborted = torture(consortium, seed=3, kills=int(os.environ.get("PARLEY_KILLS", "3")), horizon=6)
        assert {*opened, *aborted} == set(range(1, 7))
        assert opened
    finally:
        consortium.close()
