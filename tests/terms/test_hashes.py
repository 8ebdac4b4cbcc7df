"""Terms of every kind keep the hash that an earlier version computed, and come back from TOML and JSON as they went.

`python tests/terms/test_hashes.py` adds the terms of new kinds to the fixture; what is there already never changes.
"""

import json
import tomllib
from pathlib import Path

import pytest

from parley.terms import Terms, write_terms

FIXTURE = Path(__file__).parents[1] / "fixtures" / "terms_of_every_kind.json"
KEPT = json.loads(FIXTURE.read_text()) if FIXTURE.exists() else {}


def every_kind() -> dict[str, Terms]:
    """Terms of every kind of model, question, algorithm and mechanism, by name."""
    from every_kind import AUDITED, EVERY_KIND, HELD_OUT_PEOPLE, MIXED, NETWORK
    from samples import make_terms

    ratings, colour = EVERY_KIND["item-factors"], [f"p{place}" for place in range(3 * 32 * 32)]
    more = {
        "network": NETWORK,
        "mixed network": MIXED,
        "network of images": NETWORK.changed(
            model={"architecture": "zawacki-cnn-9", "layers": None, "features": colour, "bounds": {}}
        ),
        "named items": ratings.changed(model={"items": ["b", "a"], "seed": 7}),
        "bounded ratings": ratings.changed(
            privacy={"mechanism": "bounded-ratings", "clip": None, "delta": 0.0, "rating_scale": "published"}
        ),
        "trees of pairs": EVERY_KIND["leaf-sums"].changed(model={"depth": 2, "columns": None}),
        "histogram of steps": EVERY_KIND["counts"].changed(
            model={"categories": {}, "bounds": {"y": [0.0, 1.0]}, "bins": 4}
        ),
        "exposure": AUDITED["poisson-regression"].changed(
            model={"exposure": "years", "bounds": {"x0": [-4, 4], "x1": [-4, 4], "y": [0, 10], "years": [0.1, 5]}}
        ),
        "stable": make_terms(40, privacy__mechanism="stable", privacy__alpha=1.5, privacy__delta=1e-6),
        "heterogeneity": make_terms(
            40,
            30,
            model__public="s3://bank/public.csv",
            model__public_sha256="0" * 64,
            privacy__difference_epsilon=0.25,
        ),
    }
    return {**EVERY_KIND, **AUDITED, **{f"{name}, held out": each for name, each in HELD_OUT_PEOPLE.items()}, **more}


def kept(terms: Terms, folder: Path) -> dict[str, str]:
    """What the fixture holds of some terms."""
    write_terms(terms, folder / "terms.toml")
    return {"hash": terms.hash, "canonical": terms.canonical, "toml": (folder / "terms.toml").read_text()}


@pytest.mark.parametrize("name", KEPT)
def test_terms_keep_their_hash_and_come_back_as_they_went(name, tmp_path):
    before = KEPT[name]
    terms = Terms.from_toml(before["toml"])
    assert terms.canonical == before["canonical"]
    assert terms.hash == before["hash"]
    assert tomllib.loads(kept(terms, tmp_path)["toml"]) == tomllib.loads(before["toml"])
    assert Terms.from_dict(json.loads(terms.model_dump_json())) == terms
    assert Terms.from_dict(terms.model_dump()).canonical == terms.canonical
    assert terms.changed(title="another").changed(title=terms.title) == terms


def test_the_fixture_has_every_kind():
    made = {name: terms.hash for name, terms in every_kind().items()}
    assert made == {name: KEPT[name]["hash"] for name in made}


if __name__ == "__main__":
    import sys
    import tempfile

    sys.path.append(str(Path(__file__).parents[1] / "support"))
    with tempfile.TemporaryDirectory() as folder:
        found = {name: kept(terms, Path(folder)) for name, terms in every_kind().items()}
    FIXTURE.write_text(json.dumps({**found, **KEPT}, indent=1, ensure_ascii=False) + "\n")
