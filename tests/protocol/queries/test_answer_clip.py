"""The owner as the unit: answers clipped as a whole, and no two tables whose answers lie further apart than claimed."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import make_terms, regression_table

import parley
from parley.decisions.outlook.forecast import forecast
from parley.decisions.planning.planner import plan
from parley.errors import ParleyError, TermsError
from parley.learning.outcome.guarantee import guarantee
from parley.owner.acceptance_summary import acceptance_summary
from parley.privacy.events import Adjacency
from parley.protocol.queries import GradientQuery, StatisticsQuery, UpdateQuery
from parley.protocol.queries.question import AnswerClip
from parley.protocol.setup import resolve
from parley.report.words.forecast import owner_title

EXTREME = [0.0, 1.0, -1.0, 0.3, 5e-324, 1e-50, -1e-50, 1e50, -1e50, 1e308, -1.7e308, 7.0]
GAUSSIAN = {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}
CLASSES = {"model__kind": "logistic-regression", "model__radius": 3.0}
ASKED = {
    "gradient": {},
    "gradient, gaussian": GAUSSIAN,
    "classes": CLASSES,
    "svm": {**GAUSSIAN, "model__kind": "linear-svm"},
    "statistics": {**GAUSSIAN, "learning__algorithm": "sufficient-statistics", "learning__horizon": 1},
    "federated inference": {**GAUSSIAN, "learning__algorithm": "fedinfer", "learning__horizon": 3},
    "local steps": {**CLASSES, **GAUSSIAN, "learning__algorithm": "federated-averaging", "learning__local_steps": 3},
}


def of_owners(*sizes, **settings):
    step = {"learning__step": None} if "learning__algorithm" in settings else {}
    bounds = (
        {"model__bounds": {name: [-2, 2] for name in ("x0", "x1", "x2")}} if "learning__local_steps" in settings else {}
    )
    clip = {"privacy__clip": 0.7, "privacy__unit": "owner"}
    return make_terms(*sizes, **(clip | step | bounds | settings))


def exact_norm(values, norm):
    """(the L1 norm, or the square of the L2 norm) of floats, without rounding."""
    found = [abs(Fraction(float(v))) for v in values]
    return sum(found) if norm == "l1" else sum(v * v for v in found)


def allowed(limit, norm):
    return Fraction(limit) if norm == "l1" else Fraction(limit) ** 2


class Search:
    """Two whole tables and a question whose answers lie as far apart as coordinate ascent finds."""

    def __init__(self, terms, question=None):
        self.terms, self.setup = terms, resolve(terms)
        self.question = question or self.setup.part("a").training.question
        self.classes = terms.model.classifies

    def distance(self, cells):
        """The exact distance of the two answers (its square in L2), and the point they were asked at."""
        tables, theta = cells[:32].reshape(2, 4, 4), np.clip(cells[32:], -3, 3)
        answers = [self.answer(table, theta) for table in tables]
        apart = [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(*answers, strict=True)]
        return sum(map(abs, apart)) if self.question.norm == "l1" else sum(v * v for v in apart)

    def answer(self, table, theta):
        frame = pd.DataFrame(table, columns=["x0", "x1", "x2", "y"])
        frame["y"] = (frame["y"] > 0).astype(int) if self.classes else frame["y"]
        tables = parley.Owner("a", frame).prepare(self.setup).tables
        made = {GradientQuery: ("theta",), UpdateQuery: ("start",), StatisticsQuery: ()}[self.question.asks]
        numbers = [theta[: self.question.parameters]] if made else []
        steps = [3] if self.question.asks is UpdateQuery else []
        query = self.question.asks.ask(self.terms.hash, "learner", 1, *numbers, *steps)
        return self.question.bounded(query, tables).value.reshape(-1)

    def furthest(self, seed, tries):
        rng = np.random.default_rng(seed)
        cells = rng.choice(EXTREME, 36)
        cells[16:32] = cells[:16]
        cells[19:32:4] = -cells[3:16:4]  # the same rows with opposite targets
        best = self.distance(cells)
        for _ in range(tries):
            there = cells.copy()
            there[rng.integers(36, size=rng.integers(1, 4))] = rng.choice([*EXTREME, float(rng.normal())])
            if (found := self.distance(there)) > best:
                cells, best = there, found
        return best


@pytest.mark.parametrize("kind", ASKED)
def test_no_two_tables_move_an_answer_further_than_the_claim_and_some_nearly_do(kind):
    search = Search(of_owners(4, 9, **ASKED[kind]))
    claim = search.question.sensitivity
    assert claim == 1.4
    found = max(search.furthest(seed, 40) for seed in range(2))
    assert found <= allowed(claim, search.question.norm)
    assert (
        found > allowed(0.9 * claim, search.question.norm) or search.question.asks is StatisticsQuery
    )  # moments lie in a cone


def test_a_claim_for_one_record_is_broken_by_a_whole_table():
    """The mutant: the same clip at every record, and the sensitivity that is right for one of them."""
    terms = make_terms(4, 9, privacy__clip=0.7)
    search = Search(terms)
    assert max(search.furthest(seed, 30) for seed in range(2)) > allowed(2 * search.question.sensitivity, "l1")


@given(
    st.lists(st.floats(), min_size=1, max_size=12),
    st.sampled_from(["l1", "l2"]),
    st.sampled_from([1e-50, 0.1, 1.0, 7.3, 1e50]),
)
def test_a_clipped_answer_measures_at_most_its_clip_exactly(values, norm, clip):
    clipped = AnswerClip(clip, norm).clipped(np.array([values, values]))
    assert np.isfinite(clipped).all()
    assert exact_norm(clipped[0], norm) <= allowed(clip, norm)
    if not np.isfinite(values).all():
        assert not clipped.any()
    elif exact_norm(values, norm) <= allowed(clip * (1 - 1e-12), norm):
        assert np.array_equal(clipped[0], np.array(values))


def test_a_clip_without_its_margin_lets_answers_through_that_are_too_large():
    """The mutant: what rounding does is not taken off the clip."""
    rng, beyond = np.random.default_rng(0), 0
    for values in rng.normal(size=(300, 7)):
        scaled = values * (0.7 / np.linalg.norm(values))
        beyond += exact_norm(scaled, "l2") > allowed(0.7, "l2")
        assert exact_norm(AnswerClip(0.7, "l2").clipped(values[None])[0], "l2") <= allowed(0.7, "l2")
    assert beyond > 50


def test_noise_is_that_of_a_whole_table_wherever_it_is_drawn():
    terms = of_owners(100, 300, learning__horizon=5, **GAUSSIAN)
    apart = resolve(terms)
    for name in "ab":  # local privacy: each owner's own noise hides it, whatever its size
        assert apart.part(name).training.series.mechanism.sensitivity == 1.4
    assert apart.part("a").training.series.mechanism == apart.part("b").training.series.mechanism
    own = apart.part("a").training.series.mechanism.variance
    for hosts, draws in (("xyz", 1), ("xy", 2)):
        shared = resolve(terms.changed(privacy={"noise": "shared"}, hosts=tuple(hosts)))
        # one noise: 2 C times the largest weight, 300/400
        expected = draws * own * (300 / 400) ** 2
        assert shared.aggregation.noise(shared).all_together == pytest.approx(expected, rel=0.03)


def test_federated_inference_of_whole_tables_has_a_model_and_no_intervals():
    """Its answers were scaled down by nobody knows how much; three answers have the noise of three."""
    settings = {**GAUSSIAN, "learning__algorithm": "fedinfer"}
    table, variances = regression_table(250), []
    for horizon in (1, 3):
        terms = of_owners(100, 150, epsilon=1e4, **(settings | {"learning__horizon": horizon}))
        variances.append(resolve(terms).part("a").training.series.mechanism.variance)
    result = parley.train(terms, [parley.Owner("a", table[:100]), parley.Owner("b", table[100:])], seed=0)
    assert variances[1] == pytest.approx(3 * variances[0], rel=0.35)
    assert np.isfinite(result.model.theta_).all()
    assert result.model.posterior_ is None


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"privacy__clip": None}, "privacy.clip: expected a number with unit = 'owner'"),
        ({"privacy__score_epsilon": 0.1, "model__holdout": 0.3}, "privacy.score_epsilon: not allowed"),
        ({"privacy__scale_epsilon": 0.1, "privacy__delta": 1e-6}, "privacy.scale_epsilon: not allowed"),
        ({"privacy__difference_epsilon": 0.1}, "privacy.difference_epsilon: not allowed"),
        ({"privacy__shared_records": 2}, "expected shared_records = 1"),
        ({"privacy__person": "who"}, "privacy.person: not allowed with unit = 'owner'"),
        ({"learning__algorithm": "private-sgd", "learning__batches": 2, "learning__epochs": 1}, "expected 'record'"),
        ({"learning__algorithm": "scales", "learning__horizon": 2}, "privacy.unit: expected 'record'"),
    ],
)
def test_what_would_hide_one_person_only_is_refused(settings, sentence):
    if settings.get("learning__algorithm") in ("private-sgd", "scales"):
        settings = settings | {"learning__step": None}
    if settings.get("learning__algorithm") == "private-sgd":
        settings = settings | {"learning__horizon": None}
    with pytest.raises(TermsError, match=sentence):
        of_owners(100, 150, **settings)


def test_the_usual_unit_stays_out_of_the_hash_and_a_plan_is_refused():
    assert make_terms(100).hash == make_terms(100, privacy__unit="record").hash
    assert '"unit"' not in make_terms(100).canonical
    terms = of_owners(100, 150)
    assert terms.hash != make_terms(100, 150, privacy__clip=0.7).hash
    with pytest.raises(ParleyError, match=r"privacy\.unit: the planner cannot compare clips of whole answers"):
        plan(terms, regression_table(500, seed=1))


def test_a_release_debits_and_says_what_it_promises(tmp_path):
    terms = of_owners(100, 150, learning__horizon=2)
    owners = []
    for name, rows in (("a", 100), ("b", 150)):
        ledger = parley.Ledger(tmp_path / f"{name}.ledger", lifetime=2)
        owners.append(parley.Owner(name, regression_table(rows, seed=rows), ledger))
        owners[-1].accept(terms)
    said = " ".join(acceptance_summary(owners[0], owners[0].agreement(terms.hash)))
    assert "for your table as a whole." in said
    assert "For a person in κ tables, ε is κ times as large" in said
    assert f"({Adjacency.REPLACE_OWNER})" in said
    assert "All of your rows together change an answer by at most 1.4" in said
    result = parley.train(terms, owners)
    assert result.adjacency == "replace-one-owner"
    assert "all records of one owner" in guarantee(result)
    assert {owner.ledger.account(terms.hash).spent for owner in owners} == {Fraction(1)}


def test_moments_that_may_be_scaled_down_give_a_model_and_neither_intervals_nor_a_forecast():
    settings = ASKED["statistics"]
    tables = [parley.Owner(name, regression_table(rows, seed=rows)) for name, rows in (("a", 100), ("b", 150))]
    hidden = parley.train(of_owners(100, 150, **settings), tables, seed=0)
    assert hidden.intervals is None
    assert hidden.moments is None
    assert hidden.model.posterior_ is None
    told = parley.train(of_owners(100, 150, **(settings | {"privacy__unit": "record"})), tables, seed=0)
    assert told.intervals is not None
    assert told.moments is not None


def test_the_forecast_meets_runs_and_says_how_many_owners_it_takes():
    """Eight owners of one law, clips that bind: within a quarter of 400 runs, and a forecast that forgets the clip is
    not."""
    sizes = [60] * 8
    tables = [regression_table(rows, seed=place) for place, rows in enumerate(sizes)]
    terms = of_owners(*sizes, epsilon=40.0, learning__horizon=12, learning__step=1.0, privacy__clip=0.15, **GAUSSIAN)
    pilot = regression_table(4000, seed=99)
    expected = forecast(terms, pilot, resamples=2)
    owners = [parley.Owner("abcdefgh"[i], table) for i, table in enumerate(tables)]
    truth = parley.train(terms, owners, replicates=400, seed=0).relative_fitness["mean"]
    assert expected.relative_fitness.mean == pytest.approx(truth, rel=0.25)
    unclipped = forecast(terms.changed(privacy={"clip": 50.0}, everyone={"epsilon": 1e5}), pilot, resamples=2)
    assert abs(unclipped.relative_fitness.mean / truth - 1) > 0.5
    assert any("the unit is an owner" in sentence for sentence in expected.warnings)
    assert owner_title(expected).endswith("(ε: replace-one-owner)")


def test_a_forecast_of_second_moments_advises_a_clip_that_cuts_no_record():
    """Records are cut at the clip times the rows of the largest owner; the clip that is advised is of an answer."""
    terms = of_owners(*[8] * 6, epsilon=40.0, **(ASKED["statistics"] | {"privacy__clip": 0.1}))
    pilot = regression_table(500, seed=9)
    said = " ".join(forecast(terms, pilot, resamples=2).warnings)
    assert "the clip of single records, privacy.clip times 8 rows, scales down" in said
    assert "parley plan weighs" not in said
    assert "the norm of the pilot's second moments is" in said
    advised = float(said.split("privacy.clip = ")[1].split(",")[0])
    enough, less = (
        " ".join(forecast(terms.changed(privacy={"clip": clip}), pilot, resamples=2).warnings)
        for clip in (advised, 0.2 * advised)
    )
    assert "single records" not in enough
    assert "single records" in less


def test_fewer_owners_are_needed_the_less_noise_there_is():
    pilot = regression_table(3000, seed=9)
    pilot["y"] += 3 * np.random.default_rng(2).standard_normal(3000)  # so hard to learn that owners need each other
    way = {"learning__horizon": 20, "learning__step": 1.0, "model__radius": 60.0, "privacy__clip": 1.0}
    apart = of_owners(*[60] * 8, epsilon=8.0, **way, **GAUSSIAN)
    both = [apart.changed(privacy={"noise": "shared"}, hosts=hosts) for hosts in (("x", "y", "z"), ("x", "y"))]
    three, two, own = (forecast(terms, pilot, resamples=2).owners_needed for terms in (*both, apart))
    assert 2 <= three < two < own < 200, (three, two, own)


def test_a_question_without_the_clip_is_the_same_question():
    question = resolve(of_owners(100)).part("a").training.question
    assert replace(question, answer_clip=None).answer_clip is None
    assert question.extent.size == 0.7
