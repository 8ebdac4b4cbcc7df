import json

import numpy as np
import pytest

from parley.errors import SettingError
from parley.learning.algorithm import State
from parley.learning.checkpoint import Checkpoint, load_checkpoint

START = State(1, np.zeros(3), np.zeros(3))
TERMS = "0" * 64


def kept(k, path):
    state = State(k, np.array([0.1, 1 / 3, -2e-300]), np.full(3, np.pi))
    point = Checkpoint(TERMS, state, {"a": k - 1, "b": k // 2}, {"a": 0.5, "b": 0.25})
    point.save(path)
    return point


def test_a_checkpoint_reads_back_to_the_bit_and_does_not_grow_with_the_rounds(tmp_path):
    path = tmp_path / "run.checkpoint"
    point = kept(7, path)
    early, found = path.stat().st_size, load_checkpoint(path, TERMS, START)
    np.testing.assert_array_equal(found.state.theta, point.state.theta)
    np.testing.assert_array_equal(found.state.memory, point.state.memory)
    assert (found.state.round, found.answers, found.spent) == (7, point.answers, point.spent)
    kept(700_000, path)
    assert path.stat().st_size < early + 20


def test_a_checkpoint_that_named_the_owners_of_every_round_is_read(tmp_path):
    path = tmp_path / "run.checkpoint"
    kept(4, path)
    content = json.loads(path.read_text())
    del content["answers"], content["spent"]
    content |= {"format": "parley-checkpoint-1", "answered": [["a", "b"], ["a"], ["a", "b"]]}
    path.write_text(json.dumps(content))
    found = load_checkpoint(path, TERMS, START)
    assert (found.answers, found.spent) == ({"a": 3, "b": 2}, {})


@pytest.mark.parametrize(
    "change",
    [{"format": "parley-checkpoint-3"}, {"answers": {"a": 4}}, {"answers": ["a"]}, {"theta": [1.0]}, {"spent": {"a": "x"}}],
)
def test_anything_else_is_refused(tmp_path, change):
    path = tmp_path / "run.checkpoint"
    kept(4, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SettingError, match="not a checkpoint that Parley wrote"):
        load_checkpoint(path, TERMS, START)
