"""Columns as they are: one-hot names, filled gaps, transforms, two classes by name. One record moves one row, and no
answer too far."""

import itertools
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples import data_path

import parley
from parley.data import encoding, fit_preparation, read_table
from parley.data.encoding import Encoding
from parley.data.preparation import Preparation
from parley.data.table import numbers
from parley.errors import DataError, TermsError
from parley.protocol.queries import GradientQuery, StatisticsQuery
from parley.tasks.prediction import _cells
from parley.terms import Terms

NAMES = ["rent", "own", "mortgage", "other"]
BOUNDS = {"age": [0.0, 100.0], "income": [-10.0, 1e6]}
GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-6}


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    home = rng.choice(NAMES, n).astype(object)
    age, income = rng.uniform(20, 90, n), rng.lognormal(10, 1, n)
    score = 0.04 * (age - 50) + (home == "own") - (home == "rent") + rng.normal(0, 1, n)
    frame = pd.DataFrame({"age": age, "income": income, "home": home, "paid": np.where(score > 0, "yes", "no")})
    frame.loc[::7, "age"] = np.nan
    frame.loc[::5, "home"] = None
    return frame


def make(records=40, model=None, learning=None, privacy=None, **keys):
    base = {"kind": "logistic-regression", "target": "paid", "positive": "yes", "features": ["age", "income", "home"]}
    base |= {"bounds": BOUNDS, "categories": {"home": NAMES}, "coding": "one-hot", "missing": "fill", "radius": 2.0}
    return Terms.from_dict(
        {
            "model": base | {"transforms": {"income": "signed-log1p"}} | (model or {}),
            "learning": {"horizon": 1} | (learning or {}),
            "privacy": privacy or {},
            "owners": [{"name": "a", "records": records, "epsilon": 1.0}],
        }
        | keys
    )


def test_rows_are_what_the_document_says():
    frame = pd.DataFrame(
        {
            "age": [30.0, None, 200.0, "NA"],
            "income": [0, 1e9, -1e300, "100"],
            "home": ["own", "tent", None, " n/a"],
            "paid": "no",
        }
    )
    preparation, _ = fit_preparation(make(4))
    assert preparation.labels == (
        *("age", "age missing", "income", "income missing"),
        *("home = rent", "home = own", "home = mortgage", "home = other", "home missing"),
    )
    X = preparation.matrix(frame, "a")
    # the middle of the bounds; clipped to them
    np.testing.assert_array_equal(X[:, :2], [[30, 0], [50, 1], [100, 0], [50, 1]])
    np.testing.assert_allclose(X[:, 2], [0, np.log1p(1e6), -np.log1p(10), np.log(101)])
    np.testing.assert_array_equal(X[:, 4:-1], [[0, 1, 0, 0, 0], [0] * 5, [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]])
    integer, _ = fit_preparation(make(4, {"coding": "integer"}))
    np.testing.assert_array_equal(integer.matrix(frame, "a")[:, 4], [1, 4, 5, 5])


def test_a_group_of_columns_counts_as_one():
    many = [f"name {i}" for i in range(300)]
    terms = make(
        model={"categories": {"home": many}, "features": ["age", "home"], "missing": "refuse", "transforms": {}}
    )
    terms = terms.changed(model={"bounds": {"age": [0.0, 1.0]}})
    preparation, _ = fit_preparation(terms)
    assert preparation.width == 302
    np.testing.assert_allclose(preparation.feature_bound, [1, 1, 1])  # age, a home, the constant
    assert (
        parley.Owner("a", table().fillna({"age": 0.5, "home": "x"})).prepare(terms).part.training.question.bound.value
        < 3.01
    )


NUMBERS = [
    0.0,
    -0.0,
    1e-300,
    5e-324,
    1e300,
    -1e300,
    1.7e308,
    50.0,
    100.0,
    1e50,
    -1.0,
    Decimal("3.5"),
    "12",
    " 7 ",
    True,
    "False",
]
GAPS = [None, float("nan"), pd.NA, pd.NaT, "", " ", "NA", "null", Decimal("NaN")]
HOSTILE = [
    "own",
    "rent",
    "tent",
    "own ",
    "OWN",
    "1",
    1,
    1.0,
    True,
    0.5,
    "x" * 5000,
    "\x00",
    "own; rent",
    "'); --",
    "𝔬𝔴𝔫",
    b"own",
]
CODINGS = [
    *(
        {"coding": coding, "missing": missing}
        for coding in ("one-hot", "integer")
        for missing in ("fill", {"home": "fill", "age": "fill"})
    ),
    {"coding": "one-hot", "missing": "fill", "transforms": {"age": "sqrt", "income": "signed-log1p"}},
    {
        "coding": "one-hot",
        "missing": "fill",
        "bounds": {"age": [1e-50, 1e50], "income": [0, 1e-50]},
        "transforms": {"age": "log"},
    },
]


