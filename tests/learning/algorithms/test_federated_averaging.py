import io
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from samples import BOUNDS, GAUSSIAN, class_table, make_terms, regression_table

import parley
from parley.errors import Malformed, OutOfOrder, OutsideBox, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.deployed import prepare_run
from parley.network.exchange import messages
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms.gaussian import gaussian_ratio
from parley.protocol.queries import GradientQuery, StatisticsQuery, UpdateQuery
from parley.protocol.setup import resolve

LAPLACE = {"privacy__mechanism": "laplace", "privacy__delta": 0.0}
CLASS_BOUNDS = {f"x{j}": [-4, 4] for j in range(3)}


def averaging_terms(*sizes, steps=4, **overrides):
    settings = {"model__bounds": BOUNDS, "learning__step": "auto", "learning__local_steps": steps}
    return make_terms(*sizes, learning__algorithm="federated-averaging", **settings | GAUSSIAN | overrides)


def regression_owners(*sizes):
    return [parley.Owner("abc"[i], regression_table(n, i + 1)) for i, n in enumerate(sizes)]


def test_one_local_step_is_a_gradient_step():
    """The same noise, the same single round: the model of gradient descent, to 1e-12."""
    common = {
        "epsilon": 3.0,
        "learning__horizon": 1,
        "learning__step": 0.1,
        "model__regularisation": 0.3,
        "privacy__clip": 0.8,
    }
    averaged = parley.train(
        averaging_terms(300, 200, steps=1, **common), regression_owners(300, 200), replicates=5, seed=4
    )
    plain = make_terms(300, 200, learning__algorithm="gradient-descent", model__bounds=BOUNDS, **GAUSSIAN, **common)
    descended = parley.train(plain, regression_owners(300, 200), replicates=5, seed=4)
    np.testing.assert_allclose(averaged.theta, descended.theta, rtol=0, atol=1e-12)
    assert np.abs(averaged.theta).min() > 1e-4


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression"])
def test_without_noise_it_is_the_mean_of_where_the_owners_steps_led(kind):
    """Federated averaging written out: each owner's own steps, then the mean of the models, weighted by records."""
    bounds = BOUNDS if kind == "linear-regression" else CLASS_BOUNDS
    make = regression_table if kind == "linear-regression" else class_table
    terms = averaging_terms(300, 100, steps=7, epsilon=1e9, model__kind=kind, model__bounds=bounds,
                            model__regularisation=0.2, learning__horizon=6, privacy__clip=0.5, **LAPLACE)  # fmt: skip
    owners = [parley.Owner("a", make(300, 1)), parley.Owner("b", make(100, 2))]
    result = parley.train(terms, owners, seed=0)
    agreements = [owner.prepare(terms) for owner in owners]
    setup = agreements[0].setup
    objective, rho = setup.objective, setup.local_update.step
    theta = np.zeros(setup.parameters)
    for _ in range(6):
        ends = []
        for agreement in agreements:
            w = theta
            for _ in range(7):
                gradient = objective.mean_gradient(agreement.tables.train, w, agreement.part.training.question.bound)
                w = np.clip(w - rho * (0.2 * w + gradient), -5, 5)
            ends.append(w)
        theta = 0.75 * ends[0] + 0.25 * ends[1]
    np.testing.assert_allclose(result.theta[0], theta, atol=1e-8)
    assert result.owners[0].clipped_share > 0.01  # the clip did bind


@pytest.mark.parametrize("privacy", [GAUSSIAN, LAPLACE])
def test_the_noise_is_that_of_one_gradient_however_many_steps(privacy):
    """From 300,000 numbers within 1 %: half of it, or s times as much, would be noticed. Laplace noise pays sqrt p."""
    terms = averaging_terms(200, steps=9, epsilon=0.5, privacy__clip=None, **privacy)
    study = parley.Owner("a", regression_table(200)).simulate(seed=1, replicates=100_000)
    agreement = study.accept(terms)
    start = np.broadcast_to(np.array([0.3, -0.2, 0.1]), (100_000, 3))
    answer = study.answer(UpdateQuery.ask(terms.hash, "learner", 1, start, 9)).value
    question = agreement.part.training.question
    noise = answer - question.exact(UpdateQuery.ask(terms.hash, "learner", 1, start[0], 9), agreement.tables)
    sensitivity = 2 * question.bound.value / 200
    if privacy is GAUSSIAN:
        deviation = sensitivity * np.sqrt(10) * gaussian_ratio(0.5, 1e-6)
    else:
        deviation = np.sqrt(2) * np.sqrt(3) * sensitivity * 10 / 0.5
    assert noise.std() == pytest.approx(deviation, rel=0.01)
    assert (np.abs(noise.mean(axis=0)) < 4.5 * deviation / np.sqrt(len(noise))).all()


