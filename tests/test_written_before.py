"""What an earlier version wrote - terms, ledgers, acceptances, checkpoints, models - opens, verifies, and a run goes on
where it stood."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import parley
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.network.serving.acceptance import Acceptances

BEFORE = Path(__file__).parent / "fixtures" / "written_before"
EXPECTED = json.loads((BEFORE / "expected.json").read_text())


@pytest.fixture
def folder(tmp_path, own_state):
    place = tmp_path / "before"
    shutil.copytree(BEFORE, place)
    for file in place.glob("*.ledger"):
        file.chmod(0o600)
    return place


def owners(folder, terms, group):
    made = [
        parley.Owner(name, str(folder / f"{name}{group}.csv"), ledger=parley.Ledger(folder / f"{name}{group}.ledger"))
        for name in "ab"
    ]
    for owner in made:
        owner.accept(terms)
    return made


@pytest.mark.parametrize("run", EXPECTED)
def test_terms_hashes_and_acceptances_are_what_they_were(run, folder):
    terms, group = parley.load_terms(folder / f"{run}.toml"), "-classes" if run == "svm" else ""
    assert terms.hash == EXPECTED[run]["hash"]
    for name in "ab":
        kept = Acceptances(folder / f"accepted-{name}{group}").get(terms.hash)
        assert kept is not None
        assert kept.terms.canonical == terms.canonical


@pytest.mark.parametrize("run", EXPECTED)
def test_ledgers_verify_and_stand_where_they_stood(run, folder):
    terms, group = parley.load_terms(folder / f"{run}.toml"), "-classes" if run == "svm" else ""
    for owner in owners(folder, terms, group):
        owner.ledger.verify()
        account = owner.ledger.account(terms.hash)
        assert account.spent == Fraction(EXPECTED[run]["spent"][owner.name])
        assert account.answered == EXPECTED[run]["answered"][owner.name]
        owner.ledger.close()


@pytest.mark.parametrize("run", ["gradients", "updates"])
def test_a_run_that_was_interrupted_goes_on(run, folder):
    terms = parley.load_terms(folder / f"{run}.toml")
    parties = owners(folder, terms, "")
    plan = prepare_run(terms, folder / f"{run}.checkpoint")
    begin = plan.begin(resume=True)
    assert begin.state.round == EXPECTED[run]["answered"]["a"] + 1
    federation = Federation(
        plan.setup, [LocalOwner(party) for party in parties], 20.0, lambda sentence: None, begin.heads, begin.answers
    )
    federation.fetch_statements()
    result, unheard = learn(plan, federation, begin)
    federation.close()
    assert unheard == []
    assert [o.answers for o in result.owners] == [terms.learning.horizon] * 2
    for owner in parties:
        assert owner.ledger.account(terms.hash).spent == Fraction(str(terms.owner(owner.name).epsilon))
        owner.ledger.verify()
        owner.ledger.close()


@pytest.mark.parametrize("run", ["statistics", "svm"])
def test_models_predict_what_they_predicted(run, folder):
    model = parley.load_model(folder / f"{run}.json")
    table = pd.read_csv(folder / ("a-classes.csv" if run == "svm" else "a.csv"))
    assert model.predict(table.head(5)) == pytest.approx(
        np.array(EXPECTED[run]["predictions"]), rel=1e-12
    )  # another machine rounds
    assert model.theta_.tolist() == EXPECTED[run]["theta"]  # read, not computed
    assert model.terms_hash_ == EXPECTED[run]["hash"]
