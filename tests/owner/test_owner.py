import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import BOUNDS, class_table, make_terms, regression_table

import parley
from parley.errors import (
    BudgetExhausted,
    DataError,
    GuaranteeError,
    Malformed,
    OutOfOrder,
    OutsideBox,
    Refusal,
    TermsError,
    UnknownTerms,
)
from parley.losses import LinearSVM
from parley.losses.local_update import local_update
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms import FastNoise, SafeNoise
from parley.privacy.mechanisms.gaussian import gaussian_ratio
from parley.protocol.queries import GradientQuery, ScoreQuery, UpdateQuery


def releasing(tmp_path, terms, lifetime=1.0, n=200):
    owner = parley.Owner("a", regression_table(n), ledger=Ledger(tmp_path / "a.ledger", lifetime=lifetime))
    owner.accept(terms)
    return owner


def ask(terms, k, theta=(0.0, 0.0, 0.0), **changes):
    return GradientQuery.ask(
        changes.get("hash", terms.hash), "learner", k, np.array(theta, dtype=changes.get("dtype", np.float64))
    )


def exact_gradient(agreement, theta):
    return agreement.setup.objective.mean_gradient(
        agreement.tables.train, theta, agreement.part.training.question.bound
    )


def test_an_answer_is_the_clipped_mean_gradient_plus_noise_of_theorem_1():
    """Noise scale 2 Xi T/(n eps), from 1e6 samples within 1 %; half of it would be noticed."""
    n, clip, horizon, epsilon = 200, 4.0, 10, 0.5
    terms = make_terms(n, epsilon=epsilon, learning__horizon=horizon, privacy__clip=clip)
    study = parley.Owner("a", regression_table(n)).simulate(seed=1, replicates=350_000)
    agreement = study.accept(terms)
    theta = np.broadcast_to(np.array([0.3, -0.2, 0.1]), (350_000, 3))
    answer = study.answer(GradientQuery.ask(terms.hash, "learner", 1, theta)).value
    exact = exact_gradient(agreement, theta[0])
    scale = 2 * clip * horizon / (n * epsilon)
    noise = (answer - exact).ravel()
    assert noise.size >= 10**6
    assert np.abs(noise).mean() == pytest.approx(scale, rel=0.01)
    assert np.sqrt(noise.var() / 2) == pytest.approx(scale, rel=0.01)
    assert abs(noise.mean()) < 5 * scale * np.sqrt(2 / noise.size)


def test_safe_noise_of_a_release_has_the_same_scale(tmp_path):
    terms = make_terms(200, epsilon=1.0, learning__horizon=400)
    owner = releasing(tmp_path, terms)
    agreement = owner.agreement(terms.hash)
    exact = exact_gradient(agreement, np.zeros(3))
    noise = np.array([owner.answer(ask(terms, k)).value - exact for k in range(1, 401)])
    scale = 2 * 4.0 * 400 / 200
    assert np.abs(noise).mean() == pytest.approx(scale, rel=4 / np.sqrt(noise.size))


@pytest.mark.parametrize("shared", [1, 2])
def test_shared_records_divide_the_budget_of_the_noise(shared):
    terms = make_terms(200, 200, privacy__shared_records=shared)
    agreement = parley.Owner("a", regression_table(200)).accept(terms)
    assert agreement.part.training.series.mechanism.scale == pytest.approx(shared * 2 * 4.0 * 10 / 200, rel=1e-6)
    assert agreement.part.cost(1, 1) == Fraction(1, 10)


