"""What one user can do to an answer about items: searched from tables of any doubles, at any question that is let
through."""

import numpy as np
import pandas as pd
import pytest
from raters import rating_content, tastes

import parley
from parley.errors import Malformed, OutsideBox
from parley.privacy.mechanisms.mechanism import require_bounded
from parley.protocol.queries import GradientQuery
from parley.protocol.queries.question import Tables
from parley.protocol.setup import resolve
from parley.tasks.ratings.question import ItemFactorsQuery, UserUpdate

USERS, ITEMS = 4, 6
P = ITEMS * 3
CELLS = [1.0, 5.0, 3.0, -1e300, 1e300, 5e-324, 3 + 4e-16]


def setup_of(radius=2.0, ridge=2.0, **privacy):
    content = rating_content({"a": USERS}, items=ITEMS, **privacy)
    content["model"] |= {"radius": radius, "regularisation": ridge, "holdout": 0.0}
    return resolve(parley.Terms.from_dict(content))


def size(value, norm):
    return float(np.abs(value).sum() if norm == "l1" else np.linalg.norm(value))


HOSTILE = [
    {},
    {"mechanism": "laplace", "delta": 0.0},
    {"clip": 1e-50, "radius": 1e6, "ridge": 1e-50},
    {"clip": 1e50, "radius": 1e6, "ridge": 1e50},
    {"clip": 1e30, "radius": 1e6, "ridge": 1e-50, "mechanism": "laplace", "delta": 0.0},
    {"clip": 0.1, "person": "who", "records_per_person": 2},
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_neighbours_found_differ_by_more_than_the_sensitivity(hostile):
    """Climb from random and from hostile pairs: the user's rows and the question are changed where the answer moves
    most."""
    setup, rng = setup_of(**hostile), np.random.default_rng(0)
    question = setup.part("a").training.question
    others = tastes(USERS - 1, 1, ITEMS)
    worst = 0.0

    def drawn():
        films = rng.permutation(ITEMS)[: int(rng.integers(1, ITEMS + 1))]
        films = np.concatenate([films, rng.integers(0, ITEMS, int(rng.integers(0, 4)))])  # some twice
        return pd.DataFrame({"who": "me", "film": [f"film {i}" for i in films], "stars": rng.choice(CELLS, len(films))})

    def point():
        wild = rng.choice([-1.0, 1.0], P) * 10.0 ** rng.uniform(-300, 6, P)
        theta = wild if rng.random() < 0.5 else rng.normal(0, question.radius, P)
        return np.clip(theta, -question.radius, question.radius)

    def moved(pair, theta):
        query = ItemFactorsQuery.ask("h", "l", 1, theta)
        question.check(query, ())
        found = []
        for mine in pair:
            tables = Tables(*setup.preparation.designs(pd.concat([mine, others], ignore_index=True), setup.terms, "a"))
            bounded = question.bounded(query, tables)
            require_bounded(bounded, question.norm, question.sensitivity)
            assert np.abs(bounded.value).max() <= question.extent.high
            found.append(bounded.value)
        return size(found[0] - found[1], question.norm) / question.sensitivity

    for _ in range(6):
        pair, theta = [drawn(), drawn()], point()
        best = moved(pair, theta)
        for step in range(10):
            trial = [drawn() if step % 3 == k else pair[k] for k in range(2)]
            where = point() if step % 3 == 2 else theta
            found = moved(trial, where)
            if found > best:
                best, pair, theta = found, trial, where
        worst = max(worst, best)
    assert worst <= 1
    if question.bound.value < 1e10:  # a clip that nobody reaches hides all the more
        assert worst > 0.4


def test_a_clip_of_single_ratings_would_be_found_out():
    """The mutant: bounding each rating's own term instead of the user's moves an answer by more than is stated."""
    setup = setup_of(clip=0.5)
    question = setup.part("a").training.question
    everything = pd.DataFrame(
        {"who": "me", "film": [f"film {i}" for i in range(ITEMS)], "stars": [5.0, 1.0] * (ITEMS // 2)}
    )
    others = tastes(USERS - 1, 1, ITEMS)
    theta = np.random.default_rng(0).normal(0, 0.5, P)
    query = ItemFactorsQuery.ask("h", "l", 1, theta)

    def by_rating(frame):
        train, _ = setup.preparation.designs(frame, setup.terms, "a")
        own, _ = UserUpdate(1e30, ridge=2.0).solved(train, theta.reshape(ITEMS, 3))
        x, v = own[train.users], theta.reshape(ITEMS, 3)[train.items]
        error = train.values - v[:, 0] - x[:, 0] - np.einsum("nf,nf->n", x[:, 1:], v[:, 1:])
        terms = np.column_stack([error, error[:, None] * x[:, 1:], np.full(len(error), 0.3)])
        terms *= np.minimum(1, 0.5 / np.linalg.norm(terms, axis=1))[:, None]
        total = np.zeros((ITEMS, 4))
        np.add.at(total, train.items, terms)
        return total.ravel() / USERS

    turned = everything.assign(stars=6 - everything["stars"])
    pair = [pd.concat([mine, others], ignore_index=True) for mine in (everything, turned)]
    assert size(by_rating(pair[0]) - by_rating(pair[1]), "l2") > question.sensitivity
    exact = [question.exact(query, Tables(*setup.preparation.designs(frame, setup.terms, "a"))) for frame in pair]
    assert size(exact[0] - exact[1], "l2") <= question.sensitivity


def test_other_questions_and_points_outside_the_box_are_refused():
    question = setup_of().part("a").training.question
    with pytest.raises(OutsideBox):
        question.check(ItemFactorsQuery.ask("h", "l", 1, np.full(P, 2.0000001)), ())
    with pytest.raises(Malformed):
        question.check(GradientQuery.ask("h", "l", 1, np.zeros(P)), ())
    with pytest.raises(Malformed):
        question.check(ItemFactorsQuery.ask("h", "l", 1, np.zeros((2, P))), ())
    question.check(ItemFactorsQuery.ask("h", "l", 1, np.zeros((2, P))), (2,))
