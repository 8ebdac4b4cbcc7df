"""A forecast that rests on released scales: what it assumes it says, and its interval covers relations of every
strength."""

import numpy as np
import pandas as pd
import pytest

import parley
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.assumed import STRENGTHS, AssumedSample
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.worth import joint_cost
from parley.errors import DataError

ROWS = 3000


def terms(kind="linear-regression", **model):
    numbers = {"a": (-4.0, 4.0), "b": (70.0, 130.0)} | ({"y": (0.0, 20.0)} if kind == "linear-regression" else {})
    given = {
        "kind": kind,
        "target": "y",
        "features": ["a", "b", "c"],
        "intercept": True,
        "coding": "one-hot",
        "bounds": numbers,
        "centres": {"a": 0.0, "b": 100.0} | ({"y": 10.0} if kind == "linear-regression" else {}),
        "scales": {"a": 1.0, "b": 10.0} | ({"y": 2.0} if kind == "linear-regression" else {}),
        "categories": {"c": ("u", "v")},
    }
    return parley.Terms.from_dict(
        {
            "model": given | model,
            "learning": {"horizon": 40, "algorithm": "averaged-subgradient"},
            "privacy": {"clip": 60.0},
            "owners": [{"name": name, "records": ROWS, "epsilon": 2.0} for name in "pq"],
        }
    )


def table(strength, seed):
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=ROWS), rng.normal(100, 10, ROWS), rng.choice(["u", "v", "w"], ROWS)
    relation = (a + (b - 100) / 10 - 1.5 * (c == "u")) / np.sqrt(2 + 0.5)
    y = 10 + 2 * (np.sqrt(strength) * relation + np.sqrt(1 - strength) * rng.normal(size=ROWS))
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": y})


@pytest.mark.parametrize("strength", [0.1, 0.5, 0.8])
def test_the_interval_covers_what_training_gives_whatever_the_relation(strength):
    agreed = terms()
    said = forecast(agreed, seed=1, resamples=10)
    owners = [parley.Owner(name, table(strength, seed)) for seed, name in enumerate("pq")]
    measured = parley.train(agreed, owners, replicates=40, seed=3, whole_path=False).relative_fitness["mean"]
    assert said.relative_fitness.low < measured < said.relative_fitness.high
    assert said.relative_fitness.high > 3 * said.relative_fitness.low  # wide, because little is known


def declared(**privacy):
    """Terms of which ranges alone are known: scales are a quarter of them."""
    ranges = {"a": (-20.0, 20.0), "b": (0.0, 1000.0), "y": (-20.0, 60.0)}
    return terms(
        bounds=ranges,
        centres={column: (low + high) / 2 for column, (low, high) in ranges.items()},
        scales={column: (high - low) / 4 for column, (low, high) in ranges.items()},
    ).changed(privacy=privacy, learning={"algorithm": "gradient-descent", "horizon": 60, "step": 0.3})


def test_the_interval_covers_rows_in_a_corner_of_their_declared_range(monkeypatch):
    agreed = declared(clip=6.0)
    said = forecast(agreed, seed=1, resamples=10)
    tables = [table(0.5, seed).assign(a=lambda t: 4 * t.a - 8, b=lambda t: 10 * t.b - 850) for seed in (0, 1)]
    owners = [parley.Owner(name, each) for name, each in zip("pq", tables, strict=True)]
    measured = parley.train(agreed, owners, replicates=40, seed=3, whole_path=False).relative_fitness["mean"]
    assert said.relative_fitness.low < measured < said.relative_fitness.high
    assert any("only the declared range of a, b, y is known" in warning for warning in said.warnings)
    monkeypatch.setattr("parley.decisions.knowledge.assumed.SPREADS", (1.0, 1.0))
    assert (
        not measured < forecast(agreed, seed=1, resamples=10).relative_fitness.high
    )  # the mutant whose rows fill every range


