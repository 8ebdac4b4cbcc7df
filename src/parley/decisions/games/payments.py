"""The cheapest payments with which a wanted quality is an equilibrium.

A **contract** pays an owner a sum for joining with one named budget, and nothing for any other. The least sum that
works is max(0, what its best unpaid budget gains over the named one, what it loses by joining at all). No scheme that
pays for own budgets is cheaper at the same budgets. The named budgets minimise total payment under the wanted quality:
with a price of noise the problem separates over owners (Lagrange), exactly for convex privacy costs. A **posted price**
per unit of eps is the same for all; it needs no knowledge of costs and is dearer. Both are individually rational:
staying out remains open and never pays more.

With a balanced budget the learner pays nothing in the end. Members share the bill by fees in proportion to their gains.
Fees do not depend on budgets, so nobody's best budget changes and nobody prefers to stay out. A deal can be balanced
iff its members' total gain is at least 0.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from parley.decisions.games.budget_game import BudgetGame, stable_coalition
from parley.decisions.games.game import GOLDEN_RATIO
from parley.decisions.outlook.coalition import prefix
from parley.errors import NoEquilibriumError, SettingError
from parley.protocol.aggregation import Members
from parley.validate import Floats, positive

MAX_PRICED_OWNERS = 6  # owners for whom every coalition is priced
PRICED_PREFIXES = 6  # of the owners, priced where there are more
BISECTION_STEPS = 50
GRID_POINTS = 201  # budgets of each owner that a search of contracts looks at, in each of
ZOOM_STEPS = 5  # ever narrower ranges
REFINEMENT_STEPS = 14  # of the quality, where a better model than asked for is cheaper
CHECKED_BUDGETS = 2001  # budgets tried by `largest_gain`


@dataclass(frozen=True, eq=False)
class Deal:
    """The members, their budgets and payments: a member receives `contract` + price x eps - `fee`."""

    epsilon: Floats
    members: Members
    contract: Floats
    fee: Floats
    price: float
    payoff: Floats  # with payments

    @property
    def payment(self) -> Floats:
        """Each owner's net payment; positive if it receives."""
        return np.where(self.members, self.contract + self.price * self.epsilon - self.fee, 0.0)

    @property
    def spend(self) -> float:
        """The learner's total payment."""
        return float(self.payment.sum())


def free_deal(game: BudgetGame, price: float = 0.0) -> Deal:
    """Find the equilibrium without payments, or at a posted price."""
    coalition = stable_coalition(game, price)
    nothing = np.zeros(game.owners)
    return Deal(coalition.epsilon, coalition.members, nothing, nothing, price, coalition.payoff)


class Choices(Protocol):
    """The choices that owners have by themselves in a game of budgets."""

    @property
    def owners(self) -> int: ...

    @property
    def budget_range(self) -> tuple[float, float]: ...

    def joining(self, own: Floats, epsilon: Floats, members: Members, price: float = 0.0) -> Floats: ...


def largest_gain(game: Choices, deal: Deal) -> float:
    """Return the most that any owner gains by another budget, by leaving or by joining uninvited; on a grid."""
    grid = np.broadcast_to(np.geomspace(*game.budget_range, CHECKED_BUDGETS)[:, None], (CHECKED_BUDGETS, game.owners))
    unpaid = game.joining(grid, deal.epsilon, deal.members, deal.price).max(axis=0) - np.where(
        deal.members, deal.fee, 0.0
    )
    return float(np.max(np.maximum(unpaid, 0.0) - deal.payoff, initial=0.0))


def reachable(game: BudgetGame, members: Members) -> float:
    """Return the least relative fitness of these members, all at the largest budget."""
    fitness = game.fitness(np.full(game.owners, game.budget_range[1]), members)
    return np.inf if fitness is None else fitness


def cheapest_contracts(game: BudgetGame, target: float) -> Deal:
    """Return the contracts of least total payment with which relative fitness `target` or better is an equilibrium,
    beside nobody joining. Beyond six owners only some coalitions are priced, so a cheaper one may exist; those that an
    outsider would join unpaid are passed over."""
    target = positive(target, "target")
    if game.owners < 2:
        raise SettingError("owners: expected at least two owners, because a joint model needs two")
    coalitions = _coalitions(game)
    possible = [members for members in coalitions if reachable(game, members) <= target]
    if not possible:
        best = best_reachable(game)
        raise SettingError(
            f"target = {target:g}: with budgets up to {game.budget_range[1]:g}, the owners' best relative fitness is "
            f"{best:.3g}; " + what_would_help(target, game.stakes.fitness(np.zeros(1)).item())
        )
    deals = [contracts(game, members, target) for members in possible]
    stable = [deal for deal in deals if _outsiders_stay_out(game, deal)]
    if not stable:
        raise NoEquilibriumError(
            f"target = {target:g}: other owners would join every coalition that reaches the target, and the coalition "
            "of all owners misses the target; give a larger target"
        )
    return min(stable, key=lambda deal: deal.spend)


