"""What one recording can do to the released moments."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from series import narma, series_terms

from parley.losses import RecordBound
from parley.protocol.queries.question import Tables
from parley.protocol.setup import resolve
from parley.tasks.dynamics.reservoir.recordings import StateMomentsQuery, StateMomentsQuestion, record_design

RUNS, SAMPLES = 3, 10
SMALL = {"samples": SAMPLES, "washout": 2, "nodes": 3, "input_scale": 3.0}
HOSTILE = [0.0, 1e-320, 1e-160, 1e-50, 0.25, 0.5, 1.0, 1e20, 1e160, 1.7e308]


def search(question=None, steps=30, starts=3, **privacy):
    """(how far the worst pair of recordings that was climbed to moves the answer, what is claimed)."""
    setup = resolve(series_terms(1, RUNS, 1.0, reservoir=SMALL, privacy=privacy))
    claimed = setup.part("site-0").training.question
    asked = claimed if question is None else question(claimed)
    others = setup.preparation.records(narma(RUNS, 1, SAMPLES), "table")[1:]
    rng, run = np.random.default_rng(2), pa.array(["run 0"] * SAMPLES)
    norm = (lambda v: np.abs(v).sum()) if claimed.norm == "l1" else np.linalg.norm

    def answer(cells):
        one = pa.RecordBatch.from_arrays([*map(pa.array, cells.T), run], ["u", "y", "run"])
        design = record_design(np.vstack([setup.preparation.records(one, "table"), others]))
        return asked.exact(StateMomentsQuery.ask("h", "l", 1), Tables(design, design.empty()))

    worst = 0.0
    begin = [(np.full((SAMPLES, 2), 1e300), np.tile([-1e300, 1e300], (SAMPLES, 1)))]
    begin += [(np.tile([1e300, 0.501], (SAMPLES, 1)), np.tile([1e300, 0.499], (SAMPLES, 1)))]
    shape = 2, SAMPLES, 2
    begin += [tuple(rng.choice([-1.0, 1.0], shape) * rng.choice(HOSTILE, shape)) for _ in range(starts)]
    for pair in map(list, begin):
        said = [answer(each) for each in pair]
        best = norm(said[0] - said[1])
        for _ in range(steps):
            where, which = (int(rng.integers(SAMPLES)), int(rng.integers(2))), int(rng.integers(2))
            trial = pair[which].copy()
            trial[where] = rng.choice([-1.0, 1.0]) * rng.choice(HOSTILE)
            now = answer(trial)
            if norm(now - said[1 - which]) > best:
                pair[which], said[which], best = trial, now, norm(now - said[1 - which])
        worst = max(worst, best)
    return worst, claimed.sensitivity


@pytest.mark.parametrize(
    ("privacy", "power"),
    [
        ({}, 0.5),
        ({"clip": 1.0}, 0.7),
        ({"clip": 1e-40}, 0.7),
        ({"mechanism": "laplace", "delta": 0.0, "clip": 1.0}, 0.6),
    ],
)
def test_no_pair_of_recordings_moves_the_answer_further_than_stated(privacy, power):
    worst, claimed = search(**privacy)
    assert power * claimed < worst <= claimed


class Signed(StateMomentsQuestion):
    """A mutant: matrices that point apart, so that no hypotenuse bounds their difference."""

    def _packed(self, block):
        return super()._packed(block) * np.where(block.X[:, -2:-1] < 0, -1.0, 1.0)


def unscaled(question):
    """A mutant that scales no matrix down."""
    return replace(question, bound=RecordBound(1e6, question.norm, clips=True))


def signed(question):
    return Signed(**{part.name: getattr(question, part.name) for part in fields(question)})


@pytest.mark.parametrize("mutant", [unscaled, signed])
def test_the_search_finds_mutants(mutant):
    worst, claimed = search(mutant, clip=1.0)
    assert worst > claimed * 1.2


def test_a_recording_has_one_record_whatever_the_others_hold_and_however_long_they_are():
    """To the bit."""
    setup, rng = resolve(series_terms(1, 4, 1.0)), np.random.default_rng(3)
    table = narma(4, 1)
    before = setup.preparation.records(table, "table")
    for length in (1, 29, 31, 100, 140):
        other = narma(1, 9, length).assign(run="run 2")
        other[["u", "y"]] *= rng.choice([1e-160, 1.0, 1e160])
        changed = pd.concat([table[table.run < "run 2"], other, table[table.run > "run 2"]], ignore_index=True)
        after = setup.preparation.records(changed, "table")
        np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])


def test_samples_of_the_washout_teach_nothing_by_themselves_and_later_ones_do_not_count():
    setup = resolve(series_terms(1, 2, 1.0))
    table = narma(2, 1, 120)
    records = setup.preparation.records(table, "table")
    place = table.groupby("run").cumcount()
    wrong = table.assign(y=np.where((place < 30) | (place >= 100), 0.77, table.y))
    np.testing.assert_array_equal(setup.preparation.records(wrong, "table"), records)
    assert not setup.preparation.records(table[place < 30], "table").any()
