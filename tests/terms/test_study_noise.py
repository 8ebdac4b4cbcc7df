"""Noise for studies alone: what terms say of it, and that nothing else in them changes."""

import pytest
from samples import BOUNDS, GAUSSIAN, make_terms

from parley.errors import GuaranteeError, TermsError

STABLE = {"privacy__mechanism": "stable", "privacy__alpha": 1.9, "privacy__delta": 1e-6}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"privacy__alpha": None}, "privacy.alpha: expected a number from 1 (Cauchy) to 1.9999 with mechanism"),
        ({"privacy__alpha": 2.0}, "privacy.alpha = 2.0: expected"),
        ({"privacy__alpha": 0.9}, "privacy.alpha = 0.9: expected"),
        ({"privacy__delta": 0.0}, "privacy.delta: expected a number above 0"),
        ({"privacy__mechanism": "gaussian"}, "privacy.alpha: allowed only with mechanism = 'stable'"),
        ({"privacy__mechanism": "Stable"}, "stable noise is for simulations only"),
        ({"privacy__noise": "shared"}, "privacy.noise: expected 'each-owner' with mechanism = 'stable'"),
        ({"privacy__scale_epsilon": 0.1}, "privacy.scale_epsilon: not allowed with mechanism = 'stable'"),
        ({"privacy__difference_epsilon": 0.1}, "privacy.difference_epsilon: not allowed with mechanism"),
        (
            {"model__kind": "boosted-regression", "model__bounds": BOUNDS, "model__radius": None}
            | {"learning__step": None},
            "privacy.mechanism: expected 'laplace', 'gaussian' or 'geometric' with algorithm = 'boosted-trees'",
        ),
        (
            {"learning__algorithm": "objective-perturbation", "model__kind": "logistic-regression"}
            | {"learning__horizon": None, "learning__step": None},
            "privacy.mechanism: expected 'laplace'",
        ),
    ],
)
def test_terms_that_do_not_make_sense_are_refused_in_a_sentence(changes, sentence):
    with pytest.raises(TermsError) as refusal:
        make_terms(40, **(STABLE | changes))
    assert sentence in str(refusal.value)


def test_other_terms_have_no_alpha_in_them_and_the_hash_that_they_had():
    plain = make_terms(40, **GAUSSIAN)
    assert "alpha" not in plain.canonical
    assert plain.hash == "a37ad3efe6b319becf4c87eb305082e0cd6f74df506c270d912ea88fb55c1836"
    hashes = {plain.hash, *(make_terms(40, **(STABLE | {"privacy__alpha": a})).hash for a in (1.5, 1.9))}
    assert len(hashes) == 3


def test_another_mechanism_forgets_alpha():
    stable = make_terms(40, **STABLE)
    assert stable.studied
    assert stable.changed(privacy={"mechanism": "gaussian"}) == make_terms(40, **GAUSSIAN)
    assert make_terms(40, **GAUSSIAN).changed(privacy={"mechanism": "stable", "alpha": 1.9}) == stable


def test_only_noise_for_studies_keeps_terms_from_a_release():
    make_terms(40, **GAUSSIAN).require_release()
    with pytest.raises(GuaranteeError, match="no exact sampler, so answers with stable noise cannot be released"):
        make_terms(40, **STABLE).require_release()
