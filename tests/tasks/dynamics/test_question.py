"""What one trajectory can do to the released moments."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from plants import COLUMNS, plant_terms, trajectories

from parley import Owner
from parley.data import Design
from parley.protocol.queries.question import Tables
from parley.protocol.setup import resolve
from parley.tasks.dynamics.question import TrajectoriesQuery

RUNS, SAMPLES = 4, 12


def question_of(**privacy):
    setup = resolve(plant_terms(1, RUNS, 1.0, samples=SAMPLES, **privacy))
    return setup, setup.part("plant-0").training.question


def answer(setup, question, frame):
    train, held_out = setup.preparation.designs(frame, setup.terms, "plant-0")
    return question.exact(TrajectoriesQuery.ask("h", "l", 1), Tables(train, held_out))


HOSTILE = [0.0, 1e-320, 1e-160, 1e-50, 1e-20, 1.0, 16.0, 1e20, 1e160, 1.7e308]


@pytest.mark.parametrize(
    "privacy", [{}, {"clip": 3.0}, {"clip": 1e-40}, {"mechanism": "laplace", "delta": 0.0, "clip": 2.0}]
)
def test_no_pair_of_trajectories_moves_the_answer_further_than_stated(privacy):
    """Climb from random and from hostile pairs: the trajectory is moved where the answer moves most."""
    setup, question = question_of(**privacy)
    frame = trajectories(RUNS, 1, SAMPLES)
    rng = np.random.default_rng(2)
    norm = (lambda v: np.abs(v).sum()) if question.norm == "l1" else np.linalg.norm

    others, run = setup.preparation.records(frame, "table"), pa.array(["run 0"] * SAMPLES)

    def asked(cells):
        one = pa.RecordBatch.from_arrays([*map(pa.array, cells.T), run], [*COLUMNS, "run"])
        X = np.vstack([setup.preparation.records(one, "table"), others[1:]])
        design = Design(X, np.zeros(RUNS), np.ones(RUNS))
        return question.exact(TrajectoriesQuery.ask("h", "l", 1), Tables(design, design.empty()))

    worst = 0.0
    starts = [(np.zeros((SAMPLES, 4)), np.full((SAMPLES, 4), 1e300))]
    starts += [(np.tile([1e300, 0, 0, 0], (SAMPLES, 1)), np.tile([0, 1e300, 0, 0], (SAMPLES, 1)))]
    starts += [(np.tile([1e300, 1e300, 0, 0], (SAMPLES, 1)), np.tile([0, 0, 1e300, 1e300], (SAMPLES, 1)))]
    for _ in range(12):
        scale = rng.choice(HOSTILE, size=(2, SAMPLES, 4))
        a, b = rng.choice([-1.0, 1.0], size=(2, SAMPLES, 4)) * scale
        starts.append((a, b))
    for a, b in starts:
        pair, said = [a, b], [asked(a), asked(b)]
        best = norm(said[0] - said[1])
        for _ in range(30):
            where, which = (int(rng.integers(SAMPLES)), int(rng.integers(4))), int(rng.integers(2))
            trial = pair[which].copy()
            trial[where] = rng.choice([-1.0, 1.0]) * rng.choice(HOSTILE)
            now = asked(trial)
            if norm(now - said[1 - which]) > best:
                pair[which], said[which], best = trial, now, norm(now - said[1 - which])
        worst = max(worst, best)
    assert worst <= question.sensitivity
    assert worst > 0.7 * question.sensitivity  # the bound is nearly reached: half of it would be caught


def test_a_trajectory_is_clipped_as_a_whole():
    setup, question = question_of(clip=0.5)
    design = setup.preparation.designs(trajectories(RUNS, 1, SAMPLES), setup.terms, "plant-0")[0]
    sizes = question.record_sizes(design, np.zeros(1))
    assert (sizes > 0.5).all()
    one = Design(design.X[:1], design.y[:1], design.weight[:1])
    bounded = question.exact(TrajectoriesQuery.ask("h", "l", 1), Tables(one, one.empty()))
    assert np.linalg.norm(bounded) == pytest.approx(0.5)


def test_samples_beyond_the_agreed_number_do_not_count():
    setup, question = question_of()
    frame = trajectories(RUNS, 1, SAMPLES)
    longer = trajectories(RUNS, 1, SAMPLES + 5)
    assert Owner("plant-0", frame).accept(setup.terms).part.training.question.sensitivity == question.sensitivity
    short = longer.groupby("run").head(SAMPLES).reset_index(drop=True)
    assert np.array_equal(answer(setup, question, longer), answer(setup, question, short))


def test_a_recording_has_one_record_whatever_the_others_hold_and_however_long_they_are():
    """To the bit: each recording's product of matrices has a shape of its own."""
    setup, _ = question_of()
    frame, rng = trajectories(RUNS, 1, SAMPLES), np.random.default_rng(3)
    before = setup.preparation.records(frame, "table")
    for length in (1, 5, SAMPLES, 40):
        other = trajectories(1, 9, length).assign(run="run 2")
        other[COLUMNS] *= rng.choice([1e-160, 1.0, 1e160])
        changed = pd.concat([frame[frame.run < "run 2"], other, frame[frame.run > "run 2"]], ignore_index=True)
        after = setup.preparation.records(changed, "table")
        np.testing.assert_array_equal(after[[0, 1, 3]], before[[0, 1, 3]])
