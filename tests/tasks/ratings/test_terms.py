"""Terms of ratings: what they mean where nothing is said, what they refuse, and that they read back."""

import pytest
from raters import rating_content, rating_terms

import parley
import parley.protocol.setup
from parley.errors import TermsError
from parley.tasks.ratings.terms import RatingsModel
from parley.terms import load_terms, write_terms

TOML = """
title = "Two libraries"
[model]
kind = "matrix-factorization"
user = "reader"
item = "book"
target = "stars"
items = "books.txt"
bounds = { stars = [1, 5] }
[privacy]
mechanism = "gaussian"
delta = 1e-5
clip = 5.0
[[owners]]
name = "north"
records = 100
epsilon = 1.0
"""


def test_a_file_of_items_is_part_of_what_is_agreed(tmp_path):
    (tmp_path / "terms.toml").write_text(TOML)
    (tmp_path / "books.txt").write_text("Emma\n\n  Moby Dick \nUlysses\n")
    terms = load_terms(tmp_path / "terms.toml")
    assert RatingsModel.expect(terms.model).item_names == ("Emma", "Moby Dick", "Ulysses")
    assert (terms.learning.algorithm, terms.learning.horizon) == ("item-factors", 20)
    assert (terms.model.factors, terms.model.radius, terms.model.seed, terms.model.penalty) == (4, 2.0, 0, 10.0)
    write_terms(terms, tmp_path / "again.toml")
    assert load_terms(tmp_path / "again.toml").hash == terms.hash
    (tmp_path / "books.txt").write_text("Emma\nMoby Dick\nOdyssey\n")
    assert load_terms(tmp_path / "terms.toml").hash != terms.hash
    (tmp_path / "books.txt").unlink()
    with pytest.raises(TermsError, match=r"model.items: .*books.txt: no such text file"):
        load_terms(tmp_path / "terms.toml")


def test_what_need_not_be_said_makes_no_other_agreement():
    content = rating_content({"a": 10})
    plain = parley.Terms.from_dict(content)
    said = content | {
        "learning": {"algorithm": "item-factors", "horizon": 6},
        "model": content["model"] | {"seed": 0, "radius": 2.0},
    }
    assert parley.Terms.from_dict(said).hash == plain.hash
    assert plain.changed(title="Films").hash == plain.hash
    assert plain.changed(model={"seed": 1}).hash != plain.hash
    assert plain.changed(learning={"horizon": 6}).learning.algorithm == "item-factors"
    counted = plain.changed(model={"items": 3})
    assert RatingsModel.expect(counted.model).item_names == ("1", "2", "3")
    assert counted.train_rows("a") == 10  # held out are ratings, not users


MISTAKES = [
    ({"model": {"user": None}}, "model.user: missing; expected the column that says who rated"),
    (
        {"model": {"items": None}},
        "model.items: missing; expected the number of items",
    ),
    ({"model": {"items": []}}, "model.items: the list is empty or repeats a name"),
    ({"model": {"items": ["x", "x"]}}, "model.items: the list is empty or repeats a name"),
    ({"model": {"items": "films.txt"}}, "model.items: expected the number of items"),
    ({"model": {"items": 0}}, "model.items: expected the number of items"),
    ({"model": {"items": 10**7}}, "40,000,000 numbers; expected at most 2,000,000"),
    ({"model": {"bounds": {}}}, "model.bounds.stars: expected"),
    ({"model": {"bounds": {"stars": [1.0, 5.0], "film": [0.0, 1.0]}}}, "model.bounds.stars: expected"),
    ({"model": {"item": "who"}}, "model.user: expected three different columns"),
    ({"model": {"features": ["x"]}}, "model.features: not allowed for ratings"),
    ({"model": {"factors": 0}}, "model.factors = 0: expected"),
    ({"model": {"radius": 1e7}}, "model.radius: expected at most 1e+06"),
    ({"model": {"regularisation": 0.0}}, "model.regularisation: expected a number above 0"),
    ({"model": {"missing": "fill"}}, "model.missing: not allowed for ratings"),
    ({"learning": {"algorithm": "gradient-descent"}}, "requires 'item-factors' or another algorithm"),
    ({"learning": {"step": 0.1}}, "learning.step: step and start are not allowed for ratings"),
    ({"privacy": {"clip": None}}, "privacy.clip: expected a number"),
    ({"privacy": {"person": "film"}}, "privacy.person: expected 'who'"),
    ({"privacy": {"score_epsilon": 0.1}}, "privacy.score_epsilon: not allowed"),
    ({"privacy": {"rating_scale": "sound"}}, "privacy.rating_scale: allowed only with"),
    ({"privacy": {"mechanism": "hide", "delta": 0.0}}, "privacy.clip: not allowed with mechanism = 'hide'"),
    (
        {"privacy": {"mechanism": "hide", "delta": 0.0, "clip": None, "rating_scale": "sound"}},
        "which has neither noise nor ε",
    ),
    ({"privacy": {"mechanism": "bounded-ratings", "clip": None}}, "privacy.delta: expected 0"),
    (
        {"privacy": {"mechanism": "bounded-ratings", "delta": 0.0, "clip": None, "shared_records": 2}},
        "privacy.noise: expected 'each-owner'",
    ),
    (
        {
            "privacy": {
                "mechanism": "bounded-ratings",
                "delta": 0.0,
                "clip": None,
                "rating_scale": "published",
                "person": "who",
            }
        },
        "known only for single ratings",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), MISTAKES)
def test_mistakes_are_named(changes, sentence):
    content = rating_content({"a": 10, "b": 10})
    for section, keys in changes.items():
        content[section] = {key: value for key, value in (content[section] | keys).items() if value is not None}
    with pytest.raises(TermsError) as caught:
        parley.Terms.from_dict(content)
    assert sentence in str(caught.value)


def test_other_models_have_no_use_for_these_keys():
    table = {"kind": "linear-regression", "target": "y"}
    rest = {"privacy": {"clip": 1.0}, "owners": [{"name": "a", "records": 10, "epsilon": 1.0}]}
    for key, value in (("user", "x"), ("items", 3), ("factors", 2), ("seed", 1)):
        with pytest.raises(TermsError, match=f"model.{key}: allowed only with kind = 'matrix-factorization'"):
            parley.Terms.from_dict({"model": table | {key: value}, **rest})
    for privacy, said in (
        ({"mechanism": "hide"}, "only with kind = 'matrix-factorization'"),
        ({"rating_scale": "sound"}, "rating_scale: allowed only with mechanism = 'bounded-ratings'"),
    ):
        with pytest.raises(TermsError, match=said):
            parley.Terms.from_dict({"model": table, **rest, "privacy": privacy | {"clip": 1.0}})
    with pytest.raises(TermsError, match="requires 'item-factors' or another algorithm for the same task"):
        parley.Terms.from_dict({"model": table, "learning": {"algorithm": "item-factors"}, **rest})


def test_a_sum_does_not_say_whose_answers_it_has():
    content = rating_content({"a": 10, "b": 10}, noise="shared") | {"learning": {"participation": 0.5}}
    with pytest.raises(TermsError, match="a sum does not show whose answers"):
        parley.Terms.from_dict(content)


def test_ratings_that_are_changed_themselves_are_neither_accepted_nor_served():
    privacy = {"mechanism": "bounded-ratings", "delta": 0.0, "clip": None}
    terms = rating_terms({"a": 10}, **privacy)
    with pytest.raises(TermsError, match=r"only for simulations \(parley train without --ledgers\)"):
        parley.protocol.setup.resolve(terms)
