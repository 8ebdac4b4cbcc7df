"""Whatever doubles terms, public samples and records hold: no answer moves further than its sensitivity, none is NaN or
infinite."""

import importlib.util
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import GAUSSIAN, gradient_answer, make_terms, regression_table

import parley
from parley.data import Design, fit_preparation
from parley.data.design import summation_slack
from parley.data.rowwise import clip_to_grid
from parley.errors import DataError, GuaranteeError, SettingError, TermsError
from parley.losses import Limits, LinearRegression, LinearSVM, LogisticRegression, RecordBound
from parley.losses.moments import mean_moments, moments_sensitivity
from parley.losses.objectives import margin
from parley.network.exchange import messages
from parley.network.serving.acceptance import Acceptance, Acceptances, Caller
from parley.network.serving.log import Log
from parley.network.serving.service import FAILURE_MESSAGE, OwnerService
from parley.owner.ledger import Ledger
from parley.privacy.mechanisms import Bounded, Gaussian, Laplace, SafeNoise
from parley.protocol.queries import GradientQuery
from parley.validate import LARGEST, SMALLEST

DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def load_benchmark():
    """benchmarks/magnitudes.py, of which a sample is run here."""
    path = Path(__file__).parents[1] / "benchmarks" / "magnitudes.py"
    spec = importlib.util.spec_from_file_location("magnitudes_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCHMARK = load_benchmark()


# Terms that turned clipping off, or a record into NaN, before magnitudes had a range.
ATTACKS = {
    "a count": {
        "model__kind": "linear-svm",
        "model__bounds": {"x0": [0, 1e-165]},
        "model__class_weight": {"1": 1e250},
        "privacy__clip": 1.0,
        **GAUSSIAN,
    },
    "weight alone": {"model__kind": "linear-svm", "model__class_weight": {"1": 1e250}, **GAUSSIAN},
    "a clip that vanishes when squared": {"privacy__clip": 1e-200, **GAUSSIAN},
    "local steps": {
        "model__kind": "logistic-regression",
        "model__bounds": {f"x{j}": [-1e-165, 1e-165] for j in range(3)},
        "model__radius": 0.05,
        "learning__algorithm": "federated-averaging",
        "learning__step": None,
    },
    "bounds alone": {"model__bounds": {f"x{j}": [-1.5e-162, 1.5e-162] for j in range(3)}, **GAUSSIAN},
    "wide bounds": {"model__bounds": {"x0": [-1e100, 1e100]}},
    "narrow bounds": {"model__bounds": {"x0": [1e-40, np.nextafter(1e-40, 1)]}},
    "a box without room": {"model__radius": 1e-60},
    "a box without walls": {"model__radius": 1e60},
    "a penalty": {"model__regularisation": 1e-200},
    "a step": {"learning__step": 1e-200},
    "a budget": {"epsilon": 1e-200},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_terms_beyond_the_range_of_magnitudes_are_refused(attack):
    with pytest.raises(TermsError, match=r"expected .*from 1e-50 to 1e\+50"):
        make_terms(10, **ATTACKS[attack])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"privacy__clip": 1e-200}, "privacy.clip = 1e-200: expected a number from 1e-50 to 1e+50"),
        ({"model__radius": 1e51}, "model.radius = 1e+51: expected a number from 1e-50 to 1e+50"),
        (
            {"model__kind": "linear-svm", "model__class_weight": {"1": 1e250}},
            "model.class_weight.1 = 1e+250: expected a number from 1e-50 to 1e+50",
        ),
        ({"model__regularisation": 1e-51}, "model.regularisation = 1e-51: expected 0, or a number from 1e-50 to 1e+50"),
        ({"learning__step": 1e-51}, "learning.step = 1e-51: expected a number from 1e-50 to 1e+50, or 'auto'"),
        (
            {"model__bounds": {"x0": [0, 1e-165]}},
            "model.bounds.x0 = [0.0, 1e-165]: expected ends at least 1e-50 apart, each of them 0 or with an "
            "absolute value from 1e-50 to 1e+50",
        ),
        ({"learning__horizon": 10**400}, "expected a number <= 1e+15"),
    ],
)
def test_the_refusal_names_key_value_and_range(overrides, message):
    with pytest.raises(TermsError) as caught:
        make_terms(10, **overrides)
    assert message in str(caught.value)


