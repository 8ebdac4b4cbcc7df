"""Where people are held out, not rows: who is on which side, what is public of it, and what counts."""

import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from every_kind import EVERY_KIND, HELD_OUT_PEOPLE, with_held_out_people
from samples import BOUNDS, make_terms, regression_table

import parley
from parley.audit.exact.trial import StageQuestions
from parley.data.holdout import held_out_people, is_held_out, name_on_side
from parley.data.sources import open_table
from parley.errors import TermsError
from parley.learning.outcome.verdict import score
from parley.losses.score import error_figures, two_class_figures
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve

ROWS, PEOPLE = 120, 40


def crowd(names):
    """Rows of people, three each, in a random order."""
    who = np.random.default_rng(0).permutation(np.repeat(np.array(names, dtype=object), ROWS // PEOPLE))
    return regression_table(ROWS).assign(who=who)


TABLE = crowd([f"p{place}" for place in range(PEOPLE)])
TERMS = with_held_out_people(make_terms(ROWS, model__bounds=BOUNDS), 3).changed(model={"holdout": 0.25})
HELD = np.array([is_held_out(TERMS.model, name) for name in TABLE["who"]])


def sides(table, terms=TERMS):
    tables = parley.Owner("a", table).prepare(terms).tables
    return tables.train, tables.held_out


def test_all_rows_of_a_person_are_on_one_side_whatever_their_places():
    train, held_out = sides(TABLE)
    assert 0 < HELD.sum() < ROWS
    np.testing.assert_array_equal(train.present, ~HELD)
    np.testing.assert_array_equal(held_out.present, HELD)
    assert TABLE.assign(held=HELD).groupby("who")["held"].nunique().max() == 1
    order = np.random.default_rng(1).permutation(ROWS)
    np.testing.assert_array_equal(sides(TABLE.iloc[order])[0].present, ~HELD[order])


def test_sides_that_follow_from_places_are_noticed(monkeypatch):
    """The mutants: rows are hashed by their places, or a person's rows one by one."""
    by_place = np.array([is_held_out(TERMS.model, str(place)) for place in range(ROWS)])
    monkeypatch.setattr("parley.data.preparation.held_out_people", lambda *of: by_place)
    with pytest.raises(AssertionError):
        test_all_rows_of_a_person_are_on_one_side_whatever_their_places()


def test_rows_keep_their_places_and_count_on_one_side():
    whole, (train, held_out) = sides(TABLE, make_terms(ROWS, model__bounds=BOUNDS))[0], sides(TABLE)
    assert len(train) == len(held_out) == ROWS
    assert (train.divisor, held_out.divisor) == (90, 30)  # public, whoever is held out
    np.testing.assert_array_equal(train.X, whole.X * ~HELD[:, None])
    np.testing.assert_array_equal(held_out.X, whole.X * HELD[:, None])
    np.testing.assert_array_equal(train.weight + held_out.weight, np.ones(ROWS))


def test_a_gradient_is_the_sum_over_who_is_learned_from_divided_by_the_public_number():
    terms, theta = TERMS.changed(privacy={"clip": 1000.0}), np.array([0.3, -0.2, 0.1])
    agreement = parley.Owner("a", TABLE).prepare(terms)
    question = agreement.part.training.question
    found = question.exact(GradientQuery.ask("t", "l", 1, theta), agreement.tables)
    records = agreement.setup.risk.record_gradients(agreement.tables.train.in_memory().targeted(), theta)
    assert len(records) == (~HELD).sum() != question.records == 90
    np.testing.assert_allclose(found, records.sum(axis=0) / 90, rtol=1e-12)


@pytest.mark.parametrize("side", [False, True])
@pytest.mark.parametrize("case", ["gradient", "statistics", "leaf-sums", "batches", "update"])
def test_answers_lie_where_they_are_said_to_if_everybody_is_on_one_side(case, side):
    terms = HELD_OUT_PEOPLE[case].changed(model={"holdout": 0.9})
    names = [name_on_side(terms.model, f"p{place}", side) for place in range(40)]
    columns = {"x": 1.0, "c": "1"} if case == "leaf-sums" else {"x0": 100.0, "x1": 100.0, "x2": 100.0}
    table = pd.DataFrame({**columns, "y": 1 if case == "leaf-sums" else -3.0, "who": names})
    agreement = parley.Owner("a", table).prepare(terms)
    question, setup = agreement.part.training.question, agreement.setup
    query = StageQuestions(setup, "a", 0).query(0)
    found = np.abs(question.bounded(query, agreement.tables).value)
    size = found.sum() if question.extent.norm == "l1" else np.sqrt((found**2).sum())
    assert size <= question.extent.size
    assert found.max() <= np.max(question.extent.high)
    assert (size > 0) is not side
    if case in ("gradient", "statistics") and not side:
        assert size > question.bound.value  # what a mean of 40 rows would measure at most


FORMS = {
    "whole numbers": np.arange(1, PEOPLE + 1),
    "numbers": np.arange(1.0, PEOPLE + 1),
    "text": [str(place) for place in range(1, PEOPLE + 1)],
    "as tools write them": [f"{place}.0" for place in range(1, PEOPLE + 1)],
    "as databases pad them": [f"{place:<8}" for place in range(1, PEOPLE + 1)],
}


@pytest.mark.parametrize("form", FORMS)
def test_people_are_on_the_same_side_in_every_file(form, tmp_path):
    table = crowd(FORMS[form])
    expected = [is_held_out(TERMS.model, str(int(float(name)))) for name in table["who"]]
    typed = pa.Table.from_pandas(table.assign(who=pd.array(list(table["who"]))), preserve_index=False)
    pq.write_table(typed, tmp_path / "a.parquet")
    table.to_csv(tmp_path / "a.csv", index=False)
    for source in (table, tmp_path / "a.parquet", tmp_path / "a.csv"):
        np.testing.assert_array_equal(held_out_people(open_table(source), TERMS, "a", None), expected)


def test_the_rule_stays_as_it_is():
    """Parties of several versions must hold out the same people."""
    model = TERMS.changed(model={"holdout": 0.5, "holdout_seed": 7}).model
    for name in "abcdefghijkl":
        word = hashlib.shake_256(b"parley holdout by person" + bytes([7, *[0] * 7]) + name.encode()).digest(8)
        assert is_held_out(model, name) is (word[7] < 128)  # below a half
    assert [name for name in "abcdefghijkl" if is_held_out(model, name)] == list("bcdefgijk")
    shares = [np.mean([is_held_out(model, f"{seed}/{place}") for place in range(4000)]) for seed in range(3)]
    assert np.abs(np.array(shares) - 0.5).max() < 4 * np.sqrt(0.25 / 4000)


def test_terms_without_the_key_are_as_they_were_and_those_with_it_say_what_they_need():
    plain = make_terms(100, model__holdout=0.2, privacy__person="who")
    by_person = plain.changed(model={"holdout_by": "person"})
    assert "holdout_by" not in plain.canonical
    assert plain.hash == "bd12661dc262cf77178622df5d214061aae05ff84ed8dbf646788b504b1444b1"
    assert by_person.hash != plain.hash
    assert by_person.train_rows("a") == plain.train_rows("a") == plain.train_places("a") == 80
    with pytest.raises(TermsError, match=r"model.holdout_by: needs privacy.person"):
        make_terms(100, model__holdout=0.2, model__holdout_by="person")
    with pytest.raises(TermsError, match=r"model.holdout_by: allowed only with holdout"):
        make_terms(100, model__holdout_by="person", privacy__person="who")
    with pytest.raises(TermsError, match=r"holdout_by: not allowed with objective-perturbation.*Remove the key"):
        with_held_out_people(EVERY_KIND["minimum"])
    with pytest.raises(TermsError, match=r"holdout_by: not allowed for ratings"):
        EVERY_KIND["item-factors"].changed(model={"holdout": 0.2, "holdout_by": "person"})


def memorable(seed=0):
    """People of whom every row says who they are, and whose target nothing else tells."""
    rng, who = np.random.default_rng(seed), np.repeat(np.arange(50), 6)
    X = rng.normal(size=(50, 50)).clip(-3, 3)[who] + 0.05 * rng.normal(size=(300, 50))
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(50)])
    return table.assign(y=rng.uniform(-3, 3, 50)[who], who=[f"p{name}" for name in who])


