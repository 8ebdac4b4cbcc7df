"""What a notebook shows: the commands' own tables, sentences and figures, with names that are no markup."""

from typing import get_args

import pandas as pd
import pytest

import parley
from parley.errors import SettingError
from parley.learning.outcome.correction import MadeOf
from parley.report import figure, summary
from parley.report.words.verdict import OWN_MODEL_WORDS

STAKES = {"value": 1000.0, "privacy_cost": {"kind": "linear", "weight": 1.0}}


@pytest.fixture(scope="module")
def terms(tmp_path_factory):
    public = tmp_path_factory.mktemp("public") / "public.csv"
    parley.data.synthetic_lending(120, seed=9).to_csv(public, index=False)
    return parley.Terms.from_dict({
        "title": "Two *banks* & <b>",
        "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
                  "public": str(public), "holdout": 0.2},
        "learning": {"algorithm": "gradient-descent", "horizon": 3, "start": "public"},
        "privacy": {"clip": 40.0},
        "owners": [{"name": "large", "records": 800, "epsilon": 3.0, **STAKES},
                   {"name": "small", "records": 90, "epsilon": 3.0, **STAKES}],
    })  # fmt: skip


@pytest.fixture(scope="module")
def owners():
    book = parley.data.synthetic_lending(890, seed=1)
    return [parley.Owner("large", book[:800]), parley.Owner("small", book[800:])]


@pytest.fixture(scope="module")
def result(terms, owners):
    return parley.train(terms, owners, replicates=2, seed=1)


@pytest.fixture(scope="module")
def forecast(terms):
    return parley.forecast(terms, resamples=3)


def test_a_forecast_is_shown_with_its_owners_and_verdicts(forecast):
    said = str(summary(forecast))
    assert said.startswith(("Join", "Unsure", "Stay"))
    assert "Expected relative fitness" in said
    shown = figure(forecast)
    assert "Owners expected to gain by joining" in repr(shown)
    assert shown._repr_png_().startswith(b"\x89PNG")


def test_scores_are_drawn_over_the_forecast(terms, owners, result, forecast):
    verdicts = [parley.score(terms, owner, result.model) for owner in owners]
    assert "owners gain significantly" in summary(verdicts).headline
    assert "held-out rows" in summary(verdicts[0]).rows[0][0]
    both, alone = figure(forecast, verdicts), figure(verdicts)
    assert "(forecast: " in both.words
    assert "(forecast: " not in alone.words
    axes = both.figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["small", "large"]


def test_a_run_is_drawn_beside_its_forecast(result, forecast, tmp_path):
    assert "keep it inside" in str(summary(result))
    shown = figure(result, forecast)
    assert "forecast" in shown.words
    shown.save(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").stat().st_size > 1000


def test_a_deal_and_a_plan_say_what_the_commands_say(terms):
    deal = parley.negotiate(terms)
    assert summary(deal).headline in figure(deal).words
    assert "truthfully" in str(summary(deal))
    assert summary(parley.plan(terms)).headline == "Other ways to spend the same budgets"


def test_names_are_no_markup(terms):
    shown = summary(terms)._repr_markdown_()
    assert shown.startswith("**Two \\*banks\\* &amp; &lt;b&gt;**\n")
    hostile = terms.changed(title="a|b\n# c $x$ `d` [e](javascript:f)")
    assert "a\\|b \\# c \\$x\\$ \\`d\\` \\[e\\](javascript:f)" in summary(hostile)._repr_markdown_()


def test_what_cannot_be_shown_is_refused(terms):
    for show in (summary, figure):
        with pytest.raises(SettingError, match="give "):
            show(pd.DataFrame())
    with pytest.raises(SettingError, match="give a result of forecast"):
        figure(terms)


def test_the_choice_of_an_option_is_checked():
    with pytest.raises(SettingError, match="eps: expected an option of parley init"):
        parley.draft_terms(["a.csv"], "y", eps=1.0)


def test_every_model_alone_has_its_words():
    assert {*OWN_MODEL_WORDS} == {*get_args(MadeOf)} - {"the joint model"}