def what_would_help(target: float, without_noise: float) -> str:
    """Advise on an unreachable fitness; records and budgets do not change what training leaves without noise."""
    if without_noise > target:
        return (
            f"even without noise, the model has a relative fitness of {without_noise:.3g}. Change the horizon, step or "
            "clip (parley plan TERMS); larger budgets and more records do not help"
        )
    return "raise the target to at least this value, or find owners with more records"


def _coalitions(game: BudgetGame) -> list[Members]:
    if game.owners <= MAX_PRICED_OWNERS:
        subsets = itertools.product((True, False), repeat=game.owners)
        return [np.array(subset) for subset in subsets if sum(subset) > 1]
    order, fitness = _prefixes(game)
    sizes = np.unique(np.append(np.geomspace(2, game.owners, PRICED_PREFIXES).astype(int), 1 + int(np.argmin(fitness))))
    coalitions = [prefix(order, size) for size in sizes]
    return [members for members in (*coalitions, stable_coalition(game).members) if members.sum() > 1]


def best_reachable(game: BudgetGame) -> float:
    """Return the least relative fitness that two or more of the quietest owners reach, all at the largest budget."""
    return float(_prefixes(game)[1].min())


def _prefixes(game: BudgetGame) -> tuple[NDArray[np.int64], Floats]:
    """Return the owners by noise at the largest budget, and the fitness of the first 1 (infinite), 2, ... of them."""
    noise = game.stakes.noise(np.full(game.owners, game.budget_range[1]))
    order = noise.quietest_first()
    return order, np.append(np.inf, game.stakes.fitness(noise.prefixes(order)[1])[1:])


def _outsiders_stay_out(game: BudgetGame, deal: Deal) -> bool:
    joined = game.joining(game.best_budgets(deal.members), deal.epsilon, deal.members)
    return not (joined[~deal.members] > 0).any()


def contracts(game: BudgetGame, members: Members, target: float) -> Deal:
    """Return the cheapest contracts with which exactly these members reach the target, which must be reachable, or
    better. A better model can be cheaper, since losers then lose less; payment is convex in the noise."""
    own = game.best_budgets(members)
    ways = [own, game.best_budgets(members, staying=True)] if game.keep_own else [own]
    return min((_contracts_from(game, members, own, chosen, target) for chosen in ways), key=lambda found: found.spend)


def _contracts_from(game: BudgetGame, members: Members, own: Floats, chosen: Floats, target: float) -> Deal:
    """Return the cheapest contracts from the quality of the `chosen` budgets, or the target if better."""
    start = min(target, game.fitness(chosen, members) or target)

    def at(quality: float) -> Deal:
        return _contracts_at(game, members, own, chosen, quality)

    deal, finer = at(start), at(0.98 * start)
    if not finer.spend < deal.spend:
        return deal
    low, high = np.log(max(reachable(game, members), 1e-12)), np.log(start)
    left, right = high - GOLDEN_RATIO * (high - low), low + GOLDEN_RATIO * (high - low)
    finer, coarser = (at(float(np.exp(end))) for end in (left, right))
    for _ in range(REFINEMENT_STEPS):
        if finer.spend <= coarser.spend:
            high, right, coarser = right, left, finer
            left = high - GOLDEN_RATIO * (high - low)
            finer = at(float(np.exp(left)))
        else:
            low, left, finer = left, right, coarser
            right = low + GOLDEN_RATIO * (high - low)
            coarser = at(float(np.exp(right)))
    return min((deal, finer, coarser), key=lambda found: found.spend)


def _contracts_at(game: BudgetGame, members: Members, own: Floats, chosen: Floats, target: float) -> Deal:
    """Return the cheapest contracts at exactly this quality; members may break them for budgets `own`, or leave."""
    cost, noise, epsilon = game.stakes.cost, game.stakes.noise(chosen), chosen
    if cost.noise_price > 0 and game.stakes.fitness(noise.variance(members)) > target:
        allowed = game.stakes.variance_at(target)
        gain = game.alone - cost.at(noise.size(members), allowed)
        epsilon = _priced_budgets(game, members, own, gain, allowed)
    payoff, unpaid = game.payoffs(epsilon, members), game.joining(own, epsilon, members)
    contract = np.where(members, np.maximum(0.0, np.maximum(unpaid, 0.0) - payoff), 0.0)
    return Deal(epsilon, members, contract, np.zeros(game.owners), 0.0, payoff + contract)


