"""Two hosts: each holds one share and adds a whole noise of its own; nobody opens two sums for one question."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bundles_of_owners import CONTENT, RECORDS, TERMS, VALUES, Forger, attempts, total
from bundles_of_owners import bundles_for_two as bundles
from hosted_consortium import HostedConsortium, torture
from samples import make_terms, regression_table
from scipy.stats import chisquare

import parley
from parley.audit.served.one_host import audit_hosts
from parley.errors import AbortedRound, ContradictionError, ParleyError
from parley.learning.outcome.guarantee import guarantee
from parley.network.exchange.in_process import SimulatedSum
from parley.network.exchange.share_bundle import Shape
from parley.network.hosting.host import AdditiveShares
from parley.network.hosting.journal import Journal
from parley.network.hosting.offer import acceptance_summary
from parley.network.hosting.proposal import HostAssignment, Turn
from parley.network.hosting.sums import InProcessHosts
from parley.owner.acceptance_summary import acceptance_summary as owners_summary
from parley.privacy.mechanisms.shared_noise import Law, draw_secretly, make_recipe
from parley.privacy.sharing.ring import Shares, expand_seed, to_bytes
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve
from parley.report.words.noise import two_hosts

SHAPE = Shape(Law.LAPLACE, 4, 5)


@pytest.fixture
def pair():
    made = []

    def make(folder=None, quorum=3, rounds=4, shape=SHAPE):
        assignment = HostAssignment(
            TERMS, "learner", ("h0", "h1"), rounds, {shape: 4}, lambda number: Turn(shape, RECORDS, quorum)
        )
        made.append(InProcessHosts(assignment, folder, 2.0))
        return made[-1]

    yield make
    for hosts in made:
        hosts.close()


def deliver(hosts, number=1, owners=RECORDS):
    sent = {owner: bundles(owner, VALUES[owner], number, shape=hosts.assignment.turn(number).shape) for owner in owners}
    for each in sent.values():
        hosts.receive(each)
    return sent


def law_of_two(exponent, reach):
    """P(X = -reach ... reach) of the sum of two discrete Laplace numbers of scale 2^exponent, by convolution."""
    q, k = np.exp(-(2.0**-exponent)), np.arange(-20 * 2**exponent, 20 * 2**exponent + 1)
    one = (1 - q) / (1 + q) * q ** np.abs(k)
    both = np.convolve(one, one)
    middle = len(both) // 2
    return both[middle - reach : middle + reach + 1]


def unlike(noise, exponent=3, reach=20):
    """The p-value of these numbers being sums of two such."""
    expected = law_of_two(exponent, reach)
    counts = np.bincount(np.clip(noise + reach, -1, 2 * reach + 1) + 1, minlength=2 * reach + 3)
    probabilities = np.concatenate([[(1 - expected.sum()) / 2], expected, [(1 - expected.sum()) / 2]])
    return chisquare(counts, probabilities / probabilities.sum() * len(noise)).pvalue


@pytest.mark.parametrize("mutant", ["none", "half", "one host adds none"])
def test_the_opened_sum_carries_two_whole_noises(pair, monkeypatch, mutant):
    """40,000 numbers against the exact law; noise of half the scale, and of one host alone, are told apart."""
    whole = AdditiveShares._noise
    if mutant == "half":
        smaller = Shape(Law.LAPLACE, 3 - 1, 1)  # recipes begin at 2^3, so its law is drawn as studies draw it
        rng = np.random.default_rng(0)
        stop = -np.expm1(-(2.0**-smaller.exponent))

        def halved(self, record, shape, patience):
            return (rng.geometric(stop, shape.size) - rng.geometric(stop, shape.size)).view(np.uint64)

        monkeypatch.setattr(AdditiveShares, "_noise", halved)
    if mutant == "one host adds none":
        absent = lambda self, *what: whole(self, *what) if self._index else np.zeros(what[1].size, dtype=np.uint64)  # noqa: E731
        monkeypatch.setattr(AdditiveShares, "_noise", absent)
    hosts = pair(shape=Shape(Law.LAPLACE, 3, 40_000))
    deliver(hosts)
    noise = total(hosts.open(1, CONTENT)) - sum(VALUES.values())
    assert unlike(noise) > 1e-6 if mutant == "none" else unlike(noise) < 1e-12


@pytest.mark.parametrize(("law", "exponent"), [(Law.LAPLACE, 6), (Law.GAUSSIAN, 5)])
def test_a_noise_that_a_host_draws_alone_has_the_recipes_law(law, exponent):
    recipe = make_recipe(law, exponent)
    drawn = draw_secretly(recipe, 200_000)
    error = np.sqrt(2 / drawn.size) if law == Law.GAUSSIAN else np.sqrt(5 / drawn.size)  # of a variance: kurtosis 3, 6
    assert abs(drawn.var() / recipe.variance - 1) < 5 * error
    assert abs(drawn.mean()) < 5 * np.sqrt(recipe.variance / drawn.size)
    assert np.abs(drawn).max() <= recipe.reach
    assert far_from_law(drawn, recipe) > 1e-6


def law_of(recipe):
    """P(X = -reach ... reach) of a recipe, by convolution of its parts: nothing of `draw_secretly` is asked."""
    if recipe.law == Law.LAPLACE:
        k = np.arange(-recipe.reach, recipe.reach + 1)
        weights = np.exp(-np.abs(k) / recipe.scale)
        return weights / weights.sum()
    step, smoothers = recipe.step, 14
    steps = np.arange(-92, 93)
    chances = np.exp(-(steps**2) / 200)
    law = np.zeros(184 * step + 1)
    law[::step] = chances / chances.sum()
    for _ in range(smoothers):
        law = np.convolve(law, np.full(step, 1 / step))
    return law


def far_from_law(drawn, recipe, width=7):
    """The p-value of these numbers having the recipe's law, in cells of a width that shares no factor with its steps,
    and by their places within a step."""
    law, size = law_of(recipe), drawn.size
    places = np.arange(len(law)) - len(law) // 2
    found = []
    within = 4 * np.sqrt(recipe.variance)
    for cells_of in (lambda k: np.clip(k, -within, within).astype(int) // width, lambda k: k % 2**recipe.exponent):
        least = cells_of(places).min()
        expected = np.bincount(cells_of(places) - least, weights=law) * size
        counts = np.bincount(cells_of(drawn) - least, minlength=len(expected))
        kept = expected > 10
        found.append(chisquare(counts[kept], expected[kept] / expected[kept].sum() * counts[kept].sum()).pvalue)
    return min(found)


def test_a_gaussian_noise_without_its_smoothers_is_told_apart(monkeypatch):
    """The mutant has the ladder alone, in steps of 32: variance and mean hardly show it, the law does."""
    recipe = make_recipe(Law.GAUSSIAN, 5)
    monkeypatch.setattr("parley.privacy.mechanisms.shared_noise.UNIFORM_TERMS", 0)
    ladder = draw_secretly(recipe, 50_000) - recipe.offset
    assert far_from_law(ladder, recipe) < 1e-12


@pytest.mark.parametrize("place", range(2))
def test_what_a_host_holds_before_opening_is_even_whatever_the_answer_is(place):
    """Bytes of a host's share and tag, of answers at both ends of the ring; a seed used twice shows the difference."""
    for value in (0, 2**63 - 1, -(2**63)):
        words = np.full(4096, value, dtype=np.int64).view(np.uint64)
        share, tag = Shares.from_words(words, bytes(32), CONTENT, hosts=2).for_host(place)
        held = share if isinstance(share, np.ndarray) else expand_seed(share, words.size)
        counts = np.bincount(np.frombuffer(to_bytes(held) + tag, dtype=np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6
    one, other = (np.full(8, value, dtype=np.uint64) for value in (3, 10))
    reused = [Shares._split(words, bytes(32), CONTENT, bytes(32), 2).for_host(1)[0] for words in (one, other)]
    assert (reused[1] - reused[0] == 7).all()


def test_either_host_with_the_learner_faces_one_whole_noise_and_noise_it_knows_is_caught(monkeypatch):
    terms = hosted(horizon=1)
    verdicts = audit_hosts(terms, 2**13, seed=1)
    assert [verdict.host for verdict in verdicts] == ["h0", "h1"]
    for verdict in verdicts:
        assert verdict.holds
        assert 0.7 < verdict.lower_bound <= verdict.claimed_epsilon == 1
        assert dict(verdict.takes_off) == {"own noise": 1}
    drawn = iter([draw_secretly, lambda recipe, size, words: np.zeros(size, dtype=np.int64)] * 4)
    monkeypatch.setattr("parley.network.hosting.host.draw_secretly", lambda *what: next(drawn)(*what))
    first, second = audit_hosts(terms, 2**13, seed=1)
    assert not first.holds  # the other adds nothing
    assert second.holds


def hosted(*sizes, **settings):
    terms = make_terms(*(sizes or (100, 100, 100)), learning__horizon=settings.pop("horizon", 3), **settings)
    return terms.changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("h0", "h1"))


def test_the_price_is_twice_one_noise_and_two_owners_gain_nothing():
    for count, gain in ((2, 1.0), (3, 1.5), (8, 4.0)):
        two = hosted(*[200] * count)
        apart = two.changed(privacy={"noise": "each-owner", "delta": 0.0}, hosts=())
        three = two.changed(hosts=("h0", "h1", "h2"))
        v2, own, v3 = (setup.aggregation.noise(setup).all_together for setup in map(resolve, (two, apart, three)))
        assert v2 == 2 * v3
        assert own / v2 == pytest.approx(gain, rel=0.02)


def test_two_owners_that_differ_lose_by_two_hosts_and_the_words_say_so():
    unlike_rows = make_terms(100, 900, learning__horizon=3, privacy__clip=0.7, privacy__unit="owner")
    unlike_epsilon = make_terms(100, 100, learning__horizon=3, privacy__clip=0.7).changed(
        owners={"a": {"epsilon": 0.3}}
    )
    for apart in (unlike_rows, unlike_epsilon):
        two = apart.changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("h0", "h1"))
        own, hosts = (setup.aggregation.noise(setup).all_together for setup in map(resolve, (apart, two)))
        assert hosts > 1.5 * own
    assert "two hosts would even increase the noise" in two_hosts(2)


