"""No centre, between organisations: every owner's question has its own point, and what was mixed so far survives a
break."""

import numpy as np
import pytest
from federated import different_tables, family_terms

import parley
from parley.errors import ExchangeError
from parley.learning.checkpoint import load_checkpoint
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger

SIZES = (40, 60, 100, 50)


class Cut(Federation):
    """Loses the line before this round, and notes what it was asked."""

    last: int

    def ask(self, questions):
        if next(iter(questions.values())).round == self.last:
            raise ExchangeError("the line broke")
        self.points = [query.theta for query in questions.values()]
        return super().ask(questions)


@pytest.mark.parametrize("turns", [{}, {"learning__participation": 0.5}], ids=["everybody", "some"])
def test_a_run_goes_on_after_a_break_between_any_two_rounds(tmp_path, turns):
    """Every word of every owner is held against the terms; each spends exactly its epsilon; the model is that of the
    stored answers."""
    settings = {"learning__algorithm": "gossip", "learning__topology": "ring", "learning__horizon": 8}
    terms = family_terms("federated-averaging", *SIZES, **settings | turns)
    owners = [
        parley.Owner(name, table, ledger=Ledger(tmp_path / name, lifetime=1.0, lifetime_delta=1e-6))
        for name, table in different_tables(SIZES).items()
    ]
    for owner in owners:
        owner.accept(terms)
    run = prepare_run(terms, tmp_path / "kept")

    def learned(begin, last=0):
        federation = Cut(run.setup, [LocalOwner(o) for o in owners], 20.0, pytest.fail, begin.heads, begin.answers)
        federation.last = last
        federation.fetch_statements()
        try:
            return learn(run, federation, begin), federation.points
        finally:
            federation.close()

    for last in (2, 5):
        with pytest.raises(ExchangeError, match="the line broke"):
            learned(run.begin(resume=True), last)
    (result, unheard), points = learned(run.begin(resume=True))
    assert unheard == []
    for owner in owners:
        assert owner.ledger.account(terms.hash).spent == 1
        owner.ledger.verify()
    again = parley.train(terms, owners)
    np.testing.assert_array_equal(again.theta, result.theta)
    assert again.consensus_error == result.consensus_error > 0
    assert len({tuple(point) for point in points}) == len(points) > 1
    kept = load_checkpoint(tmp_path / "kept", terms, run.start).state.memory
    assert len(kept) == 3 * len(SIZES)
