import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

import parley
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import State
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import Signature, SignedEnd

START = State(1, np.zeros(3), {"average": np.zeros(3)})
TERMS = parley.Terms.from_dict(
    {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1", "x2"]},
        "learning": {"horizon": 700_000, "step": 0.1},
        "privacy": {"clip": 1.0},
        "owners": [{"name": name, "records": 10, "epsilon": 1.0} for name in "ab"],
    }
)


def kept(k, path):
    state = State(k, np.array([0.1, 1 / 3, -2e-300]), {"average": np.full(3, np.pi)})
    point = Checkpoint(TERMS.hash, state, {"a": k - 1, "b": k // 2}, {"a": 0.5, "b": 0.25}, {"a": Head(k, "5" * 64)})
    point.save(path)
    return point


def test_a_checkpoint_reads_back_to_the_bit_and_does_not_grow_with_the_rounds(tmp_path):
    path = tmp_path / "run.checkpoint"
    point = kept(7, path)
    early, found = path.stat().st_size, load_checkpoint(path, TERMS, START)
    np.testing.assert_array_equal(found.state.theta, point.state.theta)
    np.testing.assert_array_equal(found.state.memory["average"], point.state.memory["average"])
    assert found.state.memory.keys() == {"average"}
    assert (found.state.round, found.answers, found.spent, found.heads) == (7, point.answers, point.spent, point.heads)
    kept(700_001, path)  # after the last round
    assert path.stat().st_size < early + 30
    assert load_checkpoint(path, TERMS, START).state.round == 700_001


def rewrite(path, change, checksum=True):
    """What somebody would write who means it: with a new checksum, or without any."""
    content = json.loads(path.read_text()) | change
    del content["checksum"]
    if checksum:
        text = json.dumps(content, sort_keys=True)
        content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        {"theta": [0.1, 1 / 3, 2.0]},
        {"round": 5},
        {"heads": {}},
        {"spent": {}},
        {"checksum": None},
        {"format": "parley-checkpoint-2"},
    ],
)
def test_a_change_that_its_checksum_does_not_cover_is_noticed(tmp_path, change):
    path = tmp_path / "run.checkpoint"
    kept(7, path)
    rewrite(path, {})
    load_checkpoint(path, TERMS, START)  # the same content in another order is the same
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SettingError, match="changed after writing"):
        load_checkpoint(path, TERMS, START)


def test_any_digit_that_changes_is_noticed(tmp_path):
    path = tmp_path / "run.checkpoint"
    kept(7, path)
    text = path.read_text()
    for place in [i for i, c in enumerate(text) if c.isdigit()][::7]:
        path.write_text(text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :])
        with pytest.raises(SettingError, match="changed after writing"):
            load_checkpoint(path, TERMS, START)


NAMELESS = [np.pi] * 3  # what is remembered, when it was one array without a name


@pytest.mark.parametrize("heads", [False, True])
def test_checkpoints_of_the_formats_before_are_still_read(tmp_path, heads):
    """The first format had neither heads nor a checksum; one after it had both."""
    path = tmp_path / "run.checkpoint"
    point = kept(7, path)
    if heads:
        rewrite(path, {"memory": NAMELESS})
    else:
        rewrite(path, {"memory": NAMELESS, "format": "parley-checkpoint-2", "heads": {}}, checksum=False)
    found = load_checkpoint(path, TERMS, START)
    np.testing.assert_array_equal(found.state.theta, point.state.theta)
    np.testing.assert_array_equal(found.state.memory["average"], NAMELESS)
    assert (found.state.round, found.answers, found.spent) == (7, point.answers, point.spent)
    assert found.heads == (point.heads if heads else {})


def test_an_algorithm_that_remembers_nothing_reads_what_it_once_kept_twice(tmp_path):
    path = tmp_path / "run.checkpoint"
    kept(7, path)
    rewrite(path, {"memory": NAMELESS})
    assert load_checkpoint(path, TERMS, State(1, np.zeros(3))).state.memory == {}


