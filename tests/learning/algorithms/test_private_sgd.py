"""Private gradient descent through everything: optimisers, budgets, releases, one noise, machines, forecast, plan,
words."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from flowers import PURE, releasing, sgd_terms, studied
from samples import SPECIES, iris_table

import parley
from parley.decisions.outlook.forecast import forecast
from parley.errors import AbortedRound, LedgerError
from parley.learning.algorithms.algorithm import Asker, run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.deployed import learn, prepare_run
from parley.learning.outcome.model import JointOneVsAllClassifier
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.numerals import number
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.owner.warnings import noise_choice
from parley.privacy.accounting.sampled import base_epsilon, sampled_ratio
from parley.protocol.aggregation import EachOwner
from parley.protocol.queries import Answer, MinibatchQuery
from parley.protocol.queries.gradient import MinibatchQuestion
from parley.protocol.setup import resolve


@pytest.fixture(scope="module")
def flowers():
    return iris_table()


WAYS = {
    "gaussian": {},
    "laplace": {"privacy": PURE},
    "geometric": {"privacy": {**PURE, "mechanism": "geometric"}},
    "linf": {"privacy": {"clip_norm": "linf"}},
    "one-vs-all": {"kind": "one-vs-all"},
    "one noise": {"hosts": True},
    "one noise, laplace": {"hosts": True, "privacy": {"mechanism": "laplace"}},
    "one noise, one-vs-all, l1": {"hosts": True, "kind": "one-vs-all", "privacy": {"clip_norm": "l1"}},
    "poisson": {"learning": {"sampling": "poisson"}},
    "poisson, laplace": {"learning": {"sampling": "poisson"}, "privacy": PURE},
    "poisson, one noise": {"learning": {"sampling": "poisson"}, "hosts": True},
    "poisson, one-vs-all": {"learning": {"sampling": "poisson"}, "kind": "one-vs-all"},
    "momentum": {"learning": {"optimiser": "momentum", "step": "auto"}},
    "adam": {"learning": {"optimiser": "adam"}},
    "strides": {"rows": (50, 50)},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_spends_exactly_epsilon_and_says_what_a_step_costs(flowers, way):
    terms = sgd_terms(**WAYS[way])
    if way == "strides":
        terms = terms.changed(owners={"b": {"stride": 7}})
    result = studied(flowers, terms, replicates=2)
    assert {owner.epsilon_spent for owner in result.owners} == {2.0}
    steps = [owner["step_epsilon"] for owner in result.to_json()["owners"]]
    assert all(0 < step < 2.0 for step in steps)
    if "laplace" in way or way == "geometric":
        assert steps[0] == pytest.approx(2 / (15 if "poisson" in way else 3))
    json.dumps(result.to_json(), allow_nan=False)


@pytest.mark.parametrize("way", ["gaussian", "one noise", "poisson", "one-vs-all"])
def test_with_a_large_budget_it_finds_the_flowers(flowers, way):
    model = {"model": {"holdout": 0.2}}
    learning = WAYS[way].get("learning", {}) | {"optimiser": "adam", "epochs": 30, "step": 0.3}
    epsilon = 15.0 if way == "one noise" else 500.0
    terms = sgd_terms(epsilon, **{**WAYS[way], **model, "learning": learning, "privacy": {"clip": 8.0}})
    result = studied(flowers, terms, replicates=2, whole_path=False)
    assert result.metrics["accuracy"] > (0.6 if way in ("one-vs-all", "one noise") else 0.8)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_one_noise_for_secret_draws_is_that_of_the_sampled_accounting_with_room_for_the_grid(mechanism):
    terms = sgd_terms(hosts=True, learning={"sampling": "poisson"}, privacy={"mechanism": mechanism})
    setup = resolve(terms)
    part, law = setup.part("a"), setup.law()
    needed = (
        sampled_ratio(2.0, float(law.delta), 15, 0.2)
        if mechanism == "gaussian"
        else 1 / base_epsilon(Fraction(2, 15), 0.2)
    )
    assert part.training.series.event.sampling == 0.2
    assert needed <= part.training.series.event.multiplier < 1.001 * needed
    # A row that is drawn or not moves the encoded sum by half of what the noise covers, rounding of every coordinate
    # included.
    question, grid = part.training.question, 15 if mechanism == "laplace" else 15**0.5
    assert law.units * question.records * question.sensitivity / 2 + grid <= law.moved / 2


def test_within_an_epoch_answers_cost_nothing_more():
    part = resolve(sgd_terms()).part("a")
    series = part.training.series
    assert series.count == 3
    spent = [part.cost(k, k) for k in range(1, 16)]
    assert spent == [series.spent_after(1 + (k - 1) // 5) for k in range(1, 16)]
    assert len({*spent}) == 3
    assert spent[-1] == 2
    whole = resolve(sgd_terms(learning={"batches": 1, "epochs": 3})).part("a").training.series.mechanism
    # an epoch in five batches is as private as one pass
    assert series.mechanism.sigma == pytest.approx(5 * whole.sigma, rel=1e-6)


def test_who_misses_rounds_pays_for_its_answers_up_to_the_epochs_so_far():
    """Two answers in two epochs may be about one person: the mutant that counts answers in fives would debit one
    release."""
    stage = resolve(sgd_terms(learning={"straggler": "skip", "quorum": 1})).part("a").training
    assert stage.uses(6, 2) == 2
    assert stage.uses(5, 2) == 1
    assert stage.uses(15, 3) == 3
    assert stage.uses(15, 1) == 1
    assert stage.uses(12, 2) == 2  # both may have been of the third epoch: nobody remembers which


def test_rounds_of_strides_count_the_epochs_that_have_one():
    stage = resolve(sgd_terms(rows=(50, 50)).changed(owners={"b": {"stride": 7}})).part("b").training  # rounds 1, 8, 15
    assert stage.rounds == (1, 8, 15)
    assert (stage.series.count, [stage.uses(k, n) for n, k in enumerate(stage.rounds, 1)]) == (3, [1, 2, 3])
    # rounds 1, 6, 11
    sparse = sgd_terms(rows=(50, 50), learning={"batches": 2, "epochs": 6}).changed(owners={"b": {"stride": 5}})
    stage = resolve(sparse).part("b").training
    assert (stage.series.count, stage.uses(11, 3)) == (3, 3)  # of six epochs it is asked in three


def reference_adam(gradients, step):
    """As in the paper, number by number."""
    theta, m, v = 0.0, 0.0, 0.0
    for t, g in enumerate(gradients, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        theta -= step * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)
    return theta


def reference_momentum(gradients, step):
    theta, velocity = 0.0, 0.0
    for g in gradients:
        velocity = 0.9 * velocity + g
        theta -= step * velocity
    return theta


REFERENCES = {"plain": lambda gs, step: -step * sum(gs), "momentum": reference_momentum, "adam": reference_adam}


@pytest.mark.parametrize("optimiser", REFERENCES)
@pytest.mark.parametrize("kind", ["softmax-regression", "one-vs-all"])
def test_optimisers_do_what_their_papers_say_and_checkpoints_keep_their_memory(optimiser, kind, tmp_path):
    terms = sgd_terms(kind=kind, learning={"optimiser": optimiser, "step": 0.01}, model={"radius": None})
    algorithm = make_algorithm(resolve(terms))
    drawn = np.random.default_rng(3).normal(size=(15, 15))
    begin = state = algorithm.start(np.zeros(15))
    for place, g in enumerate(drawn):
        state = algorithm.update(state, g)
        if place == 7:  # a learner that restarts goes on to the bit
            Checkpoint(terms.hash, state, {}, {}, {}).save(tmp_path / "kept")
            state = load_checkpoint(tmp_path / "kept", terms, begin).state
    scale = 3 if kind == "one-vs-all" else 1
    expected = [REFERENCES[optimiser](scale * drawn[:, j], 0.01) for j in range(15)]
    np.testing.assert_allclose(state.theta, expected, rtol=1e-12, atol=1e-15)


def test_rounds_that_are_aborted_are_no_steps_of_adam():
    terms = sgd_terms(learning={"optimiser": "adam", "step": 0.01}, model={"radius": None})
    setup = resolve(terms)
    algorithm = make_algorithm(setup)

    class Flaky:
        def ask(self, questions):
            number = next(iter(questions.values())).round
            if number % 2 == 0:
                raise AbortedRound("void")
            return [Answer("q", "a", 50, np.full(15, float(number)))]

    final = run(algorithm, Flaky(), EachOwner(), Asker.from_setup(setup), algorithm.start(np.zeros(15)))
    assert final.theta[0] == pytest.approx(reference_adam([float(k) for k in range(1, 16, 2)], 0.01), rel=1e-12)


@pytest.mark.parametrize("way", ["gaussian", "geometric", "one noise", "poisson", "poisson, one noise"])
def test_a_release_ends_at_exactly_epsilon_and_repeats_after_a_restart(flowers, tmp_path, way):
    terms = sgd_terms(**{**WAYS[way], "learning": {**WAYS[way].get("learning", {}), "batches": 2, "epochs": 2}})
    owners = releasing(flowers, terms, tmp_path)
    result = parley.train(terms, owners)
    for owner in owners:
        assert owner.ledger.account(terms.hash).spent == 2
        assert owner.ledger.account(terms.hash).answers == 4
        owner.ledger.verify()
        owner.ledger.close()
    again = parley.train(terms, releasing(flowers, terms, tmp_path))
    assert again.theta.tolist() == result.theta.tolist()


def test_a_share_that_is_asked_for_again_is_about_the_same_draw(flowers, tmp_path):
    """In another process, from the table and the ledger's secret; with another secret it would be aborted."""
    terms = sgd_terms(rows=(50,), **WAYS["poisson, one noise"])
    query = MinibatchQuery.ask(terms.hash, "learner", 1, np.full(15, 0.1))
    first = releasing(flowers, terms, tmp_path)[0]
    contribution, _ = first.contribute(query)
    first.ledger.close()
    second = releasing(flowers, terms, tmp_path)[0]
    again, _ = second.contribute(query)
    assert np.array_equal(contribution.words, again.words)
    assert np.array_equal(contribution.shares.last, again.shares.last)
    second.ledger.close()
    next(tmp_path.glob("a*secret")).unlink()
    with pytest.raises(AbortedRound):
        releasing(flowers, terms, tmp_path)[0].contribute(query)