def test_records_per_person_multiply_the_noise_of_local_updates_and_scores():
    """Numbers written out: n = 100 of 125 rows train, m = 25 score; k = 2 rows a person."""
    table = regression_table(125).assign(who=np.arange(125) // 2)
    terms = make_terms(
        125,
        model__holdout=0.2,
        model__bounds=BOUNDS,
        learning__algorithm="federated-averaging",
        learning__local_steps=3,
        learning__step="auto",
        learning__horizon=4,
        privacy__clip=0.5,
        privacy__score_epsilon=0.2,
        privacy__person="who",
        privacy__records_per_person=2,
    )
    agreement = parley.Owner("a", table).prepare(terms)
    direction = np.sqrt(3) * 2 * 2 * 0.5 / 100
    assert agreement.part.training.series.mechanism.scale == pytest.approx(4 / 0.8 * direction, rel=1e-6)
    training, score = agreement.part.stages
    assert score.series.mechanism.scale == pytest.approx(13 / 4 * 2 / 25 / 0.2, rel=1e-6)
    at = np.full(3, 0.1)
    update = training.question.bounded(UpdateQuery.ask(terms.hash, "learner", 1, at, 3), agreement.tables)
    judged = score.question.bounded(ScoreQuery.ask(terms.hash, "learner", 5, at), agreement.tables)
    assert update.sensitivity == pytest.approx(direction, rel=1e-6)
    assert judged.sensitivity == pytest.approx(13 / 4 * 2 / 25, rel=1e-6)


def test_terms_cannot_be_copied_past_their_checks(tmp_path):
    """Local steps on a hinge, which terms forbid, have no way in: copies are refused, changes are checked, and the
    update checks once more."""
    terms = make_terms(
        100,
        model__kind="logistic-regression",
        model__bounds={name: BOUNDS[name] for name in ("x0", "x1", "x2")},
        learning__algorithm="federated-averaging",
        learning__local_steps=3,
        learning__step="auto",
    )
    for section in (terms, terms.model, terms.learning, terms.privacy, terms.owners[0]):
        with pytest.raises(TypeError, match="changed"):
            section.model_copy(update={})
    with pytest.raises(TermsError, match="hinge"):
        terms.changed(model={"kind": "linear-svm"})
    owner = parley.Owner("a", class_table(100), ledger=parley.Ledger(tmp_path / "a.ledger", lifetime=3.0))
    owner.accept(terms)
    setup = owner.agreement(terms.hash).setup
    with pytest.raises(TermsError, match="smooth"):
        local_update(terms, LinearSVM(), setup.preparation, setup.limits, setup.norm)
    with pytest.raises(TermsError, match="nobody"):
        terms.changed(owners={"nobody": {"epsilon": 1.0}})
    assert terms.changed(everyone={"epsilon": 1.0}).hash == terms.hash  # nothing changed
    assert terms.changed(everyone={"epsilon": 2.0}).hash != terms.hash


def test_records_per_person_multiply_the_noise():
    table = regression_table(300).assign(who=np.repeat(range(100), 3))
    terms = make_terms(300, privacy__person="who", privacy__records_per_person=3)
    agreement = parley.Owner("a", table).accept(terms)
    assert agreement.part.training.series.mechanism.scale == pytest.approx(3 * 2 * 4.0 * 10 / 300, rel=1e-6)


def test_debits_add_up_to_epsilon_and_round_t_plus_1_is_refused(tmp_path):
    terms = make_terms(200, epsilon=0.7, learning__horizon=30)
    owner = releasing(tmp_path, terms)
    for k in range(1, 31):
        owner.answer(ask(terms, k))
    assert float(owner.ledger.account(terms.hash).spent) == pytest.approx(0.7, abs=1e-9)
    assert owner.ledger.account(terms.hash).spent == Fraction(7, 10)
    with pytest.raises(OutOfOrder):
        owner.answer(ask(terms, 31))


def test_new_terms_on_the_same_table_draw_on_the_same_lifetime_budget(tmp_path):
    first, second = make_terms(200, epsilon=0.7), make_terms(200, epsilon=0.7, learning__horizon=11)
    owner = releasing(tmp_path, first)
    with pytest.raises(BudgetExhausted, match="lifetime budget"):
        owner.accept(second)


@pytest.mark.parametrize(
    ("theta", "refusal"),
    [
        (np.zeros(2), Malformed),
        (np.zeros((1, 3)), Malformed),
        (np.zeros((5, 3)), Malformed),
        (np.zeros(3, dtype=np.float32), Malformed),
        (np.zeros(3, dtype=np.int64), Malformed),
        (np.array([0.0, np.nan, 0.0]), Malformed),
        (np.array([0.0, np.inf, 0.0]), Malformed),
        (np.array([0.0, 5.0000001, 0.0]), OutsideBox),
    ],
)
def test_a_parameter_of_the_wrong_kind_or_place_is_refused_for_free(tmp_path, theta, refusal):
    terms = make_terms(200)
    owner = releasing(tmp_path, terms)
    rows = owner.ledger.verify()
    with pytest.raises(refusal):
        owner.answer(GradientQuery.ask(terms.hash, "learner", 1, theta))
    assert owner.ledger.verify() == rows
    assert owner.ledger.account(terms.hash).spent == 0


def test_without_a_box_parameters_still_have_a_largest_size(tmp_path):
    terms = make_terms(200, model__radius=None)
    owner = releasing(tmp_path, terms)
    with pytest.raises(Malformed):
        owner.answer(ask(terms, 1, theta=(1e51, 0, 0)))
    assert np.isfinite(owner.answer(ask(terms, 1, theta=(1e50, -1e50, 1e50))).value).all()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, 1e-320, -1e300, 1.7e308, -1.0, 1e100]), min_size=4, max_size=4),
    st.sampled_from([0.0, 1e50, -1e50, 1.0]),
    st.sampled_from(["linear-regression", "linear-svm", "logistic-regression"]),
)
def test_no_record_turns_an_answer_into_nan(row, size, kind):
    """If one record could, its presence would show through any noise."""
    table = regression_table(20) if kind == "linear-regression" else class_table(20).astype(float)
    table.loc[3, ["x0", "x1", "x2"]] = row[:3]
    if kind == "linear-regression":
        table.loc[3, "y"] = row[3]
    terms = make_terms(20, model__kind=kind, model__radius=None, learning__horizon=1)
    study = parley.Owner("a", table).simulate(seed=0, replicates=1)
    agreement = study.accept(terms)
    theta = np.full((1, agreement.setup.parameters), size) * np.resize([1, -1], agreement.setup.parameters)
    assert np.isfinite(study.answer(GradientQuery.ask(terms.hash, "learner", 1, theta)).value).all()