def test_studies_carry_the_noise_that_hosts_would_add():
    """Within 5 standard errors of 12,000 numbers; one noise instead of two would be noticed."""
    terms = hosted(100, 150, horizon=1)
    owners = [parley.Owner(name, regression_table(rows, seed=rows)) for name, rows in (("a", 100), ("b", 150))]
    parties = [owner.simulate(0, 4000) for owner in owners]
    setup, _ = (party.accept(terms).setup for party in parties)
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros((4000, 3)))
    (answer,) = SimulatedSum(parties, seed=0).ask(dict.fromkeys("ab", query))
    expected = setup.aggregation.noise(setup).all_together
    assert answer.value.var(axis=0, ddof=1).mean() / expected == pytest.approx(1, abs=5 * np.sqrt(3.5 / 12_000))


def test_a_release_with_two_hosts_in_process_repeats_its_openings(tmp_path):
    terms = hosted(100, 150, horizon=2)
    owners = []
    for name, rows in (("a", 100), ("b", 150)):
        owner = parley.Owner(
            name,
            regression_table(rows, seed=rows),
            parley.Ledger(tmp_path / f"{name}.ledger", lifetime=2, lifetime_delta="1e-5"),
        )
        owner.accept(terms)
        owners.append(owner)
    first = parley.train(terms, owners)
    again = parley.train(terms, owners)
    assert np.array_equal(first.theta, again.theta)
    assert (
        "The promise holds unless the two hosts h0, h1 act together, and as long as neither's journal is put back to "
        "an earlier time" in guarantee(first)
    )
    owners_words(terms, owners[0])


