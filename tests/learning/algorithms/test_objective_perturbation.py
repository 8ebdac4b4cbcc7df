"""Objective perturbation through terms, ledgers, forecasts and plans."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from samples import SPECIES, class_table, iris_table

import parley
from parley.decisions.planning.coordinate_search import _kinds
from parley.errors import BudgetExhausted, GuaranteeError, Malformed, SettingError
from parley.losses.objective_perturbation import PerturbedCost
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms.linear_term import ROUNDING_SHARE, Perturbed
from parley.protocol.queries import GradientQuery, MinimumQuery
from parley.protocol.setup import resolve

COLUMNS = ["x0", "x1", "x2"]


def perturbed_terms(records=400, epsilon=1.0, kind="logistic-regression", model=None, privacy=None):
    return parley.Terms.from_dict(
        {
            "model": {"kind": kind, "target": "y", "features": COLUMNS, "radius": 20.0, **(model or {})},
            "learning": {"algorithm": "objective-perturbation"},
            "privacy": {"clip": 12.0, **(privacy or {})},
            "owners": [{"name": "a", "records": records, "epsilon": epsilon}],
        }
    )


def flower_terms(epsilon):
    columns = ["sepal length", "sepal width", "petal length", "petal width"]
    model = {"target": "species", "features": columns, "categories": {"species": SPECIES}, "radius": 50.0}
    return perturbed_terms(150, epsilon, "softmax-regression", model)


@pytest.mark.parametrize("kind", ["logistic-regression", "softmax-regression"])
def test_with_a_large_budget_it_is_the_model_without_privacy(kind):
    terms, table = (perturbed_terms(epsilon=1e9, model={"regularisation": 0.01}), class_table(400))
    if kind == "softmax-regression":
        terms, table = flower_terms(1e9).changed(model={"regularisation": 0.01}, privacy={"clip": 18.0}), iris_table()
    result = parley.train(terms, [parley.Owner("a", table)], replicates=3, seed=0)
    np.testing.assert_allclose(
        result.theta, np.broadcast_to(result.quality.optimal_theta, result.theta.shape), atol=5e-3
    )
    assert result.owners[0].epsilon_spent == 1e9


def test_a_release_is_debited_once_in_full_and_repeats_its_stored_answer(tmp_path):
    terms = perturbed_terms(200)
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.5)
    owner = parley.Owner("a", class_table(200), ledger=ledger)
    owner.accept(terms)
    query = MinimumQuery.ask(terms.hash, "learner", 1)
    first = owner.answer(query).value
    assert first.shape == (4,)
    assert np.array_equal(first, owner.answer(query).value)
    assert ledger.account(terms.hash).spent == 1
    with pytest.raises(Malformed, match="kind"):
        owner.answer(GradientQuery.ask(terms.hash, "learner", 1, np.zeros(4)))
    with pytest.raises(BudgetExhausted):
        owner.accept(perturbed_terms(200, model={"holdout": 0.1}))
    assert ledger.verify() == 3
    again = parley.train(terms, [owner])
    assert again.released
    assert again.safe_noise
    np.testing.assert_allclose(
        again.theta[0], np.clip(owner.agreement(terms.hash).part.training.question.cost.parameter(first), -20, 20)
    )


def test_the_ledger_keeps_a_pure_event_of_all_of_epsilon_and_a_score_is_paid_beside_it():
    terms = perturbed_terms(200, 0.7, model={"holdout": 0.5}, privacy={"score_epsilon": 0.2})
    part = resolve(terms).part("a")
    event = part.training.series.event
    assert (event.mechanism, event.multiplier) == ("pure", pytest.approx(2.0))
    assert part.cost(1, 1) == Fraction(1, 2)
    assert part.cost(2, 2) == Fraction(7, 10)


def test_a_minimum_that_is_not_near_enough_is_refused_before_the_ledger_is_written(tmp_path, monkeypatch):
    terms, ledger = perturbed_terms(200), Ledger(tmp_path / "a.ledger", lifetime=1.0)
    owner = parley.Owner("a", class_table(200), ledger=ledger)
    owner.accept(terms)
    rows = ledger.verify()
    monkeypatch.setattr(PerturbedCost, "distance", 1e-18)
    with pytest.raises(GuaranteeError, match="nothing was released"):
        owner.answer(MinimumQuery.ask(terms.hash, "learner", 1))
    assert ledger.verify() == rows
    assert ledger.account(terms.hash).spent == 0


def test_no_draw_without_a_secret(tmp_path):
    owner = parley.Owner("a", class_table(400)).simulate(0, 2)
    agreement = owner.accept(perturbed_terms())
    with pytest.raises(GuaranteeError, match="seed"):
        agreement.part.training.question.bounded(MinimumQuery.ask("ab", "l", 1), agreement.tables, (2,))


def test_fresh_releases_differ_and_studies_repeat(tmp_path):
    terms, table, found = perturbed_terms(200), class_table(200), []
    for name in "xy":
        owner = parley.Owner("a", table, ledger=Ledger(tmp_path / name, lifetime=1.0))
        owner.accept(terms, other_books="compared")
        found.append(parley.train(terms, [owner]).theta)
    assert (found[0] != found[1]).all()
    studies = [
        parley.train(terms, [parley.Owner("a", table)], replicates=4, seed=3, measure=False).theta for _ in range(2)
    ]
    np.testing.assert_array_equal(*studies)
    assert len(np.unique(studies[0][:, 0])) == 4


def test_a_release_has_the_law_of_a_study(tmp_path):
    """30 releases with exact noise and 400 replicates of a study: means and deviations of every number agree."""
    terms, table = perturbed_terms(60, 3.0), class_table(60)
    owner = parley.Owner("a", table)
    study = parley.train(terms, [owner], replicates=400, seed=0, measure=False).theta
    found = []
    for number in range(30):
        owner = parley.Owner("a", table, ledger=Ledger(tmp_path / str(number), lifetime=3.0))
        owner.accept(terms, other_books="compared")
        found.append(parley.train(terms, [owner]).theta[0])
    release = np.array(found)
    error = study.std(axis=0) / np.sqrt(30)
    assert (np.abs(release.mean(axis=0) - study.mean(axis=0)) < 4.5 * error).all()
    assert (np.abs(np.log(release.std(axis=0) / study.std(axis=0))) < 0.8).all()


def test_a_streamed_table_gives_what_one_in_memory_gives(tmp_path):
    table, terms = class_table(9000), perturbed_terms(9000, 1e9)
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(np.array_split(np.arange(9000), 3)):
        table.iloc[part].to_parquet(tmp_path / "rows" / f"{number}.parquet", index=False)
    owner = parley.Owner("a", tmp_path / "rows", ledger=Ledger(tmp_path / "a.ledger", lifetime=1e9))
    owner.accept(terms)
    in_memory = parley.train(terms, [parley.Owner("a", table)], seed=0).theta[0]
    np.testing.assert_allclose(parley.train(terms, [owner]).theta[0], in_memory, atol=1e-3)


def test_a_person_with_several_rows_is_counted(tmp_path):
    table = class_table(300).assign(who=np.repeat(np.arange(100), 3))
    terms = perturbed_terms(300, privacy={"person": "who", "records_per_person": 3})
    owner = parley.Owner("a", table, ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    cost = owner.accept(terms).part.training.question.cost
    rate, penalty = cost.rate / 300, cost.penalty * 300
    assert 0.98 < 3 * (cost.size * rate + cost.law.row_cost(rate, penalty)) <= 0.99
    assert np.isfinite(parley.train(terms, [owner]).theta).all()


def test_a_learner_believes_honest_answers_and_nobody_beyond_the_ball():
    terms = perturbed_terms(60)
    setup = resolve(terms)
    question, mechanism = setup.part("a").training.question, setup.part("a").training.series.mechanism
    reach = question.extent.noisy(mechanism, question.size, 1e-12)
    answers = parley.train(terms, [parley.Owner("a", class_table(60))], replicates=50, seed=0, measure=False)
    assert all(reach.holds(theta * question.cost.row) for theta in answers.theta)
    assert not reach.holds(np.full(4, 2 * question.cost.radius))


@pytest.mark.parametrize("numbers", [3, 40, 600])
def test_noise_outside_covers_the_way_there_and_back_on_its_own_grid(numbers):
    """Twice the distance and two crossings of the grid, where the sampler makes room for one."""
    away = 1e-7
    noise = Perturbed.calibrate(Fraction(1, 10), away, numbers, 1.0)
    grid = noise.rounding(numbers)
    widened = noise.outside.scale * (noise.sensitivity + grid) / noise.sensitivity
    assert Fraction(2 * (away + grid)) / Fraction(widened) <= ROUNDING_SHARE / 10 * (1 + Fraction(1, 10**12))
    with pytest.raises(SettingError, match="too small"):
        Perturbed.calibrate(Fraction(1, 10**9), away, 600, 1.0)


def uneven_table(rows, seed):
    """Features that hang together, so that one step along the gradient does not lead to the minimum."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(rows, 3))
    X = np.column_stack([latent[:, 0], latent[:, 0] + 0.3 * latent[:, 1], latent[:, 2] - latent[:, 0]])
    y = (latent @ [0.5, 1.5, -1.0] + rng.logistic(size=rows) > 0.3).astype(int)
    return pd.DataFrame(X, columns=COLUMNS).assign(y=y)