def _priced_budgets(game: BudgetGame, members: Members, own: Floats, gain: Floats, allowed: float) -> Floats:
    """Return budgets that minimise payments + (price of noise) x noise, at the least price that keeps noise within
    `allowed`. `gain` is what the joint model saves each owner at that noise."""
    unit, law = game.stakes.unit_noise, game.stakes.unit_variance
    share = unit.shares(unit.size(members))
    low, high = (np.full(game.owners, np.log(end)) for end in game.budget_range)
    width = high - low
    for _ in range(ZOOM_STEPS):
        epsilon = np.clip(np.exp(np.linspace(low, high, GRID_POINTS)), *game.budget_range)  # [GRID_POINTS, N]
        noise = share * law(epsilon)
        harm = game.stakes.cost.noise_price * (share * law(own) - noise)  # of going back to the own budget, to all
        unpaid = game.weight * game.counted(gain - harm) - game.privacy_cost(own)
        payment = np.maximum(
            np.maximum(unpaid, 0.0) - (game.weight * game.counted(gain) - game.privacy_cost(epsilon)), 0.0
        )
        place = _least_sum(payment[:, members], noise[:, members], allowed)
        centre = np.zeros(game.owners)
        centre[members] = np.log(np.take_along_axis(epsilon[:, members], place[None], axis=0)[0])
        width = width * (4 / GRID_POINTS)
        low, high = (
            np.maximum(centre - width / 2, np.log(game.budget_range[0])),
            np.minimum(centre + width / 2, np.log(game.budget_range[1])),
        )
    return np.where(members, np.clip(np.exp(centre), *game.budget_range), own)


def _least_sum(payment: Floats, noise: Floats, allowed: float) -> NDArray[np.int64]:
    """Choose a row per column for the least sum of payments with noise up to `allowed` (Lagrange, by bisection)."""
    # a search runs along an owner's own budgets
    payment, noise = np.ascontiguousarray(payment.T), np.ascontiguousarray(noise.T)
    owners = np.arange(len(noise))

    def columns(price: float) -> NDArray[np.int64]:
        return np.asarray(np.argmin(payment + price * noise, axis=1))

    def fits(price: float) -> bool:
        return bool(noise[owners, columns(price)].sum() <= allowed)

    scale = max(float(payment.max()), 1e-12) / max(float(noise.max()), 1e-300)
    low, high = -20 * np.log(10), 40 * np.log(10)  # logarithms of the price of noise, in that scale
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(scale * np.exp(middle)) else (middle, high)
    return columns(scale * np.exp(high)) if fits(scale * np.exp(high)) else np.asarray(np.argmin(noise, axis=1))


def posted_price(game: BudgetGame, target: float) -> Deal | None:
    """Return the deal at the least posted price, to a thousandth, that reaches the target; None if none does. A higher
    price is assumed never to make the model worse."""

    def reaches(deal: Deal) -> bool:
        fitness = game.fitness(deal.epsilon, deal.members)
        return fitness is not None and fitness <= target

    deal = free_deal(game)
    if reaches(deal):
        return deal
    low, price = (
        0.0,
        1e-3 * float(np.mean(game.privacy_cost(np.full(game.owners, game.budget_range[1])))) / game.budget_range[1]
        + 1e-9,
    )
    while not reaches(deal := free_deal(game, price)):
        low, price = price, 4 * price
        if price > 1e15:
            return None
    least = 1e-6 * price  # below this it is as good as nothing
    while price - low > 1e-3 * price and price > least:
        middle = (low + price) / 2
        tried = free_deal(game, middle)
        if reaches(tried):
            price, deal = middle, tried
        else:
            low = middle
    return deal


def balanced(deal: Deal) -> Deal:
    """Let the members pay the deal themselves; raise `NoEquilibriumError` if their gains do not cover the bill."""
    surplus = np.where(deal.members, deal.payoff, 0.0)
    bill = deal.spend
    if not bill > 0:
        return deal
    if surplus.sum() < bill:
        raise NoEquilibriumError(
            f"balanced budget: the members gain {surplus.sum():.4g} in total, less than the payments of {bill:.4g}; "
            f"the learner must add {bill - surplus.sum():.4g}"
        )
    fee = bill * surplus / surplus.sum()
    return replace(deal, fee=fee, payoff=deal.payoff - fee)


def spending_curves(game: BudgetGame, points: int = 12) -> dict[str, tuple[Floats, Floats]]:
    """Return (money, relative fitness) of the cheapest contracts and of posted prices, from free to the best."""
    free = free_deal(game)
    best = 1.02 * best_reachable(game)
    start = game.fitness(free.epsilon, free.members) or 20 * best
    deals = []
    for target in np.geomspace(max(start, best), best, points):
        try:
            deals.append(cheapest_contracts(game, float(target)))
        except NoEquilibriumError:  # no coalition holds together at this quality: the curve has a gap there
            continue
    top = posted_price(game, best)
    prices = [] if top is None else [free_deal(game, float(p)) for p in np.geomspace(1e-5, 1, points) * top.price]
    return {"contracts": _curve(game, deals), "one posted price": _curve(game, [p for p in prices if p.members.any()])}


def _fitness(game: BudgetGame, deal: Deal) -> float:
    fitness = game.fitness(deal.epsilon, deal.members)
    return np.inf if fitness is None else fitness


def _curve(game: BudgetGame, deals: list[Deal]) -> tuple[Floats, Floats]:
    return np.array([deal.spend for deal in deals]), np.array([_fitness(game, deal) for deal in deals])