def test_a_score_of_rows_is_too_good_where_people_have_several():
    table = memorable()
    columns = [f"x{j}" for j in range(50)]
    by_row = make_terms(
        300,
        epsilon=1e6,
        model__features=columns,
        model__bounds={**{column: [-4, 4] for column in columns}, "y": [-3, 3]},
        model__holdout=0.3,
        model__radius=None,
        learning__horizon=2,
        privacy__clip=1000.0,
        privacy__person="who",
        privacy__records_per_person=6,
    )
    by_person = by_row.changed(model={"holdout_by": "person"})
    found = [parley.train(terms, [parley.Owner("a", table)], seed=1).quality for terms in (by_row, by_person)]
    r2 = [each.optimal_metrics["r2"] for each in found]  # of the best model without privacy
    assert r2[0] > 0.5
    assert r2[1] < 0.0


def test_an_owner_sees_its_score_over_the_rows_that_are_held_out():
    owner = parley.Owner("a", TABLE)
    verdict = score(TERMS, owner, parley.train(TERMS, [owner], seed=1).model)
    assert verdict.rows == HELD.sum() != TERMS.held_out_rows("a")
    held_out, objective = owner.prepare(TERMS).tables.held_out.in_memory(), resolve(TERMS).risk
    losses = objective.record_losses(held_out, parley.train(TERMS, [owner], seed=1).model.theta_)
    assert verdict.costs["together"].mean == pytest.approx(losses.sum() / HELD.sum())
    assert verdict.rows_per_person == 1  # nobody who is scored is learned from, which would have to be said


