import json
from fractions import Fraction

import numpy as np
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.errors import ContentMismatch, ExchangeError, Malformed, OutOfOrder
from parley.learning.deployed import learn, prepare_run
from parley.losses.score import error_figures, scoring
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery, ScoreQuery, StatisticsQuery

TIGHT = {"y": [-1.6, 1.6]}
LATE = {"learning__quorum": 1, "learning__straggler": "skip"}


def scored(*sizes, score=0.25, **overrides):
    given = {"model__holdout": 0.2, "model__bounds": TIGHT, "privacy__score_epsilon": score, **overrides}
    if given.get("model__kind", "linear-regression") != "linear-regression":
        given.pop("model__bounds")
    return make_terms(*sizes, **given)


def books(tmp_path, terms, table=regression_table, delta=0.0):
    owners = []
    for place, part in enumerate(terms.owners):
        ledger = Ledger(tmp_path / f"{part.name}.ledger", lifetime=2.0, lifetime_delta=delta)
        owners.append(parley.Owner(part.name, table(part.records, seed=place), ledger=ledger))
        owners[-1].accept(terms, other_books="compared")
    return owners


def gradient(terms, k):
    return GradientQuery.ask(terms.hash, "learner", k, np.zeros(3))


def score_query(terms, theta=(0.1, 0.2, 0.3), k=None):
    return ScoreQuery.ask(terms.hash, "learner", terms.rounds if k is None else k, np.array(theta, dtype=np.float64))


@pytest.mark.parametrize("kind", ["linear-regression", "linear-svm"])
def test_figures_are_unbiased_and_their_standard_errors_are_those_of_the_noise(kind):
    """20,000 releases of one score far from 0 and 1: means within 5 standard errors of the truth, spreads within 3 % of
    what is claimed.

    The noise is that of a number written out, not of the code's own sensitivity.
    """
    runs = 20_000
    terms = scored(2500, epsilon=3.0, score=2.0, model__kind=kind, **LATE)
    table = regression_table(2500) if kind == "linear-regression" else class_table(2500)
    party = parley.Owner("a", table).simulate(seed=4, replicates=runs)
    agreement = party.accept(terms)
    theta = np.array([-0.2, 0.0, 0.1] if kind == "linear-regression" else [0.7, 0.2, 0.1, -0.3])
    shares = party.answer(score_query(terms, np.broadcast_to(theta, (runs, len(theta))))).value
    stage, rule = agreement.part.stages[1], scoring(agreement.setup.preparation)
    exact = stage.question.exact(score_query(terms, theta), agreement.tables)
    m = 500
    scale = (2 / m if kind == "linear-svm" else 13 / 4 / m) / 2.0
    assert stage.series.mechanism.scale == pytest.approx(scale, rel=1e-6)
    assert np.abs(shares - exact).mean() == pytest.approx(scale, rel=5 / np.sqrt(shares.size))
    truth, seen = rule.figures(exact, 0.0), rule.figures(shares, stage.series.mechanism.variance**0.5)
    for name, (values, errors) in seen.items():
        spread = values.std(ddof=1)
        assert abs(values.mean() - float(truth[name][0])) < 5 * spread / np.sqrt(runs), name
        assert errors.mean() == pytest.approx(spread, rel=0.03), name


def test_the_square_of_a_noisy_mean_is_not_taken_for_variance():
    """Noise in the target's mean alone: the variance under R2 is right within 5 standard errors; without the correction
    it is not."""
    draws, deviation, r, a, b = 200_000, 0.02, 0.02, 0.2, 0.5
    noisy = a + np.random.default_rng(0).laplace(scale=deviation / np.sqrt(2), size=draws)
    shares = np.stack([np.full(draws, r), noisy, np.full(draws, b)], axis=-1)
    variance = 4 * r / (1 - error_figures(shares, deviation, 1.0)["r2"][0])
    error = variance.std() / np.sqrt(draws)
    assert abs(variance.mean() - (b - a**2)) < 5 * error
    assert abs(variance.mean() - deviation**2 - (b - a**2)) > 5 * error


def test_what_the_noise_drowns_is_not_shown():
    """Nine positives in 400 held-out rows at a small epsilon: no recall, no balance; an accuracy still, within 0 and
    1."""
    table = class_table(2000)
    table["y"] = (np.arange(2000) % 50 == 0).astype(int)
    result = parley.train(
        scored(2000, score=0.05, epsilon=50.0, model__kind="linear-svm"),
        [parley.Owner("a", table)],
        replicates=40,
        seed=1,
    )
    figures = result.scores.pooled.figures
    assert figures["recall"] is None
    assert figures["balanced_accuracy"] is None
    assert 0 <= figures["accuracy"].value <= 1
    assert figures["accuracy"].standard_error == pytest.approx(np.sqrt(2) * 2 / 400 / 0.05, rel=1e-3)
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert content["scores"]["pooled"]["figures"]["recall"] is None