@pytest.mark.parametrize(
    ("round", "name"), [(True, "x"), (1.0, "x"), (np.int64(1), "x"), (1, 5), (1, ""), (1, "y" * 201)]
)
def test_a_query_with_an_odd_round_or_id_is_refused_and_leaves_the_ledger_sound(tmp_path, round, name):  # noqa: A002
    terms = make_terms(200)
    owner = releasing(tmp_path, terms)
    with pytest.raises(Malformed):
        owner.answer(GradientQuery(name, terms.hash, "learner", round, np.zeros(3)))
    owner.ledger.close()
    assert Ledger(tmp_path / "a.ledger").account(terms.hash).answered == 0


def test_gaussian_noise_is_calibrated_for_all_rounds_and_ends_exactly_spent(tmp_path):
    terms = make_terms(200, epsilon=0.8, privacy__mechanism="gaussian", privacy__delta=1e-6, learning__horizon=40)
    owner = parley.Owner("a", regression_table(200), ledger=Ledger(tmp_path / "a.ledger", 0.8, 1e-6))
    series = owner.accept(terms).part.training.series
    assert series.mechanism.sigma == pytest.approx(math.sqrt(40) * 8.0 / 200 * gaussian_ratio(0.8, 1e-6), rel=1e-6)
    spent = [series.spent_after(k) for k in range(41)]
    assert all(a < b for a, b in itertools.pairwise(spent))
    for k in range(1, 41):
        owner.answer(ask(terms, k))
    assert owner.ledger.account(terms.hash).spent == Fraction(4, 5)
    with pytest.raises(OutOfOrder):
        owner.answer(ask(terms, 41))
    with pytest.raises(BudgetExhausted):
        owner.accept(make_terms(200, epsilon=0.1))