def neighbouring(agreement, rows, frame):
    """All tables that hold one of `rows` in the place of the first; a row is prepared by itself, so all at once."""
    cells = dict(zip(frame.columns, zip(*rows, strict=True), strict=True))
    together = pd.DataFrame({name: pd.Series([*cells[name], *frame[name][1:]], dtype=object) for name in frame.columns})
    design = agreement.setup.preparation.design(together, "a")
    places = np.arange(len(together))
    rest = places[1 - len(frame) :]
    return [replace(agreement.tables, train=design.where(np.array([k, *rest]))) for k in places[: 1 - len(frame)]]


def farthest(agreement, frame, seed=0):
    """The largest distance of two neighbours' answers over the sensitivity: hostile rows, and parameters at the box's
    corners."""
    rng, size = np.random.default_rng(seed), agreement.setup.parameters
    fills = {e.column: e.fills for e in agreement.setup.preparation.encodings}
    columns = {"age": NUMBERS, "income": NUMBERS, "home": HOSTILE}
    cells = [known + (GAPS if fills.get(column) else []) for column, known in columns.items()]
    targets = (
        ["yes", "no", "perhaps", 1, "YES", " yes"]
        if agreement.setup.terms.model.classifies
        else [-1e300, 1e300, 0.0, 3]
    )
    cells.append(targets)
    worst = 0.0
    ends = itertools.product([1e300, -1e300], [1e300, -1e300], ["own", "tent"], targets[:2])
    always = neighbouring(agreement, list(ends), frame)
    corners = [np.full(size, 2.0), np.full(size, -2.0), *rng.choice([-2.0, 2.0], (2, size)), np.zeros(size)]
    for theta in corners:
        if agreement.setup.terms.learning.algorithm == "sufficient-statistics":
            query = StatisticsQuery.ask(agreement.hash, "learner", 1)
        else:
            query = GradientQuery.ask(agreement.hash, "learner", 1, theta)
        rows = [[column[rng.integers(len(column))] for column in cells] for _ in range(14)]
        tables = [*neighbouring(agreement, rows, frame), *always]
        bounded = [agreement.part.training.question.bounded(query, each) for each in tables]
        values = np.array([b.value for b in bounded])
        assert np.isfinite(values).all()
        order = 1 if bounded[0].norm == "l1" else 2
        distance = np.linalg.norm(values[:, None] - values[None], ord=order, axis=-1).max()
        worst = max(worst, distance / bounded[0].sensitivity)
    return worst


@pytest.mark.parametrize("privacy", [{}, GAUSSIAN, {"clip": 0.5, **GAUSSIAN}], ids=["bounds, l1", "bounds, l2", "clip"])
@pytest.mark.parametrize("coding", CODINGS, ids=range(len(CODINGS)))
def test_neighbours_move_an_answer_by_its_sensitivity_at_most(coding, privacy):
    frame = table(3)
    agreement = parley.Owner("a", frame).prepare(make(3, coding, privacy=privacy))
    assert 0.3 < farthest(agreement, frame) <= 1


@pytest.mark.parametrize("privacy", [{}, GAUSSIAN], ids=["l1", "l2"])
@pytest.mark.parametrize("algorithm", ["averaged-subgradient", "sufficient-statistics"])
def test_least_squares_and_second_moments_too(algorithm, privacy):
    frame = table(3).assign(paid=[1.0, 2.0, 3.0])
    bounds = {"age": [0.0, 3.0], "income": [-1.0, 1.0], "paid": [-2.0, 2.0]}
    model = {"kind": "linear-regression", "positive": None, "bounds": bounds}
    agreement = parley.Owner("a", frame).prepare(make(3, model, {"algorithm": algorithm}, privacy))
    assert 0.3 < farthest(agreement, frame) <= 1


@pytest.mark.parametrize("privacy", [{}, GAUSSIAN], ids=["l1", "l2"])
def test_columns_of_a_public_sample_too_and_one_hot_columns_are_0_and_1(tmp_path, privacy):
    table(60, seed=9).to_csv(tmp_path / "public.csv", index=False)
    frame = table(3)
    agreement = parley.Owner("a", frame).prepare(
        make(3, {"public": str(tmp_path / "public.csv"), "bounds": {}}, privacy=privacy)
    )
    assert 0.3 < farthest(agreement, frame) <= 1
    columns = agreement.setup.public.X[:, 4:9]
    assert set(columns.ravel()) == {0.0, 1.0}
    assert (columns.sum(axis=1) == 1).all()
    prepared = agreement.setup.preparation
    moved = replace(prepared, centre=np.where(np.arange(9) < 4, prepared.centre, 0.3))  # then several may differ from 0
    assert len(moved.feature_bound) == 10
    assert len(prepared.feature_bound) == 6


