import numpy as np
import pytest

from parley.queries import GradientQuery, ScoreQuery, UpdateQuery

THETA = np.array([0.5, -1.0])


def test_the_id_is_bound_to_terms_learner_round_and_content():
    base = GradientQuery.ask("t", "l", 1, THETA)
    assert base.id == GradientQuery.ask("t", "l", 1, THETA.copy()).id
    others = [
        GradientQuery.ask("u", "l", 1, THETA),
        GradientQuery.ask("t", "m", 1, THETA),
        GradientQuery.ask("t", "l", 2, THETA),
        GradientQuery.ask("t", "l", 1, np.nextafter(THETA, 1)),
        GradientQuery.ask("t", "l", 1, THETA[None]),
    ]
    assert len({base.id, *(q.id for q in others)}) == 6


def test_an_update_is_bound_to_its_steps_too_and_is_never_taken_for_a_gradient():
    base = UpdateQuery.ask("t", "l", 1, THETA, 5)
    assert base.id == UpdateQuery.ask("t", "l", 1, THETA.copy(), 5).id
    others = [
        UpdateQuery.ask("u", "l", 1, THETA, 5),
        UpdateQuery.ask("t", "m", 1, THETA, 5),
        UpdateQuery.ask("t", "l", 2, THETA, 5),
        UpdateQuery.ask("t", "l", 1, np.nextafter(THETA, 1), 5),
        UpdateQuery.ask("t", "l", 1, THETA, 6),
        GradientQuery.ask("t", "l", 1, THETA),
    ]
    assert len({base.id, *(q.id for q in others)}) == 7
    with pytest.raises(ValueError, match="read-only"):
        base.start[0] = 3.0


def test_a_query_cannot_be_changed():
    query = GradientQuery.ask("t", "l", 1, THETA)
    with pytest.raises(ValueError, match="read-only"):
        query.theta[0] = 3.0


def test_a_score_is_another_question_than_a_gradient_and_bound_to_its_content():
    base = ScoreQuery.ask("t", "l", 11, THETA)
    assert base.id == ScoreQuery.ask("t", "l", 11, THETA.copy()).id
    others = [
        GradientQuery.ask("t", "l", 11, THETA),
        ScoreQuery.ask("u", "l", 11, THETA),
        ScoreQuery.ask("t", "m", 11, THETA),
        ScoreQuery.ask("t", "l", 12, THETA),
        ScoreQuery.ask("t", "l", 11, np.nextafter(THETA, 1)),
    ]
    assert len({base.id, *(q.id for q in others)}) == 6
    with pytest.raises(ValueError, match="read-only"):
        base.theta[0] = 3.0