def public_terms(tmp_path, owners="a", **learning):
    uneven_table(600, 10).to_csv(tmp_path / "public.csv", index=False)
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "logistic-regression",
                "target": "y",
                "public": str(tmp_path / "public.csv"),
                "radius": 20.0,
            },
            "learning": {"horizon": 40, **learning},
            "privacy": {"clip": 4.0},
            "owners": [{"name": name, "records": 3000, "epsilon": 1.0} for name in owners],
        }
    )


def test_a_forecast_says_what_training_gives(tmp_path):
    terms = public_terms(tmp_path, algorithm="objective-perturbation", horizon=1).changed(privacy={"clip": 2.5})
    result = parley.train(terms, [parley.Owner("a", uneven_table(3000, 1))], replicates=60, seed=2)
    foreseen = parley.forecast(terms, resamples=4)
    assert foreseen.method == "pilot-run"
    assert result.relative_fitness["mean"] == pytest.approx(foreseen.relative_fitness.mean, rel=0.4)


def test_the_planner_offers_it_to_one_owner_and_it_beats_rounds_that_begin_at_zero(tmp_path):
    proposal = parley.plan(public_terms(tmp_path))
    [offered] = [choice for choice in proposal.choices if choice.algorithm == "objective-perturbation"]
    assert offered.horizon == 1
    assert offered.relative_fitness < 0.5 * proposal.choices[0].relative_fitness


def test_several_owners_are_not_offered_it(tmp_path):
    labels = [[label for label, *_ in _kinds(public_terms(tmp_path, owners), 0.0)] for owners in ("a", "ab")]
    assert ["one release of a perturbed minimum" in each for each in labels] == [True, False]


def test_accepting_says_what_leaves(tmp_path):
    from parley.owner.acceptance_summary import acceptance_summary

    owner = parley.Owner("a", class_table(200), ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    words = " ".join(acceptance_summary(owner, owner.prepare(perturbed_terms(200))))
    assert (
        "the model of 4 numbers that fits 200 records best when a secret random linear term is added to the cost"
        in words
    )


def test_rows_of_unequal_length_are_shortened_alike_in_training_and_in_what_is_reported():
    table = class_table(400)
    far = pd.concat([table.iloc[:200] * [100, 100, 100, 1], table.iloc[200:]], ignore_index=True).astype({"y": int})
    result = parley.train(perturbed_terms(privacy={"clip": 20.0}), [parley.Owner("a", far)], seed=0)
    assert result.owners[0].clipped_share == pytest.approx(0.5, abs=0.05)
