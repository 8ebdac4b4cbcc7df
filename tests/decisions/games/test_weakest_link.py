import itertools

import numpy as np
import pytest
from game_samples import NOISE
from game_samples import random_weakest_link as random_game
from game_samples import weakest_link as game_of

from parley.decisions.games.lifting_payments import cheapest_lift, common_deal, free_common_deal, lift_curve
from parley.decisions.games.payments import balanced, largest_gain
from parley.decisions.games.weakest_link import play, preferences, stable_play
from parley.errors import SettingError


def by_hand(game, members, common):
    """Payoffs of members at common epsilons [...] -> [..., N], written out."""
    rows, cost, common = game.stakes.records, game.stakes.cost, np.asarray(common, dtype=float)[..., None]
    n = rows[members].sum()
    together = cost.estimation / n + cost.bias + NOISE / common**2 / n**2
    return np.where(members, game.value * (cost.estimation / rows - together) - game.privacy_cost(common), 0.0)


def coalitions(count):
    return [np.array(each) for each in itertools.product((False, True), repeat=count) if sum(each) > 1]


def holds(game, members, common, slack):
    """Whether naming this common epsilon is an equilibrium: by hand, on a grid of other choices."""
    here = by_hand(game, members, common)
    below = np.geomspace(game.budget_range[0], common, 400)
    if not (here[members] >= -slack).all():
        return False
    if (by_hand(game, members, below) > here + slack).any():
        return False
    for outsider in np.flatnonzero(~members):
        joined = members.copy()
        joined[outsider] = True
        if by_hand(game, joined, below)[:, outsider].max() > slack:
            return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_the_stable_coalition_is_an_equilibrium_and_no_larger_epsilon_is_one(seed):
    game = random_game(seed)
    found, deal = stable_play(game), free_common_deal(game)
    assert largest_gain(game, deal) < 1e-6 * (1 + deal.payoff.max(initial=0.0))
    if found is None:
        assert not deal.members.any()
        # and by hand nothing holds either, at any common epsilon that members like
        for members in coalitions(game.owners):
            assert not holds(game, members, play(game, members).epsilon, 1e-9)
        return
    assert holds(game, found.members, found.epsilon, 1e-6)
    assert (found.payoff[found.members] > 0).all()
    there = preferences(game, found)
    if not there.several_peaks[found.members].any():
        for e in np.geomspace(there.least * (1 + 1e-6), found.epsilon, 7):
            assert holds(game, found.members, e, 1e-6)
        if there.least > game.budget_range[0] * 1.01:
            assert not holds(game, found.members, there.least * 0.98, 1e-9)
    if found.epsilon < game.budget_range[1] * 0.98:
        assert not holds(game, found.members, found.epsilon * 1.02, 1e-9)


def test_most_random_games_have_members():
    """The test above would say little if nobody ever joined."""
    found = [stable_play(random_game(seed)) for seed in range(40)]
    assert sum(each is not None for each in found) > 20
    assert sum(each is not None and not each.members.all() for each in found) > 3


@pytest.mark.parametrize("seed", range(12))
def test_of_all_stable_coalitions_the_one_with_the_largest_total_is_taken(seed):
    game = random_game(seed, owners=4)
    totals = []
    for members in coalitions(4):
        here = play(game, members)
        if holds(game, members, here.epsilon, 1e-9):
            totals.append(by_hand(game, members, here.epsilon).sum())
    found = stable_play(game)
    if found is None:
        assert not totals
    else:
        assert found.payoff[found.members].sum() == pytest.approx(max(totals), rel=1e-9)


def test_everybody_is_better_off_at_the_largest_epsilon_of_the_interval():
    game = game_of([300, 400, 500], [1e3] * 3, [("linear", 5.0), ("linear", 1.0), ("linear", 0.2)], estimation=100.0)
    played = play(game, game.everyone)
    here = preferences(game, played)
    assert played.epsilon == pytest.approx(played.peaks[0])
    assert (np.diff(played.peaks) > 0).all()
    payoffs = by_hand(game, game.everyone, np.geomspace(here.least, played.epsilon, 9))
    assert (np.diff(payoffs, axis=0) > 0).all()
    for owner in range(3):  # its own interval ends where it stops gaining
        for end, side in ((here.lowest[owner], 0.999), (here.highest[owner], 1.001)):
            if game.budget_range[0] < end < game.budget_range[1]:
                assert by_hand(game, game.everyone, end)[owner] == pytest.approx(0, abs=1e-6)
                assert by_hand(game, game.everyone, end * side)[owner] < 0


def test_one_noise_has_no_free_riding():
    """The more equal owners there are, the less epsilon the same model needs, and the more joining pays each of
    them."""
    peaks, pays = [], []
    for count in (2, 5, 20, 100):
        game = game_of([300] * count, [1e3] * count, [("linear", 5.0)] * count)
        peaks.append(float(game.peaks(game.everyone)[0]))
        pays.append(float(play(game, game.everyone).payoff[0]))
    assert peaks == sorted(peaks, reverse=True)
    assert pays == sorted(pays)
    assert pays[-1] > 0