@pytest.mark.parametrize("algorithm", ["averaged-subgradient", "sufficient-statistics"])
@pytest.mark.parametrize(
    "privacy", [{}, {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}, {"privacy__shared_records": 2}]
)
def test_training_is_that_of_the_rest_of_the_budget(algorithm, privacy):
    """The same seed gives the same model with epsilon = 1, of which 1/4 is for the score, as with 3/4 and no score."""
    more = {"learning__algorithm": algorithm, **privacy}
    if algorithm == "sufficient-statistics":
        more |= {"learning__step": None, "learning__horizon": None}
    terms, plain = scored(500, 300, **more), scored(500, 300, score=None, epsilon=0.75, **more)
    owners = [parley.Owner("a", regression_table(500)), parley.Owner("b", regression_table(300, seed=1))]
    ours, theirs = (parley.train(t, owners, replicates=3, seed=7) for t in (terms, plain))
    np.testing.assert_array_equal(ours.theta, theirs.theta)
    assert theirs.scores is None
    assert theirs.to_json()["scores"] is None
    assert [o.epsilon_spent for o in ours.owners] == [1.0, 1.0]
    assert [o.answers for o in ours.owners] == [terms.learning.horizon] * 2
    kappa = privacy.get("privacy__shared_records", 1)
    assert ours.scores.owners[0].deviation == pytest.approx(np.sqrt(2) * 13 / 4 / 100 / 0.25 * kappa, rel=1e-6)


def test_the_pooled_score_is_the_mean_by_held_out_rows():
    terms = scored(4000, 1000, score=0.9)
    owners = [parley.Owner("a", regression_table(4000)), parley.Owner("b", regression_table(1000, seed=1))]
    result = parley.train(terms, owners, replicates=5, seed=2)
    a, b = result.scores.owners
    pooled = result.scores.pooled
    assert (a.name, a.rows, b.rows, pooled.rows) == ("a", 800, 200, 1000)
    np.testing.assert_allclose(pooled.shares, 0.8 * a.shares + 0.2 * b.shares)
    assert pooled.deviation == pytest.approx(np.sqrt(0.64 * a.deviation**2 + 0.04 * b.deviation**2))
    held_out = owners[0].prepare(terms).tables.held_out
    true = np.mean((held_out.X @ result.theta[0] - held_out.y) ** 2)
    error = a.figures["mean_squared_error"]
    assert abs(error.value - true) < 5 * error.standard_error


@pytest.mark.parametrize(
    "mechanism", [{}, {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}, {"privacy__shared_records": 2}]
)
def test_training_and_score_spend_epsilon_exactly_in_real_ledgers_and_asking_again_is_free(tmp_path, mechanism):
    terms = scored(300, 200, epsilon=0.7, score=0.1, learning__horizon=7, **mechanism)
    delta = mechanism.get("privacy__delta", 0.0)
    owners = books(tmp_path, terms, delta=delta)
    result = parley.train(terms, owners)
    again = parley.train(terms, owners)
    np.testing.assert_array_equal(result.scores.pooled.shares, again.scores.pooled.shares)
    for owner in owners:
        account = owner.ledger.account(terms.hash)
        assert account.spent == account.epsilon == Fraction(7, 10)
        assert (account.answers, account.answered) == (8, 8)
        *rest, last = [entry for entry in owner.ledger.entries() if entry["kind"] == "answer"]
        assert Fraction(last["epsilon"]) == Fraction(1, 10)
        assert sum(Fraction(entry["epsilon"]) for entry in rest) == Fraction(6, 10)
        assert sum(Fraction(entry["delta"]) for entry in (*rest, last)) == Fraction(str(delta))
        assert json.loads(last["event"])["mechanism"] == "laplace"
        assert 1 / json.loads(last["event"])["multiplier"] == pytest.approx(
            0.1 / mechanism.get("privacy__shared_records", 1)
        )
        assert owner.ledger.verify() == 10
        Ledger(owner.ledger.path)  # opens, verified, as after a restart


