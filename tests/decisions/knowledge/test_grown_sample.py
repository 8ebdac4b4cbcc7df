"""Rows that trees were grown on, drawn again for an interval: what that says, and how little it takes."""

import numpy as np
import pandas as pd
import pytest

import parley
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge import pilot as pilots
from parley.decisions.knowledge.pilot import open_pilot
from parley.decisions.outlook.remedies import compare_noise

KINDS = ("linear-regression", "logistic-regression")
VERSIONS = 5


def trees_terms(folder, kind, **model):
    rng = np.random.default_rng(1)
    a, b, c = rng.uniform(-1, 1, (3, 400))
    y = 2.5 * (np.abs(a) > 0.5) + 2 * (b > 0) - 2.2 + c + 0.3 * rng.logistic(size=400)
    table = pd.DataFrame({"a": a, "b": b, "c": c, "y": y if kind == KINDS[0] else (y > 0).astype(int)})
    table.to_csv(folder / f"{kind}.csv", index=False)
    size = {"count": 20, "leaves": 6, "rate": 0.2}
    content = {
        "model": {"kind": kind, "target": "y", "public": str(folder / f"{kind}.csv"), "columns": "trees", "trees": size}
        | model,
        "learning": {"algorithm": "gradient-descent", "horizon": 24, "step": 0.02, "decay": 0.0},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 5.6},
        "owners": [{"name": name, "records": 4000, "epsilon": 0.05} for name in ("bank", "shop")],
    }
    return parley.Terms.from_dict(content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("grown")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pull", [0.0, 0.01])
def test_rows_drawn_again_say_what_a_table_of_them_says(folder, kind, pull):
    pilot = open_pilot(trees_terms(folder, kind, regularisation=pull))
    expected = expect(pilot)
    quick, whole = (
        [expected.at(other).fitness(0) for other in pilot.others(np.random.default_rng(3), VERSIONS, run=run)]
        for run in (False, True)
    )
    assert np.allclose(quick, whole, rtol=1e-3, atol=0)
    assert np.std(whole) > 1e-2 * np.mean(whole)  # a mutant that draws nothing, or other rows, is not so near


def test_every_row_once_is_the_sample_itself(folder):
    pilot = open_pilot(trees_terms(folder, KINDS[1]))

    class Once:
        def integers(self, high, size):
            return np.arange(size)

    expected = expect(pilot)
    (other, *_) = pilot.others(Once(), 1, run=False)
    here, there = pilot.landscape(), expected.at(other).here
    assert there.least_cost == pytest.approx(here.least_cost, rel=1e-12)
    assert there.curvature.sum() == pytest.approx(here.curvature.sum(), rel=1e-12)
    assert there.curvature.max() == pytest.approx(here.curvature.max(), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_forecast_decomposes_one_curvature_and_one_for_each_version(folder, kind, monkeypatch):
    """Noise of any kind and every owner leave the curvature as it is: no other decomposition of its size is needed."""
    terms, sizes = trees_terms(folder, kind), []
    grown = open_pilot(terms).grown
    monkeypatch.setattr(pilots, "cross_fit", lambda setup: grown)  # whose folds have decompositions of their own
    monkeypatch.setattr("parley.decisions.knowledge.baselines._public_trees", lambda pilot, fit: None)
    for name in ("eigh", "eigvalsh", "lstsq", "svd", "pinv", "inv", "solve"):
        _counted(monkeypatch, name, sizes)
    result = parley.forecast(terms, resamples=VERSIONS)
    result.to_json()
    compare_noise(result)
    width = result.expected.pilot.source.width
    large = [size for size in sizes if size > 0.1 * width]
    assert len(large) == 1 + VERSIONS
    assert large.count(width) == 1
    assert max(size for size in large if size < width) < 0.9 * width  # of versions, directions that bend


def _counted(monkeypatch, name, sizes):
    plain = getattr(np.linalg, name)

    def counted(matrix, *more, **how):
        sizes.append(len(matrix))
        return plain(matrix, *more, **how)

    monkeypatch.setattr(np.linalg, name, counted)
