import nashpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_games import sampled_concavity, sampled_potential_gap

from parley.decisions.games import (
    Game,
    best_response_dynamics,
    best_responses,
    largest_gain,
    pure_equilibria,
    solve,
    welfare,
)
from parley.decisions.games.equilibrium import contraction
from parley.errors import NoEquilibriumError, SettingError
from parley_lab.papers.pejo2018.games.joint_learning import published


def quadratic_game(own, cross, push, low=0.0, high=1.0):
    """u_i = push_i s_i + sum_j cross_ij s_i s_j - own_i s_i^2/2, with its exact second derivatives."""
    matrix = cross - np.diag(np.diag(cross)) - np.diag(own)

    def payoff(s):
        return s * (push + s @ (matrix + np.diag(own)).T) - 0.5 * own * s**2

    count = len(own)
    return Game(payoff, np.full(count, low), np.full(count, high), curvature=(matrix, matrix))


def random_game(seed):
    """A concave game of 2 to 5 players with couplings as strong as the players' own curvature, of any sign."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    return quadratic_game(rng.uniform(0.5, 3, count), rng.normal(size=(count, count)), rng.normal(size=count))


@pytest.mark.parametrize("seed", range(15))
def test_random_concave_games_are_solved(seed):
    game = random_game(seed)
    found = solve(game)
    assert found.largest_gain < 1e-6
    # checked again without the module's own search: a fine grid of every player's deviations
    grid = np.linspace(0, 1, 2001)
    for i in range(game.players):
        tried = np.repeat(found.strategies[None], len(grid), axis=0)
        tried[:, i] = grid
        assert game.payoff(tried)[:, i].max() - found.payoff[i] < 1e-6
    factor = contraction(game)
    assert found.unique is True if factor < 1 else found.unique is not True


def test_a_profile_that_is_no_equilibrium_has_a_gain():
    game = random_game(3)
    assert largest_gain(game, 1 - solve(game).strategies.round()) > 1e-3


def coordination(count):
    """Both want the same of `count` peaks: exactly that many equilibria in the interior, and no others at the
    corners."""

    def payoff(s):
        x, y = s[..., 0], s[..., 1]
        common = np.cos(2 * np.pi * count * (x - 0.5 / count)) - 40 * count**2 * (x - y) ** 2
        return np.stack([common, common], axis=-1)

    return Game(payoff, [0.0, 0.0], [1.0, 1.0])


@pytest.mark.parametrize("count", [2, 3, 5])
def test_several_equilibria_are_all_found(count):
    game = coordination(count)
    found = np.array(sorted(pure_equilibria(game), key=lambda s: s[0]))
    peaks = (np.arange(count) + 0.5) / count
    for peak in peaks:
        assert np.abs(found - peak).max(axis=1).min() < 1e-5
    assert solve(game).unique is False
    assert all(largest_gain(game, profile) < 1e-6 for profile in found)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_every_corner_equilibrium_of_the_discretised_game_is_near_a_found_one(seed):
    """Couplings strong enough for several equilibria; nashpy confirms which cells of a 21 x 21 game are equilibria."""
    rng = np.random.default_rng(seed)
    cross = np.array([[0, rng.uniform(1, 6)], [rng.uniform(1, 6), 0]]) * rng.choice([-1, 1])
    game = quadratic_game(rng.uniform(0.5, 2, 2), cross, rng.normal(size=2) * 2)
    found = pure_equilibria(game)
    assert found
    grid, cells = grid_equilibria(game, 21)
    for i, j in cells:
        if {i, j} <= {0, 20}:  # elsewhere a cell may be at rest only because its neighbours are a whole step away
            assert min(np.abs(profile - grid[[i, j]]).max() for profile in found) < 0.1


def grid_equilibria(game, points):
    """(grid, cells) of the game on a grid: the cells from which neither player gains, each confirmed by nashpy."""
    grid = np.linspace(0, 1, points)
    profiles = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    a, b = np.moveaxis(game.payoff(profiles), -1, 0)
    cells = np.argwhere((a == a.max(axis=0)) & (b == b.max(axis=1)[:, None]))
    bimatrix, eye = nashpy.Game(a, b), np.eye(points)
    assert all(bimatrix.is_best_response(eye[i], eye[j]) == (True, True) for i, j in cells)
    return grid, [(int(i), int(j)) for i, j in cells]


@pytest.mark.parametrize(
    ("mechanism", "concern"), [("bDP", (1, 1)), ("bDP", (5, 0.2)), ("hide", (0.5, 0.5)), ("uDP", (0.2, 0.4))]
)
@pytest.mark.parametrize("participation", [False, True])
def test_the_published_games_agree_with_nashpy_on_a_grid(mechanism, concern, participation):
    """Every equilibrium of the 101 x 101 game lies within a step of one of ours, and every one of ours has such a
    cell."""
    game = published(mechanism, concern, participation)
    ours = np.array(pure_equilibria(game))
    grid, cells = grid_equilibria(game, 101)
    theirs = grid[np.array(cells)]
    apart = np.abs(ours[:, None] - theirs[None]).max(axis=2)
    assert apart.min(axis=0).max() < 0.011
    assert apart.min(axis=1).max() < 0.011


def test_the_pure_equilibria_of_hawk_and_dove_agree_with_nashpy():
    """Linear payoffs are the mixed extension of a 2 x 2 game; its two pure equilibria are corners."""
    a, b = np.array([[0.0, 3.0], [1.0, 2.0]]), np.array([[0.0, 1.0], [3.0, 2.0]])

    def payoff(s):
        p = np.stack([s[..., 0], 1 - s[..., 0]], axis=-1)
        q = np.stack([s[..., 1], 1 - s[..., 1]], axis=-1)
        return np.stack([np.einsum("...i,ij,...j", p, a, q), np.einsum("...i,ij,...j", p, b, q)], axis=-1)

    expected = [(x[0], y[0]) for x, y in nashpy.Game(a, b).support_enumeration()]
    found = pure_equilibria(Game(payoff, [0, 0], [1, 1]))
    pure = [pair for pair in expected if set(pair) <= {0.0, 1.0}]
    assert len(pure) == 2
    for pair in pure:
        assert min(np.abs(np.subtract(pair, other)).max() for other in found) < 1e-6


def test_a_game_without_a_pure_equilibrium_is_reported_as_such():
    """Matching pennies with a bonus for extremes: best responses jump past each other."""

    def payoff(s):
        x, y = 2 * s[..., 0] - 1, 2 * s[..., 1] - 1
        return np.stack([x * y + 0.1 * x**2, -x * y + 0.1 * y**2], axis=-1)

    game = Game(payoff, [0, 0], [1, 1])
    assert pure_equilibria(game) == []
    with pytest.raises(NoEquilibriumError, match="pure strategies"):
        solve(game)


def test_three_players_without_a_pure_equilibrium_too():
    def payoff(s):
        z = 2 * s - 1
        follows = z * np.roll(z, 1, axis=-1) * np.array([1.0, 1.0, -1.0])
        return follows + 0.1 * z**2

    with pytest.raises(NoEquilibriumError, match="no starting point led to an equilibrium"):
        solve(Game(payoff, [0, 0, 0], [1, 1, 1]))


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_best_responses_are_no_worse_than_a_brute_force_grid(seed):
    """Payoffs with up to four bumps."""
    rng = np.random.default_rng(seed)
    centre, width, height = rng.uniform(0, 1, (4, 2)), rng.uniform(0.05, 0.4, 4), rng.uniform(0, 1, 4)

    def payoff(s):
        bumps = height * np.exp(-np.square(s[..., None, :] - centre).sum(-1) / width**2)
        return np.stack([bumps.sum(-1)] * 2, axis=-1)

    game = Game(payoff, [0, 0], [1, 1])
    other = rng.uniform(0, 1, 5)
    profiles = np.stack([np.zeros(5), other], axis=1)
    answer = best_responses(game, 0, profiles)
    grid = np.linspace(0, 1, 20_001)
    for x, y in zip(answer, other, strict=True):
        brute = payoff(np.stack([grid, np.full_like(grid, y)], axis=1))[:, 0]
        assert payoff(np.array([x, y]))[0] >= brute.max() - 1e-12
        assert 0 <= x <= 1


def test_a_search_without_a_polish_or_without_a_grid_would_be_noticed(monkeypatch):
    game = quadratic_game(np.array([1.0, 1.0]), np.zeros((2, 2)), np.array([0.3, 0.3001]))
    exact = best_responses(game, 1, np.array([[0.0, 0.0]]))[0]
    assert exact == pytest.approx(0.3001, abs=1e-7)
    monkeypatch.setattr("parley.decisions.games.game._golden", lambda value, a, b: a)
    assert best_responses(game, 1, np.array([[0.0, 0.0]]))[0] != pytest.approx(0.3001, abs=1e-7)


def test_dynamics_keep_the_whole_path_in_either_order():
    game = quadratic_game(np.array([2.0, 2.0]), np.array([[0, -1.0], [-1.0, 0]]), np.array([1.0, 1.0]))
    for order in ("sequential", "simultaneous"):
        found = best_response_dynamics(game, [1.0, 0.0], order)
        assert found.at_rest
        assert found.path[0].tolist() == [1.0, 0.0]
        np.testing.assert_allclose(found.end, 1 / 3, atol=1e-6)
    first = best_response_dynamics(game, [1.0, 0.0], "simultaneous").path[1]
    np.testing.assert_allclose(first, [0.5, 0.0], atol=1e-7)
    in_turn = best_response_dynamics(game, [1.0, 0.0], "sequential").path[1]
    np.testing.assert_allclose(in_turn, [0.5, 0.25], atol=1e-7)


def test_a_cycle_does_not_come_to_rest():
    game = quadratic_game(np.array([1.0, 1.0]), np.array([[0, 3.0], [-3.0, 0]]), np.array([-1.5, 1.5]))
    assert not best_response_dynamics(game, [0.1, 0.2], "simultaneous", rounds=50).at_rest
    np.testing.assert_allclose(solve(game).strategies, [0.3, 0.6], atol=1e-5)


def test_the_sampled_checks_refute():
    convex = Game(lambda s: s**2, [0, 0], [1, 1])
    assert sampled_concavity(convex) == pytest.approx(2, rel=1e-6)
    symmetric = quadratic_game(np.ones(2), np.array([[0, 0.5], [0.5, 0]]), np.zeros(2))
    lopsided = quadratic_game(np.ones(2), np.array([[0, 0.5], [-0.5, 0]]), np.zeros(2))
    assert sampled_concavity(symmetric) == pytest.approx(-1, rel=1e-6)
    assert sampled_potential_gap(symmetric) < 1e-8
    assert sampled_potential_gap(lopsided) == pytest.approx(1, rel=1e-6)
    assert contraction(Game(lambda s: -(s**2), [0, 0], [1, 1])) is None  # no bounds, no proof


def test_uniqueness_is_not_claimed_for_what_is_not_shown():
    """The same game with and without its curvature; and one whose couplings are too strong for the proof."""
    strong = quadratic_game(np.ones(2), np.array([[0, 2.0], [2.0, 0]]), np.array([-1.0, -1.0]))
    assert solve(strong).unique is False  # both corners and the middle
    weak = quadratic_game(np.ones(2), np.array([[0, 0.5], [0.5, 0]]), np.array([0.2, 0.2]))
    assert solve(weak).unique is True
    assert solve(Game(weak.payoff, weak.low, weak.high)).unique is None


def test_prices_of_anarchy_and_stability():
    """A commons (welfare 1/4 against 2/9) and a coordination game with a good and a bad equilibrium."""
    commons = Game(lambda s: s * (1 - s.sum(axis=-1, keepdims=True)), [0, 0], [1, 1])
    prices = welfare(commons, pure_equilibria(commons)[-1:])
    assert prices.price_of_anarchy == pytest.approx(9 / 8, rel=1e-6)

    def both(s):
        x, y = s[..., 0], s[..., 1]
        good = 2 * x * y + (1 - x) * (1 - y)
        return np.stack([good, good], axis=-1)

    game = Game(both, [0, 0], [1, 1])
    prices = welfare(game, [np.zeros(2), np.ones(2)])
    assert prices.price_of_anarchy == pytest.approx(2)
    assert prices.price_of_stability == pytest.approx(1)
    assert welfare(Game(lambda s: -s, [0, 0], [1, 1]), [np.zeros(2)]).price_of_anarchy is None


@pytest.mark.parametrize(
    ("low", "high"), [([0, 0], [1, 0]), ([0], [1, 1]), ([], []), ([0, float("nan")], [1, 1]), ([[0]], [[1]])]
)
def test_impossible_boxes_are_refused(low, high):
    with pytest.raises(SettingError):
        Game(lambda s: s, low, high)


def test_payoffs_of_another_shape_and_profiles_of_another_length_are_refused():
    with pytest.raises(SettingError, match="same shape"):
        Game(lambda s: s.sum(axis=-1), [0, 0], [1, 1])
    game = Game(lambda s: -s, [0, 0], [1, 1])
    with pytest.raises(SettingError, match="expected 2 numbers"):
        best_response_dynamics(game, [0.5])
    with pytest.raises(SettingError, match="player = 2"):
        best_responses(game, 2, np.zeros((1, 2)))
    with pytest.raises(SettingError, match="at least one"):
        welfare(game, [])
    with pytest.raises(SettingError, match="2 players"):
        pure_equilibria(Game(lambda s: -s, [0, 0, 0], [1, 1, 1]))


@pytest.mark.parametrize(("scale", "shift"), [(1e-7, 0.0), (1e6, 0.0), (1.0, 1e6)])
def test_scaling_and_shifting_payoffs_changes_no_equilibrium(scale, shift):
    """A commons game has one equilibrium and matching pennies none, in whatever money they are paid."""
    commons = Game(lambda s: shift + scale * s * (1 - s.sum(axis=-1, keepdims=True)), low=[0, 0], high=[1, 1])
    found = pure_equilibria(commons)
    assert len(found) == 1
    np.testing.assert_allclose(found[0], 1 / 3, atol=1e-3)

    def pennies(s):
        same = (2 * s[..., :1] - 1) * (2 * s[..., 1:] - 1)
        return shift + scale * np.concatenate([same, -same], axis=-1)

    with pytest.raises(NoEquilibriumError):
        solve(Game(pennies, low=[0, 0], high=[1, 1]))
