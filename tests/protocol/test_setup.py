"""Terms resolved once: for every owner its stages, their bounds, noise and costs."""

from fractions import Fraction

import numpy as np
import pytest
from samples import BOUNDS, GAUSSIAN, STATISTICS, UPDATES, class_table, make_terms, regression_table

import parley
from parley.errors import Malformed, OutOfOrder, TermsError
from parley.owner.ledger import Ledger
from parley.protocol.queries import GradientQuery, ScoreQuery, StatisticsQuery, UpdateQuery
from parley.protocol.setup import resolve

SCORED = {"model__holdout": 0.25, "model__bounds": BOUNDS, "privacy__score_epsilon": 0.25}
BY_BOUNDS = {"privacy__clip": None, "model__bounds": BOUNDS}
CLASSES = {
    **SCORED,
    "model__kind": "logistic-regression",
    "model__intercept": False,
    "model__class_weight": {"1": 3.0},
    "privacy__clip": None,
}
PERSONS = {"privacy__person": "who", "privacy__records_per_person": 3}
STRIDES = (1, 2, 5, 10)

# What versions before this one calibrated by, for owner a of 120 records with epsilon 0.8 and T = 10: a record's bound,
# the sensitivity and the variance of a training answer, what the first one costs, and the scale of a score's noise.
BEFORE = {
    "clip": ({}, 4.0, 0.0666666666667839, 1.3888888888937763, 0.08, None),
    "bounds": (BY_BOUNDS, 108.00000000032404, 1.800000000008566, 1012.5000000096387, 0.08, None),
    "gaussian": (GAUSSIAN, 4.0, 0.0666666666667839, 1.2008911538986176, 0.2333326699, None),
    "updates": (UPDATES, 1.0, 0.027514699417056428, 0.2365808387534271, 0.08, None),
    "updates, gaussian": (UPDATES | GAUSSIAN, 1.0, 0.01588561911510917, 0.06818588074557748, 0.2333326699, None),
    "statistics": (STATISTICS, 4.0, 0.0666666666667839, 0.013888888888937766, 0.8, None),
    "statistics, gaussian": (
        STATISTICS | GAUSSIAN | BY_BOUNDS,
        12.000000000036003,
        0.1414213562380856,
        0.5404010192584084,
        0.8,
        None,
    ),
    "score": (SCORED, 4.0, 0.08888888888897949, 5.223956739118912, 0.055, 0.43333333333344565),
    "score, classes": (CLASSES, 9.000000000018002, 0.2000000000006039, 26.446280991895293, 0.055, 0.2666666666667042),
    "shared": (
        SCORED | {"privacy__shared_records": 2},
        4.0,
        0.08888888888897949,
        20.89582695647565,
        0.055,
        0.8666666666668913,
    ),
    "persons": (SCORED | PERSONS, 4.0, 0.26666666666675726, 47.015610652006316, 0.055, 1.300000000000113),
}


@pytest.mark.parametrize("case", BEFORE)
def test_noise_is_what_it_was_before(case):
    settings, bound, sensitivity, variance, first, scale = BEFORE[case]
    part = resolve(make_terms(120, 80, epsilon=0.8, **settings)).part("a")
    training = part.training
    assert training.question.bound.value == pytest.approx(bound, rel=1e-12)
    assert (
        training.question.sensitivity == training.series.mechanism.sensitivity == pytest.approx(sensitivity, rel=1e-12)
    )
    assert training.series.mechanism.variance == pytest.approx(variance, rel=1e-9)
    assert float(part.cost(1, 1)) == pytest.approx(first, rel=1e-8)
    assert len(part.stages) == (1 if scale is None else 2)
    if scale is not None:
        assert part.stages[1].series.mechanism.scale == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize("case", BEFORE)
