"""Asking how much owners differ: the agreement, its debit, what comes out of whole tables, and what the forecast makes
of it."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.outlook.forecast import forecast
from parley.errors import DataError, LedgerError, TermsError
from parley.protocol.setup import resolve
from parley.tasks.statistics.heterogeneity.run import (
    ask_heterogeneity,
    heterogeneity_agreement,
    terms_after_heterogeneity,
)
from parley.terms import load_terms

NAMES = ["x0", "x1", "x2"]
TRUTH = np.array([0.5, -0.8, 0.3])
ROWS, COUNT = 1000, 16


def table(rng, rows, apart=0.0):
    """Least squares with noise 1 and independent features: an own estimate of n rows has variance 1/n in every
    direction."""
    X = rng.normal(size=(rows, 3))
    theta = TRUTH + np.sqrt(apart) * rng.normal(size=3)
    return pd.DataFrame(X, columns=NAMES).assign(y=X @ theta + rng.normal(size=rows))


def content(public, mechanism="gaussian", **privacy):
    delta = {"delta": 1e-5} if mechanism == "gaussian" else {}
    return {
        "model": {"kind": "linear-regression", "target": "y", "features": NAMES, "public": str(public)},
        "learning": {"algorithm": "gradient-descent", "horizon": 10, "step": 0.3, "decay": 0},
        "privacy": {"clip": 8.0, "mechanism": mechanism, **delta, "difference_epsilon": 1.0, **privacy},
        "owners": [{"name": f"o{i}", "records": ROWS, "epsilon": 3.0} for i in range(COUNT)],
    }


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    path = tmp_path_factory.mktemp("public") / "public.csv"
    table(np.random.default_rng(0), 3000).to_csv(path, index=False)
    return path


def asked_of(terms, multiple, seed):
    rng = np.random.default_rng(seed)
    owners = [parley.Owner(part.name, table(rng, ROWS, multiple / ROWS)) for part in terms.owners]
    return ask_heterogeneity(terms, owners, seed=seed)


def test_the_agreement_costs_just_that_and_the_rest_adds_up(public):
    given = content(public, score_epsilon=0.5)
    given["model"] |= {"holdout": 0.2, "bounds": {"y": [-9, 9]}}
    terms = parley.Terms.from_dict(given)
    asked, ready = heterogeneity_agreement(terms), terms_after_heterogeneity(terms)
    assert asked.learning.horizon == 1
    assert asked.learning.start == "public"
    assert {asked.promised_epsilon(part.name) for part in terms.owners} == {Fraction(1)}
    for part in terms.owners:
        assert asked.promised_epsilon(part.name) + ready.promised_epsilon(part.name) <= terms.promised_epsilon(
            part.name
        )
    assert Fraction(str(asked.privacy.delta)) + Fraction(str(ready.privacy.delta)) <= Fraction(str(terms.privacy.delta))
    assert (asked.privacy.delta, ready.privacy.difference_epsilon, asked.model.holdout) == (1e-6, None, 0.2)
    assert heterogeneity_agreement(parley.Terms.from_dict(content(public, "laplace"))).privacy.delta == 0
    with pytest.raises(TermsError, match="parley heterogeneity TERMS --write READY"):
        resolve(terms)
    with pytest.raises(TermsError, match=r"difference_epsilon: missing"):
        heterogeneity_agreement(ready)


def test_terms_without_the_key_keep_their_hash_and_with_one_noise_owners_draw_their_own(public):
    plain = content(public)
    del plain["privacy"]["difference_epsilon"]
    assert "difference" not in parley.Terms.from_dict(plain).canonical
    hosted = parley.Terms.from_dict(content(public, noise="shared") | {"hosts": [{"name": name} for name in "abc"]})
    assert not heterogeneity_agreement(hosted).noise.summed
    assert terms_after_heterogeneity(hosted).noise.summed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"privacy": {"difference_epsilon": 3.0}}, "less than the epsilon of 'o0'"),
        ({"learning": {"algorithm": "sufficient-statistics"}}, "whose clip bounds a record's gradient"),
        ({"model": {"kind": "linear-regression", "target": "y"}}, "needs model.public"),
        ({"owners": [{"name": "o0", "records": 9, "epsilon": 3.0}]}, "two owners or more"),
    ],
)
def test_what_cannot_be_asked_is_refused(public, change, said):
    given = content(public)
    privacy = given["privacy"] | change.pop("privacy", {})
    with pytest.raises(TermsError, match=said):
        parley.Terms.from_dict({**given, **change, "privacy": privacy})


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_whole_tables_give_back_what_they_were_drawn_with(public, mechanism):
    """Six consortia that differ by 4 times the variance of an own estimate and six that do not: most intervals cover,
    and who differs is told from who does not."""
    terms = parley.Terms.from_dict(content(public, mechanism))
    for multiple in (0.0, 4.0):
        found = [asked_of(terms, multiple, seed).between for seed in range(6)]
        assert sum(each.low <= multiple <= each.high for each in found) >= 4
        assert abs(np.mean([each.mean for each in found]) - multiple) < 0.3 * multiple + 0.5
    assert min(each.low for each in found) > 0


def test_a_study_is_no_release_and_the_forecast_takes_what_came_out(public, tmp_path):
    terms = parley.Terms.from_dict(content(public))
    result = asked_of(terms, 4.0, seed=1)
    assert not result.released
    (tmp_path / "apart.json").write_text(json.dumps(result.to_json()))
    known = Heterogeneity.load(tmp_path / "apart.json")
    assert known == Heterogeneity(result.between.mean, result.between.low, result.between.high, "measured")
    measured, guessed = (forecast(result.ready, resamples=2, **more) for more in ({"differences": known}, {}))
    assert measured.owners[0].gain.mean < guessed.owners[0].gain.mean  # they differ more than was thought
    assert "By what owners released" in measured.outlook.laws[0].differences.words(ROWS)
    (tmp_path / "wrong.json").write_text('{"differences": {"mean": -1, "low": 0, "high": 1}}')
    with pytest.raises(DataError, match="parley heterogeneity --save"):
        Heterogeneity.load(tmp_path / "wrong.json")


def test_a_release_debits_exactly_that_once(public, tmp_path):
    """By commands: ledgers with room for all, what is kept, the terms that follow, and no second answer."""
    rng, given = np.random.default_rng(5), content(public)
    given["owners"] = given["owners"][:3]
    for part in given["owners"]:
        table(rng, ROWS, 4 / ROWS).to_csv(tmp_path / f"{part['name']}.csv", index=False)
        part["data"] = str(tmp_path / f"{part['name']}.csv")
    terms = parley.Terms.from_dict(given)
    parley.terms.write_terms(terms, tmp_path / "terms.toml")

    def typed(*arguments):
        return CliRunner().invoke(app, [str(each) for each in arguments])

    books = ("--ledgers", tmp_path / "books")
    short = typed("heterogeneity", tmp_path / "terms.toml", *books, "--lifetime", 1.0, "--lifetime-delta", 1e-5)
    assert (
        isinstance(short.exception, LedgerError)
        or "this answer and learning together need" in short.output + short.stderr
    )
    out = ("--save", tmp_path / "apart.json", "--write", tmp_path / "ready.toml", "--json")
    done = typed("heterogeneity", tmp_path / "terms.toml", *books, "--lifetime", 4.0, "--lifetime-delta", 1e-5, *out)
    assert done.exit_code == 0, (done.output, done.exception)
    shown = json.loads(done.stdout)
    assert shown["adjacency"] == "replace-one"
    assert shown["released"]
    assert shown["spent"] == {part.name: 1.0 for part in terms.owners}
    assert set(shown["differences"]) == {"mean", "low", "high", "rows"}
    for part in terms.owners:
        ledger = parley.Ledger(tmp_path / "books" / f"{part.name}.ledger")
        assert ledger.account(heterogeneity_agreement(load_terms(tmp_path / "terms.toml")).hash).spent == Fraction(1)
    assert load_terms(tmp_path / "ready.toml").owner("o0").epsilon == 2.0
    again = typed("heterogeneity", tmp_path / "terms.toml", *books, "--json")
    if again.exit_code == 0:  # the same answer, not another one
        assert json.loads(again.stdout)["differences"] == shown["differences"]
        assert json.loads(again.stdout)["spent"] == shown["spent"]
    foretold = typed("forecast", tmp_path / "ready.toml", "--heterogeneity", tmp_path / "apart.json", "--json")
    assert json.loads(foretold.stdout)["differences"]["origin"] == "measured"


def test_a_clip_that_hides_differences_is_said(public):
    from parley.tasks.statistics.heterogeneity.commands import clip_note

    terms = parley.Terms.from_dict(content(public, clip=1.0))
    result = asked_of(terms, 0.0, seed=0)
    assert result.clipped > 0.3
    assert "owners may differ more" in clip_note(result)
    assert clip_note(replace(result, clipped=0.01)) is None


def test_a_sample_that_does_not_tell_is_refused_before_anybody_is_asked(tmp_path):
    exact = table(np.random.default_rng(0), 40)
    exact["y"] = 0.0
    exact.to_csv(tmp_path / "public.csv", index=False)
    terms = parley.Terms.from_dict(content(tmp_path / "public.csv"))
    with pytest.raises(DataError, match="of all public rows are equal"):
        asked_of(terms, 0.0, seed=0)


def test_an_owner_that_was_asked_how_it_differs_does_not_learn_by_the_same_terms(public):
    """Their epsilon is for both together: the rest alone may be spent on learning."""
    terms = parley.Terms.from_dict(content(public))
    owner = parley.Owner("o0", table(np.random.default_rng(5), ROWS))
    owner.accept(heterogeneity_agreement(terms))
    with pytest.raises(TermsError, match="difference_epsilon"):
        owner.accept(terms)


def test_local_steps_are_clipped_in_another_norm_than_laplace_noise_needs(public):
    given = content(public, mechanism="laplace")
    given["model"] |= {"radius": 5.0, "bounds": {**{name: [-4, 4] for name in NAMES}, "y": [-9, 9]}}
    given["learning"] = {"algorithm": "federated-averaging", "horizon": 4}
    with pytest.raises(TermsError, match="mechanism's norm"):
        parley.Terms.from_dict(given)
