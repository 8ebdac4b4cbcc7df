import math

import numpy as np
import pytest

import parley
from parley.forecasting.sources import Stated
from samples import class_table, make_terms, regression_table


def regression_terms(tmp_path, epsilon, **overrides):
    regression_table(2000, seed=9).to_csv(tmp_path / "public.csv", index=False)
    settings = {"learning__step": "auto", "learning__horizon": 100, "privacy__clip": 12.0, "model__radius": None}
    return make_terms(3000, 3000, epsilon=epsilon, model__public=str(tmp_path / "public.csv"), **settings | overrides)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_the_choice_beats_the_published_horizon_on_the_owners_own_tables(tmp_path, epsilon):
    """At equal total epsilon, measured by training, not by the forecast."""
    terms = regression_terms(tmp_path, epsilon)
    proposal = parley.plan(terms)
    owners = [parley.Owner("ab"[i], regression_table(3000, seed=i)) for i in range(2)]
    before, after = (parley.train(t, owners, replicates=200, seed=5).relative_fitness["mean"] for t in (terms, proposal.terms))
    assert [part.epsilon for part in proposal.terms.owners] == [epsilon, epsilon]
    assert proposal.terms.privacy.delta == 0.0
    assert after < 0.8 * before
    assert after == pytest.approx(proposal.best.relative_fitness, rel=0.35)


def test_gaussian_noise_is_considered_only_with_a_delta(tmp_path):
    terms = regression_terms(tmp_path, 1.0)
    pure, approximate = parley.plan(terms), parley.plan(terms, delta=1e-6)
    assert {choice.mechanism for choice in pure.choices} == {"laplace"}
    assert {choice.mechanism for choice in approximate.choices} == {"laplace", "gaussian"}
    assert approximate.best.relative_fitness <= pure.best.relative_fitness
    assert {choice.algorithm for choice in pure.choices} == {"averaged-subgradient", "sufficient-statistics"}


def test_a_classifier_has_no_statistics_to_release(tmp_path):
    class_table(1500, seed=9).to_csv(tmp_path / "public.csv", index=False)
    terms = make_terms(
        4000, model__kind="logistic-regression", model__public=str(tmp_path / "public.csv"), model__regularisation=0.1,
        privacy__clip=5.0, learning__horizon=100, learning__step="auto",
    )  # fmt: skip
    proposal = parley.plan(terms)
    assert {choice.algorithm for choice in proposal.choices} == {"averaged-subgradient"}
    assert proposal.best.relative_fitness <= min(choice.relative_fitness for choice in proposal.choices)
    assert proposal.best.horizon < 100  # with this much noise a hundred rounds are too many


def test_the_proposal_is_terms_that_train_and_json_that_programs_read(tmp_path):
    terms = regression_terms(tmp_path, 1.0)
    proposal = parley.plan(terms)
    again = parley.Terms.from_dict(proposal.terms.model_dump())
    assert again.hash == proposal.terms.hash != terms.hash
    content = proposal.to_json()
    assert set(content) == {"best", "choices", "nobody", "terms_hash", "noise", "expected_cost", "shared"}
    assert content["choices"][0]["label"] == "as written"
    assert all(math.isfinite(choice["relative_fitness"]) for choice in content["choices"])


def test_stated_assumptions_are_enough_to_plan(tmp_path):
    terms = make_terms(3000, epsilon=1.0, learning__horizon=100, learning__step=0.5, model__radius=None, privacy__clip=12.0)
    proposal = parley.plan(terms, pilot=Stated(np.array([0.7, 0.7, 0.6]), 0.02, distance=1.0))
    assert proposal.best.relative_fitness < proposal.choices[0].relative_fitness