def test_the_ends_of_the_range_are_allowed():
    ends = {"x0": [-LARGEST, -SMALLEST], "x1": [0, SMALLEST]}
    terms = make_terms(10, model__bounds=ends, model__radius=LARGEST, privacy__clip=SMALLEST, model__regularisation=0.0)
    assert terms.model.bounds["x0"] == (-LARGEST, -SMALLEST)


def tables(first, second, rows=10):
    """Two designs (X, y, weight) that differ in their first row; the other rows are 0 and weigh 1."""
    for x, y, weight in (first, second):
        X, targets, weights = np.zeros((rows, len(x))), np.ones(rows), np.ones(rows)
        X[0], targets[0], weights[0] = x, y, weight
        yield Design(X, targets, weights)


def moved(one, other):
    """How far apart two answers are over their sensitivity, in extended precision."""
    return float(BENCHMARK.distances(np.array([one.value, other.value]), one.norm)[0, 1] / one.sensitivity)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("size", [1e-165, 1.6e-162, 1e-155, 1e-120, 1e-51, 1e-50])
@pytest.mark.parametrize("clip", [1e-50, 1.0])
def test_no_row_is_too_small_to_be_clipped(norm, size, clip):
    """Even behind the terms' back: a weight of 1e250, rows whose squares vanish, three kinds of loss, second
    moments."""
    bound = RecordBound(clip, norm, clips=True)
    pair = list(tables(((size, 0.0), 1.0, 1e250), ((-size, 0.0), 1.0, 1e250)))
    for objective in (LinearSVM(1.0), LogisticRegression(), LinearRegression()):
        assert moved(*(gradient_answer(objective, design, np.zeros(2), bound) for design in pair)) <= 1
    moments = [
        Bounded(
            mean_moments(design, bound),
            moments_sensitivity(bound, len(design), summation_slack(len(design), design.width)),
            norm,
        )
        for design in pair
    ]
    assert moved(*moments) <= 1


def test_bounds_whose_squares_vanish_together_still_bound():
    """1,000 features whose squares are below the least double; behind the terms' back."""
    size, names = 1.5e-162, [f"x{j}" for j in range(1000)]
    terms = make_terms(
        10, model__kind="linear-svm", model__features=names, model__intercept=False, privacy__clip=None, **GAUSSIAN
    )
    preparation = fit_preparation(terms)[0]
    narrow = replace(preparation, low=np.full(1000, -size), high=np.full(1000, size))
    narrow.low[0], narrow.high[0] = -6e-162, 6e-162
    records = [np.concatenate([np.full((1, 1000), value), np.zeros((9, 1000))]) for value in (1.0, -1.0)]
    pair = [narrow.design(pd.DataFrame(X, columns=names).assign(y=1), "a") for X in records]
    bound = LinearSVM(1.0).record_bound(narrow, Limits(None, 1.0, terms.model.radius), "l2")
    one, other = (gradient_answer(LinearSVM(1.0), design, np.zeros(1000), bound) for design in pair)
    assert BENCHMARK.distances(np.array([one.value, other.value]), "l2").max() <= one.sensitivity


def sample(tmp_path, **columns):
    pd.DataFrame(columns).to_parquet(tmp_path / "public.parquet")
    return str(tmp_path / "public.parquet")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([0.0, 1e-160, 0.0, 1e-160], "values from 0 to 1e-160"),  # spread 5e-161: a record at 1e100 became 2e260
        ([0.0, 1e-320, 0.0, 0.0], "values from 0 to"),
        ([-1e300, 1e300, 0.0, 1.0], r"values from -1e\+300 to 1e\+300"),
        ([1e-49, 0.0, *[0.0] * 2000], "standard deviation 2.23"),
    ],
)
@pytest.mark.parametrize("target", [False, True])
def test_a_public_sample_beyond_the_range_is_refused(tmp_path, column, expected, target):
    other = np.linspace(0, 1, len(column))
    public = sample(tmp_path, x0=other if target else column, y=column if target else other)
    terms = make_terms(10, model__features=["x0"], model__public=public, model__intercept=True)
    with pytest.raises(DataError, match=f"public sample: column '{'y' if target else 'x0'}': .*{expected}"):
        fit_preparation(terms)


