"""What is refused of terms of boosted trees, in which words, and what need not be said."""

import pytest
from grove import grove_content

import parley
from parley.errors import TermsError
from parley.protocol.setup import resolve
from parley.tasks.trees.terms import error_limit


def refused(classes=True, sizes=None, **sections):
    with pytest.raises(TermsError) as error:
        parley.Terms.from_dict(grove_content(sizes or {"a": 100}, classes=classes, **sections))
    return str(error.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"model": {"public": "sample.csv"}}, "model.public: not allowed for boosted trees"),
        ({"model": {"public": "refuse"}}, "model.public: not allowed for boosted trees"),
        ({"model": {"radius": 3.0}}, "model.radius: not allowed for boosted trees"),
        ({"model": {"intercept": False}}, "model.intercept: not allowed for boosted trees"),
        ({"model": {"coding": "one-hot"}}, "model.coding: not allowed for boosted trees"),
        ({"model": {"features": ["age", "height"]}}, "model.bounds.height: expected [low, high], or the names"),
        ({"model": {"bins": 1}}, "model.bins"),
        ({"model": {"depth": 3}}, "model.depth"),
        ({"model": {"features": ["age"], "depth": 2}}, "model.depth: expected 1"),
        ({"learning": {"horizon": 3}}, "learning.horizon: expected at least 4 trees"),
        ({"learning": {"step": 0.1}}, "learning.step: step and start are not allowed for trees"),
        ({"learning": {"algorithm": "gradient-descent"}}, "requires 'boosted-trees' or another algorithm"),
        ({"learning": {"local_steps": 3}}, "learning.local_steps"),
        ({"privacy": {"score_epsilon": 0.1}}, "privacy.score_epsilon: not allowed for boosted trees"),
        ({"privacy": {"scale_epsilon": 0.1}}, "privacy.scale_epsilon: not allowed for boosted trees"),
        ({"privacy": {"clip": 1.0}}, "privacy.clip: not allowed for boosted-classification"),
        ({"sizes": {"a": 2**33 + 1}}, "records for boosted trees"),
        ({"noise": "shared", "learning": {"straggler": "skip", "quorum": 1}}, "privacy.noise"),
    ],
)
def test_what_has_no_meaning_is_refused_in_a_sentence(sections, words):
    assert words in refused(**sections)


def test_a_regression_needs_the_range_of_its_target():
    said = refused(classes=False, model={"bounds": {"age": [0.0, 100.0]}})
    assert "model.bounds.y: expected [low, high] of the target" in said


def test_keys_of_trees_belong_to_trees():
    content = grove_content({"a": 100})
    content["model"] = {"kind": "logistic-regression", "target": "y", "features": ["age"], "depth": 1}
    with pytest.raises(TermsError, match="'boosted-classification' or 'boosted-regression'"):
        parley.Terms.from_dict({**content, "learning": {}, "privacy": {}})


def test_trees_have_an_algorithm_of_their_own_and_usual_numbers():
    content = grove_content({"a": 100})
    del content["learning"], content["model"]["bins"]
    terms = parley.Terms.from_dict(content)
    assert terms.learning.algorithm == "boosted-trees"
    assert (terms.learning.horizon, terms.model.bins, terms.model.depth) == (100, 48, 1)
    assert terms.model.features == ("age", "idle", "colour")
    said = content["model"] | {"bins": 48, "depth": 1, "features": ["age", "idle", "colour"]}
    assert parley.Terms.from_dict(content | {"model": said, "learning": {"horizon": 100}}).hash == terms.hash


def test_an_error_counts_a_quarter_of_the_range_or_the_clip():
    content = grove_content({"a": 100}, classes=False)
    assert error_limit(parley.Terms.from_dict(content)) == 2.0
    content["privacy"]["clip"] = 0.5
    assert error_limit(parley.Terms.from_dict(content)) == 0.5
    assert error_limit(parley.Terms.from_dict(grove_content({"a": 100}))) == 1.0


def test_the_sensitivity_is_two_over_n():
    """The curvature comes beside the gradient for nothing, in L2."""
    for classes in (True, False):
        question = (
            resolve(parley.Terms.from_dict(grove_content({"a": 500}, classes=classes))).part("a").training.question
        )
        assert question.sensitivity == pytest.approx(2 / 500, rel=1e-5)
        assert question.sensitivity > 2 / 500
