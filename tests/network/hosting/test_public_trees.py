"""Leaves of public trees, fitted again by owners behind daemons and by hosts with one noise for all; killed once, and
a file of trees that somebody changed."""

import hashlib
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import SIZES, Consortium
from grove import grove
from hosted_consortium import HOSTS, HostedConsortium

import parley
from parley.errors import DataError
from parley.learning.outcome import load_model
from parley.protocol.setup import pin
from parley.terms import write_terms

TREES = {"count": 6, "leaves": 4, "smallest": 10}
MARGIN = {**TREES, "count": 20, "refitted": 6}  # as many leaves, and what the others say


def planted(consortium, noise, hosts=(), trees=TREES):
    """Tables with a bump in them, a public sample, and terms with the trees that were grown on it beside them."""
    folder = consortium.folder
    for place, name in enumerate(consortium.names):
        grove(SIZES[name], place).to_csv(folder / f"{name}.csv", index=False)
    grove(300, 9).to_csv(folder / "public.csv", index=False)
    content = {
        "model": {
            "kind": "logistic-regression",
            "target": "y",
            "features": ["age", "idle", "colour"],
            "public": str(folder / "public.csv"),
            "public_sha256": hashlib.sha256((folder / "public.csv").read_bytes()).hexdigest(),
            "coding": "one-hot",
            "missing": "fill",
            "columns": "trees",
            "trees": trees,
        },
        "learning": {"algorithm": "gradient-descent", "horizon": 12, "step": 0.3, "learner": "learner"},
        "privacy": {"mechanism": "gaussian", "clip": 3.0, "delta": 1e-6, "noise": noise},
        "owners": [{"name": name, "records": SIZES[name], "epsilon": 2.0} for name in consortium.names],
        "hosts": [{"name": name} for name in hosts],
    }
    made = pin(parley.Terms.from_dict(content), folder / "trees.json")
    write_terms(made, folder / "terms.toml")
    return parley.load_terms(folder / "terms.toml")


def wait_for_checkpoint(consortium, learner):
    until = time.monotonic() + 100
    while not (consortium.folder / "terms.checkpoint").exists() and learner.exitcode is None:
        assert time.monotonic() < until
        time.sleep(0.002)


@pytest.fixture
def banks(tmp_path):
    made = Consortium(tmp_path, names="ab", lifetime=2.0, lifetime_delta=1e-5)
    yield made
    made.close()


@pytest.fixture
def hosted(tmp_path):
    made = HostedConsortium(tmp_path)
    yield made
    made.close()


def test_daemons_fit_the_leaves_of_public_trees_again(banks):
    terms = planted(banks, "each-owner")
    banks.accept(terms)
    banks.start()
    learner = banks.learner("--resume", "--save", str(banks.folder / "model.json"))
    wait_for_checkpoint(banks, learner)
    banks.kill("b")
    banks.start("b")
    learner.join(100)
    assert learner.exitcode == 0, banks.said()
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(2))
    model = load_model(banks.folder / "model.json")
    assert model.theta_.tolist() == banks.replay(terms)
    assert np.isfinite(model.predict(grove(50, 5))).all()


def test_a_changed_leaf_is_refused_and_nothing_is_spent(banks):
    terms = planted(banks, "each-owner")
    banks.accept(terms)
    path = banks.folder / "trees.json"
    path.write_text(path.read_text().replace("0", "1", 1))
    with pytest.raises(DataError, match="preparation_sha256"):
        banks.accept(terms)
    banks.start()
    assert "preparation_sha256" in banks.fail("--deadline", "5")
    assert banks.spent(terms) == dict.fromkeys("ab", Fraction(0))


def test_hosts_fit_them_with_one_noise_beside_a_margin(hosted):
    terms = planted(hosted, "shared", HOSTS, MARGIN)
    hosted.accept(terms)
    hosted.start_hosts()
    hosted.start()
    learner = hosted.learner("--resume", "--save", str(hosted.folder / "model.json"))
    wait_for_checkpoint(hosted, learner)
    hosted.restart("a")
    hosted.restart("h1")
    learner.join(100)
    assert learner.exitcode == 0, hosted.said()
    assert set(hosted.spent(terms).values()) == {Fraction(2)}
    opened = hosted.opened(terms, 12)
    assert {*map(len, opened.values())} == {1}
    assert len(set(hosted.noises(opened))) == len(opened)
    assert np.isfinite(load_model(hosted.folder / "model.json").theta_).all()
