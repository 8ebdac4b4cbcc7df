"""Payments that lift the lowest peaks, so that the common epsilon rises.

A member can always name less, or leave, and forgo its payment, so it must get at least its best payoff below, or 0. The
least contract that works, member by member, pays just the rest for naming this epsilon: **no scheme that keeps these
members at this epsilon can be cheaper.** A larger epsilon can be cheaper, because losers then lose less.
"""

import itertools

import numpy as np

from parley.decisions.games.game import maximise
from parley.decisions.games.payments import MAX_PRICED_OWNERS, Deal, what_would_help
from parley.decisions.games.weakest_link import LocalMaxima, Play, WeakestLink, play, stable_play, starts
from parley.errors import NoEquilibriumError, SettingError
from parley.protocol.aggregation import Members
from parley.validate import Floats, positive

CURVE_POINTS = 40  # points of a spending curve


def common_deal(game: WeakestLink, members: Members, common: float) -> Deal:
    """Find the least payments that keep these members at this common epsilon."""
    nothing, epsilon = np.zeros(game.owners), np.full(game.owners, common)
    payoff = np.where(members, game.payoff(epsilon, members), 0.0)
    contract = np.where(members, _due(game, members, np.array([common]))[0], 0.0)
    return Deal(epsilon, members, contract, nothing, 0.0, payoff + contract)


def _due(game: WeakestLink, members: Members, common: Floats, local_maxima: LocalMaxima | None = None) -> Floats:
    """Return what each owner must be paid to stay at these common epsilons [K] -> [K, N]."""
    payoff = game.payoff(np.repeat(common[:, None], game.owners, axis=1), members)
    best = game.best_below(common, members, game.local_maxima(members) if local_maxima is None else local_maxima)
    return np.maximum(np.maximum(best, 0.0) - payoff, 0.0)


def free_common_deal(game: WeakestLink) -> Deal:
    """Find the equilibrium without payments: the stable coalition's largest common epsilon; else nobody joins."""
    play, nothing = stable_play(game), np.zeros(game.owners)
    if play is None:
        return Deal(game.peaks(game.everyone), np.zeros(game.owners, dtype=bool), nothing, nothing, 0.0, nothing)
    payoff = np.where(play.members, play.payoff, 0.0)
    return Deal(np.full(game.owners, play.epsilon), play.members, nothing, nothing, 0.0, payoff)


def cheapest_lift(game: WeakestLink, target: float) -> Deal:
    """Return the payments of least total with which relative fitness `target` or better is an equilibrium. Beyond six
    owners only some coalitions are priced, so a cheaper one may exist; those that an outsider would join unpaid are
    passed over."""
    target = positive(target, "target")
    if game.owners < 2:
        raise SettingError("owners: expected at least two owners, because a joint model needs two")
    if game.owners <= MAX_PRICED_OWNERS:
        coalitions = [np.array(each) for each in itertools.product((True, False), repeat=game.owners) if sum(each) > 1]
    else:
        coalitions = starts(game)
    deals = [deal for deal in (_lift(game, members, target) for members in coalitions) if deal is not None]
    if not deals:
        best = game.fitness(np.full(game.owners, game.budget_range[1]), game.everyone)
        raise SettingError(
            f"target = {target:g}: with a common budget of up to {game.budget_range[1]:.3g}, the owners' best relative "
            f"fitness is {best:.3g}; " + what_would_help(target, game.stakes.fitness(np.zeros(1)).item())
        )
    kept = [deal for deal in deals if _outsiders_stay_out(game, deal)]
    if not kept:
        raise NoEquilibriumError(
            f"target = {target:g}: other owners would join every coalition that reaches the target, and the coalition "
            "of all owners misses the target; give a larger target"
        )
    return min(kept, key=lambda deal: deal.spend)


def _lift(game: WeakestLink, members: Members, target: float) -> Deal | None:
    """Return these members' cheapest deal at the target or better; None if they cannot reach it."""
    low, high = game.budget_range

    def reaches(common: float) -> bool:
        fitness = game.fitness(np.full(game.owners, common), members)
        return fitness is not None and fitness <= target

    if not reaches(high):
        return None
    if not reaches(low):
        while high / low > 1 + 1e-9:
            middle = float(np.sqrt(low * high))
            low, high = (low, middle) if reaches(middle) else (middle, high)
    least, local_maxima = high if not reaches(low) else low, game.local_maxima(members)

    def saved(log_epsilon: Floats) -> Floats:
        common = np.exp(log_epsilon).ravel()
        return np.asarray(-_due(game, members, common, local_maxima)[:, members].sum(axis=1).reshape(log_epsilon.shape))

    cheapest = maximise(saved, np.array([np.log(least)]), np.array([np.log(game.budget_range[1])]))
    deal = common_deal(game, members, float(np.clip(np.exp(cheapest[0]), least, game.budget_range[1])))
    unpaid = play(game, members).epsilon
    largest = common_deal(game, members, unpaid) if unpaid >= least else deal
    return largest if largest.spend <= deal.spend else deal  # of what costs the same, what members would play anyway


def _outsiders_stay_out(game: WeakestLink, deal: Deal) -> bool:
    outside = ~deal.members
    best = game.best_below(deal.epsilon[:1], deal.members, game.local_maxima(deal.members))[0]
    return not (best[outside] > 0).any()


def lift_curve(game: WeakestLink, unpaid: Play) -> tuple[Floats, Floats]:
    """Return (money, relative fitness) of the least payments, from unpaid play up to the largest common epsilon."""
    common, members = np.geomspace(unpaid.epsilon, game.budget_range[1], CURVE_POINTS), unpaid.members
    money = _due(game, members, common)[:, members].sum(axis=1)
    fitness = [game.fitness(np.full(game.owners, each), members) for each in common]
    return money, np.array([np.inf if each is None else each for each in fitness])
