"""Rules other than the mean between organisations: the same lines as in a study, and a liar is named in the result,
whatever it says."""

from dataclasses import replace

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.errors import ContradictionError, SettingError
from parley.learning.deployed import learn, prepare_run
from parley.learning.outcome.guarantee import kind_of_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms.mechanism import FALSE_ALARM_PROBABILITY


class LyingOwner(LocalOwner):
    """Says one large number, so many times what an honest owner's answer is allowed."""

    share: float
    allowed: float
    until: float

    def ask(self, query, records, size, timeout):
        reply = super().ask(query, records, size, timeout)
        if query.round > self.until:
            return reply
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


def learned(run, peers, warn=pytest.fail, progress=lambda state: None):
    """The result of a run, or of what is left of one that was interrupted."""
    begin = run.begin(resume=True)
    federation = Federation(run.setup, peers, 20.0, warn, begin.heads, begin.answers)
    federation.fetch_statements()
    try:
        return learn(run, federation, begin, progress=progress)[0]
    finally:
        federation.close()


def test_a_deployed_run_follows_the_rule_and_names_nobody(tmp_path):
    """Asked again, owners give the answers that they stored: a run in one process finds the same model, to the bit."""
    terms, owners = agreed(tmp_path)
    result = learned(prepare_run(terms, tmp_path / "kept"), [LocalOwner(owner) for owner in owners])
    assert result.notices == ()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)
    assert all(owner.ledger.account(terms.hash).spent == 0.5 for owner in owners)


def lying(run, owners, share, until=np.inf):
    """These owners as peers, the last of whom says one number of this share of what an honest one can be, until some
    round."""
    training = run.setup.part("e").training
    reach = training.question.extent.noisy(training.series.mechanism, training.question.size, FALSE_ALARM_PROBABILITY)
    liar = LyingOwner(owners[-1])
    liar.allowed, liar.share, liar.until = float(np.max(reach.high)), share, until
    return [*(LocalOwner(owner) for owner in owners[:-1]), liar]


@pytest.mark.parametrize(("share", "warnings"), [(0.99, 0), (1.01, 1), (1e6, 1)])
def test_a_liar_is_named_and_does_not_end_the_run(tmp_path, share, warnings):
    terms, owners = agreed(tmp_path)
    run, said = prepare_run(terms, tmp_path / "kept"), []
    result = learned(run, lying(run, owners, share), said.append)
    assert {notice.owner for notice in result.notices} == {"e"}
    assert [sentence[:35] for sentence in said] == ["e: one of its answers is larger tha"] * warnings
    assert "larger than bound plus noise can explain were cut to that size" in kind_of_run(result)


def test_where_nobody_may_lie_such_an_answer_ends_the_run(tmp_path):
    terms, owners = agreed(tmp_path, {})
    run = prepare_run(terms, tmp_path / "kept")
    with pytest.raises(
        ContradictionError, match="e: the answer to round 1 is larger than the agreed bound plus noise can explain"
    ):
        learned(run, lying(run, owners, 1.01))


class KilledError(Exception):
    """What happens to a learner."""


def killed_after(number):
    def progress(state):
        if state.round > number:
            raise KilledError

    return progress


def test_who_lied_before_a_run_was_interrupted_is_named_when_it_ends(tmp_path):
    """It lies in the first two rounds alone. Interrupted after them and once more, the memory is that of a run in one
    piece, to the bit."""
    terms, owners = agreed(tmp_path, {**MEDIAN, "spread": 0.5})
    run, whole = prepare_run(terms, tmp_path / "kept"), prepare_run(terms, tmp_path / "whole")
    peers, said = lying(run, owners, 50.0, until=2), []
    for number in (2, 4):
        with pytest.raises(KilledError):
            learned(run, peers, said.append, killed_after(number))
    result = learned(run, peers)
    assert {notice.owner for notice in result.notices} == {"e"}
    assert learned(run, peers).notices == result.notices  # also when it is over
    assert learned(whole, peers, said.append).notices == result.notices
    first, second = run.begin(resume=True).watched, whole.begin(resume=True).watched
    assert first.keys() == {"owners", "pairs"}
    for name, kept in first.items():
        np.testing.assert_array_equal(kept, second[name])


def test_a_checkpoint_without_what_was_heard_is_read_and_one_with_junk_refused(tmp_path):
    """Earlier versions did not keep it; theirs goes on, watched from there."""
    terms, owners = agreed(tmp_path)
    run, peers = prepare_run(terms, tmp_path / "kept"), [LocalOwner(owner) for owner in owners]
    with pytest.raises(KilledError):
        learned(run, peers, progress=killed_after(2))
    begin = run.begin(resume=True)
    assert begin.watched["owners"].shape == (5, 3)
    replace(begin, watched={}).save(run.checkpoint)
    assert run.begin(resume=True).watched == {}
    replace(begin, watched={"owners": np.zeros((4, 3))}).save(run.checkpoint)
    with pytest.raises(SettingError, match="not a Parley checkpoint"):
        run.begin(resume=True)
    replace(begin, watched={}).save(run.checkpoint)
    assert learned(run, peers).notices == ()
