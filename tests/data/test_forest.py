"""Trees as columns: every row has one leaf in each tree, whatever file the trees came from and whatever machine reads
them."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parley
from parley.data.cut_points import cut
from parley.data.encoding import Numbers, OneHot
from parley.data.fitting import grown_here
from parley.data.forest import Forest
from parley.errors import DataError, TermsError
from parley.protocol.setup import pin, resolve

EXTREMES = [0.0, -0.0, 1e-320, -1e-320, 1e300, -1e300, 1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 0)]


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=rows), rng.uniform(-1, 1, rows)
    name = rng.choice(["a", "b", "c"], rows)
    y = (np.sin(3 * x) + 2 * (z > 0.3) + (name == "b") + rng.normal(size=rows) > 0.5).astype(int)
    z[::17] = np.nan
    return pd.DataFrame({"x": x, "z": z, "name": name, "y": y})


def terms(tmp_path, columns="trees", records=300, **others):
    path = tmp_path / "public.csv"
    if not path.exists():
        table(300, 1).to_csv(path, index=False)
    model = {
        "kind": "logistic-regression",
        "target": "y",
        "features": ["x", "z", "name"],
        "public": str(path),
        "coding": "one-hot",
        "missing": "fill",
        "columns": columns,
        **({"trees": {"count": 10, "leaves": 4}} if columns == "trees" else {}),
        **others,
    }
    learning = {"algorithm": "gradient-descent", "horizon": 5, "step": 0.5}
    privacy = {"mechanism": "laplace", "clip": 10.0}
    owners = [{"name": "bank", "records": records, "epsilon": 1.0}]
    return parley.Terms.from_dict({"model": model, "learning": learning, "privacy": privacy, "owners": owners})


@pytest.mark.parametrize("columns", ["bins", "trees"])
def test_every_row_has_one_leaf_in_each_tree(tmp_path, columns):
    prepared = resolve(terms(tmp_path, columns)).preparation
    frame = table(200, 2)
    frame.loc[:8, "x"] = EXTREMES
    frame.loc[9, "name"] = "nobody has it"
    leaves = prepared.matrix(frame, "table")[:, :-1]
    assert set(np.unique(leaves)) == {0.0, 1.0}
    assert (leaves.sum(axis=1) == prepared.forest.trees).all()
    bound = prepared.feature_bound
    assert np.abs(prepared.matrix(frame, "table")).sum(axis=1).max() <= bound.sum()
    assert np.sqrt(np.square(prepared.matrix(frame, "table")).sum(axis=1)).max() <= np.sqrt(np.square(bound).sum())


@pytest.mark.parametrize("kind", ["linear-regression", "logistic-regression", "softmax-regression"])
def test_the_public_model_is_that_of_scikit_learn(tmp_path, monkeypatch, kind):
    """With nothing drawn and nothing pulled: what a row's leaves add up to is what the library's boosting says, which
    finds splits by histograms."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    monkeypatch.setattr("parley.data.tree_growing.COLUMN_SHARE", 1.0)
    monkeypatch.setattr("parley.data.tree_growing.LEAF_PENALTY", 1e-12)
    frame = table(240, 1)  # fewer values than the library has bins
    if kind == "softmax-regression":
        frame["y"] += 2 * (frame["x"] > 1)
    frame.to_csv(tmp_path / "public.csv", index=False)
    size = {"count": 10, "leaves": 4, "rows": 1.0}
    prepared = resolve(terms(tmp_path, kind=kind, trees=size)).preparation
    coded = prepared.coded(frame, "public").T
    library = HistGradientBoostingRegressor if kind == "linear-regression" else HistGradientBoostingClassifier
    found = library(
        max_iter=10, learning_rate=0.05, max_leaf_nodes=4, max_depth=None, min_samples_leaf=10, early_stopping=False,
        random_state=0,
    ).fit(coded, frame["y"])  # fmt: skip
    raw = prepared.origin.reshape(prepared.outcomes, -1) @ prepared.matrix(frame, "public").T
    said = found._raw_predict(coded).T
    if kind == "linear-regression":
        said = (said - prepared.target_centre) / prepared.target_scale
    assert np.allclose(raw - raw.mean(axis=0), said - said.mean(axis=0), atol=1e-6)
    assert kind == "softmax-regression" or np.allclose(raw, said, atol=1e-6)


def test_training_begins_at_the_public_model(tmp_path):
    written = terms(tmp_path)
    begin = parley.train(written.changed(learning={"step": 1e-12}), [parley.Owner("bank", table(300))], seed=0)
    assert np.allclose(begin.theta, resolve(written).preparation.origin, atol=1e-6)


def test_a_penalty_pulls_towards_the_public_leaf_values(tmp_path):
    setup = resolve(terms(tmp_path, regularisation=2.0))
    origin = setup.preparation.origin
    assert float(setup.objective.penalty(origin)) == 0.0
    assert np.allclose(setup.objective.penalty_gradient(origin + 1.0), 2.0)
    heavy = resolve(terms(tmp_path, regularisation=1e6))
    assert np.allclose(heavy.risk.optimum([heavy.public], start=origin), origin, atol=1e-3)


