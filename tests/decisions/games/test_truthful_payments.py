"""Nobody gains by a false statement: searched for, on games whose payoffs are written again here."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from game_samples import NOISE, budget_game
from samples import make_terms, regression_table

import parley
from parley.decisions.games.stakes import stakes
from parley.decisions.games.truthful_payments import TruthfulRule, area_below, mesh, pay, truthful_deal
from parley.decisions.knowledge.privacy_cost import PrivacyCosts
from parley.errors import SettingError
from parley.terms import PrivacyCost

SHAPES = {"linear": lambda e: e, "exponential": np.expm1, "posterior": lambda e: np.tanh(e / 2)}
LEVELS = np.geomspace(0.01, 10.0, 41)
BIGGEST = 1e30


def make_shapes(kinds):
    return PrivacyCosts.from_curves([PrivacyCost(kind=kind, weight=1.0) for kind in kinds])


def random_case(seed, owners=None, wanted=None):
    """A random game, its owners' shapes, a target or none, and a cap or none."""
    rng = np.random.default_rng(seed)
    count = owners or int(rng.integers(2, 5))
    kinds = [str(rng.choice(list(SHAPES))) for _ in range(count)]
    rows = rng.integers(2, 12, count) * 200 if rng.random() < 0.8 else rng.integers(100, 3000, count)
    if rng.random() < 0.3:
        rows[:], kinds = rows[0], kinds[:1] * count  # ties
    keep_own = bool(rng.random() < 0.5)
    game = budget_game(rows, 10 ** rng.uniform(1, 4, count), [("linear", 1.0)] * count, keep_own=keep_own)
    aimed = rng.random() < 0.5 if wanted is None else wanted
    target = NOISE * count * 20 / float(rows.sum()) ** 2 if aimed else None
    cap = float(10 ** rng.uniform(0, 3)) if target is not None or rng.random() < 0.3 else None
    return game, kinds, target, cap


def worth(game, kinds, epsilon, owner, weight):
    """What the model and its privacy cost are worth to an owner with this weight, without money; from the formulas."""
    rows, members = game.stakes.records, epsilon > 0
    if not members[owner]:
        return 0.0
    n = rows[members].sum()
    together = game.stakes.cost.estimation / n + game.stakes.cost.bias + NOISE * np.sum(epsilon[members] ** -2.0) / n**2
    gain = game.stakes.cost.estimation / rows[owner] - together
    counted = max(gain, 0.0) if game.keep_own else gain
    return game.value[owner] * counted - weight * SHAPES[kinds[owner]](epsilon[owner])


def objective(game, kinds, epsilon, stated):
    """All owners' value of what the joint model costs beyond their own, and the stated costs; 0 without a model."""
    rows, members = game.stakes.records, epsilon > 0
    if not members.any():
        return 0.0
    n = rows[members].sum()
    together = game.stakes.cost.estimation / n + game.stakes.cost.bias + NOISE * np.sum(epsilon[members] ** -2.0) / n**2
    costs = sum(stated[i] * SHAPES[kinds[i]](epsilon[i]) for i in np.flatnonzero(members))
    return float(game.value @ (together - game.stakes.cost.estimation / rows) + costs)


def the_rule(game, kinds, target, cap):
    """(budgets, money) of statements, by the product."""
    shapes = make_shapes(kinds)
    rule = TruthfulRule.from_game(game, shapes, target, cap)

    def play(stated):
        deal = pay(rule, game, shapes, stated)
        return np.where(deal.members, deal.epsilon, 0.0), deal.payment

    return play


def paid_as_stated(game, kinds, target, cap):
    """A mutant: the same budgets, and every owner gets what it says they cost it, less its gain."""
    allocate = TruthfulRule.from_game(game, make_shapes(kinds), target, cap).allocate

    def play(stated):
        epsilon = allocate(stated)
        return epsilon, np.array([-worth(game, kinds, epsilon, i, stated[i]) for i in range(game.owners)])

    return play


def gains_not_counted(game, kinds, target, cap):
    """A mutant: the integral is right, but what the model saves an owner comes on top."""
    play = the_rule(game, kinds, target, cap)

    def more(stated):
        epsilon, money = play(stated)
        return epsilon, money + [worth(game, kinds, epsilon, i, 0.0) for i in range(game.owners)]

    return more


