"""Owners are named for what bound, noise and stated spread do not explain, and honest runs name hardly anybody."""

from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import pytest
from samples import make_terms, regression_table
from scipy.stats import laplace, norm

import parley
from parley.learning.outcome import notices
from parley.learning.outcome.notices import FALSE_ALARMS, Watch, sum_tail
from parley.privacy.mechanisms import Gaussian, Laplace
from parley.protocol.queries import Answer
from parley.protocol.setup import resolve
from parley_lab.attacks.poisoning import poisoned_run, scaled

NAMES = "abcde"
GAUSSIAN = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}
GEOMETRIC = {"privacy__mechanism": "geometric"}
RUNS = 2000


def five(aggregation=None, **overrides):
    terms = make_terms(*(300,) * 5, learning__horizon=8, privacy__clip=1.0, epsilon=2.0, **overrides)
    return terms.changed(aggregation=aggregation or {})


@pytest.fixture(scope="module")
def owners():
    return [parley.Owner(name, regression_table(300, seed=place)) for place, name in enumerate(NAMES)]


def at_the_edge(terms, seed, size=None):
    """What a watch says of honest owners whose exact answers are as large as any, all different, in many runs of which
    the noise is as agreed."""
    setup, rng = resolve(terms), np.random.default_rng(seed)
    watch = Watch(setup)
    for _ in range(terms.learning.horizon):
        answers = []
        for place, name in enumerate(NAMES):
            stage = setup.part(name).training
            exact = np.zeros((RUNS, stage.question.size))
            exact[:, place % stage.question.size] = stage.question.extent.size if size is None else size * (place % 2)
            law = stage.series.mechanism
            if law.norm == "l2":
                noise = rng.normal(0, law.sigma, exact.shape)
            else:
                noise = rng.laplace(0, law.scale, exact.shape)
            answers.append(Answer("q", name, 300, exact + noise))
        watch.hear(answers)
    return watch.notices()


@pytest.mark.parametrize("law", [{}, GAUSSIAN, GEOMETRIC], ids=["laplace", "gaussian", "geometric"])
def test_honest_runs_name_nobody_more_often_than_said(law, owners):
    """1,000 honest runs as replicates: at most 1 is expected to name anybody, and 6 or more happen with probability
    below 1e-3. The worst honest owners, at the edge of their bound, 2,000 runs: 9 or more likewise."""
    result = parley.train(five(**law), owners, replicates=1000, seed=5, measure=False)
    assert sum(notice.runs for notice in result.notices) <= 5
    if law is not GEOMETRIC:
        assert sum(notice.runs for notice in at_the_edge(five(**law), 1)) <= 8