def test_pinned_trees_are_the_same_and_a_tampered_file_is_refused(tmp_path):
    pinned = pin(terms(tmp_path), tmp_path / "trees.json")
    there, here = (resolve(each).preparation.forest for each in (pinned, terms(tmp_path)))
    assert all(np.array_equal(there.arrays[name], here.arrays[name]) for name in here.arrays)
    content = json.loads((tmp_path / "trees.json").read_text())
    content["arrays"]["trees.threshold"][0] += 0.1
    (tmp_path / "trees.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="SHA-256"):
        resolve(pinned)


def test_pinned_trees_have_the_number_and_the_size_that_the_terms_say(tmp_path):
    pinned = pin(terms(tmp_path), tmp_path / "trees.json").model
    files = {"preparation": pinned.preparation, "preparation_sha256": pinned.preparation_sha256}
    for size in ({"count": 9, "leaves": 4}, {"count": 10, "leaves": 3}):
        with pytest.raises(DataError, match="contains more or larger trees than"):
            resolve(terms(tmp_path, trees=size, **files))


def test_leaf_values_beyond_the_box_are_refused_before_anybody_agrees(tmp_path):
    with pytest.raises(DataError, match=r"model\.radius = 0\.001: training begins at"):
        resolve(terms(tmp_path, radius=0.001))


@pytest.mark.parametrize("columns", ["bins", "trees"])
def test_beyond_declared_bounds_all_cells_are_alike(tmp_path, columns):
    prepared = resolve(terms(tmp_path, columns, bounds={"x": [-0.5, 0.5]})).preparation
    frame = table(6, 3).assign(x=[0.5, 0.6, 1e300, -0.5, -3.0, -1e300], z=0.0, name="a")
    leaves = prepared.matrix(frame, "table")
    assert (leaves[:3] == leaves[0]).all()
    assert (leaves[3:] == leaves[3]).all()
    assert (leaves[0] != leaves[3]).any()


def test_an_owner_is_told_whether_its_machine_grows_the_pinned_trees(tmp_path):
    pinned = pin(terms(tmp_path), tmp_path / "trees.json")
    prepared = resolve(pinned).preparation
    assert grown_here(prepared) is True
    elsewhere = terms(tmp_path, trees={"count": 10, "leaves": 4, "seed": 1})
    assert grown_here(replace(prepared, forest=resolve(elsewhere).preparation.forest)) is False
    assert grown_here(resolve(terms(tmp_path)).preparation) is None


def arrays():
    """A stump with two leaves, and a tree that is a leaf."""
    return {
        "trees.column": np.array([0.0, -1, -1, -1]),
        "trees.threshold": np.array([0.5, 0, 0, 0]),
        "trees.left": np.array([1.0, 0, 1, 2]),
        "trees.right": np.array([2.0, 0, 0, 0]),
        "trees.roots": np.array([0.0, 3]),
        "trees.values": np.array([[1.0, -1, 0]]),
    }


def test_trees_come_out_of_a_file_as_they_went_in():
    made = Forest.from_arrays(arrays(), 1, 1)
    assert all(np.array_equal(made.arrays[name], array) for name, array in arrays().items())
    assert made.indicators(np.array([[0.5, 0.6]])).tolist() == [[1, 0], [0, 1], [1, 1]]
    assert made.labels(["age"]) == ("tree 1: age <= 0.5", "tree 1: age > 0.5", "tree 2: always")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("trees.left", [0.0, 0, 1, 2]),  # its own parent: a row would never arrive
        ("trees.right", [1.0, 0, 0, 0]),  # two parents
        ("trees.left", [1.0, 0, 0, 2]),  # two leaves, one column: a row could count twice
        ("trees.left", [9.0, 0, 1, 2]),
        ("trees.column", [7.0, -1, -1, -1]),
        ("trees.column", [0.5, -1, -1, -1]),
        ("trees.roots", [0.0]),
        ("trees.roots", [-1.0, 3]),
        ("trees.threshold", [np.nan, 0, 0, 0]),
        ("trees.threshold", [0.5, 0, 0]),
        ("trees.values", [[1.0, -1, 1e60]]),
        ("trees.values", [[1.0, -1]]),
        ("trees.values", [1.0, -1, 0]),
    ],
)
def test_no_other_file_is_a_forest(name, array):
    with pytest.raises(DataError, match=r"model\.preparation"):
        Forest.from_arrays(arrays() | {name: np.array(array)}, 1, 1)
    with pytest.raises(DataError, match=r"model\.preparation"):
        Forest.from_arrays({key: value for key, value in arrays().items() if key != name}, 1, 1)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