def owners_words(terms, owner):
    said = owners_summary(owner, owner.agreement(terms.hash))
    assert any("The two hosts together can read your exact sum" in sentence for sentence in said)
    assert any("into two shares, and send one of the shares to each host" in sentence for sentence in said)
    holds = "unless the two hosts h0, h1 act together, and as long as neither's journal is put back"
    assert any(holds in sentence for sentence in said)
    assert "one of two shares of every answer, which tells you nothing" in " ".join(acceptance_summary(terms, "h0"))


def test_a_restart_before_the_record_aborts_and_after_it_goes_on(pair, tmp_path):
    hosts = pair(tmp_path)
    deliver(hosts)
    first = hosts.open(1, CONTENT)
    for index in range(2):
        hosts.restart(index)
        again = hosts.open(1, CONTENT)
        assert [each.words.tolist() for each in again] == [each.words.tolist() for each in first]
    deliver(hosts, 2)
    hosts.hosts[0].proposal(2, CONTENT)
    hosts.restart(0)
    # the restarted one has no share bundles and no record: both give the round up, for ever
    for _ in range(2):
        refusals = attempts(*(partial(host.open, 2, CONTENT) for host in hosts.hosts))
        assert all(isinstance(each, AbortedRound) for each in refusals)
    assert [journal.counts(TERMS).get("opened") for journal in hosts.journals] == [1, 1]
    assert [journal.counts(TERMS).get("void") for journal in hosts.journals] == [1, 1]