def test_a_bound_that_forgets_a_group_is_found(monkeypatch):
    frame = table(3)
    model = {
        "features": ["home", "age"],
        "transforms": {},
        "bounds": {"age": [0, 0.5]},
        "intercept": False,
        "missing": "refuse",
    }
    frame = frame.fillna({"age": 30.0, "home": "own"})
    terms = make(3, model, privacy=GAUSSIAN)
    assert farthest(parley.Owner("a", frame).prepare(terms), frame) <= 1
    right = Preparation.feature_bound.func
    monkeypatch.setattr(Preparation, "feature_bound", property(lambda self: right(self)[1:]))
    assert farthest(parley.Owner("a", frame).prepare(terms), frame) > 1.1


def test_a_prepared_row_is_a_function_of_that_row_alone(tmp_path):
    """Whatever the other records hold, gaps and wide types included."""
    public = table(60, seed=9)
    public.to_csv(tmp_path / "public.csv", index=False)
    model = {
        "public": str(tmp_path / "public.csv"),
        "categories": {},
        "bounds": {"income": [0.0, 1e5]},
        "transforms": {"income": "sqrt"},
    }
    terms = make(40, model)
    preparation, design = fit_preparation(terms)
    frame = table()
    before = preparation.matrix(frame, "a")
    for place, (number, name) in enumerate(itertools.product([*NUMBERS[:6], *GAPS[:5]], [*HOSTILE[:5], *GAPS[:3]])):
        other = frame.astype(object)
        other.loc[place % 40, ["age", "home"]] = [number, name]
        after = preparation.matrix(other, "a")
        kept = np.arange(40) != place % 40
        np.testing.assert_array_equal(after[kept], before[kept])
    assert preparation.fills == {"age": public["age"].median(), "income": public["income"].median()}
    assert preparation.categories == {"home": tuple(sorted(NAMES))}
    assert len(design) == 60


def test_streamed_folders_give_the_same_rows(tmp_path):
    frame = table(400)
    folder = tmp_path / "rows"
    folder.mkdir()
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    for part in range(2):
        rows = frame.iloc[200 * part : 200 * part + 200]
        pq.write_table(
            pa.Table.from_pandas(rows, schema, preserve_index=False), folder / f"{part}.parquet", row_group_size=64
        )
    terms = make(400)
    here, there = (parley.Owner("a", source).prepare(terms) for source in (frame, folder))
    query = GradientQuery.ask(here.hash, "learner", 1, np.linspace(-1, 1, here.setup.parameters))
    values = [a.part.training.question.bounded(query, a.tables).value for a in (here, there)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)


def test_components_come_after_coding(tmp_path):
    table(80, seed=4).to_csv(tmp_path / "public.csv", index=False)
    terms = make(40, {"public": str(tmp_path / "public.csv"), "components": 3})
    preparation, _ = fit_preparation(terms)
    assert preparation.rotation.shape == (9, 3)
    X = preparation.matrix(table(), "a")
    assert X.shape == (40, 4)
    assert (np.abs(X) <= preparation.feature_bound).all()


@pytest.mark.parametrize("missing", ["fill", {"chol": "fill", "ca": "fill", "thal": "fill", "slope": "fill"}])
def test_four_hospitals_with_their_missing_cells(missing):
    hospitals = [read_table(data_path(f"heart_{name}.csv")) for name in ("cleveland", "hungarian", "switzerland", "va")]
    features = [c for c in hospitals[0].columns if c != "num"]
    model = {"positive": "0", "target": "num", "features": features, "missing": missing, "transforms": {}}
    model |= {"bounds": {c: [0.0, 400.0] for c in features if c not in ("cp", "thal")}}
    model |= {"categories": {"cp": ["1", "2", "3", "4"], "thal": ["3", "6", "7"]}}
    terms = make(303, model)
    preparation, _ = fit_preparation(terms)
    if missing == "fill":
        designs = [preparation.design(frame, "a") for frame in hospitals]
        assert [int((d.y > 0).sum()) for d in designs] == [164, 188, 8, 51]  # healthy, as published
        gaps = [int(d.X[:, [label.endswith("missing") for label in (*preparation.labels, "")]].sum()) for d in designs]
        assert gaps == [6, 782, 273, 698]
    else:
        with pytest.raises(DataError, match=r"column 'trestbps', row .*: the value is missing"):
            preparation.design(hospitals[3], "a")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"missing": {"paid": "fill"}}, "model.missing.paid: not allowed for the target"),
        ({"missing": "guess"}, "model.missing: expected 'refuse' or 'fill', or a table"),
        ({"transforms": {"paid": "sqrt"}}, "model.transforms.paid: expected a feature"),
        ({"transforms": {"home": "sqrt"}}, "model.transforms.home: expected a column of numbers"),
        ({"transforms": {"income": "log1p"}}, "model.bounds.income: expected a lower bound above -1"),
        ({"transforms": {"age": "log"}}, "model.bounds.age: expected a lower bound above 0"),
        ({"transforms": {"income": "sqrt"}}, "model.bounds.income: expected a lower bound of at least 0"),
        ({"bounds": {"home": [0, 1]}}, "model.bounds.home: not allowed with coding = 'one-hot'"),
        ({"positive": "yes", "kind": "linear-regression"}, "model.positive: allowed only with a model of two classes"),
        (
            {"categories": {"paid": ["a", "b"]}},
            "model.categories.paid: expected two names, one of them the name in model.positive",
        ),
    ],
)  # fmt: skip
def test_keys_that_contradict_each_other_are_refused(change, expected):
    with pytest.raises(TermsError, match=expected.replace(".", r"\.").replace("[", r"\[")):
        make(model=change)


