"""The pair of tables is found within what terms allow, whatever columns they have."""

import numpy as np
import pandas as pd
import pytest
from samples import make_terms, patients

import parley
from parley.audit.canary import CanarySearch, ends
from parley.audit.exact.enumeration import exact_verdicts
from parley.audit.runs import audit_owner
from parley.errors import TermsError
from parley.owner.owner import Owner
from parley.protocol.setup import resolve


@pytest.fixture
def exported(tmp_path):
    """Terms as `parley init` writes them: names, gaps, people, a public sample."""
    patients(200, 1, "public").to_csv(tmp_path / "public.csv", index=False)
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": "logistic-regression",
                "target": "outcome",
                "positive": "diseased",
                "features": ["age", "income", "job", "smoker"],
                "coding": "one-hot",
                "missing": "fill",
                "public": str(tmp_path / "public.csv"),
                "holdout": 0.2,
                "transforms": {"income": "log"},
            },
            "learning": {"horizon": 2, "step": 0.5},
            "privacy": {"clip": 0.5, "person": "patient_id", "records_per_person": 2},
            "owners": [{"name": name, "records": 120, "epsilon": 1.0} for name in "ab"],
        }
    )


def test_columns_of_names_and_gaps_lead_to_tables_that_an_owner_takes(exported):
    setup = resolve(exported)
    pair = CanarySearch(setup, "a").neighbours()
    assert len(pair.a) == len(pair.b) == 122  # two rows more of the canary than count
    differ = ~((pair.a == pair.b) | (pair.a.isna() & pair.b.isna())).all(axis=1)
    assert (pair.a["patient_id"][differ] == "canary").all()
    assert pair.a["outcome"].notna().sum() == 4
    tables = Owner("a", pair.a).prepare(setup).tables
    assert int(tables.train.in_memory().present.sum()) == 2
    verdict = audit_owner(exported, "a", 4000, seed=1)
    assert 0.1 < verdict.lower_bound <= 1
    assert all(answer.holds for answer in exact_verdicts(setup, "a"))


def test_no_side_of_the_pair_reads_a_table(exported):
    setup = resolve(exported.changed(owners={"a": {"data": "nowhere.csv"}}))
    assert isinstance(CanarySearch(setup, "a").empty_table, pd.DataFrame)
    assert CanarySearch(setup, "b").empty_table["outcome"].isna().all()


def test_the_search_is_the_same_every_time_and_says_when_nothing_moves():
    setup = resolve(make_terms(30))
    one, two = (CanarySearch(setup, "a").neighbours() for _ in range(2))
    assert one.a.equals(two.a)
    assert one.b.equals(two.b)
    flat = CanarySearch(setup, "a")
    flat.__dict__["_candidates"] = [{"x0": 0.0, "x1": 0.0, "x2": 0.0, "y": 0.0}] * 2
    with pytest.raises(TermsError, match="no row changes"):
        flat.neighbours()


def test_canaries_lie_at_the_ends_of_bounds():
    setup = resolve(make_terms(30, model__bounds={"x0": [-1, 1], "x1": [0, 2], "x2": [-1, 1], "y": [-3, 3]}))
    pair = CanarySearch(setup, "a").neighbours()
    rows = [table[table["y"].notna()].iloc[0] for table in (pair.a, pair.b)]
    assert {abs(row["y"]) for row in rows} == {3.0}
    assert all(np.isin(row[["x0", "x2"]].to_numpy(dtype=float), (-1, 0, 1)).all() for row in rows)
    assert ends(-np.inf, 5.0) == (-100.0, 5.0)
