import pytest
from samples import make_terms

from parley.errors import TermsError
from parley.terms import Terms, load_terms, write_terms

FIVE = (100,) * 5
MEDIAN = {"rule": "median", "byzantine": 1}


def terms(*sizes, aggregation=None, **overrides):
    return make_terms(*(sizes or FIVE), **overrides).changed(aggregation=aggregation or MEDIAN)


def test_terms_with_the_plain_mean_keep_their_hash_and_others_have_their_own():
    plain = make_terms(*FIVE)
    assert plain.aggregation is None
    for said in ({}, {"rule": "mean"}, {"rule": "mean", "byzantine": None}):
        content = {**plain.model_dump(exclude_none=True), "aggregation": said}
        assert Terms.from_dict(content).hash == plain.hash
    ruled = [
        terms(aggregation={"rule": rule, "byzantine": 1}).hash
        for rule in ("mean", "median", "trimmed-mean", "krum", "geometric-median")
    ]
    hashes = {plain.hash, *ruled, terms(aggregation={**MEDIAN, "byzantine": 2}).hash}
    assert len({*hashes, terms(aggregation={**MEDIAN, "spread": 0.5}).hash}) == 8


def test_a_file_brings_them_back(tmp_path):
    ruled = terms(aggregation={**MEDIAN, "spread": 0.5})
    write_terms(ruled, tmp_path / "terms.toml")
    assert load_terms(tmp_path / "terms.toml").hash == ruled.hash
    assert ruled.changed(learning={"horizon": 7}).aggregation == ruled.aggregation
    assert ruled.changed(aggregation={}).aggregation is None


@pytest.mark.parametrize(
    ("sizes", "section", "overrides", "words"),
    [
        (FIVE, {"rule": "medain", "byzantine": 1}, {}, "did you mean 'median'"),
        (FIVE, {"rule": "median", "byzantine": 1.5}, {}, "aggregation.byzantine = 1.5: expected a whole number"),
        (FIVE, {"rule": "median", "byzantine": 1, "spred": 1.0}, {}, "did you mean 'spread'"),
        (FIVE, {"rule": "median", "byzantine": 3}, {}, "needs at least 7"),
        ((100,) * 4, {"rule": "krum", "byzantine": 1}, {}, "needs at least 5"),
        ((100, 100, 300), MEDIAN, {}, "have half of a round's records"),
        (FIVE, MEDIAN, {"learning__participation": 0.4}, "A round has answers from 2"),
        (FIVE, MEDIAN, {"learning__straggler": "skip", "learning__quorum": 2}, "A round has answers from 2"),
        (FIVE, MEDIAN, {"privacy__noise": "shared", "privacy__delta": 1e-6}, "only the sum is opened"),
        (FIVE, MEDIAN, {"learning__algorithm": "gossip", "learning__topology": "ring"}, "no centre"),
        (
            FIVE,
            MEDIAN,
            {"learning__algorithm": "gradient-descent", "learning__decay": 0.0, "learning__staleness": 9},
            "used one by one",
        ),
        (
            FIVE,
            MEDIAN,
            {"learning__algorithm": "sufficient-statistics", "learning__horizon": 1, "learning__step": "auto"},
            "second moments",
        ),
        (FIVE, MEDIAN, {"learning__algorithm": "scaffold", "model__radius": 9.0}, "cannot be compared"),
    ],
)
def test_rules_that_make_no_sense_are_refused_in_a_sentence(sizes, section, overrides, words):
    hosts = ("h1", "h2", "h3") if "privacy__noise" in overrides else None
    with pytest.raises(TermsError, match=words):
        make_terms(*sizes).changed(
            aggregation=section,
            hosts=hosts,
            **{
                part: {key.split("__")[1]: value for key, value in overrides.items() if key.startswith(part)}
                for part in ("model", "learning", "privacy")
            },
        )


def test_the_largest_liars_must_not_outweigh_the_least_that_a_round_hears():
    assert terms(100, 100, 199, aggregation=MEDIAN).aggregation is not None
    assert terms(100, 100, 900, 100, 100, aggregation={"rule": "krum", "byzantine": 1}).aggregation is not None


def test_one_owner_may_lie_where_nobody_says_how_many():
    named, counted = terms(aggregation={"rule": "median"}), terms(aggregation=MEDIAN)
    assert named.aggregation.byzantine == 1
    assert named.hash == counted.hash