def test_a_host_that_lost_its_journal_does_not_open_a_second_noise(pair, tmp_path):
    """The other kept its own: the record of the one that begins anew has another name, and it aborts."""
    hosts = pair(tmp_path)
    sent = deliver(hosts)
    hosts.open(1, CONTENT)
    hosts.restart(0, Journal(None))
    for each in sent.values():
        hosts.hosts[0].receive(each[0])
    with pytest.raises(AbortedRound, match="recorded different decisions"):
        hosts.hosts[0].open(1, CONTENT)


def test_a_hostile_host_gets_one_set_opened_and_shares_of_two_splits_are_left_out(pair):
    hosts = pair(quorum=1)
    sent = deliver(hosts)
    victim, journal = hosts.hosts[0], hosts.journals[0]
    own = hosts.hosts[1]
    first = None
    for left_out in ({"bank-c"}, {"bank-b"}, set()):
        victim._peers = {1: Forger(own, journal, left_out)}
        opened = victim.open(1, CONTENT)
        first = opened if first is None else first
        assert opened.words.tolist() == first.words.tolist()
        assert opened.owners == ("bank-a", "bank-b")
    mixed = pair(quorum=2)
    for owner in RECORDS:
        mixed.receive(sent[owner] if owner != "bank-c" else [sent[owner][0], bundles(owner, VALUES[owner])[1]])
    assert mixed.open(1, CONTENT)[0].owners == ("bank-a", "bank-b")


def test_openings_of_two_records_are_not_added(pair):
    openings = []
    for hosts in (pair(), pair()):
        deliver(hosts)
        openings.append(hosts.open(1, CONTENT))
    with pytest.raises(ContradictionError, match="recorded different answers, so the sum is not used"):
        total([openings[0][0], openings[1][1]])


def test_a_share_bundle_of_another_length_is_refused(pair):
    hosts = pair()
    swapped = bundles("bank-a", 1)[::-1]
    for host, bundle in zip(hosts.hosts, swapped, strict=True):
        with pytest.raises(ParleyError, match="expected shares of"):
            host.receive(bundle)


def test_killed_at_random_two_hosts_open_nothing_twice(tmp_path: Path):
    consortium = HostedConsortium(tmp_path, hosts=("h0", "h1"))
    try:
        opened, aborted = torture(consortium, seed=2, kills=3, horizon=6)
        assert {*opened, *aborted} == set(range(1, 7))
        assert opened
    finally:
        consortium.close()
