"""The best mechanism for a count, in exact fractions, beside the thesis's bound; remaps never hurt."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from parley.errors import SettingError
from parley_lab.papers.wu2019_thesis.channels import (
    best_remap,
    chance_right,
    response_channel,
    truncated_geometric,
    uniform_prior,
    worst_ratio,
)
from parley_lab.papers.wu2019_thesis.optimal_mechanism import (
    clique_graph,
    optimum,
    path_graph,
    published_bound,
    ring_graph,
    solved,
)

RATIOS = [Fraction(1, 2), Fraction(1, 10), Fraction(9, 10), Fraction(99, 100)]


@pytest.mark.parametrize("q", RATIOS)
@pytest.mark.parametrize("records", range(1, 13))
def test_truncated_geometric_noise_is_the_linear_programs_optimum_and_below_the_published_bound(records, q):
    best = optimum(path_graph(records), q)
    assert best.proved()
    assert [list(row) for row in best.channel] == [list(row) for row in truncated_geometric(records, q)]
    assert best.value == (2 + (records - 1) * (1 - q)) / ((1 + q) * (records + 1))
    bound = published_bound(records, 1, q)
    assert best.value == bound if records == 1 else best.value < bound


def test_figures_of_the_erratum():
    half = Fraction(1, 2)
    assert (optimum(path_graph(2), half).value, published_bound(2, 1, half)) == (Fraction(5, 9), Fraction(4, 7))
    assert float(optimum(path_graph(12), half).value) == pytest.approx(0.385, abs=5e-4)
    assert float(published_bound(12, 1, half)) == pytest.approx(0.500, abs=5e-4)


@pytest.mark.parametrize("q", RATIOS)
def test_the_published_bound_is_reached_where_all_answers_look_alike(q):
    for half in (1, 2, 5):
        ring = optimum(ring_graph(2 * half + 1), q)
        assert ring.proved()
        assert ring.value == published_bound(half, 2, q)
    for size in (2, 3, 7):
        clique = optimum(clique_graph(size), q)
        assert clique.proved()
        assert clique.value == published_bound(1, size - 1, q)
        truthful = (1 - q) / (1 + (size - 1) * q)  # odds of 1/q
        assert [list(row) for row in clique.channel] == [list(row) for row in response_channel(size, truthful)]


def test_a_wrong_channel_or_wrong_multipliers_prove_nothing():
    best = optimum(path_graph(3), Fraction(1, 2))
    edge = next(iter(best.edges))
    assert not replace(best, edges={**best.edges, edge: best.edges[edge] * 2}).proved()
    assert not replace(best, channel=optimum(path_graph(3), Fraction(1, 3)).channel).proved()
    assert not replace(best, rows=[row / 2 for row in best.rows]).proved()
    assert not replace(best, edges={**best.edges, edge: Fraction(-1)}).proved()


def test_what_the_formula_does_not_solve_is_refused():
    star = [[1, 2, 3, 4, 5], *[[0]] * 5]
    with pytest.raises(SettingError, match="no channel by distances"):
        optimum(star, Fraction(9, 10))
    with pytest.raises(SettingError, match="no channel by distances"):
        optimum([[1, 2, 3, 4], *[[0]] * 4], Fraction(1, 2))
    for graph in ([[]], [], [[1], [0], []]):
        with pytest.raises(SettingError, match="reached from all others"):
            optimum(graph, Fraction(1, 2))
    for q in (Fraction(0), Fraction(1), Fraction(2)):
        with pytest.raises(SettingError, match="between 0 and 1"):
            optimum(path_graph(2), q)
    with pytest.raises(SettingError, match="inverted"):
        solved([[Fraction(0)]], [Fraction(1)])


def test_a_remap_never_hurts_and_the_channels_cost_what_they_say():
    rng = np.random.default_rng(3)
    for records in (1, 2, 5, 9):
        for q in RATIOS:
            channel = truncated_geometric(records, q)
            assert worst_ratio(channel, [(y, y + 1) for y in range(records)]) == 1 / q
            weights = [Fraction(int(w), 1000) for w in rng.integers(1, 1000, records + 1) ** 2]
            prior = [weight / sum(weights) for weight in weights]
            remap = best_remap(channel, prior)
            assert chance_right(channel, prior, remap) >= chance_right(channel, prior)
            every = uniform_prior(records + 1)
            assert chance_right(channel, every, best_remap(channel, every)) == chance_right(channel, every)


def test_a_remap_helps_where_something_is_believed():
    channel, prior = truncated_geometric(4, Fraction(9, 10)), [Fraction(n, 100) for n in (90, 4, 3, 2, 1)]
    assert best_remap(channel, prior) == [0] * 5
    assert chance_right(channel, prior, best_remap(channel, prior)) == Fraction(9, 10) > chance_right(channel, prior)