def test_drawn_answers_are_stored_and_not_drawn_again(flowers, tmp_path):
    terms = sgd_terms(rows=(50,), learning={"sampling": "poisson"})
    query = MinibatchQuery.ask(terms.hash, "learner", 1, np.full(15, 0.1))
    owner = releasing(flowers, terms, tmp_path)[0]
    assert np.array_equal(owner.answer(query).value, owner.answer(query).value)
    assert owner.ledger.account(terms.hash).answers == 1


@pytest.mark.parametrize("way", ["gaussian", "one-vs-all", "adam"])
def test_three_owners_release_between_machines(flowers, tmp_path, way):
    terms = sgd_terms(**WAYS[way])
    owners = releasing(flowers, terms, tmp_path)
    run_ = prepare_run(terms, tmp_path / "kept", tmp_path / "model.json")
    federation = Federation(run_.setup, [LocalOwner(owner) for owner in owners], 20.0, lambda sentence: None)
    federation.fetch_statements()
    result, unheard = learn(run_, federation, run_.begin(resume=False))
    federation.close()
    assert unheard == []
    assert [outcome.epsilon_spent for outcome in result.owners] == [2.0] * 3
    assert all(0 < outcome.step_epsilon < 2 for outcome in result.owners)
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)
    model = parley.load_model(tmp_path / "model.json")
    assert isinstance(model, JointOneVsAllClassifier) == (way == "one-vs-all")
    probability = model.predict_proba(flowers)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(flowers), np.array(SPECIES)[probability.argmax(axis=1)])