def test_a_cell_lies_between_its_cut_points(cells):
    encodings = (Numbers("x", fills=False, fill=np.nan), OneHot("n", False, ("a", "b")))
    known = np.vstack([np.linspace(-3, 3, 50), np.zeros((2, 50))])
    made = cut(encodings, 5, (np.zeros(3), np.ones(3)), known, 1)
    leaves = made.indicators(np.vstack([cells, np.zeros((2, len(cells)))]))
    cuts = made.threshold[made.column == 0]
    assert (np.diff(cuts) > 0).all()
    assert (leaves[: len(cuts) + 1].argmax(axis=0) == np.searchsorted(cuts, cells)).all()
    assert (leaves.sum(axis=0) == 2).all()


def test_bins_without_a_sample_take_declared_bounds_and_nothing_else(tmp_path):
    content = {"kind": "logistic-regression", "target": "y", "features": ["x"], "columns": "bins", "bins": 4}
    rest = {"privacy": {"clip": 1.0}, "owners": [{"name": "a", "records": 10, "epsilon": 1.0}]}
    declared = parley.Terms.from_dict({"model": content | {"bounds": {"x": [0, 8]}}, **rest})
    assert resolve(declared).preparation.forest.threshold[[0, 2, 4]].tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(DataError, match=r"model\.bounds\.x"):
        resolve(parley.Terms.from_dict({"model": content, **rest}))
    scaled = content | {"bounds": {"x": [0, 8]}, "centres": {"x": 4.0}, "scales": {"x": 2.0}}
    rounds = {"learning": {"horizon": 5}}
    assert parley.forecast(parley.Terms.from_dict({"model": scaled, **rounds, **rest}), resamples=1).worth.together > 0


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"columns": "trees", "public": None}, "public"),
        ({"columns": "trees", "kind": "linear-svm"}, "'trees' is not available with kind"),
        ({"columns": "trees", "whitening": "public"}, "whitening"),
        ({"columns": "bins", "components": 2}, "components"),
        ({"trees": {"count": 5}}, "columns = 'trees'"),
        ({"bins": 5}, "columns = 'bins'"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, changed, why):
    plain = terms(tmp_path).changed(model={"columns": None})
    with pytest.raises(TermsError, match=why):
        plain.changed(model=changed)


def test_trees_take_gradients_and_no_other_start(tmp_path):
    with pytest.raises(TermsError, match="public leaf values"):
        terms(tmp_path).changed(learning={"start": "public"})
    with pytest.raises(TermsError, match="asks owners for gradients"):
        terms(tmp_path).changed(learning={"algorithm": "objective-perturbation", "horizon": 1, "step": "auto"})


def test_trees_that_no_file_may_hold_are_refused_before_they_are_grown(tmp_path):
    """By the terms where they list the classes, else by the public sample; one class fewer is borne."""
    large = {"count": 1000, "leaves": 64}
    assert terms(tmp_path, trees=large).model.trees.too_many(1) is None
    several = {"kind": "softmax-regression", "target": "name", "features": ["x", "z"], "trees": large}
    with pytest.raises(TermsError, match=r"model\.trees.*fewer or smaller trees: 1000 of 64 leaves.*381,000 nodes"):
        terms(tmp_path, **several, categories={"name": ["a", "b", "c"]})
    with pytest.raises(DataError, match=r"model\.trees: expected fewer or smaller trees"):
        resolve(terms(tmp_path, **several))


def test_columns_left_out_keep_the_hash(tmp_path):
    plain = terms(tmp_path).changed(model={"columns": None})
    assert "columns" not in plain.canonical
    assert terms(tmp_path).changed(model={"columns": "trees", "trees": {"count": 10, "leaves": 4}}).hash == (
        terms(tmp_path).hash
    )


OLDEST = {"aarch64": "ARMV8", "arm64": "ARMV8", "x86_64": "NEHALEM", "AMD64": "NEHALEM"}  # what all of a kind execute
KERNELS = [
    {},
    {"OPENBLAS_CORETYPE": OLDEST.get(os.uname().machine, "GENERIC")},
    {"NPY_DISABLE_CPU_FEATURES": "ASIMDHP"},
]
PROGRAM = """
import hashlib, sys
import pandas as pd, parley
from parley.protocol.setup import resolve
for file in sys.argv[2:]:
    prepared = resolve(parley.load_terms(file)).preparation
    print(hashlib.sha256(prepared.matrix(pd.read_csv(sys.argv[1]), "rows").tobytes()).hexdigest())
"""


def test_pinned_trees_and_joined_bins_give_the_same_columns_to_the_bit_under_every_kernel(tmp_path):
    files = [tmp_path / "trees.toml", tmp_path / "hinges.toml", tmp_path / "margin.toml"]
    parley.terms.write_terms(pin(terms(tmp_path), tmp_path / "trees.json"), files[0])
    parley.terms.write_terms(terms(tmp_path, "hinges"), files[1])
    margin = terms(tmp_path, trees={"count": 20, "leaves": 4, "refitted": 3})
    parley.terms.write_terms(pin(margin, tmp_path / "margin.json"), files[2])
    table(400, 5).to_csv(tmp_path / "rows.csv", index=False)
    found = set()
    for kernel in KERNELS:
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM, tmp_path / "rows.csv", *files],
            env=os.environ | kernel, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.add(run.stdout)
    assert len(found) == 1