def test_infinity_less_infinity_does_not_reach_an_answer(tmp_path):
    """Records capped before the division by the public scale were infinite after it; 16 products are added up in
    several lanes."""
    names = [f"x{j}" for j in range(16)]
    spread = {name: [0.0, 1e-49, 0.0, 1e-49] for name in names}
    terms = make_terms(
        3,
        model__features=names,
        model__public=sample(tmp_path, **spread, y=[0.0, 1.0, 0.0, 1.0]),
        model__bounds={name: [-1e50, 1e50] for name in names},
        model__radius=None,
    )
    table = pd.DataFrame({name: [1.7e308, 0.0, 1e-300] for name in names} | {"y": [1.0, 0.0, 1.0]})
    agreement = parley.Owner("a", table).prepare(terms)
    assert np.abs(agreement.tables.train.X).max() == LARGEST
    query = GradientQuery.ask(terms.hash, "learner", 1, np.tile([1e50, -1e50], 8))
    bounded = agreement.part.training.question.bounded(query, agreement.tables)
    assert np.isfinite(bounded.value).all()


@settings(max_examples=200, deadline=None)
@given(DOUBLES, DOUBLES)
def test_settled_values_keep_their_order_and_lie_in_the_range(a, b):
    small, large = clip_to_grid(np.array(sorted([a, b])), -LARGEST, LARGEST)
    assert small <= large
    for value, raw in zip((small, large), sorted([a, b]), strict=True):
        assert value == 0 or SMALLEST <= abs(value) <= LARGEST
        assert value == raw or not 1e-18 <= abs(raw) <= LARGEST
        assert value == pytest.approx(raw, rel=1e-12, abs=1e-50) or abs(raw) > LARGEST


@pytest.mark.parametrize("power", [-170, -167, -166, -165, -115, -114, -113, -112, -63, -62, -61, -60])
def test_settled_values_lie_in_the_range_where_the_grid_changes(power):
    """Around every power of two at which sums with the shift get another spacing."""
    rng = np.random.default_rng(power + 1000)
    values = np.sort(
        np.concatenate([2.0**power * rng.uniform(0.49, 2.01, 2000), -(2.0**power) * rng.uniform(0.49, 2.01, 2000)])
    )
    settled = clip_to_grid(values.copy(), -LARGEST, LARGEST)
    assert (np.diff(settled) >= 0).all()
    assert ((settled == 0) | (np.abs(settled) >= SMALLEST)).all()
    np.testing.assert_allclose(settled, values, rtol=2.0**-52, atol=2.0**-167 * (1 + 1e-9))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(DOUBLES, DOUBLES, DOUBLES), min_size=1, max_size=5), st.integers(0, 10**6), st.booleans())
def test_prepared_values_lie_in_the_range_and_within_their_bounds(tmp_path_factory, records, seed, rotated):
    """For any doubles in the cells, hostile public samples and bounds; in memory and streamed alike."""
    numbers = BENCHMARK.Magnitudes(np.random.default_rng(seed), False, 20.0)
    folder = tmp_path_factory.mktemp("prepared")
    public = BENCHMARK.draw_public(numbers, ["x0", "x1"], True, folder)
    components = {"model__components": 2} if rotated else {}
    terms = make_terms(
        len(records),
        model__features=["x0", "x1"],
        model__public=str(public),
        model__intercept=bool(seed % 2),
        **components,
    )
    try:
        preparation, _ = fit_preparation(terms)
    except DataError:
        return  # a column of that sample is constant but for rounding
    table = pd.DataFrame(records, columns=["x0", "x1", "y"])
    (folder / "table").mkdir()
    table.to_parquet(folder / "table" / "part.parquet")
    design = (
        parley.Owner("a", table).prepare(terms).tables.train
        if preparation.feature_bound.any()
        else preparation.design(table, "a")
    )
    for values, bound in ((design.X, preparation.feature_bound), (design.y, preparation.target_bound)):
        assert (np.abs(values) <= bound).all()
        assert ((values == 0) | ((np.abs(values) >= SMALLEST) & (np.abs(values) <= LARGEST))).all()
    streamed = preparation.designs(parley.Owner("a", folder / "table").table, terms, "a")[0]
    for block in streamed._blocks(streamed.places[0]):
        np.testing.assert_array_equal(block.X, design.X)
        np.testing.assert_array_equal(block.y, design.y)


def test_a_sample_of_the_search_finds_no_neighbours_too_far_apart():
    found = BENCHMARK.search(12_000, seed=11)
    assert found.cases >= 12_000
    assert found.ratio <= 1, found.worst
    assert found.unbounded == 0
    assert found.ratio > 0.999  # and it gets close
    assert found.refused > 0