def test_a_folder_of_files_answers_as_a_table_in_memory_does(flowers, tmp_path):
    table = pd.concat([flowers] * 3, ignore_index=True)
    (tmp_path / "folder").mkdir()
    table.to_parquet(tmp_path / "folder" / "rows.parquet", row_group_size=100)
    for kind in ("softmax-regression", "one-vs-all"):
        terms = sgd_terms(rows=(450,), kind=kind)
        setup = resolve(terms)
        query = MinibatchQuery.ask(terms.hash, "learner", 7, np.linspace(-1, 1, 15))
        asked = setup.part("a").training.question
        values = [
            asked.bounded(query, parley.Owner("a", source).prepare(setup).tables).value
            for source in (table, tmp_path / "folder")
        ]
        np.testing.assert_allclose(values[0], values[1], rtol=1e-12)


def test_acceptance_says_the_step_and_the_total_and_which_noise_is_cheaper(flowers, tmp_path):
    terms = sgd_terms(privacy={"clip_norm": "linf"})
    owner = releasing(flowers, terms, tmp_path)[0]
    words = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    step = owner.prepare(terms).part.step_epsilon
    assert f"One answer alone costs ε = {number(step, side='above')} at δ = 1e-05. Each record is used in" in words
    assert "at most 3 of 15 answers, one per epoch" in words
    assert "The total over all epochs, which the terms promise and the ledger debits, is ε = 2 at δ = 1e-05" in words
    assert "records clipped in LINF" in words
    assert "noise, which is smaller than" in words
    drawn = sgd_terms(rows=(50,), learning={"sampling": "poisson"})
    (tmp_path / "drawn").mkdir()
    other = releasing(flowers, drawn, tmp_path / "drawn")[0]
    said = " ".join(acceptance_summary(other, other.prepare(drawn)))
    assert "drawn in secret, each with probability 1/5" in said