def test_a_payoff_with_two_peaks_is_named_and_its_gap_is_seen():
    """A posterior cost levels off: below the second peak lies a valley from which this owner would rather go back
    down."""
    game = game_of([1000, 1000], [1e4, 1e4], [("posterior", 14.0), ("linear", 1e-6)])
    grid = np.geomspace(*game.budget_range, 2000)
    curve = np.array([by_hand(game, game.everyone, e)[0] for e in grid])
    inner = np.flatnonzero((curve[1:-1] > curve[:-2]) & (curve[1:-1] > curve[2:])) + 1
    assert inner.size  # a peak inside the box, and the curve rises again towards its end
    assert curve[-1] > curve[-2]
    here = preferences(game, play(game, game.everyone))
    assert here.several_peaks.tolist() == [True, False]
    gap = grid[(grid > grid[inner[0]]) & (curve < curve[inner[0]])]
    assert not holds(game, game.everyone, float(np.median(gap)), 1e-9)
    assert holds(game, game.everyone, here.play.epsilon, 1e-6)


def test_searches_agree_with_looking_at_everything(monkeypatch):
    for seed in range(8):
        game = random_game(seed, owners=5, kinds=("linear", "exponential"))
        exact = stable_play(game)
        monkeypatch.setattr("parley.decisions.games.weakest_link.MAX_EXACT_OWNERS", 1)
        found = stable_play(game)
        monkeypatch.undo()
        if found is not None:
            assert found.stable
            assert exact is not None
            assert found.payoff[found.members].sum() <= exact.payoff[exact.members].sum() * (1 + 1e-9)


def test_a_hundred_owners_settle():
    game = random_game(5, owners=100)
    found = stable_play(game)
    assert found is not None
    assert found.stable
    assert largest_gain(game, free_common_deal(game)) < 1e-6 * (1 + found.payoff.max())


@pytest.mark.parametrize("seed", range(10))
def test_payments_are_the_least_that_lift_the_common_epsilon(seed):
    """Nobody gains by another choice; a cent less to anybody, and somebody does; no coalition and epsilon on a grid is
    cheaper."""
    game = random_game(seed, owners=3)
    top = game.fitness(np.full(3, game.budget_range[1]), game.everyone)
    target = 3 * top
    deal = cheapest_lift(game, target)
    assert game.fitness(deal.epsilon, deal.members) <= target * (1 + 1e-6)
    scale = 1 + np.abs(deal.payoff).max() + deal.spend
    assert largest_gain(game, deal) < 1e-6 * scale
    for owner in np.flatnonzero(deal.contract > 1e-3 * scale):
        less = deal.payoff.copy()
        less[owner] -= 1e-3 * scale
        assert (
            largest_gain(game, type(deal)(deal.epsilon, deal.members, deal.contract, deal.fee, 0.0, less))
            > 5e-4 * scale
        )
    for members in coalitions(3):
        for e in np.geomspace(*game.budget_range, 60):
            fitness = game.fitness(np.full(3, e), members)
            other = common_deal(game, members, float(e))
            if fitness <= target and largest_gain(game, other) < 1e-9 * scale:
                assert deal.spend <= other.spend + 1e-4 * scale


def test_the_gain_of_the_others_may_cover_the_bill():
    """One shy owner holds everybody down; the others gain far more by lifting it than it asks."""
    game = game_of(
        [500, 500, 500], [1e4, 1e4, 1e4], [("linear", 200.0), ("linear", 0.1), ("linear", 0.1)], estimation=200.0
    )
    free = free_common_deal(game)
    assert free.members.all()
    fitness = game.fitness(free.epsilon, free.members)
    deal = cheapest_lift(game, fitness / 4)
    assert deal.members.all()
    assert deal.contract[0] > 0
    assert deal.contract[1:].tolist() == [0.0, 0.0]
    assert deal.epsilon[0] > free.epsilon[0]
    assert (deal.payoff - free.payoff)[1:].sum() > deal.spend
    shared = balanced(deal)
    assert shared.spend == pytest.approx(0)
    assert (shared.payoff >= 0).all()
    money, quality = lift_curve(game, play(game, deal.members))
    assert (np.diff(quality) <= 0).all()
    assert money[-1] > deal.spend > 0
    assert money[0] == pytest.approx(0, abs=1e-6)


def test_impossible_targets_are_sentences():
    game = random_game(0, owners=3)
    with pytest.raises(SettingError, match="the owners' best relative fitness is"):
        cheapest_lift(game, 1e-12)
    with pytest.raises(SettingError, match="needs two"):
        cheapest_lift(random_game(0, owners=1), 1.0)


def test_whom_to_ask_is_the_best_of_all_coalitions_at_their_lowest_peak():
    for seed in range(30):
        game = random_game(seed, owners=7)
        peaks = game.peaks(game.everyone)
        chosen, epsilon = game.whom_to_ask()
        assert epsilon == peaks[chosen].min()

        def cost(members, peaks=peaks, game=game):
            size = float(game.stakes.records[members].sum())
            return 50.0 / size + NOISE / peaks[members].min() ** 2 / size**2

        every = [np.array(each) for each in itertools.product((False, True), repeat=7) if any(each)]
        assert cost(chosen) == pytest.approx(min(cost(members) for members in every), rel=1e-12)