def test_preparing_reserves_nothing(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    owner = parley.Owner("a", regression_table(200), ledger=ledger)
    owner.prepare(make_terms(200))
    parley.alone(make_terms(200), owner)
    assert ledger.reserved == (0, 0)
    with pytest.raises(UnknownTerms):
        owner.answer(ask(make_terms(200), 1))


def test_the_private_table_is_not_taken_for_public(tmp_path):
    regression_table(50).to_csv(tmp_path / "a.csv", index=False)
    owner = parley.Owner("a", tmp_path / "a.csv")
    with pytest.raises(DataError, match="without private rows"):
        owner.prepare(make_terms(50, model__public=str(tmp_path / "a.csv")))


@pytest.mark.parametrize("kind", ["hard link", "symbolic link", "copy", "detour"])
def test_nor_is_another_name_of_it_or_a_copy(tmp_path, kind):
    regression_table(50).to_csv(tmp_path / "a.csv", index=False)
    public = tmp_path / "public.csv"
    if kind == "hard link":
        public.hardlink_to(tmp_path / "a.csv")
    elif kind == "symbolic link":
        public.symlink_to(tmp_path / "a.csv")
    elif kind == "copy":
        public.write_bytes((tmp_path / "a.csv").read_bytes())
    else:
        (tmp_path / "b").mkdir()
        public = tmp_path / "b" / ".." / "a.csv"
    with pytest.raises(DataError, match="own table, a part or a copy of the table"):
        parley.Owner("a", tmp_path / "a.csv").prepare(make_terms(50, model__public=str(public)))
    public.unlink()
    regression_table(50, seed=1).to_csv(tmp_path / "public.csv", index=False)
    regression_table(50).to_csv(tmp_path / "a.csv", index=False)
    parley.Owner("a", tmp_path / "a.csv").prepare(make_terms(50, model__public=str(tmp_path / "public.csv")))


def test_nor_are_files_of_a_streamed_table(tmp_path):
    """One of its files under another name, a copy of one, and whatever else lies in the folder."""
    folder, table = tmp_path / "table", regression_table(50)
    (folder / "old").mkdir(parents=True)
    table.iloc[:20].to_parquet(folder / "a.parquet")
    table.iloc[20:].to_parquet(folder / "b.parquet")
    (tmp_path / "link.parquet").hardlink_to(folder / "b.parquet")
    (tmp_path / "copy.parquet").write_bytes((folder / "a.parquet").read_bytes())
    (tmp_path / "inside.csv").symlink_to(folder / "old" / "c.csv")
    regression_table(9).to_csv(folder / "old" / "c.csv", index=False)
    for public in ("link.parquet", "copy.parquet", "inside.csv", "table/a.parquet", "table/old/c.csv"):
        with pytest.raises(DataError, match="own table, a part or a copy of the table"):
            parley.Owner("a", folder).prepare(make_terms(50, model__public=str(tmp_path / public)))
    regression_table(9).to_csv(tmp_path / "public.csv", index=False)
    parley.Owner("a", folder).prepare(make_terms(50, model__public=str(tmp_path / "public.csv")))


def test_the_promised_number_of_records_is_checked_whatever_was_prepared_before():
    owner = parley.Owner("a", regression_table(3))
    owner.prepare(make_terms(3, model__holdout=0.5))
    with pytest.raises(DataError, match="state 4 records"):
        owner.prepare(make_terms(4, model__holdout=0.5))


def test_unknown_terms_and_strangers_are_refused(tmp_path):
    terms = make_terms(200)
    owner = releasing(tmp_path, terms)
    with pytest.raises(UnknownTerms):
        owner.answer(ask(terms, 1, hash="0" * 64))
    with pytest.raises(UnknownTerms):
        owner.answer(GradientQuery.ask(terms.hash, "stranger", 1, np.zeros(3)))
    assert issubclass(UnknownTerms, Refusal)
    assert UnknownTerms.code == "unknown-terms"


def test_an_owner_that_releases_takes_only_safe_noise(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    with pytest.raises(GuaranteeError, match="noise must be safe"):
        parley.Owner("a", regression_table(10), ledger=ledger, noise=FastNoise(1))
    assert isinstance(parley.Owner("a", regression_table(10), ledger=ledger).noise, SafeNoise)
    with pytest.raises(GuaranteeError, match="does not take part in simulations"):
        parley.Owner("a", regression_table(10), ledger=ledger).simulate(1, 1)


def test_an_answer_asked_again_is_the_same_to_the_bit_also_after_a_restart(tmp_path):
    terms = make_terms(200)
    owner = releasing(tmp_path, terms)
    first = owner.answer(ask(terms, 1)).value
    np.testing.assert_array_equal(owner.answer(ask(terms, 1)).value, first)
    owner.ledger.close()
    again = parley.Owner("a", regression_table(200), ledger=Ledger(tmp_path / "a.ledger"))
    again.accept(terms)
    np.testing.assert_array_equal(again.answer(ask(terms, 1)).value, first)


def test_terms_that_bound_nothing_are_refused_at_acceptance():
    svm = make_terms(50, model__kind="linear-svm", privacy__clip=None)
    with pytest.raises(TermsError, match=r"privacy\.clip: expected a number, or bounds"):
        parley.Owner("a", class_table(50)).accept(svm)
    half = make_terms(50, privacy__clip=None, model__bounds={k: v for k, v in BOUNDS.items() if k != "y"})
    with pytest.raises(TermsError, match=r"privacy\.clip"):
        parley.Owner("a", regression_table(50)).accept(half)
    parley.Owner("a", regression_table(50)).accept(make_terms(50, privacy__clip=None, model__bounds=BOUNDS))


def test_a_table_that_does_not_fit_reserves_nothing(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", lifetime=1.0)
    owner = parley.Owner("a", regression_table(99), ledger=ledger)
    with pytest.raises(DataError):
        owner.accept(make_terms(100))
    assert ledger.reserved == (0, 0)