def test_acceptance_counts_a_persons_rows_and_the_score(flowers, tmp_path):
    table = flowers.assign(who=np.repeat(np.arange(75), 2))
    privacy = {**PURE, "person": "who", "records_per_person": 2, "score_epsilon": 0.5}
    terms = sgd_terms(rows=(50,), model={"holdout": 0.2}, privacy=privacy)
    owner = parley.Owner("a", table.iloc[:50], ledger=Ledger(tmp_path / "a", lifetime=2))
    words = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    step = owner.prepare(terms).part.step_epsilon
    assert step == Fraction(1, 2)
    assert (
        "One answer alone costs ε = 0.5. Each record is used in at most 3 of 15 answers, one per epoch. The 2 records "
        "of one person are in up to 6 answers in total." in words
    )
    assert "The total over all epochs and the score, which the terms promise and the ledger debits, is ε = 2" in words


def test_a_ledger_held_as_zcdp_says_that_it_takes_no_secret_draws_and_what_it_takes(flowers, tmp_path):
    terms = sgd_terms(rows=(50,), learning={"sampling": "poisson"})
    owner = parley.Owner(
        "a", flowers.iloc[:50], ledger=Ledger(tmp_path / "a", lifetime=3, lifetime_delta="1e-5", rule="zcdp")
    )
    words = acceptance_summary(owner, owner.prepare(terms))[-1]
    assert "This ledger cannot accept these terms, because the terms' zCDP cost is not known" in words
    assert "These terms cost ρ" not in words
    with pytest.raises(LedgerError, match="sampling = 'partition'"):
        owner.accept(terms)
    owner.accept(sgd_terms(rows=(50,)))


