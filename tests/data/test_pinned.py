"""Numbers that terms pin are taken from their file, if the public sample has them; a hostile file changes no
guarantee."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from kernels import balanced_sample, balanced_terms

import parley
from parley.errors import DataError, TermsError
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.protocol.setup import pin, resolve
from parley.terms import load_terms, write_terms

KINDS = {
    "components": {"components": 4},
    "whitening": {"whitening": "public"},
    "whitening by the curvature": {"whitening": "public-curvature"},
    "basis": {"components": 4, "basis": {"points": 5, "width": 1.0}},
    "waves": {"components": 4, "basis": {"points": 5, "width": 1.0, "kind": "random-fourier"}},
    "scales alone": {},
}


def repinned(terms, change):
    """The terms with a file that somebody changed, and its hash."""
    content = json.loads(Path(terms.model.preparation).read_text())
    arrays = {name: np.array(values) for name, values in content["arrays"].items()}
    change(arrays)
    content["arrays"] = {name: array.tolist() for name, array in arrays.items()}
    text = json.dumps(content)
    Path(terms.model.preparation).write_text(text)
    return terms.changed(model={"preparation_sha256": hashlib.sha256(text.encode()).hexdigest()})


@pytest.fixture
def turned(tmp_path):
    """Terms that pin principal components."""
    return pin(balanced_terms(tmp_path, components=4), tmp_path / "pins.json")


@pytest.mark.parametrize("kind", KINDS)
def test_pinned_numbers_come_back_to_the_bit(tmp_path, kind):
    plain = balanced_terms(tmp_path, **KINDS[kind])
    terms = pin(plain, tmp_path / "pins.json")
    ours, theirs = resolve(plain), resolve(terms)
    np.testing.assert_array_equal(ours.numbers.data, theirs.numbers.data)
    np.testing.assert_array_equal(ours.public.X, theirs.public.X)
    assert terms.hash != plain.hash
    # where the file lies is each party's own business
    assert terms.changed(model={"preparation": None}).hash == terms.hash


def test_directions_that_another_machine_chose_are_used(turned):
    """Any turn among directions of equal spread is as good as another: this one is nobody's, and everybody uses it."""

    def turn(arrays):
        spread = resolve(turned).numbers.arrays
        assert np.ptp((spread["component_high"] - spread["component_low"])[1:]) < 2  # a category of equal frequencies
        angle = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
        arrays["rotation"][:, 1:3] = arrays["rotation"][:, 1:3] @ angle
        scores = sample_scores(turned, arrays["rotation"])
        arrays["component_low"], arrays["component_high"] = scores.min(axis=0), scores.max(axis=0)

    before = resolve(turned).preparation.rotation
    after = resolve(repinned(turned, turn)).preparation.rotation
    assert np.abs(after - before).max() > 0.1


def sample_scores(terms, rotation):
    made = resolve(terms.changed(model={"components": None})).preparation
    return made.matrix(balanced_sample(), "public")[:, :-1] @ rotation