def test_the_forecast_is_of_the_law_in_the_middle_and_its_intervals_cover_all_laws():
    """Not of a law that was thought of first: its figures lie between those of the others, ψ near their mean. A mutant
    that stays with the first law promises several times as much."""
    agreed = declared(clip=6.0).changed(learning={"horizon": 40, "step": 0.1, "decay": 0.0})
    said = forecast(agreed, seed=1)
    fitness, found = [law.fitness for law in said.laws], said.relative_fitness
    assert len(fitness) == 20
    nearest = min(fitness, key=lambda value: abs(value - np.minimum(fitness, 1.0).mean()))
    assert found.mean == pytest.approx(nearest, rel=0.3)  # of more runs
    assert (found.low, found.high) == (min(fitness), max(fitness))
    first = expect(open_pilot(agreed)).fitness(1)
    assert first < found.mean / 5
    costs = [joint_cost(law.expected, law.fitness) for law in said.laws]
    assert (said.expected_cost.low, said.expected_cost.high) == (min(costs), max(costs))
    for owner in said.owners:
        assert owner.together_interval.low < owner.together < owner.together_interval.high
        assert owner.gain.low <= owner.gain.mean <= owner.gain.high


def test_few_laws_lean_to_no_end():
    pilot = open_pilot(declared(clip=6.0))
    spreads = [other.design.X[:, :2].std(axis=0).mean() for other in pilot.source.others(np.random.default_rng(0), 5)]
    assert [bool(spread > 0.6) for spread in spreads][:2] == [False, True]
    assert spreads[0] < min(spreads[2:4]) < max(spreads[2:4]) < spreads[1]  # each column by itself: between the ends


def test_it_says_what_rows_are_drawn_from():
    scales, ranges = (" ".join(forecast(each, resamples=5).warnings) for each in (terms(), declared(clip=6.0)))
    assert "drawn from the scales that the terms give, and their relation" in scales
    assert "declared" not in scales
    assert "drawn from the declared ranges, and their relation" in ranges
    assert "scales that the terms give" not in ranges
    known = declared(clip=6.0).changed(model={"scales": {"a": 1.0, "b": 250.0, "y": 20.0}})
    assert "drawn from the scales that the terms give and the declared ranges" in " ".join(
        forecast(known, resamples=5).warnings
    )


def test_it_says_what_it_assumes_and_forecasts_no_metric():
    said = forecast(terms(), resamples=5)
    assert said.coverage == "any relation to the target"
    assert any("their relation to the target is invented" in warning for warning in said.warnings)
    assert said.metrics == {}


def test_rows_have_the_scales_that_were_released_and_the_strength_that_was_assumed():
    pilot = open_pilot(terms())
    assert isinstance(pilot.source, AssumedSample)
    X, y = pilot.design.X, pilot.design.y
    assert np.abs(X[:, :2].mean(axis=0)).max() < 0.1
    assert X[:, :2].std(axis=0) == pytest.approx([1, 1], abs=0.1)
    assert set(np.unique(X[:, 2:4])) == {0.0, 1.0}
    assert X[:, 2:4].sum(axis=1).max() == 1
    assert (X[:, 4] == 1).all()
    explained = []
    for other in pilot.source.others(np.random.default_rng(0), 5):
        X, y = other.design.X, other.design.y
        residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        explained.append(1 - residual.var() / y.var())
    assert explained == pytest.approx(STRENGTHS, abs=0.06)


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("logistic-regression", {}),
        ("softmax-regression", {"categories": {"c": ("u", "v"), "y": ("x", "y", "z")}}),
        ("linear-svm", {}),
    ],
)
def test_classes_are_drawn_too(kind, model):
    pilot = open_pilot(terms(kind, **model))
    classes, counts = np.unique(pilot.design.y, return_counts=True)
    assert len(classes) == (3 if kind == "softmax-regression" else 2)
    assert counts.min() > 0.1 * counts.sum()


def test_without_the_scale_of_a_column_there_is_no_forecast():
    with pytest.raises(DataError, match=r"model\.scales\.a"):
        open_pilot(terms(scales={"b": 10.0, "y": 2.0}, bounds={"y": (0.0, 20.0)}, radius=10.0))
    with pytest.raises(DataError, match="released scales"):
        open_pilot(terms(scales={}, centres={}, categories={"c": ("u", "v")}, coding="integer", radius=10.0))
