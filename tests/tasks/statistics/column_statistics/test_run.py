"""Column statistics first, a model afterwards: what is read from noisy counts, what it costs, and that the ledgers hold
both."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import parley
from parley.errors import LedgerError, Refusal, TermsError
from parley.privacy.mechanisms.name_counts import MAX_NAMES
from parley.tasks.statistics.column_statistics.question import CellColumn
from parley.tasks.statistics.column_statistics.run import _frequent, ask_column_statistics
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement, ready_terms

ROWS = 6000
FEATURES = ["age", "income", "job", "year"]


def people(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(8, 0.6, rows)) * (rng.random(rows) > 0.2)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 91, rows).astype(str),
            "income": income,
            "job": rng.choice(["nurse", "clerk", "miner"], rows, p=[0.5, 0.3, 0.2]),
            "year": rng.integers(1995, 2021, rows),
        }
    )
    frame["spend"] = 0.1 * income + 5 * frame["age"].astype(float) + rng.normal(0, 40, rows)
    frame.loc[rng.random(rows) < 0.1, "age"] = None
    frame.loc[0, "job"] = "the only astronaut"
    return frame


def terms(epsilon=1.0, scale_epsilon=0.5, mechanism="gaussian", delta=1e-6, model=None, owners=("a", "b"), **privacy):
    return parley.Terms.from_dict(
        {
            "title": "People",
            "model": {
                "kind": "linear-regression",
                "target": "spend",
                "features": FEATURES,
                "intercept": True,
                "coding": "one-hot",
                "missing": "fill",
                "radius": 10.0,
                **(model or {}),
            },
            "learning": {"horizon": 5},
            "privacy": {"mechanism": mechanism, "delta": delta, "clip": 5.0, "scale_epsilon": scale_epsilon, **privacy},
            "owners": [{"name": name, "records": ROWS, "epsilon": epsilon} for name in owners],
        }
    )


@pytest.fixture(scope="module")
def tables():
    return {name: people(place) for place, name in enumerate("ab")}


def study(agreed, tables, seed=0):
    return ask_column_statistics(agreed, [parley.Owner(name, table) for name, table in tables.items()], seed)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_centres_scales_and_names_are_those_of_the_tables(tables, seed):
    result = study(terms(), tables, seed)
    model, everybody = result.ready.terms.model, pd.concat(tables.values())
    assert not result.ready.notes
    assert model.categories == {"job": ("clerk", "miner", "nurse")}  # and not the astronaut
    for column in ("age", "income", "year", "spend"):
        values = everybody[column].dropna().astype(float)
        low, high = model.bounds[column]
        inner, extent = np.quantile(values, [0.1, 0.9]), values.max() - values.min()
        assert low <= inner[0]
        assert high >= inner[1]
        assert high - low < 1.3 * extent + 0.03 * abs(values).max()  # a few bins of an octave
        bounded = values.clip(low, high)
        assert abs(model.centres[column] - bounded.mean()) < 0.3 * bounded.std()
        assert 0.6 < model.scales[column] / bounded.std() < 1.8
    age = next(column for column in result.columns if column.column == "age")
    assert abs(age.missing - 0.1) < 0.03


def test_what_drowns_in_noise_is_said_and_not_made_up(tables):
    result = study(terms(scale_epsilon=0.002), tables)
    assert {column.kind for column in result.columns} == {"unclear"}
    assert len(result.ready.notes) == len(FEATURES) + 1
    assert not result.ready.terms.model.bounds
    assert not result.ready.terms.model.categories


@pytest.mark.parametrize("scale_epsilon", [0.3, 0.6])
def test_where_noise_hides_much_no_range_is_cut(scale_epsilon):
    """Ages in decades, a third of them from 8 on, beside columns that make the noise louder: whatever is read leaves at
    most a tenth of the rows out and as many as its own slip of three deviations."""
    rng = np.random.default_rng(1)
    rows = 1500
    ages = np.round(rng.uniform(6.6, 10.0, rows) ** 0.98, 1)
    table = pd.DataFrame(dict.fromkeys(["age", "income", "year", "spend"], ages))
    table["job"] = "nurse"
    agreed = terms(scale_epsilon=scale_epsilon, owners=("a",)).changed(everyone={"records": rows})
    out = []
    for seed in range(25):
        for column in study(agreed, {"a": table}, seed).columns:
            if column.kind == "numbers":
                out.append(np.mean((ages < column.low) | (ages > column.high)))
    assert len(out) > 20
    assert np.mean(np.array(out) > 0.2) < 0.02


def test_noise_alone_is_rarely_taken_for_rows():
    empty = {"a": pd.DataFrame(dict.fromkeys([*FEATURES, "spend"], [None] * ROWS))}
    agreed = terms(owners=("a",))
    found = [column.kind for seed in range(8) for column in study(agreed, empty, seed).columns]
    assert np.mean([kind != "unclear" for kind in found]) < 0.1


def test_declared_bounds_and_names_stay_and_are_not_asked_again(tables):
    declared = {"bounds": {"age": (0.0, 120.0)}, "categories": {"job": ("clerk", "nurse")}}
    result = study(terms(model=declared), tables)
    model = result.ready.terms.model
    assert model.bounds["age"] == (0.0, 120.0)
    assert abs(model.centres["age"] - 54) < 4
    assert model.categories == {"job": ("clerk", "nurse")}
    assert "job" not in [column.column for column in result.columns]


def test_scales_of_transformed_columns_are_in_transformed_units(tables):
    result = study(terms(model={"transforms": {"income": "log1p"}}), tables)
    model = result.ready.terms.model
    logs = np.log1p(np.clip(pd.concat(tables.values())["income"], *model.bounds["income"]))
    assert abs(model.centres["income"] - logs.mean()) < logs.std()
    assert 0.5 < model.scales["income"] / logs.std() < 2


def test_dates_are_asked_for_as_days(tables):
    first = pd.Timestamp("2015-01-01")
    days = {name: first + pd.to_timedelta(20 * (table["year"] - 1995), "D") for name, table in tables.items()}
    dated = {name: table.assign(joined=days[name].dt.strftime("%d.%m.%Y")) for name, table in tables.items()}
    agreed = terms(model={"features": ["joined"], "dates": {"joined": "%d.%m.%Y"}})
    assert column_statistics_agreement(agreed).model.dates == agreed.model.dates
    found = study(agreed, dated).ready.terms.model
    numbers = np.concatenate([(day - pd.Timestamp("1970-01-01")).dt.days for day in days.values()])
    low, high = found.bounds["joined"]
    assert found.dates == agreed.model.dates
    assert low < np.quantile(numbers, 0.05) < np.quantile(numbers, 0.95) < high
    assert found.centres["joined"] == pytest.approx(numbers.mean(), abs=numbers.std() / 3)


def test_the_classes_of_a_target_are_asked_by_name(tables):
    coded = {name: table.assign(grade=table["year"] % 3) for name, table in tables.items()}
    asked = terms(
        model={"kind": "softmax-regression", "target": "grade", "features": ["year", "income"], "intercept": None}
    )
    model = study(asked, coded).ready.terms.model
    assert model.categories == {"grade": ("0", "1", "2")}
    assert "grade" not in model.bounds
    names = terms(
        delta=0.0,
        mechanism="laplace",
        model={"kind": "softmax-regression", "target": "grade", "features": ["year"], "intercept": None},
    )
    assert any("model.categories.grade" in note for note in study(names, coded).ready.notes)


def test_without_a_delta_numbers_come_and_names_do_not(tables):
    result = study(terms(mechanism="laplace", delta=0.0), tables)
    assert "year" in result.ready.terms.model.bounds
    assert any("model.categories.job" in note for note in result.ready.notes)
    assert result.name_from == {}


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_both_debits_lie_in_one_ledger_to_the_last_digit_and_it_enforces_both(tables, tmp_path, mechanism):
    agreed = terms(epsilon=0.7, scale_epsilon=0.3, mechanism=mechanism, delta=1e-6)
    asked = column_statistics_agreement(agreed)
    owners = [
        parley.Owner(name, table, ledger=parley.Ledger(tmp_path / name, lifetime=0.7, lifetime_delta=1e-6))
        for name, table in tables.items()
    ]
    for owner in owners:
        owner.accept(asked)
    result = ask_column_statistics(agreed, owners)
    assert result.released
    assert result.spent == {"a": 0.3, "b": 0.3}
    ready = result.ready.terms
    assert [owner.epsilon for owner in ready.owners] == [0.4, 0.4]
    assert ready.privacy.delta == (9e-7 if mechanism == "gaussian" else 0.0)
    for owner in owners:
        owner.accept(ready)
    parley.train(ready, owners)
    for owner in owners:
        assert owner.ledger.account(asked.hash).spent == Fraction("0.3")
        assert owner.ledger.account(ready.hash).spent == Fraction("0.4")
        assert owner.ledger.reserved == (Fraction("0.7"), Fraction("1e-6"))
        owner.ledger.verify()
        with pytest.raises((LedgerError, Refusal)):  # the lifetime is used up: no third agreement
            owner.accept(asked.changed(title="once more"))
    again = ask_column_statistics(agreed, owners)  # a finished run repeats its stored answers, for nothing
    assert again.columns == result.columns
    assert again.spent == result.spent


def test_an_owner_that_accepted_only_the_scales_trains_nothing(tables, tmp_path):
    agreed = terms(owners=("a",))
    owner = parley.Owner("a", tables["a"], ledger=parley.Ledger(tmp_path / "a", lifetime=0.5, lifetime_delta=1e-6))
    owner.accept(column_statistics_agreement(agreed))
    ready = ask_column_statistics(agreed, [owner]).ready.terms
    with pytest.raises((LedgerError, Refusal)):
        owner.accept(ready)  # the lifetime had room for the scales alone


def test_one_noise_for_all_covers_the_scales(tables, tmp_path):
    agreed = terms().changed(privacy={"noise": "shared"}, hosts=("a", "b", "learner"))
    asked = column_statistics_agreement(agreed)
    assert asked.noise.summed
    owners = [
        parley.Owner(name, table, ledger=parley.Ledger(tmp_path / f"{name}.ledger", lifetime=1.0, lifetime_delta=1e-6))
        for name, table in tables.items()
    ]
    for owner in owners:
        owner.accept(asked)
    result = ask_column_statistics(agreed, owners)  # three hosts draw the noise
    assert result.spent == {"a": 0.5, "b": 0.5}
    assert result.bin_from < 0.8 * study(terms(), tables).bin_from
    assert {"age", "income", "year", "spend"} <= result.ready.terms.model.bounds.keys()
    (note,) = result.ready.notes  # names cannot be added up
    assert note.startswith(
        "job: a column of names, which are released only with a delta and each owner's own noise; list them in "
        "model.categories.job"
    )
    assert "left out of the features" in note
    assert "job" not in result.ready.terms.model.features
    simulated = study(agreed, tables).ready.terms.model.bounds
    assert simulated.keys() == result.ready.terms.model.bounds.keys()


def test_budgets_are_split_exactly_and_never_grow():
    rng = np.random.default_rng(0)
    # more digits than a float has
    long = zip(rng.uniform(1, 1000, 20).tolist(), rng.uniform(0, 1e-3, 20).tolist(), strict=True)
    for epsilon, part in ((1.0, 0.1), (0.3, 0.1), (1.1, 0.7), (3.3, 1.1), *long):
        agreed = terms(epsilon=epsilon, scale_epsilon=part)
        ready, asked = ready_terms(agreed, {}), column_statistics_agreement(agreed)
        left = Fraction(str(ready.owner("a").epsilon)) + Fraction(str(asked.owner("a").epsilon))
        assert Fraction(str(epsilon)) * (1 - Fraction(1, 10**12)) <= left <= Fraction(str(epsilon))
        assert Fraction(str(ready.privacy.delta)) + Fraction(str(asked.privacy.delta)) <= Fraction(
            str(agreed.privacy.delta)
        )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"scale_epsilon": 1.0}, "less than the epsilon of 'a'"),
        ({"scale_epsilon": 0.5, "model": {"public": "p.csv"}}, "model.public"),
        ({"scale_epsilon": None, "mechanism": "laplace"}, "privacy.delta: expected 0"),
    ],
)
def test_terms_that_cannot_be_are_refused(change, expected):
    with pytest.raises(TermsError, match=expected):
        terms(**change)


def test_terms_that_want_scales_first_learn_nothing_before(tables):
    with pytest.raises(TermsError, match="parley column-stats"):
        parley.train(terms(), [parley.Owner(name, table) for name, table in tables.items()])
    owners = [parley.Owner(name, table) for name, table in tables.items()]
    # the question itself: columns, and no model
    found = parley.train(column_statistics_agreement(terms()), owners, seed=1)
    assert [column.to_json() for column in found] == [
        column.to_json() for column in ask_column_statistics(terms(), owners, 1).columns
    ]
    with pytest.raises(TermsError, match="learn nothing"):
        parley.plan(column_statistics_agreement(terms()))


def test_the_same_columns_are_read_anew_for_a_model(tables):
    declared = {
        "intercept": None,
        "coding": "integer",
        "missing": "refuse",
        "radius": None,
        "features": ["year"],
        "bounds": {"year": (1990.0, 2030.0)},
    }
    asked = column_statistics_agreement(terms(owners=("a",), model=declared))
    owner = parley.Owner("a", tables["a"])
    owner.prepare(asked)
    learned = asked.changed(
        learning={"algorithm": "averaged-subgradient", "horizon": 5}, privacy={"clip": 5.0}, model={"radius": None}
    )
    assert learned.model == asked.model
    assert owner.prepare(learned).tables.train.in_memory().X.shape == (ROWS, 1)


def test_a_ledger_held_as_zcdp_refuses_names_and_takes_numbers(tables, tmp_path):
    ledger = parley.Ledger(tmp_path / "a", lifetime=3.0, lifetime_delta=1e-5, rule="zcdp")
    owner = parley.Owner("a", tables["a"], ledger=ledger)
    with pytest.raises(LedgerError, match="zCDP"):
        owner.accept(column_statistics_agreement(terms(owners=("a",))))
    owner.accept(column_statistics_agreement(terms(owners=("a",), mechanism="laplace", delta=0.0)))


def test_of_very_many_names_as_many_are_tried_as_could_come_out():
    """The most frequent ones: a column for every address would not fit into memory."""
    streets = [f"street {k}" for k in range(3000)]
    cells = CellColumn.from_rows(pd.DataFrame({"where": streets + streets[:70] + streets[:2]}), "where", "a")
    found = _frequent([cells], MAX_NAMES)
    assert len(found) == MAX_NAMES
    assert {*streets[:2]} <= {*found} <= {*streets[:70]}
    assert len(_frequent([cells, cells], None)) == 3000