@pytest.mark.parametrize("law", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
def test_honest_owners_as_far_apart_as_stated_are_not_named(law):
    stated = {"rule": "median", "byzantine": 1, "spread": 0.4}
    assert sum(notice.runs for notice in at_the_edge(five(stated, **law), 2, 0.4)) <= 8
    # and who lies twice as far from one another as was stated would be, were noise not in the way
    quiet = five({**stated, "spread": 1e-6}, **law).changed(everyone={"epsilon": 500.0})
    assert {notice.owner for notice in at_the_edge(quiet, 2, 0.4)} == set(NAMES)


@pytest.mark.parametrize(("alarms", "named"), [(FALSE_ALARMS, False), (0.9, True)])
def test_honest_draws_in_secret_are_not_named_for_their_size(alarms, named, monkeypatch):
    """Rows that all have the largest gradient, drawn in secret, hardly any noise: what names anybody is the draw alone.
    At the stated rate 2,000 runs name 9 or more with probability below 1e-3; a mutant, with an alarm wanted in nearly
    every run, names many."""
    monkeypatch.setattr(notices, "FALSE_ALARMS", alarms)
    drawn = {"algorithm": "private-sgd", "batches": 20, "sampling": "poisson", "epochs": 1, "horizon": None}
    terms = make_terms(*(2000,) * 5, epsilon=5e4, privacy__clip=1.0, **{f"learning__{k}": v for k, v in drawn.items()})
    setup, rng = resolve(terms), np.random.default_rng(4)
    watch, law = Watch(setup), setup.part("a").training.series.mechanism
    for _ in range(20):
        rows = rng.binomial(2000, 1 / 20, (5, RUNS))
        exact = rows[..., None] / 100 * np.eye(3)[0]
        said = exact + rng.laplace(0, law.noise_scale, exact.shape)
        watch.hear([Answer("q", name, 2000, value) for name, value in zip(NAMES, said, strict=True)])
    runs = sum(notice.runs for notice in watch.notices())
    assert runs > 100 if named else runs <= 8


def test_the_alarm_is_not_asleep(monkeypatch):
    """A mutant: with a false alarm wanted in every second run, honest owners at the edge are named often."""
    monkeypatch.setattr(notices, "FALSE_ALARMS", 0.5)
    loud = sum(notice.runs for notice in at_the_edge(five(), 3))
    monkeypatch.undo()
    assert loud > 20 * RUNS * FALSE_ALARMS


@pytest.mark.parametrize("law", [{}, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize(("factor", "reason"), [(1e4, "an answer"), (12.0, "all answers")])
def test_answers_beyond_bound_and_noise_are_named(law, factor, reason, owners):
    """Twelve times as large an answer hides in one round's noise, or does not; all of them together do not."""
    loud = 2.0 if factor > 100 else 20.0
    terms = five(**law).changed(everyone={"epsilon": loud})
    found = poisoned_run(terms, owners, {"d": partial(scaled, factor=factor)}, "abce", 20, 0)
    assert {notice.owner for notice in found.notices} == {"d"}
    assert reason in {notice.reason for notice in found.notices if notice.runs == 20}


def test_a_turned_sign_within_the_bound_is_named_only_where_a_spread_is_stated(owners):
    lie = {"d": partial(scaled, factor=-1.0)}
    terms = five().changed(everyone={"epsilon": 400.0})
    assert poisoned_run(terms, owners, lie, "abce", 20, 0).notices == ()
    stated = terms.changed(aggregation={"rule": "median", "byzantine": 1, "spread": 0.1})
    found = poisoned_run(stated, owners, lie, "abce", 20, 0).notices
    assert [(notice.owner, notice.reason) for notice in found] == [("d", "spread")]


def test_lies_that_cancel_over_the_rounds_are_named_for_the_largest(owners):
    """Up in one round, down in the next, within the bound: the sum over eight rounds is that of the truth."""
    signs = cycle((1.0, -1.0))
    stated = five({"rule": "median", "byzantine": 1, "spread": 0.1}).changed(everyone={"epsilon": 400.0})
    lie = {"d": lambda value: value + 0.5 * next(signs) * np.eye(value.shape[-1])[0]}
    found = poisoned_run(stated, owners, lie, "abce", 20, 0).notices
    assert [(notice.owner, notice.reason, notice.runs) for notice in found] == [("d", "spread", 20)]


@pytest.mark.parametrize("extreme", [1e308, np.inf, np.nan])
def test_no_number_hides_behind_its_own_size(extreme, owners):
    """Infinities of both signs that would cancel to nothing, and what is no number, are named all the same."""
    signs = cycle((extreme, -extreme))
    stated = five({"rule": "median", "byzantine": 1, "spread": 0.1}).changed(everyone={"epsilon": 400.0})
    found = poisoned_run(stated, owners, {"d": lambda value: np.full_like(value, next(signs))}, "abce", 2, 0).notices
    assert {notice.owner for notice in found} == {"d"}
    assert "an answer" in {notice.reason for notice in found}


def test_a_liar_cannot_have_an_honest_owner_named(owners):
    """Whatever a single one says, an honest owner agrees with three others, and one may lie."""
    stated = {"rule": "median", "byzantine": 1, "spread": 0.2}
    terms = five(stated).changed(everyone={"epsilon": 400.0})
    for factor in (-1e3, 1e3):
        found = poisoned_run(terms, owners, {"d": partial(scaled, factor=factor)}, "abce", 20, 0).notices
        assert {notice.owner for notice in found} == {"d"}


@pytest.mark.parametrize(
    ("law", "draw"), [(Gaussian(2.0, 1.0), norm(scale=2.0)), (Laplace(2.0, 1.0), laplace(scale=2.0))]
)
def test_sums_of_noise_stay_within_their_tail(law, draw):
    """100,000 sums of five noises of two owners: within 4.5 standard errors of the probability at most, and a normal
    one is not cautious."""
    rng, share, draws = np.random.default_rng(0), 0.01, 100_000
    sums = draw.rvs((draws, 10), random_state=rng).sum(axis=1)
    rate = np.mean(np.abs(sums) > sum_tail([law, law], 5, share, 1))
    error = 4.5 * np.sqrt(share / draws)
    assert rate <= share + error
    assert law.norm == "l1" or rate >= 0.9 * share - error


def test_what_is_named_is_said_in_the_result(owners):
    result = parley.train(five(), owners, replicates=2, seed=0)
    assert result.notices == ()
    assert result.to_json()["notices"] == []
    named = replace(result, notices=(notices.Notice("d", "an answer", 2),))
    assert named.to_json()["notices"][0]["owner"] == "d"
    assert "larger than bound plus noise" in named.to_json()["notices"][0]["sentence"]