def test_public_knowledge_that_does_not_suffice_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"model\.missing: filling 'age' needs model\.bounds\.age or a public sample"):
        fit_preparation(make(model={"bounds": {"income": [0, 1]}}))
    with pytest.raises(DataError, match=r"model\.transforms\.age: the transform needs model\.bounds\.age"):
        fit_preparation(make(model={"bounds": {}, "missing": "refuse", "transforms": {"age": "log"}}))
    table().assign(age=-1.0).to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(DataError, match="'log': the transform takes only numbers above 0, but the public"):
        fit_preparation(
            make(model={"bounds": {}, "transforms": {"age": "log"}, "public": str(tmp_path / "public.csv")})
        )


def test_hashes_of_terms_without_the_keys_stay_as_they_were():
    plain = {"coding": "integer", "missing": {"age": "refuse"}, "transforms": {}, "positive": None}
    old = {
        "model": {"kind": "linear-svm", "target": "y"},
        "privacy": {"clip": 1.0},
        "owners": [{"name": "a", "records": 9, "epsilon": 1.0}],
    }
    terms = Terms.from_dict(old)
    assert terms.hash == "e8255ad2ba6e346305dd812778e30a402c0d0e3c3299a0b6019c5c628cafb96f"
    assert terms.changed(model=plain).hash == terms.hash
    for key, value in {"coding": "one-hot", "missing": "fill", "transforms": {"x": "sqrt"}, "positive": "1"}.items():
        assert terms.changed(model={key: value}).hash != terms.hash
    assert (
        terms.changed(model={"missing": {"x": "fill", "z": "refuse"}}).hash
        == terms.changed(model={"missing": {"x": "fill"}}).hash
    )


@dataclass(frozen=True)
class Bins(Encoding):
    """A column of 0 and 1 for each half of a public range: a coding that no terms know yet."""

    words = "A column of 0 and 1 for each bin of"

    @classmethod
    def from_model(cls, model, column, names, fill):
        return cls(column, False) if column == "income" else None

    @property
    def labels(self):
        return (f"{self.column} low", f"{self.column} high")

    groups, scaled = (2,), (False, False)

    def ends(self, declared):
        return [(0.0, 1.0)] * 2

    def read(self, rows, name):
        return numbers(rows, self.column, name)

    def columns(self, coded):
        yield from ((coded <= 25_000).astype(float), (coded > 25_000).astype(float))

    def drawn(self, gaps, rng):
        return rng.choice([0.0, 1e6], len(gaps))


def test_a_new_coding_is_one_class_and_one_line(monkeypatch):
    monkeypatch.setattr(encoding, "ENCODINGS", (Bins, *encoding.ENCODINGS))
    frame, terms = table(), make(40, {"missing": {"age": "fill", "home": "fill"}, "transforms": {}})
    owner = parley.Owner("a", frame)
    agreement = owner.prepare(terms)
    preparation = agreement.setup.preparation
    assert preparation.labels[2:4] == ("income low", "income high")
    np.testing.assert_array_equal(agreement.tables.train.X[:, 3], frame["income"] > 25_000)
    assert preparation.feature_bound.size == 5  # age, whether it is missing, both bins, all homes, the constant
    assert "A column of 0 and 1 for each bin of income." in _cells(agreement)
    assert parley.forecast(terms, resamples=2).relative_fitness.mean > 0
    assert np.isfinite(parley.train(terms, [owner], seed=0).theta).all()
