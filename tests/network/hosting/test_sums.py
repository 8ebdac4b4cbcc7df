"""Releases with shared noise in one process: debits, sums, restarts."""

import shutil

import numpy as np
import pandas as pd
import pytest

import parley
from parley.errors import AbortedRound, BrokenChainError, ContradictionError, LedgerError
from parley.network.hosting.sums import HostedSum
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries import GradientQuery
from parley.report.words.training import aborted_line

OWNERS = ("bank-a", "bank-b", "bank-c")


def make_terms(**learning):
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "linear-regression", "target": "y", "features": ["x"], "intercept": True,
                "bounds": {"x": [0, 1], "y": [0, 1]}, "radius": 5.0,
            },
            "learning": {"horizon": 3, "step": 0.1, **learning},
            "privacy": {"clip": 2.0, "noise": "shared", "delta": 1e-6},
            "owners": [{"name": name, "records": 500, "epsilon": 5.0} for name in OWNERS],
            "hosts": [{"name": name} for name in ("h0", "h1", "bank-a")],
        }
    )  # fmt: skip


def make_owners(folder, terms, lifetime=5):
    owners = []
    for seed, name in enumerate(OWNERS):
        x = np.random.default_rng(seed).uniform(size=500)
        ledger = Ledger(
            folder / f"{name}.ledger",
            **({} if (folder / f"{name}.ledger").exists() else {"lifetime": lifetime, "lifetime_delta": "1e-5"}),
        )
        owners.append(parley.Owner(name, pd.DataFrame({"x": x, "y": 0.5 * x + 0.2}), ledger=ledger))
        owners[-1].accept(terms)
    return owners


def test_a_release_with_hosts_in_process_is_near_the_exact_mean_and_resumes(tmp_path):
    terms = make_terms()
    result = parley.train(terms, make_owners(tmp_path, terms))
    assert result.released
    assert [owner.epsilon_spent for owner in result.owners] == [5.0] * 3
    again = parley.train(terms, make_owners(tmp_path, terms))  # all of it from journals and ledgers
    assert result.theta.tolist() == again.theta.tolist()


def test_journals_that_are_gone_are_not_begun_anew(tmp_path):
    terms = make_terms()
    parley.train(terms, make_owners(tmp_path, terms))
    for journal in (tmp_path / "bank-a.ledger.hosts").iterdir():
        journal.unlink()
    with pytest.raises(LedgerError, match="journals for these terms are missing"):
        parley.train(terms, make_owners(tmp_path, terms))


def test_the_sum_is_that_of_the_owners_with_the_noise_of_the_law(tmp_path):
    terms = make_terms()
    owners = make_owners(tmp_path, terms)
    setup = owners[0].agreement(terms.hash).setup
    exchange = HostedSum(setup, owners, tmp_path / "hosts")
    query = GradientQuery.ask(terms.hash, "learner", 1, np.array([0.3, 0.1]))
    (answer,) = exchange.ask(dict.fromkeys(OWNERS, query))
    exact = np.mean(
        [
            owner.agreement(terms.hash).part.training.question.exact(query, owner.agreement(terms.hash).tables)
            for owner in owners
        ],
        axis=0,
    )
    noise = setup.part("bank-a").training.series.mechanism.over(1500)
    assert answer.owners == OWNERS
    assert answer.records == 1500
    assert 0 < np.abs(answer.value - exact).max() < noise.tail(1e-9, 2)
    exchange.close()


def test_an_aborted_round_brings_no_step_and_the_run_goes_on(tmp_path, monkeypatch):
    terms = make_terms()
    before = HostedSum.ask

    def ask(self, questions):
        if next(iter(questions.values())).round == 2:
            for name, query in questions.items():
                self._owners[name].contribute(query)
            raise AbortedRound("a host restarted")
        return before(self, questions)

    monkeypatch.setattr(HostedSum, "ask", ask)
    owners = make_owners(tmp_path, terms)
    result = parley.train(terms, owners)
    assert np.isfinite(result.theta).all()
    assert [owner.ledger.account(terms.hash).answers for owner in owners] == [3] * 3  # its debits stand
    assert result.to_json()["void_rounds"] == [2]
    assert "Aborted rounds: 2 (1 of 3)." in (aborted_line(result) or "")


def test_a_run_of_one_round_that_is_aborted_ends(tmp_path, monkeypatch):
    terms = make_terms(horizon=1)

    def ask(self, questions):
        raise AbortedRound("a host restarted")

    monkeypatch.setattr(HostedSum, "ask", ask)
    with pytest.raises(AbortedRound):
        parley.train(terms, make_owners(tmp_path, terms))


def test_an_owner_that_shares_more_than_its_bound_is_noticed_in_the_sum(tmp_path, monkeypatch):
    terms = make_terms()
    owners = make_owners(tmp_path, terms)
    honest = SharedNoise.encode
    monkeypatch.setattr(SharedNoise, "encode", lambda self, bounded: honest(self, bounded) * np.uint64(1000))
    with pytest.raises(ContradictionError, match="larger than the agreed bounds"):
        parley.train(terms, owners)


def test_journals_of_an_earlier_time_get_no_second_noise(tmp_path):
    terms = make_terms()
    folder = tmp_path / "bank-a.ledger.hosts"
    parley.train(terms.changed(title="another"), make_owners(tmp_path, terms.changed(title="another"), lifetime=10))
    shutil.copytree(folder, tmp_path / "kept")
    parley.train(terms, make_owners(tmp_path, terms))
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "kept", folder)
    with pytest.raises(BrokenChainError, match="rolled back"):
        parley.train(terms, make_owners(tmp_path, terms))
