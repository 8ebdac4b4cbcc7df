"""Three owners, three hosts and a learner as processes with mutual TLS; killed at random, they never open two sums for
one question."""

import time
import urllib.error
import urllib.request
from fractions import Fraction

import numpy as np
import pytest
from consortium import free_port
from hosted_consortium import HostedConsortium, torture

import parley
from parley.errors import ParleyError, UnknownTerms
from parley.network.exchange.host_connections import RemoteHost
from parley.network.exchange.share_bundle import pack
from parley.network.hosting.offer import statement
from parley.network.identity.settings import load_host
from parley.privacy.sharing.ring import Shares
from parley.protocol.queries import GradientQuery


@pytest.fixture
def consortium(tmp_path):
    made = HostedConsortium(tmp_path)
    yield made
    made.close()


def test_a_run_over_three_hosts(consortium):
    terms = consortium.write_terms(horizon=4, epsilon=5.0)
    consortium.accept(terms)
    consortium.start_hosts()
    consortium.start()
    told = consortium.learn()
    assert [owner["answers"] for owner in told["owners"]] == [4, 4, 4]
    assert set(consortium.spent(terms).values()) == {Fraction(5)}
    opened = consortium.opened(terms, 4)
    assert {number: len(records) for number, records in opened.items()} == {1: 1, 2: 1, 3: 1, 4: 1}
    assert len(set(consortium.noises(opened))) == 4
    theta = np.array(told["theta"][0] if np.ndim(told["theta"]) == 2 else told["theta"])
    assert np.isfinite(theta).all()
    again = consortium.learn("--resume")
    assert again["theta"] == told["theta"]
    (agreement,) = statement(load_host(consortium.folder / "h1.toml"))["agreements"]  # beside the running daemon
    assert (agreement["opened"], agreement["rounds"], agreement["void"], agreement["waiting"]) == (4, 4, 0, [])


def page(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as reply:
        return reply.read().decode()


def test_a_host_alone_says_that_it_is_not_ready_and_counts_rounds_afterwards(consortium):
    settings, port = consortium.folder / "h0.toml", free_port()
    settings.write_text(settings.read_text().replace('# metrics = "127.0.0.1:9465"', f'metrics = "127.0.0.1:{port}"'))
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    consortium.start_hosts("h0")
    with pytest.raises(urllib.error.HTTPError) as alone:
        page(port, "ready")
    with alone.value:
        assert "cannot be reached" in alone.value.read().decode()
    consortium.start_hosts("h1", "h2")
    consortium.start()
    consortium.learn()
    assert page(port, "ready") == "ready\n"
    figures = page(port, "metrics")
    assert f'parley_host_rounds{{kind="record",terms="{terms.hash[:16]}"}} 2.0' in figures
    assert "parley_answers_total 2.0" in figures
    assert "parley_lifetime_epsilon" not in figures


def test_a_host_that_begins_late_while_another_is_killed_is_ready_afterwards(consortium):
    """Its late thread took the new session's keys away: it stayed "not ready" until it was restarted by hand."""
    settings, port = consortium.folder / "h1.toml", free_port()
    settings.write_text(settings.read_text().replace('# metrics = "127.0.0.1:9465"', f'metrics = "127.0.0.1:{port}"'))
    consortium.accept(consortium.write_terms(horizon=2, epsilon=5.0))
    came = consortium.start_late_host("h1", seconds=6.0)
    consortium.start_hosts("h0", "h2")
    consortium.wait_for("h2", "session")
    consortium.restart("h2")
    consortium.wait_for("h2", "session")
    assert page(port, "ready") == "ready\n"
    until = time.monotonic() + 30
    while not came.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert came.exists()
    time.sleep(1.0)
    assert page(port, "ready") == "ready\n"


def test_only_who_the_terms_name_gets_an_answer(consortium):
    terms = consortium.write_terms(horizon=2, epsilon=5.0)
    consortium.accept(terms)
    consortium.start_hosts()
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3))
    noise = parley.protocol.setup.resolve(terms).part("a").training.series.mechanism
    bundles = pack(query, "a", noise, Shares.from_words(np.zeros(3, dtype=np.uint64), bytes(32), query.content))
    lines = {
        name: RemoteHost("h0", f"127.0.0.1:{consortium.host_ports['h0']}", consortium.identity(name))
        for name in ("learner", "a", "b", "h1")
    }
    try:
        for who in ("learner", "b", "h1"):  # none of them is owner a
            with pytest.raises(UnknownTerms):
                lines[who].deliver(bundles[0], 10)
        for who in ("a", "h1"):
            with pytest.raises(UnknownTerms):
                lines[who].open(terms.hash, 1, query.content, 3, 10)
        for who in ("a", "learner"):
            with pytest.raises(UnknownTerms):
                lines[who].propose(terms.hash, 1, query.content, 10)
            with pytest.raises(UnknownTerms):
                lines[who].record(terms.hash, 1, 10)
            with pytest.raises(UnknownTerms):
                lines[who].carry(terms.hash, "0" * 64, 0, b"", 10)
        lines["a"].deliver(bundles[0], 10)
        with pytest.raises(ParleyError):
            lines["a"].deliver(bundles[1], 10)  # meant for another host
    finally:
        for line in lines.values():
            line.close()


def test_killed_at_random_nobody_opens_twice(consortium):
    opened, aborted = torture(consortium, seed=1, kills=6)
    assert {*opened, *aborted} == set(range(1, 13))
    assert opened
