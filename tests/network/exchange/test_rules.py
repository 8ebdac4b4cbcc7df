"""Rules other than the mean between organisations: the same lines as in a study, and a liar is named in the result,
whatever it says."""

from dataclasses import replace

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.errors import ContradictionError
from parley.learning.deployed import learn, prepare_run
from parley.learning.outcome.guarantee import kind_of_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms.extent import UNLIKELY


class LyingOwner(LocalOwner):
    """Says one large number, so many times what an honest owner's answer is allowed."""

    share: float
    allowed: float

    def ask(self, query, records, size, timeout):
        reply = super().ask(query, records, size, timeout)
        lie = np.eye(size)[0] * self.share * self.allowed
        return replace(reply, answer=replace(reply.answer, value=lie))


MEDIAN = {"rule": "median", "byzantine": 1}


def agreed(folder, section=MEDIAN):
    terms = make_terms(*(40,) * 5, learning__horizon=6, epsilon=0.5)
    terms = terms.changed(aggregation=section)
    owners = [
        parley.Owner(name, regression_table(40, seed=place), ledger=Ledger(folder / name, lifetime=1.0))
        for place, name in enumerate("abcde")
    ]
    for owner in owners:
        owner.accept(terms)
    return terms, owners


def learned(run, peers, warn=pytest.fail):
    federation = Federation(run.setup, peers, 20.0, warn, {}, {})
    federation.fetch_statements()
    try:
        return learn(run, federation, run.begin(resume=False))[0]
    finally:
        federation.close()


def test_a_deployed_run_follows_the_rule_and_names_nobody(tmp_path):
    """Asked again, owners give the answers that they stored: a run in one process finds the same model, to the bit."""
    terms, owners = agreed(tmp_path)
    result = learned(prepare_run(terms, tmp_path / "kept"), [LocalOwner(owner) for owner in owners])
    assert result.notices == ()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)
    assert all(owner.ledger.account(terms.hash).spent == 0.5 for owner in owners)


def lying(run, owners, share):
    """These owners as peers, the last of whom says one number of this share of what an honest one can be."""
    training = run.setup.part("e").training
    reach = training.question.extent.noisy(training.series.mechanism, training.question.size, UNLIKELY)
    liar = LyingOwner(owners[-1])
    liar.allowed, liar.share = float(np.max(reach.high)), share
    return [*(LocalOwner(owner) for owner in owners[:-1]), liar]


@pytest.mark.parametrize(("share", "warnings"), [(0.99, 0), (1.01, 1), (1e6, 1)])
def test_a_liar_is_named_and_does_not_end_the_run(tmp_path, share, warnings):
    terms, owners = agreed(tmp_path)
    run, said = prepare_run(terms, tmp_path / "kept"), []
    result = learned(run, lying(run, owners, share), said.append)
    assert {notice.owner for notice in result.notices} == {"e"}
    assert [sentence[:35] for sentence in said] == ["e: an answer of it is larger than t"] * warnings
    assert "larger than the agreed bound and noise can make them were brought within" in kind_of_run(result)


def test_where_nobody_may_lie_such_an_answer_ends_the_run(tmp_path):
    terms, owners = agreed(tmp_path, {})
    run = prepare_run(terms, tmp_path / "kept")
    with pytest.raises(ContradictionError, match="e: its answer to round 1 is larger than the agreed bound and noise"):
        learned(run, lying(run, owners, 1.01))
