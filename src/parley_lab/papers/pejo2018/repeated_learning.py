"""The repeated game on what was measured: from which discount factor on sharing holds, and what holds at a given
one."""

from collections.abc import Sequence
from typing import Any

from parley_lab.papers.pejo2018.games.gain_sample import GainSample
from parley_lab.papers.pejo2018.games.gain_table import GainTable, Pair, equilibrium
from parley_lab.papers.pejo2018.games.repeated_game import Agreement, agreement, best_agreement
from parley_lab.papers.pejo2018.measured_game import CONCERNS, by_mechanism, share, spread


def repeated_games(
    points: Sequence[dict[str, Any]],
    discount: float | None = None,
    concerns: Sequence[Pair] = CONCERNS,
    resamples: int = 20,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """For each mechanism of figure 5 and each concern: the best agreement, from which discount factor on it holds, and
    one period's game.

    In a resample the agreement is the same and its threshold is found again: `discount_spread` is the deviation of
    those that exist, `holds` the share of resamples in which there is one below 1. With `discount`, `at_discount` is
    the best agreement that holds at it.
    """
    games = []
    for mechanism, own in by_mechanism(points).items():
        sample = GainSample.of_points(own)
        table, drawn = sample.table(), sample.drawn(resamples, seed)
        for concern in concerns:
            best, once = best_agreement(table, concern), equilibrium(table, concern)
            facts = {"mechanism": mechanism, "concern": list(concern), **_facts(best), **_firm(best, drawn, concern)}
            facts |= {"one_period": {"privacy": list(once.privacy), "payoff": list(once.payoff), "price": once.price}}
            if discount is not None:
                facts["at_discount"] = {"given": discount, **_facts(best_agreement(table, concern, discount))}
            games.append(facts)
    return games


def _facts(found: Agreement) -> dict[str, Any]:
    agreed = found.agreed
    return {
        "privacy": list(agreed.privacy),
        "payoff": list(agreed.payoff),
        "temptation": list(found.temptation),
        "price": agreed.price,
        "discount": found.discount if agreed.strategies is not None else None,
    }


def _firm(best: Agreement, drawn: Sequence[GainTable], concern: Pair) -> dict[str, Any]:
    if best.agreed.strategies is None:
        return {"discount_spread": None, "holds": None}
    again = [agreement(one, concern, *best.agreed.strategies).discount for one in drawn]
    return {"discount_spread": spread(again), "holds": share([one is not None for one in again])}