@pytest.mark.parametrize("mutant", ["half the sensitivity", "clipping off for small rows", "no cap"])
def test_the_search_finds_a_bound_that_is_wrong(monkeypatch, mutant):
    if mutant == "half the sensitivity":
        honest = RecordBound.sensitivity
        monkeypatch.setattr(RecordBound, "sensitivity", lambda *a, **k: honest(*a, **k) / 2)
    elif mutant == "clipping off for small rows":
        limits = margin.derivative_limit

        def careless(design, bound):
            return np.where(design.row_norms("l1") < 1e-6, np.inf, limits(design, bound))

        monkeypatch.setattr(margin, "derivative_limit", careless)
    else:

        def unsettled(values, low, high, out=None):
            return np.add(values, 0.0, out=out)

        monkeypatch.setattr("parley.data.preparation.clip_to_grid", unsettled)
    with np.errstate(all="ignore"):
        gradients = [query for query in BENCHMARK.QUERIES if query[0] == "gradient"]
        assert any(BENCHMARK.search(720, seed, gradients).ratio > 1.01 for seed in range(60))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e251])
@pytest.mark.parametrize("mechanism", [Laplace(1.0, 1.0), Gaussian(1.0, 1.0)])
def test_no_mechanism_is_handed_a_value_that_is_not_finite(mechanism, value):
    with pytest.raises(GuaranteeError, match="not finite") as caught:
        mechanism.release(Bounded(np.array([0.0, value]), 1.0, mechanism.norm), SafeNoise())
    assert str(value) not in str(caught.value)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, np.nan, -np.inf])
def test_no_mechanism_is_handed_a_value_without_a_sensitivity(sensitivity):
    with pytest.raises(GuaranteeError, match="sensitivity"):
        Laplace(1.0, 1.0).release(Bounded(np.zeros(2), sensitivity, "l1"), SafeNoise())
    with pytest.raises(GuaranteeError, match="sensitivity"):
        Laplace(1.0, np.inf).release(Bounded(np.zeros(2), np.inf, "l1"), SafeNoise())


def test_noise_that_could_overflow_is_refused():
    for calibrate in (Laplace.calibrate, lambda e, s: Gaussian.calibrate(e, 1e-6, s)):
        with pytest.raises(SettingError, match="too small for this sensitivity"):
            calibrate(parley.privacy.accounting.exact("0.001"), 1e249)


def spoiled(tmp_path, terms):
    """An owner whose table was damaged in memory after it was prepared: no table that is read can be so."""
    owner = parley.Owner("a", regression_table(200), ledger=Ledger(tmp_path / "a.ledger", lifetime=1.0))
    agreement = owner.accept(terms)
    agreement.tables.train.X[3, 1] = np.inf
    return owner


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_value_that_is_not_finite_ends_before_the_ledger_is_written(tmp_path):
    terms = make_terms(
        200, privacy__clip=None, model__bounds={"x0": [-1, 1], "x1": [-1, 1], "x2": [-1, 1], "y": [-3, 3]}
    )
    owner = spoiled(tmp_path, terms)
    rows, before = owner.ledger.verify(), (tmp_path / "a.ledger").read_bytes()
    with pytest.raises(GuaranteeError, match="not finite") as caught:
        owner.answer(GradientQuery.ask(terms.hash, "learner", 1, np.ones(3)))
    assert "nan" not in str(caught.value)
    assert owner.ledger.verify() == rows
    assert owner.ledger.account(terms.hash).spent == 0
    assert (tmp_path / "a.ledger").read_bytes() == before


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_served_owner_says_only_that_it_is_in_trouble(tmp_path):
    terms = make_terms(
        200, privacy__clip=None, model__bounds={"x0": [-1, 1], "x1": [-1, 1], "x2": [-1, 1], "y": [-3, 3]}
    )
    owner = spoiled(tmp_path, terms)
    acceptances = Acceptances(tmp_path / "accepted")
    acceptances.store(Acceptance(terms))
    log = io.StringIO()
    query = GradientQuery.ask(terms.hash, "learner", 1, np.ones(3))
    reply = OwnerService(owner, acceptances, Log(log)).ask(messages.write_query(query), Caller(("learner",)))
    with pytest.raises(parley.errors.Unavailable, match=FAILURE_MESSAGE):
        messages.read_answer(reply, query, "a", 200, 3)
    assert owner.ledger.account(terms.hash).answered == 0
