import numpy as np
import pytest
from samples import make_terms

from parley.errors import Malformed
from parley.protocol.queries import QUESTION_KINDS, GradientQuery, ScoreQuery, StatisticsQuery, UpdateQuery
from parley.protocol.setup import resolve

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


HASH = "ab" * 32
BEFORE = {
    "6ee955d32c1fc8c0ebaa01cc4c077d97607891532efcd709ab5ce88ad37aa4c6": GradientQuery.ask(HASH, "learner", 3, THETA),
    "c9706c22fe12319bff714f5f16880e6ac3491a063f7e323b4f53304577459a67": GradientQuery.ask(
        HASH, "learner", 3, THETA[None]
    ),
    "df0729637e061159a68be09e65c42cbd969e52635d36bac983e19acfa90d656c": UpdateQuery.ask(HASH, "learner", 3, THETA, 5),
    "3489d463938442c244a2d627b8452475856bcff68be7e0dcc608324a5d6edf4b": StatisticsQuery.ask(HASH, "learner", 1),
    "ca96d9bde2a1bdb437fa4c3187d77d9f3f4b7f90cf15c67372bf33f40d83b7f8": ScoreQuery.ask(HASH, "learner", 11, THETA),
}


def test_a_question_asked_before_is_the_same_question_now():
    """Its content has the hash that earlier versions gave it, so a ledger repeats the answer it stored then."""
    for content, query in BEFORE.items():
        assert (query.content, query.id) == (content, content[:32])


def test_a_question_is_read_back_from_its_fields():
    for query in BEFORE.values():
        assert QUESTION_KINDS[query.kind].asks is type(query)
        again = type(query).read(query.id, query.terms_hash, query.learner, query.round, query.arrays, query.counts)
        assert again.content == query.content
    update = UpdateQuery.ask(HASH, "learner", 3, THETA, 5)
    assert (*update.arrays, update.counts) == ("start", {"steps": 5})


@pytest.mark.parametrize(
    ("arrays", "counts"),
    [
        ({}, {}),
        ({"start": THETA}, {}),
        ({}, {"steps": 5}),
        ({"steps": THETA}, {"start": 5}),
        ({"start": THETA, "steps": THETA}, {}),
        ({"start": THETA, "more": THETA}, {"steps": 5}),
        ({"start": THETA}, {"steps": 5, "more": 5}),
        ({"start": THETA, "steps": THETA}, {"steps": 5}),
    ],
)
def test_fields_of_another_kind_or_sort_are_malformed(arrays, counts):
    with pytest.raises(Malformed, match="expected start as numbers and steps as a whole number"):
        UpdateQuery.read("q", HASH, "learner", 1, arrays, counts)
    with pytest.raises(Malformed, match="query: expected theta as numbers"):
        GradientQuery.read("q", HASH, "learner", 1, arrays, counts)
    if arrays or counts:
        with pytest.raises(Malformed, match="query: expected no fields"):
            StatisticsQuery.read("q", HASH, "learner", 1, arrays, counts)


@pytest.mark.parametrize("value", [None, [0.5, -1.0], 5, "theta"])
def test_a_field_of_the_wrong_sort_is_malformed_when_it_is_checked(value):
    """In one process nothing reads messages: a question made by hand is checked like any other."""
    part = resolve(make_terms(10)).part("a")
    with pytest.raises(Malformed, match="theta: expected float64 numbers"):
        part.check(GradientQuery("q", HASH, "learner", 1, value), ())


@pytest.mark.parametrize("size", [3, 10_000])
def test_the_content_of_what_is_asked_is_that_of_the_same_question_from_elsewhere(size):
    """It is hashed once when the id is made of it; who gets the question computes it anew."""
    asked = GradientQuery.ask("t", "l", 4, np.linspace(-1, 1, size))
    got = GradientQuery.read(asked.id, "t", "l", 4, asked.arrays, asked.counts)
    assert got.content == asked.content
    assert asked.id == got.content[:32]
    other = UpdateQuery.ask("t", "l", 4, np.linspace(-1, 1, size), 5)
    assert UpdateQuery.read(other.id, "t", "l", 4, other.arrays, other.counts).content == other.content != asked.content
