from fractions import Fraction

import numpy as np
import pytest
from samples import make_terms

from parley.decisions.knowledge.baselines import Baselines
from parley.decisions.planning.planner import Choice, Proposal
from parley.errors import SettingError
from parley.numerals import number, percent
from parley.report.figures import curves, game_figures, picture
from parley.report.pages.page import Section, page
from parley.report.words.forecast import plan_rows
from parley.report.words.noise import plan_beside
from parley.report.words.terms_comments import planned_line


def test_the_fitness_path_shows_median_and_quartiles():
    path = np.random.default_rng(0).lognormal(size=(20, 50))
    axes = curves.fitness_path(path).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), np.median(path, axis=1))
    assert axes.get_yscale() == "log"
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(np.quantile(path, 0.25, axis=1).min())


@pytest.mark.parametrize("digits", [2, 4, 6])
def test_a_bound_is_rounded_to_the_side_on_which_it_holds(digits):
    rng = np.random.default_rng(0)
    values = [
        *10 ** rng.uniform(-12, 9, 500),
        *rng.uniform(0, 10, 500),
        *rng.integers(1, 10**6, 500) / 1000,
        0.1,
        1.0,
        2.71828,
        9999.5,
    ]
    for value in map(float, values):
        below, above = (Fraction(number(value, digits, side).replace(",", "")) for side in ("below", "above"))
        assert below <= Fraction(repr(value)) <= above
        assert above - below <= max(Fraction(value) * Fraction(11, 10 ** (digits)), value >= 10**digits)
        share = value / 1e10
        assert (
            Fraction(percent(share, "below")[:-1])
            <= 100 * Fraction(repr(share))
            <= Fraction(percent(share, "above")[:-1])
        )
    assert [number(v, digits, "above") for v in (0.5, 3, 0, None, float("inf"))] == ["0.5", "3", "0", "–", "inf"]
    assert number(Fraction(1, 3), digits, "above") == "0." + "3" * (digits - 1) + "4"


def test_one_run_has_no_band():
    assert not curves.fitness_path(np.ones((5, 1))).axes[0].collections


def test_files_of_an_unknown_kind_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"\.png or \.svg or \.pdf"):
        picture.save(curves.fitness_path(np.ones((5, 1))), tmp_path / "f.doc")


def test_a_page_escapes_what_it_is_given():
    text = page("<b>", "lead & more", [Section("h", ["<script>alert(1)</script>"], [["a"], ["<i>"]])], "end")
    assert "<script>" not in text
    assert "&lt;b&gt;" in text
    assert "&lt;i&gt;" in text


def test_numbers_read_well():
    assert [number(v) for v in (0.1, 1 / 3, 12345.6, None)] == ["0.1", "0.3333", "12,346", "–"]
    assert [percent(v) for v in (0.1234, None)] == ["12.3%", "–"]


def test_one_round_is_drawn_as_a_dot():
    """A line through one point shows nothing."""
    for path in (np.array([[0.3]]), np.array([[0.2, 0.3, 0.5]])):
        axes = curves.fitness_path(path, forecast=np.array([0.25])).axes[0]
        shown = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
        assert [line.get_ydata().tolist() for line in shown if line.get_label() in ("this run", "median")] == [[0.3]]
        low, high = axes.get_xlim()
        assert low < 1 < high


def payoff_panel(payoffs, chosen):
    return game_figures.negotiation(np.geomspace(0.01, 10, 50), payoffs, chosen, {}).axes


def test_a_negotiation_that_nobody_joins_is_drawn_at_the_scale_of_its_payoffs():
    losses = {name: -5.0 - np.geomspace(1, 1e4, 50)[::-1] for name in ("a", "b")}
    left, right = payoff_panel(losses, {})
    low, high = left.get_ylim()
    assert low < -6 < 0 < high < 100
    assert "no payment" in right.texts[0].get_text()


def test_a_crowd_is_drawn_whole_and_the_legend_says_how_many_are_alike():
    payoffs = {f"owner-{place}": np.full(50, 1.0 + place) for place in range(40)}
    left, _ = payoff_panel(payoffs, dict.fromkeys(payoffs, 1.0))
    drawn = [line for line in left.lines if len(line.get_xdata()) == 50]
    assert len(drawn) == 40
    assert "32 more owners" in [text.get_text() for text in left.get_legend().get_texts()]


def test_a_choice_without_a_forecast_is_shown_as_one():
    """As written the run diverges: nothing can be compared with it, and nothing is divided by it."""
    spent = {
        "algorithm": "gradient-descent",
        "mechanism": "laplace",
        "delta": 0.0,
        "horizon": 5,
        "step": 1.0,
        "clip": 1.0,
    }
    wild, good, worse = (
        Choice(name, **spent, relative_fitness=psi) for name, psi in (("as written", np.inf), ("b", 0.1), ("c", np.inf))
    )
    terms = make_terms(100)
    rows = plan_rows(Proposal((wild, good, worse), good, 1.0, terms, 1.0, Baselines(1.0, None)))
    assert [row[-1] for row in rows[1:]] == ["none", "0.1", "none"]
    assert wild.to_json()["relative_fitness"] is None
    rows = plan_rows(Proposal((good, good), good, 1.0, terms, 1.0, Baselines(1.0, None)))
    assert [row[-1] for row in rows[1:]] == ["0.1", "0.1"]


def test_plans_are_compared_by_cost_where_the_best_model_has_almost_no_error():
    """Relative fitness divides by that error: 600,000 and 900,000 tell nobody which plan is better by how much."""
    spent = {"algorithm": "gradient-descent", "mechanism": "laplace", "delta": 0.0, "horizon": 5, "step": 1.0}
    best, worse = (
        Choice(name, **spent, clip=1.0, relative_fitness=psi, expected_cost=cost)
        for name, psi, cost in (("a", 6e5, 0.0456), ("b", 9e5, 0.061))
    )
    wild = Choice("c", **spent, clip=1.0, relative_fitness=np.inf)
    proposal = Proposal((worse, best, wild), best, 1e9, make_terms(100), 0.0456, Baselines(1.0, None))
    assert [row[-1] for row in plan_rows(proposal)] == ["test cost", "0.061", "0.0456", "none"]
    assert "with an expected test cost of 0.0456. After" in planned_line(proposal)


def test_both_kinds_of_noise_are_compared_as_the_planner_judged_them():
    """Without a public sample, the forecast's own figure for the plan is of other invented populations."""
    spent = {"algorithm": "gradient-descent", "mechanism": "laplace", "delta": 1e-6, "horizon": 1, "step": 1.0}
    own, shared = (
        {**spent, "clip": 1.0, "relative_fitness": 0.1, "expected_cost": cost} for cost in (16736.0, 16720.0)
    )
    settled = {"owner_count": 3, "hosts": 0, "paired": False, "expected_cost": 9199.0}
    three = {"hosts": 3, "hosts_may_cheat": False, "check_answers": False}
    plan = {**settled, "best": own, "shared": {"best": shared, "expected_cost": 16720.0, **three}}
    said = " ".join(plan_beside(plan))
    assert "16736 with each owner's own noise, 16720 with shared noise" in said
    assert "9199" not in said
