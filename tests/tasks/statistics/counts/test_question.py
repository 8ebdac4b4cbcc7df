"""What one person can do to counts, from raw tables on: searched from tables of any cells, and mutants are found."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import parley
from parley.audit.exact.enumeration import answer_law, largest_log_ratio
from parley.audit.exact.pair_search import PairSearch
from parley.errors import DataError, TermsError
from parley.privacy.mechanisms.geometric import WholeGeometric
from parley.privacy.mechanisms.randomised_response import RandomisedResponse
from parley.protocol.queries import Tables
from parley.protocol.setup import resolve
from parley.tasks.statistics.counts import question as questions
from parley.tasks.statistics.counts.question import CountsQuery, placed
from parley.tasks.statistics.counts.terms import cell_names, step_ends

NAMES = {"categories": {"y": ["1", "2"]}}
STEPS = {"bounds": {"y": [-1.0, 1.0]}}


def terms(kind="histogram", model=None, privacy=None, records=20, epsilon=1.0):
    return parley.Terms.from_dict(
        {
            "model": {"kind": kind, "target": "y", **(model or NAMES)},
            "privacy": {"mechanism": "geometric", **(privacy or {})},
            "owners": [{"name": "a", "records": records, "epsilon": epsilon}],
        }
    )


def search(asked, tries=24):
    return PairSearch(resolve(asked), "a").climb(tries, 0)


CASES = {
    "a histogram of names": (terms(), 2.0),
    "a histogram of numbers": (terms(model={**STEPS, "bins": 3}), 2.0),
    "a count": (terms("count"), 1.0),
    "a count within bounds": (terms("count", STEPS), 1.0),
    "two rows of a person": (terms(privacy={"person": "who", "records_per_person": 2}), 4.0),
    "gaussian": (terms(privacy={"mechanism": "gaussian", "delta": 1e-6}), 2**0.5),
    "randomised response": (terms(privacy={"mechanism": "randomised-response"}), 2.0),
}


@pytest.mark.parametrize("case", CASES)
def test_replacing_a_person_moves_counts_as_far_as_is_claimed_and_no_further(case):
    asked, moved = CASES[case]
    question = resolve(asked).part("a").training.question
    assert question.sensitivity * question.records == pytest.approx(moved, rel=1e-12)
    found = search(asked)
    assert found.holds
    assert found.share > 0.99


@pytest.mark.parametrize("case", ["a histogram of names", "a histogram of numbers", "two rows of a person"])
def test_a_sensitivity_without_the_factor_two_is_found(case, monkeypatch):
    resolved = questions.CountsQuestion.resolve.__func__

    def halved(cls, context, owner):
        whole = resolved(cls, context, owner)
        return type(whole)(**{**vars(whole), "sensitivity": whole.sensitivity / 2})

    monkeypatch.setattr(questions.CountsQuestion, "resolve", classmethod(halved))
    assert not search(CASES[case][0]).holds


def test_a_row_that_counts_twice_is_found(monkeypatch):
    def exact(self, query, tables):
        found = tables.train.counts[: self.size] / self.records
        return found + np.roll(found, 1)

    monkeypatch.setattr(questions.CountsQuestion, "exact", exact)
    assert not search(terms("count", {"categories": {"y": ["1"]}})).holds


def test_bounds_that_follow_from_the_rows_are_found(monkeypatch):
    """Cells between the smallest and the largest of the rows: one person moves everybody."""

    def follows(model, rows, name):
        values = pd.to_numeric(pd.Series(rows["y"] if isinstance(rows, pd.DataFrame) else rows.column("y").to_pandas()))
        values = values.to_numpy(dtype=float, na_value=0.0)
        low, high = values.min(), max(values.max(), values.min() + 1e-300)
        with np.errstate(all="ignore"):
            share = np.nan_to_num((values - low) / (high - low) * 3)
        return np.clip(share, 0, 3).astype(np.int64)

    monkeypatch.setattr("parley.tasks.statistics.counts.question.placed", follows)
    assert not search(terms(model={**STEPS, "bins": 3}), 400).holds


def exact_cost(asked):
    """The exact cost of an answer about two tables that differ in one row."""
    setup = resolve(asked)
    stage, query = setup.part("a").training, CountsQuery.ask("h", "l", 1)
    laws = []
    for cell in ("1", "3"):
        made = setup.preparation.designs(pd.DataFrame({"y": [cell, *["1"] * 19]}), asked, "a")
        laws.append(answer_law(stage.question, query, Tables(*made), stage.series.mechanism))
    return largest_log_ratio(*laws)


@pytest.mark.parametrize("case", ["a histogram of names", "a count"])
def test_the_exact_law_of_an_answer_costs_all_of_epsilon_and_not_more(case):
    assert 1 - 1e-9 < exact_cost(CASES[case][0]) <= 1


def test_half_the_noise_on_counts_is_seen_in_the_exact_law(monkeypatch):
    calibrated = WholeGeometric.calibrate.__func__

    def quieter(cls, epsilon, *rest):
        made = calibrated(cls, epsilon, *rest)
        return type(made)(**{**vars(made), "scale": made.scale / 2})

    monkeypatch.setattr(WholeGeometric, "calibrate", classmethod(quieter))
    assert exact_cost(terms()) > 1.9


def test_where_cells_lie_and_where_rows_fall():
    model = terms(model={**STEPS, "bins": 2}).model
    assert cell_names(model) == ("-1 to 0", "0 to 1", "elsewhere")
    cells = [-1.0, -5e-324, 0.0, 1.0, 1.0000000000000002, -1e308, np.inf, np.nan]
    assert placed(model, pd.DataFrame({"y": cells}), "a").tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    names = pd.DataFrame({"y": ["1", "2.0", "3", None, "", "1.0"]})
    assert placed(terms().model, names, "a").tolist() == [0, 1, 2, 2, 2, 0]
    assert placed(terms("count").model, names, "a").tolist() == [0, 0, 1, 1, 1, 0]


@pytest.mark.parametrize(("bounds", "bins"), [((0, 100), 100), ((0.1, 0.4), 3), ((-0.3, 0.7), 10), ((1, 2), 7)])
def test_the_end_of_a_step_lies_in_the_step_above_it_and_the_number_before_in_the_one_below(bounds, bins):
    model = terms(model={"bounds": {"y": bounds}, "bins": bins}).model
    ends = np.array(step_ends(model))
    at, before = (placed(model, pd.DataFrame({"y": y}), "a") for y in (ends, np.nextafter(ends[1:], -np.inf)))
    assert at.tolist() == [*range(bins), bins - 1]
    assert before.tolist() == [*range(bins)]
    whole = placed(terms(model={"bounds": {"y": (0, 100)}, "bins": 100}).model, pd.DataFrame({"y": range(100)}), "a")
    assert whole.tolist() == [*range(100)]


def test_cells_can_be_told_apart_by_what_they_are_called():
    far = terms(model={"bounds": {"y": (1000000, 1000010)}, "bins": 5}).model
    assert cell_names(far)[:2] == ("1000000 to 1000002", "1000002 to 1000004")
    named = terms(model={"categories": {"y": ["elsewhere", "here"]}}).model
    assert cell_names(named) == ("elsewhere", "here", "elsewhere (not listed)")
    with pytest.raises(TermsError, match="wider bounds"):
        terms(model={"bounds": {"y": (1.0, 1.0000000000000004)}, "bins": 5})


@pytest.mark.parametrize("word", ["NA", "None", "null", "nan"])
@pytest.mark.parametrize("kind", ["histogram", "count"])
def test_a_listed_name_counts_where_others_write_it_for_a_gap(kind, word, tmp_path):
    asked = terms(kind, {"categories": {"y": [word, "2"]}}, records=6)
    table, preparation = pd.DataFrame({"y": [word, word, word, "2", "N/A", "x"]}), resolve(asked).preparation
    table.to_parquet(tmp_path / "a.parquet")
    counts = preparation.designs(tmp_path / "a.parquet", asked, "a")[0].counts
    assert counts.tolist() == ([3, 1, 2] if kind == "histogram" else [4, 2])
    gaps = pd.DataFrame({"y": [word, None, np.nan, "2", "N/A", "x"]}, dtype=object)
    assert placed(terms(model={"categories": {"y": [word, "2"]}}).model, gaps, "a").tolist() == [0, 2, 2, 1, 2, 2]
    table.to_csv(tmp_path / "a.csv", index=False)  # in which it cannot be told from a gap, so nothing is counted
    with pytest.raises(DataError, match="also means a missing cell in a CSV file"):
        preparation.designs(tmp_path / "a.csv", asked, "a")


def test_answers_are_shares_of_all_records():
    setup = resolve(terms(records=6))
    question = setup.part("a").training.question
    tables = Tables(*setup.preparation.designs(pd.DataFrame({"y": ["1", "1", "2", "x", None, "1"]}), setup.terms, "a"))
    query = CountsQuery.ask("h", "l", 1)
    question.check(query, ())
    assert question.bounded(query, tables, (2,)).value.tolist() == [[0.5, 1 / 6, 2 / 6]] * 2
    assert len(tables.train) == 6
    assert len(tables.held_out) == 0
    with pytest.raises(DataError, match="terms for counts"):
        question.exact(query, Tables(object(), object()))


def test_noise_by_the_terms_and_records_at_several_owners():
    several = terms().changed()
    several = parley.Terms.from_dict(
        {
            "model": several.model.model_dump(exclude_none=True),
            "privacy": {"mechanism": "geometric", "shared_records": 2},
            "owners": [{"name": name, "records": 20, "epsilon": 0.5} for name in "ab"],
        }
    )
    noise = resolve(several).part("a").training.series.mechanism
    assert isinstance(noise, WholeGeometric)
    assert Fraction(2) / Fraction(noise.scale) <= Fraction(1, 4)
    response = resolve(CASES["randomised response"][0]).part("a").training.series
    assert isinstance(response.mechanism, RandomisedResponse)
    assert response.mechanism.cells == 3
    assert response.spent_after(1) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"kind": "histogram", "target": "y"}}, "list the names to count"),
        ({"model": {"kind": "count", "target": "y", **NAMES, **STEPS}}, "not both"),
        ({"model": {"kind": "histogram", "target": "y", **NAMES, "features": ["x"]}}, "features"),
        ({"model": {"kind": "histogram", "target": "y", **NAMES, "holdout": 0.5}}, "counts every row"),
        ({"model": {"kind": "count", "target": "y", **STEPS, "bins": 3}}, "bins"),
        ({"model": {"kind": "histogram", "target": "y", **NAMES, "bounds": {"x": [0, 1]}}}, "bounds.x"),
        ({"privacy": {"mechanism": "laplace"}}, "expected 'geometric'"),
        ({"privacy": {"mechanism": "geometric", "clip": 1.0}}, "privacy.clip: not allowed for counts"),
        ({"privacy": {"mechanism": "randomised-response", "noise": "shared", "delta": 1e-6}}, "randomised separately"),
        ({"learning": {"horizon": 2}}, "horizon"),
        ({"learning": {"algorithm": "gradient-descent"}}, "'counts'"),
        ({"owners": [{"name": "a", "records": 2**47, "epsilon": 1.0}]}, "in all"),
    ],
)
def test_terms_that_make_no_sense_are_refused(change, said):
    content = {
        "model": {"kind": "histogram", "target": "y", **NAMES},
        "privacy": {"mechanism": "geometric"},
        "owners": [{"name": "a", "records": 9, "epsilon": 1.0}],
        **change,
    }
    with pytest.raises(TermsError, match=said):
        parley.Terms.from_dict(content)


def test_noise_on_whole_numbers_need_not_be_named():
    content = terms().model.model_dump(exclude_none=True)
    owners = [{"name": "a", "records": 20, "epsilon": 1.0}]
    for privacy in ({}, {"privacy": {}}):
        assert parley.Terms.from_dict({"model": content, "owners": owners, **privacy}).hash == terms().hash


def test_answers_of_records_are_for_counts_alone():
    with pytest.raises(TermsError, match="a mechanism for counts is allowed only with kind = 'count' or 'histogram'"):
        parley.Terms.from_dict(
            {
                "model": {"kind": "linear-svm", "target": "y"},
                "privacy": {"mechanism": "randomised-response", "clip": 1.0},
                "owners": [{"name": "a", "records": 9, "epsilon": 1.0}],
            }
        )
