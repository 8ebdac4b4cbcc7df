import json

import numpy as np
import pytest

import parley
from parley.errors import SettingError
from parley.learning.algorithm import State
from parley.learning.checkpoint import Checkpoint, load_checkpoint

START = State(1, np.zeros(3), np.zeros(3))
TERMS = parley.Terms.from_dict(
    {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1", "x2"]},
        "learning": {"horizon": 700_000, "step": 0.1},
        "privacy": {"clip": 1.0},
        "owners": [{"name": name, "records": 10, "epsilon": 1.0} for name in "ab"],
    }
)


def kept(k, path):
    state = State(k, np.array([0.1, 1 / 3, -2e-300]), np.full(3, np.pi))
    point = Checkpoint(TERMS.hash, state, {"a": k - 1, "b": k // 2}, {"a": 0.5, "b": 0.25})
    point.save(path)
    return point


def test_a_checkpoint_reads_back_to_the_bit_and_does_not_grow_with_the_rounds(tmp_path):
    path = tmp_path / "run.checkpoint"
    point = kept(7, path)
    early, found = path.stat().st_size, load_checkpoint(path, TERMS, START)
    np.testing.assert_array_equal(found.state.theta, point.state.theta)
    np.testing.assert_array_equal(found.state.memory, point.state.memory)
    assert (found.state.round, found.answers, found.spent) == (7, point.answers, point.spent)
    kept(700_001, path)  # after the last round
    assert path.stat().st_size < early + 20
    assert load_checkpoint(path, TERMS, START).state.round == 700_001


CHANGES = [
    {"format": "parley-checkpoint-1"},
    {"format": "parley-checkpoint-3"},
    {"answers": {"a": 4}},
    {"answers": {"a": -1}},
    {"answers": {"a": 2.0}},
    {"answers": {"a": True}},
    {"answers": {"c": 1}},
    {"answers": ["a"]},
    {"spent": {"a": "x"}},
    {"spent": {"c": 0.5}},
    {"spent": {"a": float("nan")}},
    {"spent": {"a": -1.0}},
    {"spent": {"a": 10**400}},
    {"theta": [1.0]},
    {"theta": [0.0, float("nan"), 0.0]},
    {"theta": [0.0, 10**400, 0.0]},
    {"theta": ["0", "0", "0"]},
    {"memory": [0.0, float("inf"), 0.0]},
    {"memory": [0.0, None, 0.0]},
    *({"round": k, "answers": {}} for k in (-3, 0, 2.7, True, "4", None, 700_002, 10**9, 10**400)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change)[:40])
def test_anything_else_is_refused(tmp_path, change):
    path = tmp_path / "run.checkpoint"
    kept(4, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SettingError, match="not a checkpoint that Parley wrote"):
        load_checkpoint(path, TERMS, START)


@pytest.mark.parametrize("text", ["", "junk", "[]", "1", "[" * 100_000, '{"terms": ' + "9" * 5000 + "}"], ids=lambda text: text[:5])
def test_junk_is_refused(tmp_path, text):
    path = tmp_path / "run.checkpoint"
    path.write_text(text)
    with pytest.raises(SettingError, match="not a checkpoint that Parley wrote"):
        load_checkpoint(path, TERMS, START)


def test_a_checkpoint_of_other_terms_is_called_that(tmp_path):
    kept(4, tmp_path / "run.checkpoint")
    other = TERMS.changed(title="Other")
    with pytest.raises(SettingError, match="a checkpoint of other terms"):
        load_checkpoint(tmp_path / "run.checkpoint", other, START)