def candidates_by_statements(game, kinds, target, cap):
    """A mutant: owners that ask for more than others are passed over before the optimum, so candidates depend on
    statements."""
    rule = the_rule(game, kinds, target, cap)

    def play(stated):
        return rule(np.where(stated > 1.5 * np.median(stated), 1e6, stated))

    return play


def break_points(allocate, stated, owner, statements):
    """Statements around which the owner's budget changes, bisected to neighbouring floats; of three changes."""

    def budget(z):
        tried = stated.copy()
        tried[owner] = z
        return allocate(tried)[owner]

    ends, budgets = [], [budget(z) for z in statements]
    changes = [place for place in range(len(statements) - 1) if budgets[place] != budgets[place + 1]]
    for place in changes[:: max(1, len(changes) // 3)]:
        low, high, at_low = statements[place], statements[place + 1], budgets[place]
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if budget(middle) == at_low else (low, middle)
        ends += [low, high, np.nextafter(low, 0.0), np.nextafter(high, math.inf)]
    return ends


def largest_profit(game, kinds, play, stated, rng, owner, ends):
    """(the most that an owner gains by a false statement, its payoff with the true one, the scale of the money)."""
    here = stated[owner]
    around = [0.0, 5e-324, 1e-30, BIGGEST, np.nextafter(here, 0), np.nextafter(here, math.inf), *stated, *ends]
    tried = np.unique([*around, *(here * 10 ** rng.normal(0, 0.5, 6)), *(10 ** rng.uniform(-3, 5, 6))])

    def payoff(z):
        others = stated.copy()
        others[owner] = z
        epsilon, money = play(others)
        return worth(game, kinds, epsilon, owner, here) + money[owner], abs(money[owner])

    truth, scale = payoff(here)
    found = [payoff(z) for z in tried]
    return max(each for each, _ in found) - truth, truth, max(1.0, scale, *(size for _, size in found))


def search(case, seeds, rule):
    """The largest relative profit found, and the least relative payoff of an owner that states the truth."""
    profits, payoffs = [], []
    for seed in seeds:
        game, kinds, target, cap = case(seed)
        rng = np.random.default_rng([seed, 1])
        play = rule(game, kinds, target, cap)
        stated = 10 ** rng.uniform(-2, 3, game.owners)
        if rng.random() < 0.3:
            stated[:] = stated[0]
        if rng.random() < 0.3:
            stated[int(rng.integers(game.owners))] = float(rng.choice([0.0, 1e-30, BIGGEST]))
        owner = int(rng.integers(game.owners))
        allocate = TruthfulRule.from_game(game, make_shapes(kinds), target, cap).allocate
        ends = break_points(allocate, stated, owner, np.geomspace(1e-3, 1e4, 12))
        if rng.random() < 0.5 and ends:  # the truth itself beside a break point
            stated[owner] = rng.choice(ends)
        profit, truth, scale = largest_profit(game, kinds, play, stated, rng, owner, ends)
        profits.append(profit / scale)
        payoffs.append(truth / scale)
    return max(profits), min(payoffs)


def test_no_false_statement_pays_and_the_truth_never_loses():
    profit, payoff = search(random_case, range(30), the_rule)
    assert profit < 1e-11
    assert payoff > -1e-11


@pytest.mark.parametrize("mutant", [paid_as_stated, gains_not_counted, candidates_by_statements])
def test_the_search_finds_rules_that_can_be_cheated(mutant):
    assert search(random_case, range(10), mutant)[0] > 1e-3


def small_rule(base, nobody=0.0, cap=math.inf):
    """Two owners, levels 1 and 2 that cost 1 and 2 units, with noise 4 and 1: an owner prefers 2 up to a cost of 3."""
    both = np.array([[1.0, 1.0], [2.0, 2.0]])
    return TruthfulRule(
        levels=np.array([1.0, 2.0]),
        shapes=both,
        cells=np.array([1, 1]),
        base=np.array([0.0, base]),
        price=np.ones(2),
        noise=np.array([[4.0, 4.0], [1.0, 1.0]]),
        quota=np.full(2, math.inf),
        records=np.ones(2),
        nobody=nobody,
        cap=cap,
    )


def test_two_owners_by_hand():
    """With base -20 and statements 1 and 3.5: owner 1 has level 2 (1 + 2 = 3), owner 2 level 1 (4 + 3.5 = 7.5), in all
    -9.5. Without either owner nobody joins: 0. So both are paid 9.5 above their costs (Vickrey, Clarke, Groves). Owner
    1 by the integral: level 2 up to 3, level 1 up to 8.5, where the sum reaches 0: 2 x 2 + 5.5 = 9.5."""
    rule = small_rule(-20.0)
    stated = np.array([1.0, 3.5])
    assert rule.allocate(stated).tolist() == [2.0, 1.0]
    assert rule.rents(stated).tolist() == [9.5, 9.5]
    assert small_rule(-20.0, cap=3.5).rents(stated).tolist() == [4.5, 0.0]
    assert small_rule(-20.0, cap=3.0).allocate(stated).tolist() == [0.0, 0.0]
    assert small_rule(-20.0).allocate(np.array([8.5, 3.5])).tolist() == [0.0, 0.0]  # a tie: nobody
    assert rule.allocate(np.array([3.0, 3.0])).tolist() == [1.0, 1.0]  # a tie: the smaller budget


@pytest.mark.parametrize("seed", range(12))
def test_budgets_are_the_best_of_all_candidates_and_rents_are_marginal_contributions(seed):
    """Every budget of 2 owners and every coalition of 3 on a thinner grid, by the formulas."""
    rng = np.random.default_rng(seed)
    count = 2 + seed % 2
    rows, kinds = rng.integers(2, 30, count) * 100, [str(rng.choice(list(SHAPES))) for _ in range(count)]
    game = budget_game(rows, 10 ** rng.uniform(2, 4, count), [("linear", 1.0)] * count)
    stated = 10 ** rng.uniform(-1, 2, count)
    rule = TruthfulRule.from_game(game, make_shapes(kinds))
    if count == 3:
        kept = slice(None, None, 4)
        rule = replace(rule, levels=rule.levels[kept], shapes=rule.shapes[kept], noise=rule.noise[kept])
    levels = LEVELS if count == 2 else LEVELS[::4]
    every = [np.array(each) for each in itertools.product([0.0, *levels], repeat=count) if np.count_nonzero(each) != 1]
    sums = np.array([objective(game, kinds, each, stated) for each in every])
    assert objective(game, kinds, rule.allocate(stated), stated) == pytest.approx(sums.min(), rel=1e-9, abs=1e-9)
    rents = rule.rents(stated)
    for owner in range(count):
        without = min(total for total, each in zip(sums, every, strict=True) if each[owner] == 0)
        assert rents[owner] == pytest.approx(without - sums.min(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_budget_never_rises_with_the_own_statement(seed):
    game, kinds, target, cap = random_case(seed)
    rng = np.random.default_rng(seed)
    rule = TruthfulRule.from_game(game, make_shapes(kinds), target, cap)
    stated, owner = 10 ** rng.uniform(-2, 3, game.owners), int(rng.integers(game.owners))
    budgets = []
    for own in np.geomspace(1e-3, 1e4, 60):
        stated[owner] = own
        budgets.append(rule.allocate(stated)[owner])
    assert (np.diff(budgets) <= 0).all()


@pytest.mark.parametrize("seed", range(8))
def test_a_target_is_reached_whatever_owners_state(seed):
    game, kinds, target, cap = random_case(seed, wanted=True)
    for times in (1e-3, 1.0):
        stated = times * cap * np.random.default_rng(seed).random(game.owners)
        deal = truthful_deal(game, make_shapes(kinds), stated, target, cap)
        assert deal.members.sum() >= 2
        assert game.fitness(deal.epsilon, deal.members) <= target * (1 + 1e-12)
    dear = truthful_deal(game, make_shapes(kinds), np.full(game.owners, 2 * cap), target, cap)
    assert not dear.members.any()
    assert dear.spend == 0


def test_an_owner_that_the_target_needs_could_ask_for_anything_without_a_cap():
    game = budget_game([300, 400], [1e3, 1e3], [("linear", 1.0)] * 2)
    with pytest.raises(SettingError, match="without owner 1, owner 2, so owner 1, owner 2 could ask for any price"):
        truthful_deal(game, make_shapes(["linear"] * 2), np.ones(2), target=0.5)
    with pytest.raises(SettingError, match="the truthful rule cannot reach this relative fitness"):
        truthful_deal(game, make_shapes(["linear"] * 2), np.ones(2), target=1e-9, cap=5.0)
    with pytest.raises(SettingError, match="one per owner"):
        truthful_deal(game, make_shapes(["linear"] * 2), np.array([1.0, math.nan]))
    with pytest.raises(SettingError, match="at most 100 owners"):
        TruthfulRule.from_game(budget_game([9] * 101, [1.0] * 101, [("linear", 1.0)] * 101), make_shapes(["linear"]))


def test_the_mesh_is_exact_where_it_can_be():
    cells, cell = mesh(np.array([1200.0, 800.0, 2000.0]))
    assert (cells.tolist(), cell) == ([3, 2, 5], 400.0)
    rows = np.random.default_rng(0).integers(500, 9000, 40).astype(float)
    cells, cell = mesh(rows)
    assert np.abs(cells * cell - rows).max() <= cell / 2
    assert (mesh(np.array([1.0, 1e6]))[0] > 0).all()


def test_the_area_below_lines_is_exact():
    """Against the sum of least lines at the ends (K(end) - K(start)), for lines through fractions."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        slopes, heights = np.append(0.0, rng.integers(1, 50, 6) / 8), rng.integers(-80, 80, 7) / 8
        start, end = np.sort(rng.integers(0, 400, 2) / 16)

        def least(z, slopes=slopes, heights=heights):
            return (heights + z * slopes).min()

        assert area_below(slopes, heights, start, end) == pytest.approx(least(end) - least(start), abs=1e-12)


def forty(seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(200, 3000, 40)
    return budget_game(rows, [3000.0] * 40, [("linear", 1.0)] * 40, keep_own=True), 10 ** rng.uniform(-1, 2, 40)


def test_forty_owners_end_near_the_best_budgets_and_cannot_cheat():
    """The mesh costs little: no single owner's change improves the exact objective by 1 % of it."""
    game, stated = forty()
    kinds = ["linear"] * 40
    deal = truthful_deal(game, make_shapes(kinds), stated)
    here = np.where(deal.members, deal.epsilon, 0.0)
    least = objective(game, kinds, here, stated)
    for owner in range(40):
        for level in (0.0, *LEVELS[::2]):
            tried = here.copy()
            tried[owner] = level
            assert objective(game, kinds, tried, stated) > least - 0.01 * abs(least)
    play = the_rule(game, kinds, None, None)
    owner = int(np.flatnonzero(deal.members)[-1])
    for times in (0.0, 0.5, 1.1, 3.0):
        false = stated.copy()
        false[owner] *= times
        epsilon, money = play(false)
        payoff = worth(game, kinds, epsilon, owner, stated[owner]) + money[owner]
        assert payoff <= deal.payoff[owner] + 1e-9 * max(1.0, abs(money[owner]))


def test_statements_change_nothing_that_the_rule_takes_for_public():
    """Owners with equal rows once had other gains if their stated costs differed, from which they could profit."""
    pilot = regression_table(60, seed=9)
    terms = make_terms(120, 120, 120, 140, epsilon=2.0, privacy__clip=30.0, learning__horizon=20, model__radius=50.0)
    terms = terms.changed(everyone={"value": 1e5, "privacy_cost": {"kind": "linear", "weight": 0.001}})
    others = terms.changed(owners={"a": {"privacy_cost": {"kind": "linear", "weight": 77.0}}})
    one, two = stakes(terms, pilot), stakes(others, pilot)
    assert np.array_equal(one.lines.alone, two.lines.alone)
    assert np.array_equal(one.lines.share, two.lines.share)
    assert one.cost == two.cost
    assert np.array_equal(one.unit_noise.variances, two.unit_noise.variances)
    assert parley.forecast(terms, pilot, resamples=1).outlook is not None