@pytest.mark.parametrize(
    ("read", "sums", "wanted"),
    [
        (lambda shares, off: error_figures(shares, off, 2.0), [0.06, -0.4, 0.5, 1.1 / 4], {"mean_squared_error", "r2"}),
        (
            lambda shares, off: two_class_figures(shares, off, public=False),
            [0.4, 0.2, 0.1, 0.4],
            {"accuracy", "recall"},
        ),
    ],
)
def test_the_stated_error_is_that_of_the_ratio(read, sums, wanted):
    """Within 4 standard errors of a deviation over many draws; with the noise of the sums alone it is too small."""
    off, draws = 0.004, 40_000
    exact = {name: value for name, (value, _) in read(np.array(sums), 0.0).items()}
    noisy = read(np.array(sums) + np.random.default_rng(0).normal(0, off, (draws, 4)), off)
    for name in wanted:
        value, error = noisy[name]
        assert abs(value.mean() - exact[name]) < 0.1 * error.mean()
        assert value.std() == pytest.approx(float(np.median(error)), rel=4 / np.sqrt(2 * draws) + 0.01)


def test_a_score_whose_number_of_rows_drowns_says_nothing():
    for figures in (
        error_figures(np.array([0.1, 0.0, 0.3, 0.01]), 0.1, 1.0),
        two_class_figures(np.array([0.1, 0.0, 0.1, 0.0]), 0.1, public=False),
    ):
        assert all(np.isnan(value) and np.isnan(error) for value, error in figures.values())


def test_a_row_whose_target_cannot_be_read_is_refused_on_either_side():
    for place in (int(np.flatnonzero(HELD)[0]), int(np.flatnonzero(~HELD)[0])):
        table = TABLE.astype({"y": object})
        table.loc[place, "y"] = "much"
        with pytest.raises(parley.errors.DataError, match="column 'y'"):
            sides(table)


def test_how_many_people_are_held_out_is_in_nothing_that_is_agreed():
    """Setups and released records are the same for any names."""
    other = crowd([name_on_side(TERMS.model, f"q{place}", False) for place in range(PEOPLE)])
    results = [parley.train(TERMS, [parley.Owner("a", each)], seed=1) for each in (TABLE, other)]
    assert [result.owners[0].records for result in results] == [ROWS, ROWS]
    agreements = [parley.Owner("a", each).prepare(TERMS) for each in (TABLE, other)]
    numbers = [(a.part.training.question.sensitivity, a.part.training.question.records) for a in agreements]
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression"])
def test_a_released_score_is_that_of_the_rows_that_are_held_out(kind):
    """Within 4 stated standard errors, though the terms expect another number of rows than there are."""
    rows, two = 3000, kind == "logistic-regression"
    who = [f"p{place // 3}" for place in range(rows)]
    table = regression_table(rows).assign(who=who)
    table["y"] = (table["y"] > 0).astype(int) if two else table["y"]
    terms = make_terms(
        rows, epsilon=40.0, model__kind=kind, model__bounds=BOUNDS, model__holdout=0.3, privacy__score_epsilon=20.0
    )
    terms = terms.changed(model={"holdout_by": "person"}, privacy={"person": "who", "records_per_person": 3})
    owner = parley.Owner("a", table)
    result = parley.train(terms, [owner], seed=2)
    held_out = owner.prepare(terms).tables.held_out.in_memory().targeted()
    assert len(held_out) == sum(is_held_out(terms.model, name) for name in who) != terms.held_out_rows("a")
    said = resolve(terms).risk.scores(held_out.X, result.model.theta_)
    exact = (
        {"accuracy": np.mean((said > 0) == (held_out.y > 0))}
        if two
        else {"mean_squared_error": np.mean((np.clip(said, -3, 3) - held_out.y) ** 2)}
    )
    for name, value in exact.items():
        figure = result.scores.pooled.figures[name]
        assert abs(figure.value - value) < 4 * figure.standard_error
        assert figure.standard_error < 0.2 * value
    assert result.scores.pooled.expected
