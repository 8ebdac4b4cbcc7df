"""Ratings that are hidden or changed before anything is learned from them, by terms: what they give, and what they say
they give."""

import numpy as np
import pytest
from raters import rating_content, tastes

import parley
from parley.errors import GuaranteeError, TermsError
from parley.owner.ledger import Ledger
from parley.tasks.ratings.noisy_ratings import learn_from_noisy

SIZES = {"a": 60, "b": 120}


def terms_of(epsilon, **privacy):
    content = rating_content(SIZES, epsilon)
    content["privacy"] = privacy
    content["learning"] = {"horizon": 20}
    return parley.Terms.from_dict(content)


def owners():
    return [parley.Owner(name, tastes(users, place)) for place, (name, users) in enumerate(SIZES.items())]


def learned(epsilon, **privacy):
    return learn_from_noisy(terms_of(epsilon, **privacy), owners(), seed=0)


def test_sound_noise_gives_the_epsilon_that_it_names_and_costs_accuracy():
    loud, quiet = (learned(epsilon, mechanism="bounded-ratings") for epsilon in (0.3, 1e4))
    assert loud.rmse[0] > quiet.rmse[0] + 0.05
    assert loud.spent == {"a": 0.3, "b": 0.3}
    assert loud.notes[0] == "a: ε = 0.3, for the value of a rating (replace-one)"
    assert not loud.released


def test_the_published_scale_says_what_it_really_gives():
    """Four ranges over S_JL = 0.6 (4 - 0.01) 0.5 x 2 factors / 4: the noise is 26 times too small for its name, 13 for
    four factors."""
    found = learned(1.0, mechanism="bounded-ratings", rating_scale="published")
    scale = 2 * 20 * 0.0075 * (4 * 0.5 - 0.01 * 0.5)
    assert found.spent["a"] == pytest.approx(16 / scale)
    assert found.notes[0].startswith("a: up to ε = 26.7, not 1")
    unbounded = learned(1.0, mechanism="unbounded-ratings", rating_scale="published")
    assert unbounded.to_json()["adjacency"] == "add-or-remove-one"
    assert unbounded.spent["a"] == pytest.approx(36 / scale)  # a rating that moves to another cell touches two


def test_hiding_has_no_epsilon_and_says_so():
    found = learned(1.0, mechanism="hide")
    assert found.spent == {"a": None, "b": None}
    assert found.to_json()["owners"][0]["epsilon_spent"] is None
    assert found.to_json()["adjacency"] is None
    assert found.notes[0] == "a: no ε: 50% of the ratings are hidden, and the other ratings are not protected"
    assert found.unit == "nothing that is kept"


def test_a_user_with_several_ratings_is_given_as_many_times_the_noise():
    one = learned(30.0, mechanism="bounded-ratings")
    person = learned(30.0, mechanism="bounded-ratings", person="who", records_per_person=12)
    same = learned(30.0 / 12, mechanism="bounded-ratings")  # nobody has more than 12, so the same ratings count
    assert np.array_equal(person.model.items.V, same.model.items.V)
    assert not np.array_equal(person.model.items.V, one.model.items.V)
    assert person.spent == {"a": 30.0, "b": 30.0}
    assert person.unit == "the values of a user's ratings"
    assert learned(1.0, mechanism="unbounded-ratings", person="who", records_per_person=12).unit == "a user"


def test_a_ledger_takes_no_part(tmp_path):
    terms = terms_of(1.0, mechanism="bounded-ratings")
    books = [parley.Owner(n, tastes(u, 0), ledger=Ledger(tmp_path / n, 1.0)) for n, u in SIZES.items()]
    with pytest.raises(GuaranteeError, match="for simulations"):
        learn_from_noisy(terms, books)
    with pytest.raises(TermsError, match="for simulations"):
        books[0].accept(terms)