def test_a_score_is_answered_once_at_its_time_and_only_if_agreed_on(tmp_path):
    terms = scored(300, learning__horizon=2)
    (owner,) = books(tmp_path, terms)
    refused = [
        (score_query(terms), OutOfOrder),  # before training is done
        (score_query(terms, k=1), Malformed),  # training has this round, and asks another kind
        (gradient(terms, 3), Malformed),  # the score has this one
        (gradient(terms, 4), OutOfOrder),  # nobody has
        (StatisticsQuery.ask(terms.hash, "learner", 1), Malformed),
        (score_query(terms, theta=(0.1, 0.2)), Malformed),
        (score_query(terms, theta=(0.1, np.nan, 0.2)), Malformed),
    ]
    for query, kind in refused:
        with pytest.raises(kind):
            owner.answer(query)
    for k in (1, 2):
        owner.answer(gradient(terms, k))
    with pytest.raises(Malformed, match="the terms set the kind 'score'"):
        owner.answer(gradient(terms, 3))
    assert owner.ledger.account(terms.hash).spent == Fraction(3, 4)
    first = owner.answer(score_query(terms, theta=(5.0, -5.0000000001, 9.0)))  # the box is no matter of a score
    assert first.records == 60
    assert owner.ledger.account(terms.hash).spent == 1
    with pytest.raises(OutOfOrder, match="no further round"):
        owner.answer(score_query(terms, theta=(0.0, 0.0, 0.0)))
    other = score_query(terms, theta=(0.0, 0.0, 0.0))
    with pytest.raises(ContentMismatch):
        owner.answer(ScoreQuery(first.query, other.terms_hash, other.learner, other.round, other.theta))
    assert owner.ledger.verify() == 5
    bare = make_terms(300, epsilon=0.5, learning__horizon=1)
    owner.accept(bare)
    owner.answer(gradient(bare, 1))
    with pytest.raises(OutOfOrder, match="the last round for a is 1"):
        owner.answer(score_query(bare, k=2))
    with pytest.raises(Malformed, match="the terms set the kind 'gradient'"):
        owner.answer(score_query(bare, k=1))
    assert owner.ledger.account(bare.hash).spent == Fraction(1, 2)


def test_with_skipped_rounds_a_score_costs_its_part_on_top_of_what_was_answered(tmp_path):
    terms = scored(300, learning__horizon=6, **LATE)
    (owner,) = books(tmp_path, terms)
    for k in (1, 4):
        owner.answer(gradient(terms, k))
    owner.answer(score_query(terms))
    assert owner.ledger.account(terms.hash).spent == Fraction(3, 4) * Fraction(2, 6) + Fraction(1, 4)
    with pytest.raises(OutOfOrder):
        owner.answer(gradient(terms, 5))
    assert owner.ledger.verify() == 5
    (tmp_path / "idle").mkdir()
    (idle,) = books(tmp_path / "idle", terms)
    idle.answer(score_query(terms))  # missed all of training
    assert idle.ledger.account(terms.hash).spent == Fraction(1, 4)
    assert idle.ledger.verify() == 3


class Interrupted(Federation):
    """Loses the line when the score is asked; the owners have answered by then if `late`."""

    late: bool

    def ask(self, questions):
        if any(isinstance(query, ScoreQuery) for query in questions.values()):
            if self.late:
                super().ask(questions)
            raise ExchangeError("the line broke")
        return super().ask(questions)


@pytest.mark.parametrize("late", [False, True])
def test_a_run_that_lacks_only_its_score_goes_on(tmp_path, late):
    terms = scored(300, 200, learning__horizon=4)
    owners, run = books(tmp_path, terms), prepare_run(terms, tmp_path / "checkpoint", tmp_path / "model.json")

    def learned(kind, begin):
        peers = [LocalOwner(owner) for owner in owners]
        federation = kind(run.setup, peers, 20.0, lambda sentence: None, begin.heads, begin.answers)
        federation.late = late
        try:
            result, unheard = learn(run, federation, begin)
        finally:
            federation.close()
        assert unheard == []
        return result

    with pytest.raises(ExchangeError, match="the line broke"):
        learned(Interrupted, run.begin(resume=False))
    model = parley.load_model(tmp_path / "model.json")  # it did not wait for its score
    begin = run.begin(resume=True)
    assert begin.state.round == 5
    assert not run.finished(begin)  # its owners have to be there for the score
    first, second = learned(Federation, begin), learned(Federation, begin)
    third = learned(Federation, run.begin(resume=True))
    np.testing.assert_array_equal(third.scores.pooled.shares, first.scores.pooled.shares)
    np.testing.assert_array_equal(model.theta_, first.theta[0])
    np.testing.assert_array_equal(second.theta, first.theta)
    np.testing.assert_array_equal(first.scores.pooled.shares, second.scores.pooled.shares)
    assert [outcome.answers for outcome in first.owners] == [4, 4]
    for owner in owners:
        assert owner.ledger.account(terms.hash).spent == 1
        assert owner.ledger.verify() == 7
    np.testing.assert_array_equal(parley.train(terms, owners).scores.pooled.shares, first.scores.pooled.shares)
