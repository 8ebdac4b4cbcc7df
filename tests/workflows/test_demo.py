import numpy as np
import pytest
from quick import quick_studies

import parley
from parley.demo.folder import PRIVACY_COST_PER_LOAN, SHARED_NOISE_FILE, VALUE_PER_LOAN, write_unions
from parley.learning.outcome import refine, score
from parley.learning.outcome.model import make_model
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.learning.owners import open_owners
from parley.learning.start import public_fit
from parley.workflows.demo import foresee, learn

SEED = 2


@pytest.fixture(autouse=True, scope="module")
def quick():
    with quick_studies():
        yield


@pytest.fixture(scope="module")
def told(quick, tmp_path_factory):
    where = tmp_path_factory.mktemp("story")
    unions = write_unions(where, SEED, 5)[:-1]
    terms = parley.load_terms(where / SHARED_NOISE_FILE)
    without_bank = terms.changed(only=[union.name for union in unions])
    expected = parley.forecast(without_bank, resamples=2)
    (chapter,) = learn([expected], unions, SEED, future=4000)
    return where, unions, chapter


def test_what_the_story_says_of_held_out_rows_is_what_score_says(told):
    _, _, chapter = told
    terms = chapter.expected.terms
    model = parley.train(terms, open_owners(terms), seed=SEED).model
    np.testing.assert_array_equal(model.theta_, chapter.model.theta_)
    for owner, said in zip(open_owners(terms), chapter.owners, strict=True):
        verdict = score(terms, owner, model)
        assert said.held_out.mean == pytest.approx(verdict.personal_gain.mean, rel=1e-9)
        assert said.held_out.low == pytest.approx(verdict.personal_gain.low, rel=1e-9)


def test_the_truth_is_told_by_loans_of_the_owner_s_own_law_that_nobody_has_seen(told):
    _, unions, chapter = told
    terms = chapter.expected.terms
    for union, owner, said in zip(unions, open_owners(terms), chapter.owners, strict=True):
        loans = union.future(4000, SEED)
        setup = owner.prepare(terms).setup
        agreement = owner.prepare(terms)
        alone, _ = alone_and_personal_models(
            agreement, np.empty((0, setup.parameters)), plain_columns(owner, agreement)[0]
        )
        own = make_model(setup.preparation, alone.theta, terms.hash, released=False, trees=alone.trees)
        personal, _ = refine(chapter.model, terms, owner)
        errors = [np.mean((model.predict(loans) - loans["int_rate"]) ** 2) for model in (own, personal)]
        assert said.alone == pytest.approx(errors[0], rel=1e-9)
        assert said.gain == pytest.approx(errors[0] - errors[1], rel=1e-6)
        fit = public_fit(setup.objective, setup.public, None, setup.objective.start(setup.preparation)).theta
        beside, _ = refine(make_model(setup.preparation, fit, terms.hash, released=False), terms, owner)
        public = errors[0] - np.mean((beside.predict(loans) - loans["int_rate"]) ** 2)
        assert said.public == pytest.approx(public, abs=0.005 * errors[0])  # trees turn a last digit into a few more


def test_what_joining_must_save_is_the_privacy_cost_over_the_value(told):
    _, _, chapter = told
    for part, said in zip(chapter.expected.terms.owners, chapter.owners, strict=True):
        assert said.price == pytest.approx(part.epsilon * PRIVACY_COST_PER_LOAN / VALUE_PER_LOAN)


def test_a_forecast_of_the_demo_looks_at_no_private_table(told, tmp_path):
    where, _, _ = told
    (tmp_path / "public.csv").write_text((where / "public.csv").read_text())
    (tmp_path / SHARED_NOISE_FILE).write_text((where / SHARED_NOISE_FILE).read_text())
    again = foresee(tmp_path / SHARED_NOISE_FILE)
    assert len(again.owners) == 6
    assert again.terms.hash == parley.load_terms(where / SHARED_NOISE_FILE).hash
