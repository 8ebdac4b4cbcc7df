"""Tables told into recordings: which are held out, how long they are driven, and tables without any.

Premise T2.
"""

import numpy as np
import pandas as pd
import pytest
from series import narma, series_terms
from typer.testing import CliRunner

from parley import Owner, train
from parley.cli.app import app
from parley.errors import DataError, ModelError
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.protocol.queries.question import Tables
from parley.protocol.setup import resolve
from parley.tasks.dynamics.reservoir import recordings as features
from parley.tasks.dynamics.reservoir.model import compared
from parley.tasks.dynamics.reservoir.recordings import StateMomentsQuery

RUNS, SAMPLES = 40, 10
SMALL = {"samples": SAMPLES, "washout": 2, "nodes": 3, "input_scale": 3.0}
HELD = series_terms(1, RUNS, 1.0, reservoir=SMALL, privacy={"clip": 1.0}, model={"holdout": 0.2})


@pytest.fixture(scope="module")
def setup():
    return resolve(HELD)


def extreme(high):
    """A table of recordings that are as large as can be (where `high`), or as low."""
    run = np.repeat([f"run {k}" for k in range(RUNS)], SAMPLES)
    return pd.DataFrame({"run": run, "u": np.where(np.repeat(high, SAMPLES), 1e9, -1e9), "y": np.repeat(high, SAMPLES)})


def moved(setup, one, other):
    """How far the answers to two tables lie apart, in units of what is claimed."""
    question, query = setup.part("site-0").training.question, StateMomentsQuery.ask("h", "l", 1)
    said = [question.exact(query, Tables(*setup.preparation.designs(table, HELD, "site-0"))) for table in (one, other)]
    return np.linalg.norm(said[0] - said[1]) / question.sensitivity


@pytest.mark.parametrize("length", [1, 3, SAMPLES, 50])
@pytest.mark.parametrize("interleaved", [False, True])
def test_held_out_or_not_a_recording_that_begins_where_the_old_one_did_moves_the_answer_as_stated(
    setup, length, interleaved
):
    rng = np.random.default_rng(length)
    train_on, worst = setup.preparation.trained_on(RUNS), 0.0
    for place in (0, int(np.flatnonzero(~train_on)[0]), int(np.flatnonzero(train_on)[5]), RUNS - 1):
        table, name = extreme(rng.random(RUNS) < 0.5), f"run {place}"
        ours = table[table.run == name]
        level = 1.0 - ours.y.iloc[0]
        new = pd.DataFrame({"run": name, "u": np.full(length, 2 * level - 1) * 1e300, "y": level})
        start, end = ours.index[0], ours.index[-1]
        now = 1 if interleaved else length  # the others come at the end
        parts = [table[:start], new[:now], table[end + 1 :], new[now:]]
        found = moved(setup, table, pd.concat(parts, ignore_index=True))
        assert found <= 1
        assert train_on[place] or found == 0
        worst = max(worst, found)
    assert worst > 0.3 or length < SAMPLES


def test_one_that_begins_elsewhere_is_no_neighbour_and_owners_are_told(setup, tmp_path):
    """Others change between training and held-out: the premise is needed."""
    train_on = setup.preparation.trained_on(RUNS)
    table = extreme(train_on & ~np.roll(train_on, 1))
    first = table.run == "run 0"
    assert moved(setup, table, pd.concat([table[~first], table[first]], ignore_index=True)) > 3
    ledger = Ledger(tmp_path / "a.ledger", 2.0, 1e-6)
    owner = Owner("site-0", table, ledger=ledger)
    assert "the order in which they begin. This order is not protected" in " ".join(
        acceptance_summary(owner, owner.prepare(HELD))
    )
    ledger.close()


def test_recordings_are_driven_as_long_as_they_are_however_long_they_might_be(monkeypatch):
    driven = []
    states = features.Nodes.states

    def watched(nodes, inputs):
        driven.append(inputs.shape[1])
        return states(nodes, inputs)

    table = narma(5, 1, 50)
    found = []
    for samples in (50, 400, 10**13):
        prepared = resolve(series_terms(1, 5, 1.0, reservoir=SMALL | {"samples": samples})).preparation
        features.Features.from_reservoir(prepared.model.reservoir, 1).turn  # noqa: B018 - drives made-up inputs, once
        monkeypatch.setattr(features.Nodes, "states", watched)
        found.append(prepared.records(table, "table") * (samples - 2))
        monkeypatch.undo()
    assert max(driven) == 50
    np.testing.assert_allclose(found[1], found[0], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-14, atol=1e-15)


def test_a_table_without_rows_has_no_recordings(setup, tmp_path):
    none = narma(1, 1)[:0]
    assert setup.preparation.records(none, "table").shape == (0, setup.preparation.width)
    with pytest.raises(DataError, match="state 1 records, but the table has 0 recordings"):
        train(series_terms(1, 1, 1.0), [Owner("site-0", none)])
    owner = Owner("site-0", narma(20, 1))
    model = train(series_terms(1, 20, 5.0), [owner], seed=1).model
    assert model.predict(none).shape == (0,)
    with pytest.raises(ModelError, match="new recordings"):
        compared(series_terms(1, 20, 5.0), owner, model, none)
    model.save(tmp_path / "m.json")
    none.to_csv(tmp_path / "none.csv", index=False)
    ran = CliRunner().invoke(
        app, ["predict", str(tmp_path / "m.json"), str(tmp_path / "none.csv"), "--out", str(tmp_path / "out.csv")]
    )
    assert ran.exit_code == 0, ran.output