HOSTILE = {
    "a rotation that is none": lambda a: a["rotation"].__imul__(3.0),
    "a rotation of other directions": lambda a: a.update(rotation=np.eye(*a["rotation"].shape)),
    "directions in another order": lambda a: a.update(rotation=a["rotation"][:, ::-1].copy()),
    "too few directions": lambda a: a.update(rotation=a["rotation"][:, :2].copy()),
    "a tiny scale": lambda a: a["scale"].__imul__(1e-30),
    "no scale": lambda a: a["scale"].__imul__(0.0),
    "a negative scale": lambda a: a["scale"].__imul__(-1.0),
    "wide bounds": lambda a: a["high"].__iadd__(1e6),
    "bounds the wrong way round": lambda a: a.update(
        component_low=a["component_high"], component_high=a["component_low"]
    ),
    "wide components": lambda a: a["component_high"].__imul__(10.0),
    "another target": lambda a: a["target_scale"].__imul__(1e-3),
    "other bounds of the target": lambda a: a["target_bounds"].__imul__(5.0),
    "an array too few": lambda a: a.pop("scale"),
    "an array too many": lambda a: a.update(basis=np.ones((2, 4))),
    "beyond arithmetic": lambda a: a["rotation"].__imul__(1e60),
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_hostile_file_is_refused(turned, how):
    with pytest.raises(DataError, match=r"preparation|public numbers"):
        resolve(repinned(turned, HOSTILE[how]))


def test_every_sensitivity_holds_for_the_numbers_that_are_used(turned):
    """Pushed as far as a file may go, rows stay within the bound that is derived from the very numbers that prepared
    them."""

    def push(arrays):
        for name in ("low", "high", "component_low", "component_high"):
            arrays[name] += 0.9e-6 * np.abs(arrays["scale"] if name in ("low", "high") else arrays[name])

    setup = resolve(repinned(turned, push))
    rows = balanced_sample(seed=3).assign(x=np.geomspace(1, 1e12, 120) * np.resize([1, -1], 120))
    sizes = np.abs(setup.preparation.matrix(rows, "a"))
    assert (sizes <= setup.preparation.feature_bound).all()
    assert sizes.max() > 0.999 * setup.preparation.feature_bound.max()


def test_a_file_that_was_changed_or_is_missing_is_refused(turned, tmp_path):
    (tmp_path / "pins.json").write_text((tmp_path / "pins.json").read_text() + " ")
    with pytest.raises(DataError, match="SHA-256"):
        resolve(turned)
    (tmp_path / "pins.json").unlink()
    with pytest.raises(DataError, match=r"pins\.json"):
        resolve(turned)
    with pytest.raises(DataError, match=r"model\.preparation: the key is missing"):
        resolve(turned.changed(model={"preparation": None}))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "parley-preparation-1"}', "{" * 100_000, '{"format": 1, "arrays": {}}']
)
def test_a_file_that_is_something_else_is_refused(turned, tmp_path, text):
    (tmp_path / "pins.json").write_text(text)
    terms = turned.changed(model={"preparation_sha256": hashlib.sha256(text.encode()).hexdigest()})
    with pytest.raises(DataError, match="expected a file of public numbers"):
        resolve(terms)


def test_terms_that_pin_are_written_and_read_and_accepted(turned, tmp_path):
    write_terms(turned, tmp_path / "terms.toml")
    assert 'preparation = "pins.json"' in (tmp_path / "terms.toml").read_text()
    terms = load_terms(tmp_path / "terms.toml")
    assert terms.hash == turned.hash
    Acceptances(tmp_path / "accepted").store(Acceptance(terms))
    kept = Acceptances(tmp_path / "accepted").get(terms.hash)
    assert kept.terms.hash == terms.hash
    np.testing.assert_array_equal(resolve(kept.terms).numbers.data, resolve(terms).numbers.data)


def test_a_plan_that_reads_columns_otherwise_drops_what_was_pinned(turned):
    assert turned.changed(learning={"horizon": 5}, model={"radius": 3.0}).model.preparation_sha256 is not None
    assert turned.changed(model={"features": [*turned.model.features]}).model.preparation_sha256 is not None
    assert turned.changed(model={"public": None, "components": None}).model.preparation_sha256 is None
    other = turned.changed(model={"components": None, "whitening": "public"})
    assert other.model.preparation is other.model.preparation_sha256 is None
    assert resolve(other).preparation.rotation.shape == (7, 7)


def test_between_organisations_a_pinned_file_has_its_hash_in_the_terms(turned):
    turned.require_shared_sample()
    with pytest.raises(TermsError, match="preparation_sha256"):
        turned.changed(model={"preparation_sha256": None}).require_shared_sample()


def test_a_saved_model_needs_no_file(turned, tmp_path):
    owners = [parley.Owner(name, balanced_sample(60, seed=k)) for k, name in enumerate("abc")]
    model = parley.train(turned, owners, seed=0).model
    model.save(tmp_path / "model.json")
    (tmp_path / "pins.json").unlink()
    rows = balanced_sample(12, seed=5)
    assert parley.load_model(tmp_path / "model.json").predict(rows) == pytest.approx(model.predict(rows))