def test_one_noise_for_a_persons_rows_in_several_batches_pays_for_the_rounding_of_each():
    setups = [
        resolve(
            sgd_terms(
                rows=(50,), hosts=True, privacy={"person": "who", "records_per_person": k, "mechanism": "laplace"}
            )
        )
        for k in (1, 4)
    ]
    for setup, pieces in zip(setups, (1, 4), strict=True):
        question, span = setup.part("a").training.question, setup._shared_laws._spans[0]
        rounded = question.records * (Fraction(question.sensitivity) + pieces * Fraction(question.extent.size) / 2**52)
        assert rounded <= span.reach < rounded * (1 + Fraction(1, 2**49))
    drawn = resolve(sgd_terms(rows=(50,), hosts=True, learning={"sampling": "poisson"}))
    question = drawn.part("a").training.question
    half = question.records * (Fraction(question.sensitivity) / 2 + Fraction(question.extent.size) / 2**52)
    assert drawn._shared_laws._spans[0].reach >= 2 * half


def test_a_forecast_says_what_it_does_and_takes_each_batch_once_in_a_resample(flowers, monkeypatch):
    """The mutant that gives eight groups of a resample's few runs batches of their own takes most of its time for
    them."""
    terms, calls, said, far = sgd_terms(rows=(60, 60)), [], [], []
    summed = MinibatchQuestion._sum

    def counted(self, design, split, theta):
        calls.append(len(theta))
        return summed(self, design, split, theta)

    monkeypatch.setattr(MinibatchQuestion, "_sum", counted)
    forecast(terms, flowers, resamples=4, progress=lambda done, total: far.append(done / total), doing=said.append)
    own, other, bare = 15 * 2 * 8, 15 * 2, 15 * 2
    assert len(calls) <= own + 4 * other + bare
    assert [words.split(",")[0] for words in said] == ["calibrating noise", "resampling the pilot"]
    assert all(0 <= share <= 1 for share in far)


def test_the_cheaper_noise_for_a_linf_clip_is_named_from_both_sides(flowers):
    """With many numbers Gaussian noise covers sqrt d C, Laplace noise d C."""
    loud = sgd_terms(rows=(50,), privacy={**PURE, "clip_norm": "linf"})
    said = noise_choice(resolve(loud), "a")
    assert "Gaussian noise would be smaller" in said
    assert "which these terms do not allow" in said
    assert noise_choice(resolve(sgd_terms(rows=(50,))), "a") is None
    own = resolve(loud).part("a").training.series.mechanism.variance ** 0.5
    assert f"{own:.3g} with laplace noise" in said


def test_a_forecast_runs_it_on_the_pilot_and_meets_what_training_gives(flowers):
    """Every owner's table is the pilot, so batches and noise are on trial: within 15 %, as few runs of the pilot
    allow."""
    terms = sgd_terms(epsilon=20.0, rows=(150, 150), learning={"epochs": 8, "step": 0.05})
    expected = parley.forecast(terms, pilot=flowers, resamples=2)
    assert expected.method == "pilot-run"
    owners = [parley.Owner(name, flowers) for name in "ab"]
    runs = parley.train(terms, owners, replicates=200, seed=5, whole_path=False).path[-1]
    assert expected.relative_fitness.mean == pytest.approx(runs.mean(), rel=0.15)


def test_the_planner_considers_optimisers_batches_and_epochs(flowers, monkeypatch):
    monkeypatch.setattr("parley.learning.algorithms.private_sgd.PrivateSGD.most_steps", 16)
    terms = sgd_terms(epsilon=20.0, rows=(150,), learning={"batches": 2, "epochs": 2, "step": 0.001})
    proposal = parley.plan(terms, pilot=flowers)
    kinds = {(choice.mechanism, choice.optimiser) for choice in proposal.choices}
    assert {("gaussian", "plain"), ("gaussian", "momentum"), ("gaussian", "adam")} <= kinds
    assert proposal.best.relative_fitness < 0.7 * proposal.choices[0].relative_fitness
    assert proposal.terms.learning.optimiser == proposal.best.optimiser
    assert proposal.terms.learning.horizon == proposal.best.epochs * proposal.best.batches == proposal.best.horizon
    json.dumps(proposal.to_json(), allow_nan=False)
