"""A network learned from owners behind daemons: nothing but its name and numbers travel, and budgets are exact."""

from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium
from rings import rings, rings_terms

pytest.importorskip("torch", reason="torch is not installed; pip install 'parley[torch]'")
pytest.importorskip("safetensors", reason="safetensors is not installed; pip install 'parley[torch]'")

import parley
from parley.learning.outcome import load_model
from parley.terms import write_terms


@pytest.fixture
def banks(tmp_path):
    made = Consortium(tmp_path, names="ab", lifetime=3.0, lifetime_delta=1e-5)
    terms = rings_terms({name: SIZES[name] for name in "ab"}, 3.0, learning={"batches": 4, "epochs": 2})
    write_terms(terms, tmp_path / "terms.toml")
    for place, name in enumerate("ab"):
        rings(SIZES[name], place).to_csv(tmp_path / f"{name}.csv", index=False)
    made.accept(terms)
    yield made
    made.close()


def test_owners_elsewhere_answer_and_the_model_is_that_of_their_books(banks):
    terms, file = parley.load_terms(banks.folder / "terms.toml"), banks.folder / "model.json"
    banks.start()
    learner = banks.learner("--save", str(file))
    learner.join(100)
    assert learner.exitcode == 0, banks.said()
    for name in "ab":
        banks.kill(name)
    model = load_model(file)
    assert model.released_
    owners = [parley.Owner(n, banks.folder / f"{n}.csv", ledger=banks.ledger(n)) for n in "ab"]
    for owner in owners:
        owner.accept(terms)
        assert owner.ledger.account(terms.hash).spent == Fraction(3)
    replayed = parley.train(terms, owners)
    assert np.array_equal(model.predict_proba(rings(50)), replayed.model.predict_proba(rings(50)))
    for owner in owners:
        owner.ledger.close()
