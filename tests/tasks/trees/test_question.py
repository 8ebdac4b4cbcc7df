"""What one person can do to an answer, from raw tables on: searched from tables of any doubles."""

import numpy as np
import pandas as pd
import pytest
from grove import COLOURS, grove, grove_terms

from parley.errors import Malformed
from parley.privacy.mechanisms.mechanism import require_bounded
from parley.protocol.queries import GradientQuery, Tables
from parley.protocol.setup import resolve
from parley.tasks.trees.question import LeafSumsQuery, Leaves

ROWS = 5
CELLS = [0.0, 100.0, 50.0, -1e300, 1e300, 5e-324, np.nan, 9.999999999999999, 10.0, -0.0]
TARGETS = [-1e300, 1e300, -4.0, 4.0, 0.0, 5e-324, np.nan]

SETTINGS = [
    {"classes": True},
    {"classes": False},
    {"classes": True, "privacy": {"mechanism": "laplace", "delta": 0.0}},
    {"classes": False, "privacy": {"mechanism": "laplace", "delta": 0.0, "clip": 1e-50}},
    {"classes": False, "privacy": {"clip": 1e50}},
    {"classes": True, "model": {"depth": 2}, "learning": {"horizon": 20}},
]


def found_worst(setup, rng, tries=300):
    """The largest move over the sensitivity, climbing over the replaced row, the question and the round."""
    terms, question = setup.terms, setup.part("a").training.question
    others, classes = grove(ROWS - 1, 1, terms.model.classifies), terms.model.classifies
    drawn = []

    def row():
        y = rng.choice([0.0, 1.0, np.nan] if classes else TARGETS)
        drawn.append([rng.choice(CELLS), rng.choice(CELLS), rng.choice([*COLOURS, "grey"]), y])
        return len(drawn) - 1

    def moved(pair, theta, number):
        query, values = LeafSumsQuery.ask("h", "l", number, theta), []
        question.check(query, ())
        for mine in pair:
            table = rows.where(np.array([mine, *range(len(drawn), len(rows))]))
            bounded = question.bounded(query, Tables(table, held))
            require_bounded(bounded, question.norm, question.sensitivity)
            assert question.extent.holds(bounded.value)
            values.append(bounded.value)
        away = values[0] - values[1]
        return float(np.abs(away).sum() if question.norm == "l1" else np.linalg.norm(away)) / question.sensitivity

    def point():
        wild = rng.choice([-1.0, 1.0], question.parameters) * 10.0 ** rng.uniform(-300, 50, question.parameters)
        return wild if rng.random() < 0.5 else rng.normal(0, 20, question.parameters)

    pair, theta, number = [row(), row()], point(), 2
    steps = []  # drawn before, so that all rows are prepared at once
    for step in range(tries):
        fresh, where = [row() if step % 4 in (k, 2) else None for k in range(2)], point() if step % 4 == 3 else None
        steps.append((fresh, where, int(rng.integers(1, terms.learning.horizon + 1))))
    frame = pd.concat([pd.DataFrame(drawn, columns=others.columns), others], ignore_index=True)
    rows, held = setup.preparation.designs(frame, terms.changed(owners={"a": {"records": len(frame)}}), "a")
    worst = moved(pair, theta, number)
    for fresh, where, when in steps:
        trial = [old if new is None else new for old, new in zip(pair, fresh, strict=True)]
        where = theta if where is None else where
        if (found := moved(trial, where, when)) > worst:
            worst, pair, theta, number = found, trial, where, when
    return worst


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_no_neighbours_found_differ_by_more_than_the_sensitivity(settings):
    setup = resolve(grove_terms({"a": ROWS}, **settings))
    worst = found_worst(setup, np.random.default_rng(0))
    assert 0.4 < worst <= 1


def test_a_record_in_two_leaves_would_be_found_out(monkeypatch):
    """The mutant: a tree whose leaves overlap, so that a record adds its share twice."""
    whole = np.bincount
    monkeypatch.setattr(
        "parley.tasks.trees.question.np.bincount",
        lambda leaf, weights, minlength: whole(leaf, weights, minlength) + whole(leaf // 2, weights, minlength),
    )
    with pytest.raises(AssertionError):
        assert found_worst(resolve(grove_terms({"a": ROWS})), np.random.default_rng(0)) <= 1


def test_a_persons_rows_move_an_answer_so_many_times_as_far():
    one, three = (
        resolve(grove_terms({"a": 30}, privacy={"person": "who", "records_per_person": k})).part("a").training.question
        for k in (1, 3)
    )
    assert three.sensitivity == pytest.approx(3 * one.sensitivity)


def test_other_questions_and_points_of_other_shapes_are_refused():
    question = resolve(grove_terms({"a": ROWS})).part("a").training.question
    P = question.parameters
    for query in (
        GradientQuery.ask("h", "l", 1, np.zeros(P)),
        LeafSumsQuery.ask("h", "l", 1, np.zeros(P + 1)),
        LeafSumsQuery.ask("h", "l", 1, np.full(P, 1e51)),
        LeafSumsQuery.ask("h", "l", 1, np.full(P, np.nan)),
        LeafSumsQuery.ask("h", "l", 1, np.zeros((2, P))),
    ):
        with pytest.raises(Malformed):
            question.check(query, ())
    question.check(LeafSumsQuery.ask("h", "l", 1, np.zeros((2, P))), (2,))


def test_replicates_are_answered_one_by_one():
    setup = resolve(grove_terms({"a": 40}))
    question, rng = setup.part("a").training.question, np.random.default_rng(0)
    tables = Tables(*setup.preparation.designs(grove(40, 0), setup.terms, "a"))
    theta = rng.normal(0, 1, (3, question.parameters))
    together = question.bounded(LeafSumsQuery.ask("h", "l", 2, theta), tables, (3,)).value
    for place in range(3):
        alone = question.bounded(LeafSumsQuery.ask("h", "l", 2, theta[place]), tables).value
        assert np.array_equal(together[place], alone)


def test_every_record_is_in_one_leaf_of_every_tree():
    setup = resolve(grove_terms({"a": 200}, model={"depth": 2}))
    structure = setup.part("a").training.question.structure
    rows, _ = setup.preparation.designs(grove(200, 0), setup.terms, "a")
    assert len(structure.leaves) == 1 + 3 + 3
    for leaves in structure.leaves:
        assert isinstance(leaves, Leaves)
        leaf = leaves.leaf_of(rows.X)
        assert leaf.min() >= 0
        assert leaf.max() < leaves.size
    rounds = [structure.place(number) for number in range(1, 14)]
    assert rounds == [0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]