def test_what_is_claimed_of_an_answer_is_what_the_noise_covers(case):
    """The computed answer about a real table: as many numbers as said, bounded as said, within its extent, in the
    mechanism's norm."""
    settings = BEFORE[case][0]
    terms = make_terms(120, 80, epsilon=0.8, **settings)
    make = class_table if terms.model.classifies else regression_table
    agreement = parley.Owner("a", make(120).assign(who=np.arange(120) // 2)).prepare(terms)
    theta = np.array([0.3, -4.0, 1.0])
    queries = {
        "gradient": lambda k: GradientQuery.ask(terms.hash, "learner", k, theta),
        "update": lambda k: UpdateQuery.ask(terms.hash, "learner", k, theta, 3),
        "statistics": lambda k: StatisticsQuery.ask(terms.hash, "learner", k),
        "score": lambda k: ScoreQuery.ask(terms.hash, "learner", k, theta),
    }
    for stage in agreement.part.stages:
        query = queries[stage.question.asks.kind](stage.rounds[-1])
        assert agreement.part.check(query, ()) is stage
        answer, mechanism = stage.question.bounded(query, agreement.tables), stage.series.mechanism
        assert answer.value.shape == (stage.question.size,)
        assert answer.sensitivity == mechanism.sensitivity
        assert answer.norm == mechanism.norm == stage.question.norm
        assert stage.question.extent.holds(answer.value)
        assert stage.question.records == (30 if stage.question.asks is ScoreQuery else len(agreement.tables.train))
        assert f"{stage.question.records:,}" in stage.question.words()


def test_costs_of_training_and_score_add_up():
    part = resolve(make_terms(120, epsilon=0.8, **SCORED)).part("a")
    training, score = part.stages
    assert (part.epsilon, part.delta, part.rounds, part.gaps) == (Fraction(4, 5), 0, 11, False)
    assert ([*training.rounds], [*score.rounds]) == ([*range(1, 11)], [11])
    assert [part.cost(k, k) for k in (1, 4, 10)] == [Fraction(11, 200) * k for k in (1, 4, 10)]
    assert part.cost(11, 11) == Fraction(4, 5)
    assert part.cost(11, 1) == Fraction(1, 4)  # who missed all of training pays for the score alone
    assert part.cost(11, 4) == Fraction(1, 4) + 3 * Fraction(11, 200)
    plain = resolve(make_terms(120, epsilon=0.8)).part("a")
    assert plain.stages == (plain.training,)
    assert (plain.rounds, plain.cost(10, 10), plain.cost(10, 2)) == (10, Fraction(4, 5), Fraction(4, 25))


@pytest.mark.parametrize("number", [0, -1, 12, 10**9])
def test_a_round_that_no_stage_has_is_out_of_order(number):
    part = resolve(make_terms(120, **SCORED)).part("a")
    with pytest.raises(
        OutOfOrder, match=f"round {number}: the terms have no question for a in this round; the last round for a is 11"
    ):
        part.stage(number)


def test_a_stage_answers_its_own_kind_of_question():
    part = resolve(make_terms(120, **SCORED)).part("a")
    gradient, score = (
        lambda k, kind=kind: kind.ask("t", "learner", k, np.zeros(3)) for kind in (GradientQuery, ScoreQuery)
    )
    assert part.check(gradient(10), ()) is part.stages[0]
    assert part.check(score(11), ()) is part.stages[1]
    for query, kind in (
        (gradient(11), "score"),
        (score(10), "gradient"),
        (StatisticsQuery.ask("t", "learner", 3), "gradient"),
    ):
        with pytest.raises(Malformed, match=f"the terms set the kind '{kind}'"):
            part.check(query, ())


def strided(*sizes, strides=STRIDES, epsilon=1.0, **overrides):
    terms = make_terms(*sizes, epsilon=epsilon, **overrides)
    return terms.changed(owners={part.name: {"stride": s} for part, s in zip(terms.owners, strides, strict=True)})


@pytest.mark.parametrize("privacy", [{}, GAUSSIAN])
def test_who_is_asked_less_often_adds_less_noise_for_the_same_epsilon(privacy):
    """Noise is calibrated for the owner's own number of answers: Laplace noise grows with it, Gaussian noise with its
    square root."""
    setup = resolve(strided(100, 100, 100, 100, learning__horizon=20, **privacy))
    series = [part.training.series for part in setup.parts.values()]
    assert [each.count for each in series] == [20, 10, 4, 2]
    assert [part.gaps for part in setup.parts.values()] == [False, True, True, True]
    assert [part.rounds for part in setup.parts.values()] == [20, 19, 16, 11]
    deviations = np.sqrt([each.mechanism.variance for each in series])
    power = 0.5 if privacy else 1.0
    np.testing.assert_allclose(deviations / deviations[0], (np.array([20, 10, 4, 2]) / 20) ** power, rtol=1e-6)
    for part in setup.parts.values():
        rounds = part.training.rounds
        assert part.cost(rounds[-1], len(rounds)) == 1
        assert 0 < part.cost(rounds[0], 1) < 1


def test_the_score_comes_after_the_last_round_of_all():
    part = resolve(strided(100, 100, strides=(1, 4), learning__horizon=10, **SCORED)).part("b")
    assert ([*part.training.rounds], [*part.stages[1].rounds]) == ([1, 5, 9], [11])
    assert (part.rounds, part.gaps) == (11, True)
    assert part.cost(9, 3) == Fraction(3, 4)
    assert part.cost(11, 4) == 1


def test_an_owner_out_of_turn_is_not_asked_and_does_not_answer(tmp_path):
    terms = strided(200, 100, strides=(1, 3), learning__horizon=7)
    owner = parley.Owner("b", regression_table(100), ledger=Ledger(tmp_path / "b.ledger", lifetime=1.0))
    owner.accept(terms)

    def ask(k, shift=0.0):
        return owner.answer(GradientQuery.ask(terms.hash, "learner", k, np.full(3, shift)))

    ask(1)
    for k in (2, 3, 5, 8):
        with pytest.raises(OutOfOrder, match="have no question for b in this round; the last round for b is 7"):
            ask(k)
    ask(7)
    with pytest.raises(OutOfOrder, match="no further round"):
        ask(4)  # it was missed, and is never answered later
    account = owner.ledger.account(terms.hash)
    assert (account.spent, account.answers, account.answered) == (Fraction(2, 3), 2, 7)
    owner.ledger.verify()


@pytest.mark.parametrize("turns", ["strides", "participation"])
@pytest.mark.parametrize("privacy", [{}, GAUSSIAN])
def test_every_ledger_ends_at_exactly_its_epsilon(tmp_path, turns, privacy):
    """However often each was asked: a release by durable ledgers, and the same answers again for free."""
    if turns == "strides":
        terms = strided(200, 100, 60, 50, learning__horizon=20, **privacy)
    else:
        terms = make_terms(200, 100, 60, 50, learning__horizon=20, learning__participation=0.3, **privacy)
    delta = privacy.get("privacy__delta", 0.0)
    owners = [
        parley.Owner(
            part.name,
            regression_table(part.records, i),
            ledger=Ledger(tmp_path / part.name, lifetime=1.0, lifetime_delta=delta),
        )
        for i, part in enumerate(terms.owners)
    ]
    for owner in owners:
        owner.accept(terms)
    result = parley.train(terms, owners)
    counts = [len(resolve(terms).part(owner.name).training.rounds) for owner in owners]
    assert counts == ([20, 10, 4, 2] if turns == "strides" else [5, 5, 5, 5])
    assert [outcome.answers for outcome in result.owners] == counts
    for owner, count in zip(owners, counts, strict=True):
        account = owner.ledger.account(terms.hash)
        assert (account.spent, account.answers) == (1, count)
        owner.ledger.verify()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)


def test_parts_are_resolved_once_and_for_the_names_of_the_terms():
    setup = resolve(make_terms(120, 80))
    assert setup.part("b") is setup.part("b") is setup.parts["b"]
    assert [*setup.parts] == ["a", "b"]
    assert setup.hash == setup.terms.hash
    with pytest.raises(TermsError, match="the terms have no owner 'c'"):
        setup.part("c")


def test_other_budgets_keep_the_preparation():
    setup = resolve(make_terms(120, epsilon=1.0))
    other = setup.under(make_terms(120, epsilon=2.0))
    assert other.preparation is setup.preparation
    assert other.part("a").training.series.mechanism.scale == pytest.approx(
        setup.part("a").training.series.mechanism.scale / 2, rel=1e-12
    )


def test_terms_that_bound_nothing_are_refused_when_a_part_is_resolved():
    with pytest.raises(TermsError, match=r"privacy\.clip: expected a number, or bounds"):
        resolve(make_terms(50, model__kind="linear-svm", privacy__clip=None)).part("a")


def test_rows_are_those_of_the_setup_that_bounds_them(tmp_path):
    """A public sample that changed under its name: bounds of the one and rows of the other would be noise for another
    question."""

    sample = regression_table(50)
    sample.to_csv(tmp_path / "public.csv", index=False)
    terms = make_terms(60, model__public=str(tmp_path / "public.csv"), privacy__clip=None)
    owner = parley.Owner("a", regression_table(60), ledger=Ledger(tmp_path / "a.ledger", lifetime=5.0))
    before = owner.prepare(terms)
    sample.assign(x0=np.sign(sample["x0"])).to_csv(tmp_path / "public.csv", index=False)
    after = owner.prepare(resolve(terms.changed(everyone={"epsilon": 2.0})))
    assert after.setup.preparation is not before.setup.preparation
    limit = after.setup.preparation.feature_bound
    assert (np.abs(after.tables.train.X) <= limit).all()
    assert not (np.abs(before.tables.train.X) <= limit).all()  # the rows that must not be taken


def test_terms_whose_noise_cannot_be_drawn_are_refused_before_anything_is_reserved(tmp_path):
    owner = parley.Owner("a", regression_table(60), ledger=Ledger(tmp_path / "a.ledger", lifetime=1e13))
    for epsilon in (1e-14, 1e12):
        with pytest.raises(parley.errors.SettingError):
            owner.accept(make_terms(60, epsilon=epsilon, learning__horizon=300))
    assert owner.ledger.reserved == (0, 0)


def test_terms_with_and_without_a_column_of_persons_do_not_share_their_features():
    table = regression_table(60).assign(id=range(60))
    owner = parley.Owner("a", table)
    one = make_terms(60, model__features=None, privacy__person="id")
    other = make_terms(60, model__features=None)
    assert owner.prepare(one).setup.preparation.features == ("x0", "x1", "x2")
    assert owner.prepare(other).setup.preparation.features == ("x0", "x1", "x2", "id")