def test_a_ledger_spends_exactly_epsilon_and_refusals_cost_nothing(tmp_path):
    terms = averaging_terms(200, epsilon=0.8, learning__horizon=6)
    ledger = Ledger(tmp_path / "a.ledger", 0.8, 1e-6)
    owner = parley.Owner("a", regression_table(200), ledger=ledger)
    owner.accept(terms)
    ask = UpdateQuery.ask
    for query, refusal in (
        (ask(terms.hash, "learner", 1, np.zeros(3), 5), Malformed),
        (ask(terms.hash, "learner", 1, np.zeros(3), 4.0), Malformed),
        (ask(terms.hash, "learner", 1, np.zeros(3), 0), Malformed),
        (ask(terms.hash, "learner", 1, np.zeros(2), 4), Malformed),
        (ask(terms.hash, "learner", 1, np.zeros((1, 3)), 4), Malformed),
        (ask(terms.hash, "learner", 1, np.full(3, np.nan), 4), Malformed),
        (ask(terms.hash, "learner", 1, np.array([0.0, 5.1, 0.0]), 4), OutsideBox),
        (GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3)), Malformed),
        (StatisticsQuery.ask(terms.hash, "learner", 1), Malformed),
        (ask(terms.hash, "learner", 2, np.zeros(3), 4), OutOfOrder),
    ):
        with pytest.raises(refusal):
            owner.answer(query)
    assert ledger.account(terms.hash).spent == 0
    model = parley.train(terms, [owner])
    assert model.released
    assert ledger.account(terms.hash).spent == Fraction(4, 5)
    first = ask(terms.hash, "learner", 1, np.zeros(3), 4)
    assert np.array_equal(owner.answer(first).value, owner.answer(first).value)  # stored, free
    with pytest.raises(OutOfOrder):
        owner.answer(ask(terms.hash, "learner", 7, np.zeros(3), 4))
    ledger.verify()


def test_other_agreements_answer_no_updates(tmp_path):
    terms = make_terms(200)
    owner = parley.Owner("a", regression_table(200), ledger=Ledger(tmp_path / "a.ledger", 1.0))
    owner.accept(terms)
    with pytest.raises(Malformed, match="the terms set the kind 'gradient' for this round"):
        owner.answer(UpdateQuery.ask(terms.hash, "learner", 1, np.zeros(3), 1))


def test_a_learner_elsewhere_gets_the_same_updates_through_the_desk(tmp_path):
    """Bytes in, bytes out at a real service with a real ledger; the learner's plan is made of the terms alone."""
    terms = averaging_terms(200, epsilon=0.5, learning__horizon=3)
    owner = parley.Owner("a", regression_table(200), ledger=Ledger(tmp_path / "a.ledger", 0.5, 1e-6))
    owner.accept(terms)
    said = " ".join(acceptance_summary(owner, owner.prepare(terms), None, relay=False))
    assert (
        "3 answers, each the mean direction of 4 local steps, in which 200 records have their say, as vectors of 3 "
        "numbers" in said
    )
    acceptances = Acceptances(tmp_path / "accepted")
    acceptances.store(Acceptance(terms))
    service = OwnerService(owner, acceptances, Log(io.StringIO()))
    plan = prepare_run(terms, tmp_path / "checkpoint")
    state = plan.start
    for _ in range(3):
        query = plan.algorithm.query(state, Asker.from_setup(plan.setup))
        reply = service.ask(messages.write_query(query), Caller(("learner",)))
        told = messages.read_answer(reply, query, "a", 200, plan.setup.parameters)
        state = plan.algorithm.update(state, told.answer.value)
    assert told.statement.spent == Fraction(1, 2)
    np.testing.assert_array_equal(plan.algorithm.model(state), parley.train(terms, [owner]).theta[0])
    assert plan.algorithm.step == owner.prepare(terms).part.training.question.local.step


