"""What a planner cannot judge it does not choose, and it says so."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.data.split import folds
from parley.decisions.knowledge.pilot import open_pilot
from parley.errors import SettingError
from parley.losses import LogisticRegression
from parley.terms import write_terms


def half_separable(count, seed=0):
    """Rows whose classes overlap, while those of either half by place do not: one half draws the line at 0.2, the other
    at -0.2."""
    rng = np.random.default_rng(seed)
    x, held = rng.uniform(-1, 1, (count, 2)), folds(count, 2)[0]
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": (x[:, 0] > np.where(held, 0.2, -0.2)).astype(int)})


@pytest.fixture
def terms(tmp_path):
    half_separable(80).to_csv(tmp_path / "public.csv", index=False)
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "logistic-regression",
                "target": "y",
                "features": ["a", "b"],
                "public": str(tmp_path / "public.csv"),
            },
            "learning": {"horizon": 100},
            "privacy": {"clip": 0.3},
            "owners": [{"name": "a", "records": 4000, "epsilon": 1.0}],
        }
    )


def test_halves_of_the_public_sample_that_separate_do_not_stop_a_plan(terms):
    """Every candidate that clips was called infinitely bad, and so the terms as written were chosen among equals."""
    design = open_pilot(terms).design
    for held in folds(len(design), 2):
        with pytest.raises(SettingError, match="no finite minimum"):
            LogisticRegression().optimum([design.where(held)])
    proposal = parley.plan(terms)
    assert proposal.best.label != "as written"
    assert all(np.isfinite(choice.relative_fitness) and choice.unjudged is None for choice in proposal.choices)
    owners = [parley.Owner("a", half_separable(4000, 1))]
    before, after = (
        parley.train(t, owners, replicates=20, seed=1).relative_fitness["mean"] for t in (terms, proposal.terms)
    )
    assert after < 0.5 * before  # measured by training


@pytest.fixture
def nothing_judged(monkeypatch):
    """As it was: whatever clips has no judgement, because the halves have no optimum."""

    def refuse(expected):
        raise SettingError("the halves separate")

    monkeypatch.setattr("parley.decisions.planning.search.hidden_bias", refuse)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_plan_in_which_nothing_is_judged_chooses_nothing_and_says_why(terms, tmp_path, nothing_judged):
    proposal = parley.plan(terms)
    assert proposal.best is None
    assert proposal.expected_cost is None
    assert proposal.terms == terms
    with pytest.raises(SettingError, match=r"no plan was chosen.*the halves separate.*larger public sample"):
        proposal.require_choice()
    write_terms(terms, tmp_path / "terms.toml")
    said = invoke("plan", tmp_path / "terms.toml", "--write", tmp_path / "planned.toml")
    assert isinstance(said.exception, SettingError)  # the job was not done
    flat = " ".join(said.output.split())
    assert "Parley could not evaluate any choice" in flat
    assert "Parley could not evaluate these plans: as written;" in flat
    assert "Reason: the halves separate." in flat
    assert not (tmp_path / "planned.toml").exists()
    told = invoke("plan", tmp_path / "terms.toml", "--write", tmp_path / "planned.toml", "--json")
    content = json.loads(told.stdout)
    assert (content["best"], content["expected_cost"], content["written"]) == (None, None, None)
    assert {"label": "as written", "why": "the halves separate"} in content["unjudged"]
    assert content["choices"][0]["unjudged"] == "the halves separate"


def test_init_says_that_its_terms_are_not_planned(tmp_path, nothing_judged):
    half_separable(80).to_csv(tmp_path / "public.csv", index=False)
    half_separable(500, 1).to_csv(tmp_path / "bank.csv", index=False)
    words = (
        "init",
        tmp_path / "bank.csv",
        "--target",
        "y",
        "--public",
        tmp_path / "public.csv",
        "--write",
        tmp_path / "terms.toml",
    )
    run = invoke(*words, "--yes", "--json")
    assert run.exit_code == 0, run.exception
    plan = json.loads(run.stdout)["plan"]
    assert plan["best"] is None
    assert "the halves separate" in {each["why"] for each in plan["unjudged"]}
    head = (tmp_path / "terms.toml").read_text()
    assert "# NOT planned: Parley could not evaluate any choice" in head
    assert "the halves separate" in head
    assert "Parley could not evaluate any choice" in invoke(*words, "--yes").output
