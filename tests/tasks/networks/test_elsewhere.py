"""A network learned from an owner behind its daemon: nothing but its name and numbers travel, budgets are exact."""

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
def bank(tmp_path):
    made = Consortium(tmp_path, names="a", lifetime=3.0, lifetime_delta=1e-5)
    terms = rings_terms({"a": SIZES["a"]}, 3.0, learning={"batches": 4, "epochs": 2})
    write_terms(terms, tmp_path / "terms.toml")
    rings(SIZES["a"]).to_csv(tmp_path / "a.csv", index=False)
    made.accept(terms)
    yield made
    made.close()


def test_an_owner_elsewhere_answers_and_the_model_is_that_of_its_books(bank):
    terms, file = parley.load_terms(bank.folder / "terms.toml"), bank.folder / "model.json"
    bank.start()
    learner = bank.learner("--save", str(file))
    learner.join(100)
    assert learner.exitcode == 0, bank.said()
    bank.kill("a")
    model = load_model(file)
    assert model.released_
    owner = parley.Owner("a", bank.folder / "a.csv", ledger=bank.ledger("a"))
    owner.accept(terms)
    assert owner.ledger.account(terms.hash).spent == Fraction(3)
    replayed = parley.train(terms, [owner])
    assert np.array_equal(model.predict_proba(rings(50)), replayed.model.predict_proba(rings(50)))
    owner.ledger.close()