def test_the_automatic_step_is_below_one_over_the_largest_curvature(tmp_path):
    """A public sample's own curvature would allow longer steps, but not for every table."""
    regression_table(400, 9).to_csv(tmp_path / "public.csv", index=False)
    for overrides in ({}, {"model__public": str(tmp_path / "public.csv")}, {"model__regularisation": 2.0}):
        terms = averaging_terms(50, **overrides)
        setup = resolve(terms)
        objective, public, length = setup.objective, setup.public, make_algorithm(setup).step
        largest = objective.largest_curvature(setup.preparation)
        assert 0.9999 / largest < length <= 1 / largest
        if public is not None:
            assert length < 0.5 / objective.curvature(public)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"model__kind": "linear-svm", "model__bounds": CLASS_BOUNDS}, "At the corner of the hinge loss"),
        ({"model__radius": None}, r"model\.radius: expected a number"),
        (
            {"model__bounds": {**BOUNDS, "x1": [0, 1e200]}},
            r"model\.bounds\.x1 = .* absolute value from 1e-50 to 1e\+50",
        ),
        ({"steps": 0}, r"learning\.local_steps = 0: expected a number >= 1"),
        ({"steps": 2.5}, r"learning\.local_steps = 2.5: expected a whole number"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(TermsError, match=match):
        averaging_terms(100, **changes)


def test_local_steps_belong_to_federated_averaging_and_default_to_five():
    with pytest.raises(TermsError, match=r"learning\.local_steps: allowed only with algorithm = 'federated-averaging'"):
        make_terms(100, learning__local_steps=3)
    assert averaging_terms(100, steps=None).learning.local_steps == 5
    assert (
        averaging_terms(100, steps=None).hash
        == averaging_terms(100, steps=5).hash
        != averaging_terms(100, steps=6).hash
    )


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"model__bounds": {k: v for k, v in BOUNDS.items() if k != "x1"}},
            r"model\.bounds: expected bounds of every feature",
        ),
        ({"learning__step": 0.334}, r"learning\.step = 0\.334: expected at most 0\.33333 with"),
    ],
)
def test_owner_learner_and_forecast_refuse_what_nothing_bounds(tmp_path, changes, match):
    terms = averaging_terms(100, **changes)
    ledger = Ledger(tmp_path / "a.ledger", 1.0, 1e-6)
    with pytest.raises(TermsError, match=match):
        parley.Owner("a", regression_table(100), ledger=ledger).accept(terms)
    assert ledger.reserved == (0, 0)
    with pytest.raises(TermsError, match=match):
        prepare_run(terms, tmp_path / "checkpoint")
    with pytest.raises(TermsError, match=match):
        parley.forecast(terms, pilot=regression_table(200))
    averaging_terms(100, learning__step=0.333)


def test_owners_that_differ_drift_apart_in_their_local_steps():
    """The bias of federated averaging, without noise: one step a round ends at the joint optimum, many steps end
    elsewhere."""
    rng = np.random.default_rng(0)
    tables = []
    # the second owner's features hardly vary, and its law is another
    for spread, coefficient in ((1.0, 1.0), (0.2, -1.0)):
        x = rng.uniform(-spread, spread, 500)
        tables.append(
            pd.DataFrame({"x0": x, "x1": 0.0, "x2": 0.0, "y": coefficient * x + 0.1 * rng.uniform(-1, 1, 500)})
        )
    owners = [parley.Owner("a", tables[0]), parley.Owner("b", tables[1])]
    psi = {}
    for steps in (1, 300):
        terms = averaging_terms(
            500,
            500,
            steps=steps,
            epsilon=1e9,
            learning__horizon=400 if steps == 1 else 60,
            privacy__clip=None,
            **LAPLACE,
        )
        psi[steps] = parley.train(terms, owners, seed=0, whole_path=False).relative_fitness["mean"]
    assert psi[1] < 1e-6
    assert psi[300] > 0.1
