"""What is refused of terms of networks, in which words, and what need not be said. No PyTorch is needed for it."""

import pytest
from rings import rings_content

import parley
from parley.errors import TermsError


def refused(classes=True, **sections):
    with pytest.raises(TermsError) as error:
        parley.Terms.from_dict(rings_content({"a": 100}, classes=classes, **sections))
    return str(error.value)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"model": {"architecture": "resnet"}}, "model.architecture: expected one of logistic, mlp"),
        ({"model": {"architecture": "logistic"}}, "model.layers: allowed only with architecture = 'mlp'"),
        ({"model": {"layers": [0]}}, "model.layers"),
        ({"model": {"radius": 3.0}}, "model.radius: not allowed for networks"),
        ({"model": {"intercept": True}}, "model.intercept: not allowed for networks"),
        ({"model": {"architecture": "zawacki-cnn", "layers": None}}, "model.features: expected 784 columns"),
        ({"learning": {"step": "auto"}}, "learning.step: expected a number; 'auto' is not available for networks"),
        ({"learning": {"sampling": "partition"}}, "learning.sampling: expected 'poisson' for networks"),
        ({"learning": {"batches": 1}}, "learning.batches: expected at least 2"),
        ({"learning": {"batches": 101}}, "learning.batches: expected at most the number of training records"),
        ({"learning": {"start": "public"}}, "learning.start: not allowed for networks"),
        ({"learning": {"algorithm": "private-sgd"}}, "requires 'network-sgd' or another algorithm"),
        ({"privacy": {"clip": None}}, "privacy.clip: expected a number"),
        ({"privacy": {"clip": 1e-7}}, "privacy.clip: expected a number from 1e-06"),
        ({"privacy": {"score_epsilon": 0.1}}, "privacy.score_epsilon: not allowed for networks"),
        ({"privacy": {"person": "who", "records_per_person": 2}}, "learning.sampling"),
    ],
)
def test_what_has_no_meaning_is_refused_in_a_sentence(sections, words):
    assert words in refused(**sections)


CORRELATED = {"algorithm": "correlated-sgd"}
HOSTS = [{"name": f"host-{place}"} for place in range(3)]


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"learning": {"sampling": "poisson"}}, "learning.sampling: expected 'partition' with correlated-sgd"),
        ({"learning": {"staleness": 2}}, "learning.staleness: allowed only with algorithm"),
        ({"learning": {"batch_seed": 3}}, "learning.batch_seed: allowed only with algorithm = 'private-sgd'"),
        ({"learning": {"batches": 1}}, "learning.batches: expected at least 2 with correlated-sgd"),
        ({"learning": {"batches": 1000, "epochs": 1001}}, "learning.horizon: expected at most 1,000,000"),
        ({"learning": {"straggler": "skip", "quorum": 1}}, "learning.straggler: expected 'wait' or 'stop'"),
        ({"privacy": {"clip_norm": "linf"}}, "privacy.clip_norm: expected 'l2', the norm of the mechanism"),
        ({"learning": {"participation": 0.5}}, "learning.participation: not allowed with correlated-sgd"),
        (
            {"owners": [{"name": n, "records": 99, "epsilon": 1.0, "stride": s} for n, s in (("a", 1), ("b", 2))]},
            "owners.stride: not allowed with correlated-sgd",
        ),
        ({"privacy": {"noise": "shared"}, "hosts": HOSTS}, "privacy.noise: expected 'each-owner'"),
        ({"privacy": {"mechanism": "laplace", "delta": 0.0}}, "privacy.mechanism: expected 'gaussian'"),
        ({"privacy": {"person": "who", "records_per_person": 2}}, "privacy.records_per_person: expected 1"),
        ({"privacy": {"unit": "owner"}}, "privacy.unit: expected 'record'"),
    ],
)
def test_what_correlated_noise_is_not_proved_for_is_refused(sections, words):
    learning = CORRELATED | sections.get("learning", {})
    assert words in refused(**{**sections, "learning": learning})


def test_correlated_noise_is_an_algorithm_of_its_own_and_fixed_batches_need_not_be_said():
    content = rings_content({"a": 100}, learning=CORRELATED)
    terms = parley.Terms.from_dict(content)
    assert (terms.learning.sampling, terms.learning.horizon, terms.task) == ("partition", 40, "networks")
    said = content["learning"] | {"sampling": "partition", "optimiser": "momentum", "horizon": 40, "batch_seed": 0}
    assert parley.Terms.from_dict(content | {"learning": said}).hash == terms.hash
    plain = parley.Terms.from_dict(rings_content({"a": 100}))
    assert plain.hash == "668377ee5d4d47dd708d4bfed111619d146d53efc58c74d338afbd6af8d04215"  # as it was before


def test_a_regression_needs_the_range_of_its_target():
    bounds = {"u": [-4.0, 4.0], "v": [-4.0, 4.0]}
    assert "model.bounds.radius: expected [low, high]" in refused(classes=False, model={"bounds": bounds})


def test_keys_of_networks_belong_to_networks():
    content = rings_content({"a": 100})
    content["model"] = {"kind": "softmax-regression", "target": "ring", "features": ["u"], "layers": [3]}
    with pytest.raises(TermsError, match="'network-classification' or 'network-regression'"):
        parley.Terms.from_dict({**content, "learning": {}, "privacy": {}})


def test_what_need_not_be_said_is_not_in_the_hash():
    content = rings_content({"a": 100})
    del content["model"]["layers"]
    terms = parley.Terms.from_dict(content)
    assert terms.learning.algorithm == "network-sgd"
    assert (terms.learning.horizon, terms.learning.sampling, terms.learning.optimiser) == (40, "poisson", "momentum")
    assert (terms.model.architecture, terms.model.layers) == ("mlp", (64, 32))
    said = content["model"] | {"architecture": "mlp", "layers": [64, 32], "intercept": False}
    learning = content["learning"] | {"sampling": "poisson", "optimiser": "momentum", "algorithm": "network-sgd"}
    assert parley.Terms.from_dict(content | {"model": said, "learning": learning}).hash == terms.hash
