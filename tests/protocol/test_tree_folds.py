"""Pinned trees that cost more on the public sample than what grows there: whoever trains or accepts hears it, in the
words of the forecast."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import DataError
from parley.learning.deployed import prepare_run
from parley.learning.owners import accepting_owners
from parley.owner.warnings import sentences
from parley.protocol import tree_folds
from parley.protocol.setup import pin, resolve
from parley.terms import write_terms

PUBLIC, OWNED = 300, 600
SIZE = {"count": 12, "leaves": 4, "rate": 0.3, "rows": 1.0}
REFUSED = "were not grown on the public sample with the settings of model.trees"


def bumps(rows, seed):
    """Two columns that matter by where they lie."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, rows))
    return pd.DataFrame({"a": a, "b": b, "y": (rng.logistic(size=rows) < 4 * (np.abs(a) > 0.5) - 2 + b).astype(int)})


def unpinned(folder, public=None, **model):
    (bumps(PUBLIC, 1) if public is None else public).to_csv(folder / "public.csv", index=False)
    bumps(OWNED, 2).to_csv(folder / "bank.csv", index=False)
    content = {
        "model": {
            "kind": "logistic-regression", "target": "y", "features": ["a", "b"], "public": str(folder / "public.csv"),
            "columns": "trees", "trees": SIZE, **model,
        },
        "learning": {"algorithm": "gradient-descent", "horizon": 4, "step": 0.5, "decay": 0.0},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 4.0},
        "owners": [{"name": "bank", "records": OWNED, "epsilon": 1.0, "data": str(folder / "bank.csv")}],
    }  # fmt: skip
    return parley.Terms.from_dict(content)


def other_file(pinned, array, change):
    """The terms with another file, in which the numbers of one array are changed."""
    file = Path(pinned.model.preparation)
    held = json.loads(file.read_text())
    held["arrays"][f"trees.{array}"] = change(np.array(held["arrays"][f"trees.{array}"])).tolist()
    file.with_name("other.json").write_text(json.dumps(held))
    return pinned.changed(model={"preparation": str(file.with_name("other.json")), "preparation_sha256": None})


def nearly(thresholds):
    """As another processor may grow them."""
    return thresholds + 1e-3 * (thresholds != 0) * (np.arange(len(thresholds)) == 0)


@pytest.fixture(scope="module")
def pinned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pinned")
    return pin(unpinned(folder), folder / "trees.json")


@pytest.fixture(scope="module")
def hostile(pinned):
    """The terms with a file that says of every row the opposite."""
    return other_file(pinned, "values", lambda values: -values)


@pytest.fixture(scope="module")
def bank():
    return parley.Owner("bank", bumps(OWNED, 2))


def refusal(work, *given):
    with pytest.raises(DataError, match=REFUSED) as refused:
        work(*given)
    return str(refused.value)


def test_training_refuses_what_the_forecast_refuses_in_the_same_words(hostile, bank):
    said = refusal(parley.forecast, hostile)
    assert said.startswith("model.preparation: the pinned trees cost ")
    assert refusal(lambda: parley.train(hostile, [bank], seed=1)) == said


def test_without_the_check_such_trees_would_be_trained_by(hostile, bank, monkeypatch):
    """A mutant: what refuses is the cost, and nothing else on the way."""
    monkeypatch.setattr(tree_folds, "MAX_STANDARD_ERRORS", np.inf)
    assert parley.train(hostile, [bank], seed=1).theta.size


def test_nothing_is_reserved_and_no_run_is_begun(hostile, tmp_path):
    ledgers = tmp_path / "ledgers"
    refusal(accepting_owners, hostile, ledgers, 1.0, 1e-5)
    assert not ledgers.exists()
    refusal(prepare_run, hostile, tmp_path / "checkpoint")


def test_the_command_refuses_them(hostile, tmp_path):
    file = tmp_path / "terms.toml"
    write_terms(hostile, file)
    done = CliRunner().invoke(app, ["train", str(file), "--seed", "1"])
    assert done.exit_code != 0
    assert REFUSED in " ".join(str(done.exception or done.output).split())


def test_whoever_accepts_reads_the_same(hostile, pinned, bank):
    words = tree_folds.worse_trees(resolve(hostile))
    assert any(each.startswith(words[0].upper() + words[1:]) for each in sentences(bank.prepare(hostile)))
    assert not any(REFUSED in each for each in sentences(bank.prepare(pinned)))


@pytest.mark.parametrize("size", [SIZE, {**SIZE, "rows": 0.9, "seed": 1}], ids=["of this machine", "of equal worth"])
def test_honest_trees_are_trained_by(pinned, bank, tmp_path, size):
    """Those of another seed stand for what another processor grows."""
    same = pin(pinned.changed(model={"trees": size}), tmp_path / "trees.json").changed(model={"trees": SIZE})
    assert tree_folds.worse_trees(resolve(same)) is None
    assert parley.train(same, [bank], seed=1).theta.size


def test_folds_judge_rows_that_their_trees_have_not_seen(pinned):
    setup = resolve(pinned)
    found = list(tree_folds.tree_folds(setup, 5))
    assert np.array_equal(np.sum([fold.held for fold in found], axis=0), np.ones(PUBLIC))
    assert all(len(fold.judges) + len(fold.grown) == PUBLIC for fold in found)
    own = float(setup.risk.cost(setup.public, setup.preparation.origin))
    assert np.mean([fold.cost for fold in found]) > own  # a mutant that judges by all rows


def rare(rows, count=1):
    """Of many classes each but the first two in one row."""
    table = bumps(rows, 1)
    names = np.array(["no", "yes"])[table["y"]].astype(object)
    names[:count] = [f"rare-{place}" for place in range(count)]
    return table.assign(y=names)


@pytest.mark.parametrize("kind", ["logistic-regression", "softmax-regression"])
def test_honest_trees_are_judged_by_the_folds_without_which_every_class_has_rows(kind, tmp_path):
    binary = bumps(PUBLIC, 1).assign(y=(np.arange(PUBLIC) == 5).astype(int))
    public = binary if kind == "logistic-regression" else rare(PUBLIC)
    terms = pin(unpinned(tmp_path, public, kind=kind), tmp_path / "trees.json")
    assert tree_folds.worse_trees(resolve(other_file(terms, "threshold", nearly))) is None
    assert REFUSED in tree_folds.worse_trees(resolve(other_file(terms, "values", lambda values: -values)))


def test_where_too_few_folds_are_left_that_is_said(tmp_path):
    terms = pin(unpinned(tmp_path, rare(PUBLIC, 40), kind="softmax-regression"), tmp_path / "trees.json")
    assert "too few rows, in total or of a class, to compare" in tree_folds.worse_trees(
        resolve(other_file(terms, "threshold", nearly))
    )


def test_trees_of_a_public_target_that_never_changes_are_judged_without_a_ratio(tmp_path):
    public = bumps(PUBLIC, 1).assign(y=1.0)
    kind = {"kind": "linear-regression", "bounds": {"y": [0.0, 2.0]}}
    terms = pin(unpinned(tmp_path, public, **kind), tmp_path / "trees.json")
    said = tree_folds.worse_trees(resolve(other_file(terms, "values", lambda values: values + 0.5)))
    assert said.startswith("the pinned trees cost more on the public sample than trees")
    rounded = other_file(terms, "values", lambda values: values + 1e-15)
    assert tree_folds.worse_trees(resolve(rounded)) is None