CHANGES = [
    {"format": "parley-checkpoint-1"},
    {"format": "parley-checkpoint-4"},
    {"heads": {"a": [0, "5" * 64]}},
    {"heads": {"a": [True, "5" * 64]}},
    {"heads": {"a": [7.0, "5" * 64]}},
    {"heads": {"a": [7, "5" * 63]}},
    {"heads": {"a": [7, None]}},
    {"heads": {"a": [7]}},
    {"heads": {"c": [7, "5" * 64]}},
    {"heads": None},
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
    *(
        {"memory": memory}
        for array in ([0.0, float("inf"), 0.0], [0.0, None, 0.0], [0.0], ["0", "0", "0"])
        for memory in (array, {"average": array})
    ),
    {"memory": {}},
    {"memory": {"mean": [0.0, 0.0, 0.0]}},
    {"memory": {"average": [0.0, 0.0, 0.0], "moments": [0.0, 0.0, 0.0]}},
    {"memory": None},
    *({"round": k, "answers": {}} for k in (-3, 0, 2.7, True, "4", None, 700_002, 10**9, 10**400)),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change)[:40])
def test_anything_else_is_refused(tmp_path, change):
    path = tmp_path / "run.checkpoint"
    kept(4, path)
    rewrite(path, change)
    with pytest.raises(SettingError, match="not a Parley checkpoint"):
        load_checkpoint(path, TERMS, START)


@pytest.mark.parametrize(
    "text", ["", "junk", "[]", "1", "[" * 100_000, '{"terms": ' + "9" * 5000 + "}"], ids=lambda text: text[:5]
)
def test_junk_is_refused(tmp_path, text):
    path = tmp_path / "run.checkpoint"
    path.write_text(text)
    with pytest.raises(SettingError, match="not a Parley checkpoint"):
        load_checkpoint(path, TERMS, START)


def test_a_checkpoint_of_other_terms_is_called_that(tmp_path):
    kept(4, tmp_path / "run.checkpoint")
    other = TERMS.changed(title="Other")
    with pytest.raises(SettingError, match="belongs to a run under different terms"):
        load_checkpoint(tmp_path / "run.checkpoint", other, START)


HOSTED = parley.Terms.from_dict(
    {
        "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1", "x2"], "radius": 1.0},
        "learning": {"horizon": 9, "step": 0.1},
        "privacy": {"clip": 1.0, "noise": "shared", "delta": 1e-6},
        "owners": [{"name": name, "records": 10, "epsilon": 1.0} for name in "ab"],
        "hosts": [{"name": name} for name in ("h0", "h1")],
    }
)


def test_ends_of_the_hosts_journals_are_kept(tmp_path):
    path, state = tmp_path / "run.checkpoint", replace(START, round=3)
    signed = SignedEnd("h0", "journal", HOSTED.hash, "b" * 64, Head(7, "d" * 64), Signature(b"certificate", b"value"))
    bare = SignedEnd("h1", "journal", HOSTED.hash, "c" * 64, Head(9, "e" * 64))
    full = replace(signed, signature=Signature(b"certificate", b"value", b"second"), origin="a" * 64, restores=3)
    Checkpoint(HOSTED.hash, state, {}, {}, ends={"h0": full}).save(path)
    assert load_checkpoint(path, HOSTED, START).ends == {"h0": full}
    written = json.loads(path.read_text())["ends"]["h0"]
    for wrong in (written[:-1], [*written[:-1], -1], [*written[:-1], "3"], [*written[:-2], "a", 3], [*written, 3]):
        rewrite(path, {"ends": {"h0": wrong}})
        with pytest.raises(SettingError, match="not a Parley checkpoint"):
            load_checkpoint(path, HOSTED, START)
    Checkpoint(HOSTED.hash, state, {}, {}, ends={"h0": signed, "h1": bare}).save(path)
    assert load_checkpoint(path, HOSTED, START).ends == {"h0": signed, "h1": bare}
    written = json.loads(path.read_text())["ends"]["h1"]
    for name, wrong in (("h2", written), ("h1", written[:2]), ("h1", ["b", *written[1:]]), ("h1", [*written, "zz"])):
        rewrite(path, {"ends": {name: wrong}})
        with pytest.raises(SettingError, match="not a Parley checkpoint"):
            load_checkpoint(path, HOSTED, START)
    Checkpoint(HOSTED.hash, state, {}, {}).save(path)
    assert "ends" not in json.loads(path.read_text())  # as earlier versions wrote it
    assert load_checkpoint(path, HOSTED, START).ends == {}
