"""The planner and the forecast on federated inference where owners cannot always be asked, and which clip cuts
nothing."""

import pytest
from samples import BOUNDS, make_terms, regression_table

import parley
from parley.decisions.planning.coordinate_search import one_release
from parley.decisions.planning.planner import plan
from parley.report.words.training import interval_line
from parley.terms.participation import fewest_rounds

INFERS = {"learning__algorithm": "fedinfer", "learning__step": None, "privacy__clip": None, "model__bounds": BOUNDS}


def terms_of(strides=(None, None, None), horizon=6, **overrides):
    given = {**INFERS, "model__radius": None, "learning__horizon": horizon, **overrides}
    terms = make_terms(2000, 2000, 2000, **given)
    return terms.changed(owners={part.name: {"stride": s} for part, s in zip(terms.owners, strides, strict=True) if s})


RARELY_THERE = {
    "strides": terms_of((None, 2, 6)),
    "strides longer than plans usually are": terms_of((None, 2, 40), horizon=80),
    "some owners a round": terms_of(learning__participation=0.6),
    "nobody is waited for": terms_of(learning__straggler="skip", learning__quorum=2),
}


@pytest.mark.parametrize("name", RARELY_THERE)
def test_a_plan_is_made_for_owners_that_are_not_always_there(name):
    """It asks nobody more often than the terms let it, and is no worse than what was written."""
    terms = RARELY_THERE[name]
    found = plan(terms, regression_table(80, 3), seed=1)
    written = next(each for each in found.choices if each.label == "as written")
    assert found.best.relative_fitness <= written.relative_fitness
    assert any("one release of statistics" in each.label for each in found.choices)
    kept = found.terms.learning
    assert (kept.participation, kept.straggler, kept.quorum) == (
        terms.learning.participation,
        terms.learning.straggler,
        terms.learning.quorum,
    )
    if kept.horizon > 1:
        assert [part.stride for part in found.terms.owners] == [part.stride for part in terms.owners]


def test_one_release_asks_everybody_once():
    once = one_release(RARELY_THERE["strides"])
    assert once is not None
    assert (once.learning.algorithm, once.learning.horizon) == ("sufficient-statistics", 1)
    some = one_release(
        terms_of(learning__participation=0.4, learning__algorithm="averaged-subgradient", privacy__clip=1.0, horizon=50)
    )
    assert some is not None
    assert (some.learning.algorithm, some.learning.horizon) == ("fedinfer", 3)  # one owner of three a round


@pytest.mark.parametrize("strides", [(None, None, None), (None, 2, 6)])
def test_the_fewest_rounds_are_those_that_terms_take(strides):
    terms = terms_of(strides)
    least = fewest_rounds(terms)
    terms.changed(learning={"horizon": least})
    if least > 1:
        with pytest.raises(parley.errors.TermsError, match=r"owners\.stride"):
            terms.changed(learning={"horizon": least - 1})


def test_a_forecast_by_strides_counts_the_noise_of_rare_answers():
    """Under Laplace noise an owner that answers six times pays for six: strides are forecast to be better than six
    rounds of all."""
    pilot = regression_table(400, 3)
    often, rarely = (
        parley.forecast(terms_of(s), pilot, seed=2, resamples=2) for s in ((None, None, None), (None, 6, 6))
    )
    assert rarely.relative_fitness.mean < 0.7 * often.relative_fitness.mean


def test_a_clip_that_cuts_nothing_is_named():
    pilot = regression_table(400, 3)
    tight = terms_of(horizon=1, privacy__clip=0.3)
    said = " ".join(parley.forecast(tight, pilot, resamples=1).warnings)
    assert "no record would be clipped" in said
    clip = float(said.split("privacy.clip = ")[1].split(",")[0])
    wide = tight.changed(privacy={"clip": clip})
    assert "cut" not in " ".join(parley.forecast(wide, pilot, resamples=1).warnings)


def test_training_says_without_which_clip_nobody_is_cut():
    owners = [parley.Owner(name, regression_table(2000, place)) for place, name in enumerate("abc")]
    tight = terms_of(horizon=1, privacy__clip=0.3)
    said = interval_line(parley.train(tight, owners, seed=1))
    assert "Without privacy.clip, no record is clipped" in said
    largest = float(said.split("norm above ")[1].split(". ")[0])
    roomy = parley.train(tight.changed(privacy={"clip": largest}), owners, seed=1)
    assert all(each.clipped_share == 0 for each in roomy.owners)
    assert "privacy.clip" not in interval_line(roomy)
